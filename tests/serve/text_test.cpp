#include <fstream>
#include <random>
#include <thread>

#include <doctest/doctest.h>

#include "client_messages.hpp"
#include "models.hpp"
#include "node_text.hpp"
#include "serve/json.hpp"
#include "serve/rpc_api.hpp"
#include "serve/text_model.hpp"

// Models that take and give texts: tf.Examples, labels, digits, and what the client sent. The model is TensorFlow's
// (golden_saved_models.py), and so are the numbers.

namespace tapestry::serve::text_test {
namespace {

using Strings = std::vector<std::string>;
using Sizes = std::vector<std::int64_t>;

std::filesystem::path model_folder() { return std::filesystem::path(GOLDEN_FILES) / "saved_model_texts"; }

/// Two examples, of which the first leaves out what has a default value.
Strings two_examples() {
  return {data::encode(data::Example{{"x", std::vector<float>{1, 2, 3}}}),
          data::encode(data::Example{{"x", std::vector<float>{4, 0, 1}}, {"n", -1}, {"name", "x\ny"}})};
}

NamedValues run(const Servable& model, const std::string& signature, const NamedValues& inputs) {
  return model.run(signature, inputs, soon());
}

Strings texts(const NamedValues& outputs, const std::string& name) {
  return std::get<Texts>(outputs.at(name)).elements;
}

void check_labels(const Servable& model) {
  const NamedValues outputs =
      run(model, "label", {{"examples", Texts{{2}, two_examples()}}, {"keys", Texts{{2, 2}, {"a", "cat", "", "b"}}}});
  CHECK(texts(outputs, "label") == Strings{"dog", "cat"});
  CHECK(texts(outputs, "best") == Strings{"0", "-1"});
  CHECK(texts(outputs, "name") == Strings{"nobody", "x\ny"});
  CHECK(texts(outputs, "key_bytes") == Strings{"cat", "a", "b", ""});
  CHECK(std::get<Texts>(outputs.at("key_bytes")).sizes == Sizes{2, 2});
  CHECK(std::get<Tensor>(outputs.at("scores")).to_vector<float>() == std::vector<float>{5, 11.25F, -0.5F, -2.75F});
}

TEST_CASE("texts come and go, alone and in batches") {
  check_labels(Servable("m", 1, model_folder()));
  const Servable batching("m", 1, model_folder(),
                          {.batching = BatchingOptions{.max_batch_size = 8, .batch_timeout_micros = 20'000}});
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) clients.emplace_back([&] { check_labels(batching); });
  for (std::thread& each : clients) each.join();
  CHECK(!batching.svg("label").empty());
}

TEST_CASE("words and classes are looked up in tables") {
  // The word's line in a file chooses one of four numbers; w is [0.5, 1.5, 2.5, 3.5].
  const Servable words("m", 1, std::filesystem::path(GOLDEN_FILES) / "saved_model_table");
  const auto y = run(words, "look_up", {{"words", Texts{{5}, {"one", "three", "four", "", "two"}}}}).at("y");
  CHECK(std::get<Tensor>(y).to_vector<float>() == std::vector<float>{1.5F, 3.5F, 0.5F, 0.5F, 2.5F});
  const Servable model("m", 1, model_folder());
  const NamedValues outputs = run(model, "look_up", {{"words", Texts{{2, 2}, {"dog", "cow", "cat", "7"}}}});
  CHECK(std::get<Tensor>(outputs.at("ids")).to_vector<std::int64_t>() == std::vector<std::int64_t>{20, -1, 10, -1});
  CHECK(texts(outputs, "sounds") == Strings{"woof", "?", "meow", "?"});
  CHECK(texts(outputs, "names") == Strings{"dog", "nobody", "cat", "nobody"});
  CHECK_THROWS_WITH(run(model, "look_up_digits", {{"numbers", tensor<std::int64_t>({7})}}),
                    doctest::Contains("LookupTableFindV2"));
}

TEST_CASE("numbers of any size are written as texts, and examples parsed twice") {
  const Servable model("m", 1, std::filesystem::path(GOLDEN_FILES) / "saved_model_digits");
  using Numbers = std::vector<std::int64_t>;
  const auto write = [&](const Numbers& numbers) {
    return run(model, "serving_default", {{"numbers", tensor(numbers)}, {"words", Texts{{2}, {"end", "word"}}}});
  };
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max(), third = most / 3;
  Numbers numbers{0,     1,         -1,     2,          -2,       most, -most + (std::int64_t{1} << 33),
                  third, third + 1, -third, -third - 2, 2 * third};
  for (std::int64_t i = 0; i < 6; ++i) numbers.push_back(6'148'914'691'236'517'203 + i);
  Strings digits;
  for (const std::int64_t each : numbers) digits.push_back(std::to_string(each));
  const NamedValues outputs = write(numbers);
  CHECK(texts(outputs, "digits") == digits);
  digits.insert(digits.begin(), {"end", "word"});
  digits.push_back("end");
  CHECK(texts(outputs, "both") == digits);
  // Numbers that stand for texts.
  for (const std::int64_t each : {first_text, first_text + 1, first_text + 2, first_text + 3, end_of_texts - 1})
    CHECK_THROWS_AS(write({each}), UnimplementedError);
  CHECK(texts(write({end_of_texts}), "digits") == Strings{std::to_string(end_of_texts)});

  const auto example = [](const data::Example& features) { return data::encode(features); };
  const NamedValues parsed =
      run(model, "parse", {{"examples", Texts{{2}, {example({{"n", 20}, {"w", "two"}}), example({})}}}});
  CHECK(texts(parsed, "digits") == Strings{"20", "1"});
  CHECK(texts(parsed, "w") == Strings{"two", "none"});
  CHECK(std::get<Tensor>(parsed.at("sum")).to_vector<std::int64_t>() == Numbers{40, 6});
}

TEST_CASE("a table may have a part of a file, and count its lines from any number") {
  const Servable model("m", 1, std::filesystem::path(GOLDEN_FILES) / "saved_model_digits");
  const NamedValues outputs = run(model, "look_up", {{"words", Texts{{4}, {"two", "three", "one", "four"}}}});
  CHECK(std::get<Tensor>(outputs.at("ids")).to_vector<std::int64_t>() == std::vector<std::int64_t>{6, -1, 5, -1});
  CHECK(texts(outputs, "words") == Strings{"two", "none", "one", "none"});
  CHECK(texts(outputs, "next") == Strings{"none", "none", "two", "none"});
}

TEST_CASE("a model of TensorFlow 1 names the file of its words in a collection") {
  using test::attr, test::constant_node, test::node;
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "assets");
  std::ofstream(folder / "assets" / "words.txt") << "cat\ndog\n";
  const auto typed = [](const std::string& name, const std::string& type) { return attr(name, "type: DT_" + type); };
  std::ofstream(folder / "saved_model.pbtxt")
      << "meta_graphs { meta_info_def { tags: 'serve' } graph_def {"
      << node("table", "HashTableV2", {}, typed("key_dtype", "STRING") + typed("value_dtype", "INT64"))
      << constant_node("file", "DT_STRING", "tensor_shape { } string_val: '/away/words.txt'")
      << node("fill", "InitializeTableFromTextFileV2", {"table", "file"},
              attr("key_index", "i: -2") + attr("value_index", "i: -1"))
      << constant_node("otherwise", "DT_INT64", "tensor_shape { } int64_val: -1")
      << node("x", "Placeholder", {}, typed("dtype", "STRING") + attr("shape", "shape { dim { size: -1 } }"))
      << node("y", "LookupTableFindV2", {"table", "x", "otherwise"}, typed("Tin", "STRING") + typed("Tout", "INT64"))
      << R"(} collection_def { key: "saved_model_assets" value { any_list { value {
              type_url: "type.googleapis.com/tensorflow.AssetFileDef" value: "\n\010\n\006file:0\022\twords.txt" } } } }
            signature_def { key: "serving_default" value { inputs { key: "x" value { name: "x:0" dtype: DT_STRING
              tensor_shape { dim { size: -1 } } } } outputs { key: "y" value { name: "y:0" dtype: DT_INT64
              tensor_shape { dim { size: -1 } } } } } } })";
  const Servable model("m", 1, folder.path());
  const auto y = run(model, "serving_default", {{"x", Texts{{3}, {"dog", "cow", "cat"}}}}).at("y");
  CHECK(std::get<Tensor>(y).to_vector<std::int64_t>() == std::vector<std::int64_t>{1, -1, 0});
}

/// A store of the model, and both protocols.
class Served {
 public:
  Served() : rest_(store_, metrics_), rpc_(store_, metrics_) {
    std::filesystem::create_directory(folder_ / "m");
    std::filesystem::copy(model_folder(), folder_ / "m" / "1", std::filesystem::copy_options::recursive);
    store_.configure({{.name = "m", .base_path = folder_ / "m"}});
    store_.look();
  }
  std::string post(const std::string& verb, const std::string& body) const {
    return rest_.answer({.method = "POST", .path = "/v1/models/m:" + verb, .body = body, .deadline = soon()}).body;
  }
  /// The reply, or the error.
  std::string call(const std::string& method, const std::string& request) const {
    try {
      return rpc_.answer("/tensorflow.serving.PredictionService/" + method, request, soon());
    } catch (const Error& error) {
      return std::string(code_name(error.code())) + ": " + error.message();
    }
  }

 private:
  TemporaryFolder folder_;
  ModelStore store_;
  Metrics metrics_;
  RestApi rest_;
  RpcApi rpc_;
};

const Served& served() {
  static const Served all;
  return all;
}

std::string dense(const std::string& text) {
  std::string result;
  for (const char c : text)
    if (c != ' ' && c != '\n') result += c;
  return result;
}

TEST_CASE("texts over REST") {
  const auto post = [](const std::string& verb, const std::string& body) { return dense(served().post(verb, body)); };
  CHECK(post("classify", R"({"examples": [{"x": [1.0, 2.0, 3.0]}, {"x": [4.0, 0.0, 1.0], "n": -1}]})") ==
        R"({"results":[[["cat",5.0],["dog",11.25]],[["cat",-0.5],["dog",-2.75]]]})");
  CHECK(
      post("regress", R"({"signature_name": "regress", "context": {"n": 8}, "examples": [{"x": [1.0, 2.0, 3.0]}]})") ==
      R"({"results":[12.25]})");
  // {x: [1.0, 2.0, 3.0]}
  const std::string example = R"({"b64": "ChUKEwoBeBIOEgwKCgoAAIA/AAAAQA=="})";
  CHECK(post("predict", R"({"instances": [)" + example + "]}").find("Couldnotparseexampleinput") != std::string::npos);
  const std::string bytes = base64(two_examples()[0]);
  CHECK(bytes_of(ParsedObject(R"({"b64": ")" + bytes + "\"}").json()) == two_examples()[0]);
  CHECK(post("predict", R"({"instances": [{"b64": ")" + bytes + "\"}]}") ==
        R"({"predictions":[{"classes":["cat","dog"],"scores":[5.0,11.25]}]})");
  CHECK(post("predict", R"({"signature_name": "label", "inputs": {"examples": [{"b64": ")" + bytes +
                            R"("}], "keys": [["a", "cat"]]}})") ==
        R"({"outputs":{"best":["0"],"key_bytes":[[{"b64":"Y2F0"},{"b64":"YQ=="}]],"label":["dog"],"name":["nobody"],)"
        R"("scores":[[5.0,11.25]]}})");
  CHECK(post("predict", R"({"instances": [5]})").find("isnotofexpectedtype:string") != std::string::npos);
  CHECK(post("predict", R"({"signature_name": "longer", "instances": ["a"]})").find("StringJoin") != std::string::npos);
  CHECK(post("classify", R"({"examples": [{"n": 1}]})").find("'x'") != std::string::npos);
}

TEST_CASE("texts over gRPC") {
  const auto proto = [](const Sizes& sizes, const Strings& elements) {
    return tensor_proto(7, sizes, [&](auto& tensor) {
      for (const std::string& each : elements) tensor.add_bytes(8, each);
    });
  };
  const std::string used = model_spec("m", 1, "serving_default");
  const std::string classified = message([&](auto& response) {
    response.add_message(1, message([](auto& result) {
                           result.add_message(
                               1, message([](auto& classes) {
                                 for (const auto& [label, score] : {std::pair("cat", 5.0F), {"dog", 11.25F}})
                                   classes.add_message(1, message([&, &name = label, &value = score](auto& out) {
                                                         out.add_string(1, name);
                                                         out.add_float(2, value);
                                                       }));
                               }));
                         }));
    response.add_message(2, used);
  });
  const std::string empty, example = two_examples()[0];
  CHECK(served().call("Classify", examples_request(model_spec("m"), {example})) == classified);
  CHECK(served().call("Classify", examples_request(model_spec("m"), {empty}, example)) == classified);
  const auto predict = [&](const std::string& tensor) {
    return served().call("Predict", predict_request(model_spec("m"), {{"inputs", tensor}}, {"classes"}));
  };
  CHECK(predict(proto({1}, {example})) == message([&](auto& response) {
          response.add_message(1, message([&](auto& entry) {
                                 entry.add_string(1, "classes");
                                 entry.add_message(2, proto({1, 2}, {"cat", "dog"}));
                               }));
          response.add_message(2, used);
        }));
  // One text stands for all.
  CHECK(predict(proto({3}, {example})).find("dog") != std::string::npos);
  CHECK(predict(proto({1LL << 40}, {example})) == "INVALID_ARGUMENT: tensor parsing error: inputs");
  CHECK(predict(proto({-1}, {example})) == "INVALID_ARGUMENT: tensor parsing error: inputs");
  CHECK(predict(proto({1}, {example, example})) == "INVALID_ARGUMENT: tensor parsing error: inputs");
  CHECK(predict(proto({1, 1}, {example})) == "INVALID_ARGUMENT: The input inputs takes a list of tf.Examples");
  CHECK(predict(proto({1}, {"x"})).starts_with("INVALID_ARGUMENT: Could not parse example input: "));
  CHECK(predict(floats({1}, {1})) == "INVALID_ARGUMENT: The input inputs takes texts");
}

TEST_CASE("damaged models and examples get an error") {
  std::mt19937 random(3);
  const auto below = [&](std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(random);
  };
  const Servable model("m", 1, model_folder());
  const std::string example = two_examples()[1];
  for (int i = 0; i < 500; ++i) {
    std::string bytes = example;
    bytes[below(bytes.size())] = static_cast<char>(below(256));
    try {
      run(model, "regress", {{"inputs", Texts{{1}, {bytes}}}});
    } catch (const InvalidArgumentError&) {
    }
  }
  const std::string file = read_model(model_folder());
  TemporaryFolder folder;
  std::filesystem::copy(model_folder() / "variables", folder / "variables");
  for (int i = 0; i < 100; ++i) {
    std::string bytes = file;
    for (std::size_t change = 0; change < 3; ++change) bytes[below(bytes.size())] = static_cast<char>(below(256));
    std::ofstream(folder / "saved_model.pb", std::ios::binary) << bytes;
    try {
      const Servable damaged("m", 1, folder.path());
      run(damaged, "regress", {{"inputs", Texts{{1}, {example}}}});
    } catch (const Error& error) {
      CHECK(error.code() != Code::internal);
    }
  }
}

}  // namespace
}  // namespace tapestry::serve::text_test
