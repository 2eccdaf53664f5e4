#include "serve/rest.hpp"

#include <doctest/doctest.h>

#include "models.hpp"
#include "serve/json_tensor.hpp"

// Requests and their exact answers, as TensorFlow Serving gives them, without HTTP.

namespace tapestry::serve::rest_test {
namespace {

/// Without the white space that JSON ignores, and that of texts.
std::string dense(const std::string& text) {
  std::string result;
  for (const char c : text)
    if (c != ' ' && c != '\n') result += c;
  return result;
}

/// A server of all kinds of models.
class Models {
 public:
  Models() : store_({.labels_of_absent_versions = true}), rest_(store_, metrics_) {
    write_line(folder_ / "half" / "3", 0.5, 2);
    write_line(folder_ / "half" / "12", 0.5, 3);
    write_model(folder_ / "two" / "1", [] {
      const Tensor a = placeholder(float32, {-1}, "a"), b = placeholder(int32, {-1, 2}, "b");
      return Signature{.inputs = {{"a", a}, {"b", b}}, .outputs = {{"p", a * 2.0}, {"q", b + 1}}};
    });
    write_model(folder_ / "lengths" / "1", [] {
      const Tensor a = placeholder(float32, {-1}, "a"), b = placeholder(float32, {-1}, "b");
      return Signature{.inputs = {{"a", a}, {"b", b}}, .outputs = {{"a", identity(a)}, {"b", concat({a, b})}}};
    });
    write_model(folder_ / "sum" / "1", [] {
      const Tensor x = placeholder(float32, Shape::unknown_rank(), "x");
      return Signature{.inputs = {{"x", x}}, .outputs = {{"y", reduce_sum(x)}}};
    });
    write_model(folder_ / "judge" / "1", [] {
      const Tensor x = placeholder(float32, {-1, 2}, "x"), bias = placeholder(float32, {-1}, "bias");
      const Tensor scores = x + expand_dims(bias, 1);
      return Signature{.inputs = {{"x", x}, {"bias", bias}},
                       .outputs = {{"scores", scores}, {"outputs", reduce_sum(scores, 1)}}};
    });
    const std::map<std::string, DType> types{{"float", float32}, {"double", float64},   {"int32", int32},
                                             {"int64", int64},   {"uint8", uint8},      {"bool", boolean},
                                             {"half_", float16}, {"bfloat16", bfloat16}};
    std::vector<ModelConfig> configs;
    for (const auto& [name, dtype] : types) write_identity(folder_ / name / "1", dtype, Shape::unknown_rank());
    for (const auto& each : std::filesystem::directory_iterator(folder_.path()))
      configs.push_back({.name = each.path().filename(), .base_path = each.path()});
    for (ModelConfig& each : configs)
      if (each.name == "half") {
        each.policy.kind = VersionPolicy::Kind::all;
        each.labels = {{"stable", 3}, {"gone", 4}};
      }
    configs.push_back({.name = "absent", .base_path = folder_ / "absent"});
    store_.configure(configs);
    store_.look();
  }

  Answer ask(const std::string& method, const std::string& path, const std::string& body = "") const {
    return rest_.answer({.method = method, .path = path, .body = body, .deadline = soon()});
  }

 private:
  TemporaryFolder folder_;
  ModelStore store_;
  Metrics metrics_;
  RestApi rest_;
};

const Models& models() {
  static const Models all;
  return all;
}

struct Case {
  std::string path, body;
  int status;
  std::string answer;  ///< of an error: its text
};

void check(const std::string& method, const std::vector<Case>& cases) {
  for (const Case& each : cases) {
    INFO(method, " ", each.path, " ", each.body);
    const Answer answer = models().ask(method, each.path, each.body);
    CHECK(answer.status == each.status);
    CHECK(answer.type == "application/json");
    CHECK(dense(answer.body) == dense(each.status == 200 ? each.answer : error_body(each.answer)));
  }
}

TEST_CASE("predictions in both forms") {
  const Answer answer = models().ask("POST", "/v1/models/half:predict", R"({"instances": [1.0, 2.0, 5.0]})");
  CHECK(answer.body == "{\n    \"predictions\": [3.5, 4.0, 5.5\n    ]\n}");
  check(
      "POST",
      {
          {"/v1/models/half:predict", R"({"inputs": [1, 2e0]})", 200, R"({"outputs": [3.5, 4.0]})"},
          {"/v1/models/half:predict", R"({"inputs": {"x": [1]}})", 200, R"({"outputs": [3.5]})"},
          {"/v1/models/half:predict", R"({"instances": [{"x": 1}]})", 200, R"({"predictions": [3.5]})"},
          {"/v1/models/half:predict", R"({"signature_name": "", "instances": [1]})", 200, R"({"predictions": [3.5]})"},
          {"/v1/models/half:predict", R"({"signature_name": "serving_default", "instances": [1]})", 200,
           R"({"predictions": [3.5]})"},
          {"/v1/models/half:predict", R"({"inputs": []})", 200, R"({"outputs": []})"},
          {"/v1/models/half:predict", "{\"instances\": [1]} and so on", 200, R"({"predictions": [3.5]})"},
          {"/V1/Models/half:PREDICT", R"({"instances": [1]})", 200, R"({"predictions": [3.5]})"},
          {"/v1/models/h%61lf:predict", R"({"instances": [1]})", 200, R"({"predictions": [3.5]})"},
          {"/v1/models/half/versions/3:predict", R"({"instances": [1]})", 200, R"({"predictions": [2.5]})"},
          {"/v1/models/half/labels/stable:predict", R"({"instances": [1]})", 200, R"({"predictions": [2.5]})"},
          {"/v1/models/two:predict", R"({"instances": [{"a": 1, "b": [1, 2]}, {"b": [3, 4], "a": 2}]})", 200,
           R"({"predictions": [{"p": 2.0, "q": [2, 3]}, {"p": 4.0, "q": [4, 5]}]})"},
          {"/v1/models/two:predict", R"({"inputs": {"a": [1, 2, 3], "b": [[1, 2]], "c": "more"}})", 200,
           R"({"outputs": {"p": [2.0, 4.0, 6.0], "q": [[2, 3]]}})"},
          {"/v1/models/sum:predict", R"({"inputs": 5})", 200, R"({"outputs": 5.0})"},
          {"/v1/models/sum:predict", R"({"inputs": [[1, 2], [3, 4]]})", 200, R"({"outputs": 10.0})"},
          {"/v1/models/float:predict", R"({"instances": [[[1], [2]], [[3], [4]]]})", 200,
           R"({"predictions": [[[1.0], [2.0]], [[3.0], [4.0]]]})"},
          {"/v1/models/float:predict", R"({"instances": [[], []]})", 200, R"({"predictions": [[], []]})"},
      });
}

TEST_CASE("each type is read and written as in TensorFlow Serving") {
  check("POST",
        {
            {"/v1/models/float:predict", R"({"inputs": [NaN, Infinity, -Infinity, Inf, 9000000, 0.1, -0.0, 1e-7]})",
             200, R"({"outputs": [NaN, Infinity, -Infinity, Infinity, 9e+06, 0.1, -0.0, 1e-07]})"},
            {"/v1/models/float:predict", R"({"inputs": 0.333333333333})", 200, R"({"outputs": 0.333333343})"},
            {"/v1/models/float:predict", R"({"inputs": 1e300})", 200, R"({"outputs": Infinity})"},
            {"/v1/models/double:predict", R"({"inputs": [0.1, 0.333333333333, 1e300, 2]})", 200,
             R"({"outputs": [0.1, 0.33333333333300003, 1e+300, 2.0]})"},
            {"/v1/models/int32:predict", R"({"inputs": [-2147483648, 2147483647]})", 200,
             R"({"outputs": [-2147483648, 2147483647]})"},
            {"/v1/models/int32:predict", R"({"inputs": 2147483648})", 400,
             "JSON Value: 2147483648 Type: Number is not of expected type: int32"},
            {"/v1/models/int32:predict", R"({"inputs": [1.0]})", 400,
             "JSON Value: 1.0 Type: Number is not of expected type: int32"},
            {"/v1/models/int64:predict", R"({"inputs": [-9223372036854775808, 9223372036854775807]})", 200,
             R"({"outputs": [-9223372036854775808, 9223372036854775807]})"},
            {"/v1/models/int64:predict", R"({"inputs": 9223372036854775808})", 400,
             "JSON Value: 9223372036854775808 Type: Number is not of expected type: int64"},
            {"/v1/models/uint8:predict", R"({"inputs": [0, 255]})", 200, R"({"outputs": [0, 255]})"},
            {"/v1/models/uint8:predict", R"({"inputs": 256})", 400,
             "JSON Value: 256 Type: Number is not of expected type: uint8"},
            {"/v1/models/bool:predict", R"({"inputs": [true, false]})", 200, R"({"outputs": [true, false]})"},
            {"/v1/models/bool:predict", R"({"inputs": 1})", 400,
             "JSON Value: 1 Type: Number is not of expected type: bool"},
            {"/v1/models/float:predict", R"({"inputs": null})", 400,
             "JSON Value: null Type: Null is not of expected type: float"},
            {"/v1/models/float:predict", R"({"inputs": {"b64": "AAAA"}})", 400,
             "JSON Value: {\n    \"b64\": \"AAAA\"\n} Type: Object is not of expected type: float"},
            {"/v1/models/half_:predict", R"({"inputs": 1})", 501, "Conversion of JSON Value: 1 to type: half"},
            {"/v1/models/bfloat16:predict", R"({"instances": [1]})", 501,
             "Conversion of JSON Value: 1 to type: bfloat16"},
        });
}

TEST_CASE("wrong requests") {
  const std::string predict = "/v1/models/half:predict", two = "/v1/models/two:predict";
  check(
      "POST",
      {
          {"/v1/models/half:preddict", "{}", 400, "Malformed request: POST /v1/models/half:preddict"},
          {"/v1/models/half", "{}", 400, "Malformed request: POST /v1/models/half"},
          {"/v1/models/half/versions/:predict", "{}", 400, "Malformed request: POST /v1/models/half/versions/:predict"},
          {"/v1/models/half/versions/3x:predict", "{}", 400,
           "Malformed request: POST /v1/models/half/versions/3x:predict"},
          {"/v1/models/a/b:predict", "{}", 400, "Malformed request: POST /v1/models/a/b:predict"},
          {"/v1/models/:predict", "{}", 400, "Malformed request: POST /v1/models/:predict"},
          {"/v1/other", "", 400, "Malformed request: POST /v1/other"},
          {"/v1/models/none:predict", R"({"instances": [1]})", 404, "Servable not found for request: Latest(none)"},
          {"/v1/models/absent:predict", R"({"instances": [1]})", 404, "Servable not found for request: Latest(absent)"},
          {"/v1/models/half/versions/7:predict", R"({"instances": [1]})", 404,
           "Servable not found for request: Specific(half, 7)"},
          {"/v1/models/half/labels/gone:predict", R"({"instances": [1]})", 404,
           "Servable not found for request: Specific(half, 4)"},
          {"/v1/models/half/labels/L:predict", R"({"instances": [1]})", 400, "Unrecognized servable version label: L"},
          {"/v1/models/half/versions/99999999999999999999:predict", "{}", 400,
           "Failed to convert version: 99999999999999999999 to numeric."},
          {predict, "", 400, "JSON Parse error: The document is empty"},
          {predict, "no", 400, "JSON Parse error: Invalid value. at offset: 1"},
          {predict, "hello", 400, "JSON Parse error: Invalid value. at offset: 0"},
          {predict, "[1]", 400, "JSON Value: [1] Is not object"},
          {predict, R"({"instances": [1)", 400,
           "JSON Parse error: Missing a comma or ']' after an array element. at offset: 16"},
          {predict, R"({"signature_name": 5})", 400,
           "JSON Value: {\n    \"signature_name\": 5\n} not formatted correctly. 'signature_name' key must be a string "
           "value."},
          {predict, R"({"signature_name": "s", "instances": [1]})", 400,
           "Serving signature name: \"s\" not found in signature def"},
          {predict, "{}", 400, "Missing 'inputs' or 'instances' key"},
          {predict, R"({"inputs": 1, "instances": [2]})", 400,
           "JSON Value: {\n    \"inputs\": 1,\n    \"instances\": [2]\n} Not formatted correctly "
           "expecting "
           "only one of 'inputs' or 'instances' keys to exist "},
          {predict, R"({"instances": 5})", 400,
           "JSON Value: {\n    \"instances\": 5\n} Expecting 'instances' to be an list/array"},
          {predict, R"({"instances": []})", 400,
           "JSON Value: {\n    \"instances\": []\n} No values in 'instances' array"},
          {two, R"({"instances": [1]})", 400,
           "instances is a plain list, but expecting list of objects as multiple input tensors required as per "
           "tensorinfo_map"},
          {two, R"({"inputs": [1]})", 400,
           "inputs is a plain value/list, but expecting an object as multiple input tensors required as per "
           "tensorinfo_map"},
          {two, R"({"inputs": {"a": [1]}})", 400, "Missing named input: b in 'inputs' object."},
          {two, R"({"instances": [{"a": 1}]})", 400,
           "Failed to process element: 0 of 'instances' list. JSON object: {\n    \"a\": 1\n} keys must be equal to: "
           "a,b"},
          {two, R"({"instances": [{"a": 1, "b": [1, 2], "c": 1}]})", 400,
           "Failed to process element: 0 key: c of 'instances' list. Error: INVALID_ARGUMENT: JSON object: does not "
           "have "
           "named input: c"},
          {predict, R"({"instances": [{"x": 1, "x": 1}]})", 400,
           "Failed to process element: 0 of 'instances' list. JSON object: {\n    \"x\": 1,\n    \"x\": 1\n} has a key "
           "twice"},
          {predict, R"({"instances": [{"x": 1}, 2]})", 400, "Expecting object but got list at item 1 of input list"},
          {predict, R"({"instances": [2, {"x": 1}]})", 400,
           "Expecting value/list but got object at item 1 of input list"},
          {"/v1/models/float:predict", R"({"instances": [[1, 2], [1, 2, 3]]})", 400,
           "Failed to process element: 1 of 'instances' list. Error: INVALID_ARGUMENT: Expecting tensor size: 2 but "
           "got: 3"},
          {"/v1/models/float:predict", R"({"instances": [[[1], [2]], [[1, 2]]]})", 400,
           "Failed to process element: 1 of 'instances' list. Error: INVALID_ARGUMENT: Expecting shape [2,1] but got: "
           "[1,2]"},
          {predict, R"({"inputs": [[1, 2], [1, 2, 3]]})", 400,
           "Encountered list at unexpected size: 3 at level: 1 expected size: 2"},
          {predict, R"({"inputs": [[1], 2]})", 400,
           "JSON Value: 2 found at incorrect level: 2 in the JSON DOM. Expected at level: 2"},
          {predict, R"({"inputs": [1, [2]]})", 400, "Encountered list at unexpected level: 1 expected < 1"},
          {predict, R"({"inputs": ["a"]})", 400, "JSON Value: \"a\" Type: String is not of expected type: float"},
          {"/v1/models/lengths:predict", R"({"instances": [{"a": 1, "b": 1}, {"a": 1, "b": 1}]})", 400,
           "Tensor name: b has inconsistent batch size: 4 expecting: 2"},
          {"/v1/models/sum:predict", R"({"instances": [1]})", 400, "Tensor name: y has no shape information "},
          {"/v1/models/half_:predict", R"({"inputs": []})", 501, "Conversion of JSON Value: [] to type: half"},
      });
  check("PUT", {{"/v1/models/half:predict", "{}", 400, "Malformed request: PUT /v1/models/half:predict"}});
  check("GET", {{"/v1/models/half:predict", "", 400, "Malformed request: GET /v1/models/half:predict"}});
}

TEST_CASE("hostile bodies") {
  const auto text_for = [](const std::string& body) {
    const Answer answer = models().ask("POST", "/v1/models/half:predict", body);
    CHECK(answer.status == 400);
    return answer.body;
  };
  // Lists in lists, in the parser's hands and behind it.
  CHECK(text_for(std::string(8'000'000, '[')).find("JSON Parse error: ") != std::string::npos);
  CHECK(text_for(R"({"inputs": )" + std::string(100'000, '[') + std::string(100'000, ']') + "}")
            .find("nested deeper than 1000. at offset: ") != std::string::npos);
  CHECK(text_for(R"({"inputs": )" + std::string(900, '[') + "1" + std::string(900, ']') + "}").find("dimensions") !=
        std::string::npos);
  // What is quoted is short, and the answer is UTF-8 whatever was sent.
  CHECK(text_for(R"({"inputs": ")" + std::string(1'000'000, 'x') + "\"}").size() < 500);
  CHECK(text_for("{\"inputs\": \"\xff\xfe\xc3\"}").find("\xEF\xBF\xBD") != std::string::npos);
  CHECK(text_for("{\"inputs\": \"" + std::string(255, 'x') + "\xc3\xa4\"}").find('\xc3') == std::string::npos);
  CHECK(text_for(R"({"inputs": "\ud800"})").find("The surrogate pair in string is invalid.") != std::string::npos);
  CHECK(text_for(std::string("{\"inputs\"\0: 1}", 14)).find("JSON Parse error: ") != std::string::npos);
  // A large request that is right is answered.
  std::string many = R"({"instances": [1)";
  for (int i = 1; i < 100'000; ++i) many += ",1";
  const Answer answer = models().ask("POST", "/v1/models/half:predict", many + "]}");
  CHECK(answer.status == 200);
  CHECK(std::count(answer.body.begin(), answer.body.end(), '5') == 100'000);
}

TEST_CASE("base64") {
  const auto decoded = [](const std::string& text) {
    const ParsedObject object(R"({"v": {"b64": ")" + text + "\"}}");
    return bytes_of(*member(object.json(), "v"));
  };
  CHECK(decoded("").empty());
  CHECK(decoded("aGVsbG8=") == "hello");
  CHECK(decoded("aGVsbG8") == "hello");
  CHECK(decoded("aGVs\\nbG8=\\r\\n") == "hello");
  CHECK(decoded(" aGVs bG8\\t=") == "hello");
  CHECK(decoded("/+8A") == std::string("\xff\xef\0", 3));
  for (const char* bad : {"a", "aGVsb", "a===", "aG-s", "aGVsbG9=", "====", "aGV="}) {
    INFO(bad);
    CHECK_THROWS_WITH(decoded(bad), "Unable to base64 decode");
  }
  const ParsedObject number(R"({"v": {"b64": 5}})");
  CHECK_THROWS_WITH(bytes_of(*member(number.json(), "v")),
                    doctest::Contains("not formatted correctly for base64 data"));
}

TEST_CASE("an input may be called b64; a signature may have none; bytes that are no UTF-8 come as they are") {
  TemporaryFolder folder;
  write_model(folder / "m" / "1", [] {
    const Tensor x = placeholder(float32, {-1}, "x");
    return Signature{.inputs = {{"b64", x}}, .outputs = {{"y", x * 2.0}}};
  });
  write_model(folder / "none" / "1", [] { return Signature{.inputs = {}, .outputs = {{"y", ones({2})}}}; });
  ModelStore store;
  Metrics metrics;
  store.configure({{.name = "m", .base_path = folder / "m"}, {.name = "none", .base_path = folder / "none"}});
  store.look();
  const auto post = [&](const std::string& model, const std::string& body) {
    return dense(
        RestApi(store, metrics)
            .answer({.method = "POST", .path = "/v1/models/" + model + ":predict", .body = body, .deadline = soon()})
            .body);
  };
  CHECK(post("m", R"({"instances": [{"b64": 5}, {"b64": 6}]})") == R"({"predictions":[10.0,12.0]})");
  CHECK(post("m", R"({"inputs": {"b64": [5]}})") == R"({"outputs":[10.0]})");
  CHECK(post("none", R"({"instances": [1]})") ==
        dense(error_body("Failed to get input map for signature: serving_default")));
  CHECK(post("none", R"({"inputs": {}})") == R"({"outputs":[1.0,1.0]})");
  const NamedValues bytes{{"y", Texts{{1}, {"a\xff\"\xc3"}}}};
  CHECK(dense(write_outputs(Form::row, bytes)) == "{\"predictions\":[\"a\xff\\\"\xc3\"]}");
}

TEST_CASE("classify and regress") {
  const std::string classify = "/v1/models/judge:classify", regress = "/v1/models/judge:regress";
  check(
      "POST",
      {
          {classify, R"({"examples": [{"x": [1.0, 2.5], "bias": 1}, {"x": [3, 4], "bias": 0.5}]})", 200,
           R"({"results": [[["", 2.0], ["", 3.5]], [["", 3.5], ["", 4.5]]]})"},
          {classify, R"({"context": {"bias": 1}, "examples": [{"x": [1, 2]}, {"x": [1, 2], "bias": 0.5}]})", 200,
           R"({"results": [[["", 2.0], ["", 3.0]], [["", 1.5], ["", 2.5]]]})"},
          {regress, R"({"signature_name": "serving_default", "examples": [{"x": [1.5, 2.0], "bias": 1}]})", 200,
           R"({"results": [5.5]})"},
          {classify, R"({"instances": [1]})", 400,
           "JSON Value: {\n    \"instances\": [1]\n} When method is classify, key 'examples' is expected and was not "
           "found"},
          {regress, "{}", 400, "JSON Value: {} When method is classify, key 'examples' is expected and was not found"},
          {regress, R"({"examples": 1})", 400,
           "JSON Value: {\n    \"examples\": 1\n} Expecting 'examples' value to be an list/array"},
          {regress, R"({"examples": []})", 400,
           "JSON Value: {\n    \"examples\": []\n} 'examples' value is an empty array"},
          {regress, R"({"examples": [5]})", 400, "Example must be JSON object but got JSON Number"},
          {regress, R"({"examples": [{"x": [1, 2]}]})", 400, "Example 0 lacks the feature: bias"},
          {regress, R"({"examples": [{"x": [1, 2, 3], "bias": 1}]})", 400,
           "Feature: x of example 0 has 3 values instead of 2"},
          {regress, R"({"examples": [{"x": [1, "a"], "bias": 1}]})", 400,
           "Unexpected element type in feature: x expecting type: int64"},
          {regress, R"({"examples": [{"x": [1, 2.5], "bias": 1}]})", 400,
           "Unexpected element type in feature: x expecting type: int64"},
          {regress, R"({"examples": [{"x": [[1]]}]})", 400, "Feature: x has element with unexpected JSON type: Array"},
          {regress, R"({"examples": [{"x": [9223372036854775808]}]})", 400,
           "Feature: x has uint64_t element. Only int64_t is supported."},
          {regress, R"({"examples": [{"x": ["b", "a"], "bias": 1}]})", 400, "Feature: x has values of the wrong type"},
          {regress, R"({"examples": [{"x": {"b64": "a"}, "bias": 1}]})", 400, "Unable to base64 decode"},
          {regress, R"({"examples": [{"x": [null], "bias": 1}]})", 400,
           "Feature: x has element with unexpected JSON type: Null"},
          {regress, R"({"signature_name": "s", "examples": [{"x": 1}]})", 400,
           "Serving signature name: \"s\" not found in signature def"},
          {"/v1/models/half:classify", R"({"examples": [{"x": 1}]})", 400,
           "Expected classification signature outputs to contain at least one of classes or scores"},
          {"/v1/models/half:regress", R"({"examples": [{"x": 1}]})", 400,
           "No regression outputs found in SignatureDef"},
          {"/v1/models/none:regress", R"({"examples": [{"x": 1}]})", 404,
           "Servable not found for request: Latest(none)"},
      });
}

TEST_CASE("status") {
  const auto version = [](const std::string& number) {
    return R"({"version": ")" + number +
           R"(", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}})";
  };
  check("GET",
        {
            {"/v1/models/half", "", 200, R"({"model_version_status": [)" + version("12") + "," + version("3") + "]}"},
            {"/v1/models/half/versions/3", "", 200, R"({"model_version_status": [)" + version("3") + "]}"},
            {"/v1/models/half/labels/stable", "", 200, R"({"model_version_status": [)" + version("3") + "]}"},
            {"/v1/models/half/versions/7", "", 404, "Could not find version 7 of model half"},
            {"/v1/models/half/labels/L", "", 400, "Unrecognized servable version label: L"},
            {"/v1/models/none", "", 404, "Could not find any versions of model none"},
            {"/v1/models/absent", "", 404, "Could not find any versions of model absent"},
            {"/v1/models", "", 400, "Missing model name in request."},
            {"/v1/models/half/", "", 400, "Malformed request: GET /v1/models/half/"},
            {"/v1/models/half/other", "", 400, "Malformed request: GET /v1/models/half/other"},
        });
  CHECK(models().ask("GET", "/v1/models/sum").body ==
        "{\n \"model_version_status\": [\n  {\n   \"version\": \"1\",\n   \"state\": \"AVAILABLE\",\n   \"status\": {\n"
        "    \"error_code\": \"OK\",\n    \"error_message\": \"\"\n   }\n  }\n ]\n}\n");
}

TEST_CASE("metadata") {
  check("GET", {{"/v1/models/two/metadata", "", 200,
                 R"({"model_spec": {"name": "two", "signature_name": "", "version": "1"},
                     "metadata": {"signature_def": {"signature_def": {"serving_default": {
                       "inputs": {
                         "a": {"dtype": "DT_FLOAT", "tensor_shape": {"dim": [{"size": "-1", "name": ""}],
                               "unknown_rank": false}, "name": "a:0"},
                         "b": {"dtype": "DT_INT32", "tensor_shape": {"dim": [{"size": "-1", "name": ""},
                               {"size": "2", "name": ""}], "unknown_rank": false}, "name": "b:0"}},
                       "outputs": {
                         "p": {"dtype": "DT_FLOAT", "tensor_shape": {"dim": [{"size": "-1", "name": ""}],
                               "unknown_rank": false}, "name": "Mul:0"},
                         "q": {"dtype": "DT_INT32", "tensor_shape": {"dim": [{"size": "-1", "name": ""},
                               {"size": "2", "name": ""}], "unknown_rank": false}, "name": "AddV2:0"}},
                       "method_name": "tensorflow/serving/predict", "defaults": {}}}}}})"},
                {"/v1/models/none/metadata", "", 404, "Servable not found for request: Latest(none)"},
                {"/v1/models/half/versions/7/metadata", "", 404, "Servable not found for request: Specific(half, 7)"}});
  CHECK(models().ask("GET", "/v1/models/sum/metadata").body.find("\"unknown_rank\": true") != std::string::npos);
}

TEST_CASE("a request that has no time left") {
  ModelStore store;
  TemporaryFolder folder;
  write_line(folder / "m" / "1", 1, 0);
  store.configure({{.name = "m", .base_path = folder / "m"}});
  store.look();
  Metrics metrics;
  const Answer answer = RestApi(store, metrics)
                            .answer({.method = "POST",
                                     .path = "/v1/models/m:predict",
                                     .body = R"({"instances": [1]})",
                                     .deadline = std::chrono::steady_clock::now()});
  CHECK(answer.status == 504);
  CHECK(answer.body == error_body("Timed out before the request was answered"));
  CHECK(metrics.prometheus().find(R"(request_count{model_name="m",status="DEADLINE_EXCEEDED"} 1)") !=
        std::string::npos);
  CHECK(RestApi(store, metrics).answer({.method = "POST", .path = "/v1/models/stranger:predict"}).status == 400);
  CHECK(metrics.prometheus().find("stranger") == std::string::npos);
}

}  // namespace
}  // namespace tapestry::serve::rest_test
