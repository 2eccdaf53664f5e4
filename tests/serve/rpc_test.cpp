#include <random>

#include <doctest/doctest.h>

#include "client_messages.hpp"
#include "models.hpp"
#include "serve/rpc_api.hpp"

// Requests of gRPC and their exact answers, as TensorFlow Serving gives them, without gRPC.

namespace tapestry::serve::rpc_test {
namespace {

std::string from_hex(std::string_view hex) {
  std::string bytes, digits;
  for (const char c : hex) {
    if (c == ' ') continue;
    digits += c;
    if (digits.size() < 2) continue;
    bytes += static_cast<char>(std::stoi(digits, nullptr, 16));
    digits.clear();
  }
  return bytes;
}

std::string to_hex(std::string_view bytes) {
  std::string hex;
  for (const char c : bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    hex += digits[static_cast<unsigned char>(c) / 16];
    hex += digits[static_cast<unsigned char>(c) % 16];
  }
  return hex;
}

class Models {
 public:
  explicit Models(const StoreOptions& options = {}) : store_(options), api_(store_, metrics_) {
    write_model(folder_ / "m" / "3", [] {
      const Tensor x = placeholder(float32, {-1, 2}, "x");
      return Signature{.inputs = {{"x", x}}, .outputs = {{"y", reduce_sum(x, 1)}}};
    });
    write_line(folder_ / "half" / "3", 0.5, 2);
    write_line(folder_ / "half" / "12", 0.5, 3);
    write_model(folder_ / "two" / "1", [] {
      const Tensor a = placeholder(float32, {-1}, "a"), b = placeholder(int32, {-1, 2}, "b");
      return Signature{.inputs = {{"a", a}, {"b", b}}, .outputs = {{"p", a * 2.0}, {"q", b + 1}}};
    });
    write_model(folder_ / "judge" / "1", [] {
      const Tensor x = placeholder(float32, {-1, 2}, "x"), bias = placeholder(float32, {-1}, "bias");
      const Tensor scores = x + expand_dims(bias, 1);
      return Signature{.inputs = {{"x", x}, {"bias", bias}},
                       .outputs = {{"scores", scores}, {"outputs", reduce_sum(scores, 1)}}};
    });
    for (const auto& [name, dtype] : types) write_identity(folder_ / name / "1", dtype, Shape::unknown_rank());
    std::vector<ModelConfig> configs;
    for (const auto& each : std::filesystem::directory_iterator(folder_.path()))
      configs.push_back({.name = each.path().filename(), .base_path = each.path()});
    for (ModelConfig& each : configs)
      if (each.name == "half") each = {each.name, each.base_path, {.kind = VersionPolicy::Kind::all}, {{"old", 3}}};
    configs.push_back({.name = "absent", .base_path = folder_ / "absent"});
    store_.configure(configs);
    store_.look();
  }

  static inline const std::map<std::string, DType> types{{"float", float32}, {"double", float64},   {"int32", int32},
                                                         {"int64", int64},   {"uint8", uint8},      {"bool", boolean},
                                                         {"half_", float16}, {"bfloat16", bfloat16}};

  /// The reply in hexadecimal, or the error.
  std::string ask(const std::string& method, const std::string& request, Deadline deadline = soon()) const {
    const std::string service = method.find("Status") == std::string::npos && method != "HandleReloadConfigRequest"
                                    ? "/tensorflow.serving.PredictionService/"
                                    : "/tensorflow.serving.ModelService/";
    try {
      return to_hex(api_.answer(method.starts_with("/") ? method : service + method, request, deadline));
    } catch (const Error& error) {
      return std::string(code_name(error.code())) + ": " + error.message();
    }
  }
  const RpcApi& api() const { return api_; }
  const Metrics& metrics() const { return metrics_; }
  std::filesystem::path folder() const { return folder_.path(); }
  ModelStore& store() { return store_; }

 private:
  TemporaryFolder folder_;
  ModelStore store_;
  Metrics metrics_;
  RpcApi api_;
};

const Models& models() {
  static const Models all;
  return all;
}

/// The message with one field more.
std::string with_text(std::string bytes, int tag, const std::string& text) {
  protozero::pbf_writer(bytes).add_string(static_cast<protozero::pbf_tag_type>(tag), text);
  return bytes;
}

TEST_CASE("a prediction, byte by byte") {
  const std::string request = from_hex(
      "0a07 0a016d 12020803"
      "121b 0a0178 1216 0801 1208 12020801 12020802 2208 0000803f 00000040");
  CHECK(models().ask("Predict", request) ==
        to_hex(from_hex("0a13 0a0179 120e 0801 1204 12020801 2a04 00004040"
                        "1218 0a016d 12020803 1a0f 73657276696e675f64656661756c74")));
}

TEST_CASE("both forms of each type's elements are read") {
  struct Case {
    std::string model;
    int type, tag;           // of the field of numbers
    std::string raw, field;  // 1 and 0 as raw bytes, and in the field
  };
  for (const Case& each : {
           Case{"float", 1, 5, "0000803f 00000000", "0000803f 00000000"},
           {"double", 2, 6, "000000000000f03f 0000000000000000", "000000000000f03f 0000000000000000"},
           {"int32", 3, 7, "01000000 00000000", "01 00"},
           {"uint8", 4, 7, "01 00", "01 00"},
           {"int64", 9, 10, "0100000000000000 0000000000000000", "01 00"},
           {"bool", 10, 11, "01 00", "01 00"},
           {"bfloat16", 14, 13, "803f 0000", "80 7f 00"},
           {"half_", 19, 13, "003c 0000", "80 78 00"},
       }) {
    INFO(each.model);
    const auto proto = [&](int tag, const std::string& hex) {
      return tensor_proto(each.type, {2}, [&](auto& tensor) {
        tensor.add_bytes(static_cast<protozero::pbf_tag_type>(tag), from_hex(hex));
      });
    };
    const std::string answer = to_hex(message([&](auto& response) {
      response.add_message(1, message([&](auto& entry) {
                             entry.add_string(1, "y");
                             entry.add_message(2, proto(each.tag, each.field));
                           }));
      response.add_message(2, model_spec(each.model, 1, "serving_default"));
    }));
    const auto ask = [&](const std::string& tensor) {
      return models().ask("Predict", predict_request(model_spec(each.model), {{"x", tensor}}));
    };
    CHECK(ask(proto(4, each.raw)) == answer);
    CHECK(ask(proto(each.tag, each.field)) == answer);
    // The last of too few elements stands for those that are missing: 1 and nothing is 1, 1.
    CHECK(ask(proto(each.tag, each.field.substr(0, each.field.rfind(' ')))) != answer);
    // A bool that is neither, bytes that do not fit the shape, more elements than it has.
    CHECK(ask(proto(4, each.raw + "00")) == "INVALID_ARGUMENT: tensor parsing error: x");
    CHECK(ask(proto(each.tag, each.field + each.field)) == "INVALID_ARGUMENT: tensor parsing error: x");
  }
}

TEST_CASE("a number that its type cannot hold is refused") {
  for (const std::int64_t number : {-1, 256, 300}) {
    const std::string x = tensor_proto(4, {2}, [&](auto& tensor) { tensor.add_int64(7, number); });
    CHECK(models().ask("Predict", predict_request(model_spec("uint8"), {{"x", x}})) ==
          "INVALID_ARGUMENT: tensor parsing error: x");
  }
  for (const auto& [model, type] : {std::pair("half_", 19), {"bfloat16", 14}}) {
    const std::string x = tensor_proto(type, {1}, [](auto& tensor) { tensor.add_int64(13, 65536); });
    CHECK(models().ask("Predict", predict_request(model_spec(model), {{"x", x}})) ==
          "INVALID_ARGUMENT: tensor parsing error: x");
  }
}

TEST_CASE("what is wrong is told with TensorFlow Serving's codes and texts") {
  const std::string x = floats({1}, {1}), a = floats({1}, {2}),
                    b = tensor_proto(3, {1, 2}, [](auto&tensor) { tensor.add_int32(7, 5); });
  const auto half = [&](const std::string& spec) { return predict_request(spec, {{"x", x}}); };
  struct Case {
    std::string method, request, answer;
  };
  for (const Case& each : std::vector<Case>{
           {"Predict", "", "INVALID_ARGUMENT: Missing ModelSpec"},
           {"Classify", "", "INVALID_ARGUMENT: Missing ModelSpec"},
           {"Regress", "", "INVALID_ARGUMENT: Missing ModelSpec"},
           {"GetModelMetadata", "", "INVALID_ARGUMENT: Missing ModelSpec"},
           {"GetModelStatus", "", "INVALID_ARGUMENT: Missing ModelSpec"},
           {"Predict", half(""), "INVALID_ARGUMENT: ModelSpec has no name specified."},
           {"Predict", half(model_spec("none")), "NOT_FOUND: Servable not found for request: Latest(none)"},
           {"Predict", half(model_spec("absent")), "NOT_FOUND: Servable not found for request: Latest(absent)"},
           {"Predict", half(model_spec("half", 7)), "NOT_FOUND: Servable not found for request: Specific(half, 7)"},
           {"Predict", half(model_spec("half", -1, "", "new")),
            "INVALID_ARGUMENT: Unrecognized servable version label: new"},
           {"Predict", half(model_spec("half", -1, "s")),
            "FAILED_PRECONDITION: Serving signature key \"s\" not found."},
           {"Predict", predict_request(model_spec("two"), {{"a", a}}),
            "INVALID_ARGUMENT: input size does not match signature: 1!=2 len({a}) != len({a,b}). Sent extra: {}. "
            "Missing but required: {b}."},
           {"Predict", predict_request(model_spec("two"), {{"a", a}, {"b", b}, {"c", b}}),
            "INVALID_ARGUMENT: input size does not match signature: 3!=2 len({a,b,c}) != len({a,b}). Sent extra: {c}. "
            "Missing but required: {}."},
           {"Predict", predict_request(model_spec("two"), {{"a", a}, {"c", b}}),
            "INVALID_ARGUMENT: Signature input alias: b(feed name: b:0) not found in request and no default value "
            "provided. Inputs expected to be in the request {a,c}, or default input alias set: "},
           {"Predict", predict_request(model_spec("two"), {{"a", a}, {"b", b}}, {"z"}),
            "INVALID_ARGUMENT: output tensor alias not found in signature: z Outputs expected to be in the set {p,q}."},
           {"Predict", predict_request(model_spec("two"), {{"a", a}, {"b", b}}, {"p", "p"}),
            "INVALID_ARGUMENT: duplicate output tensor alias: p"},
           {"Predict", predict_request(model_spec("half"), {{"x", "no tensor"}}),
            "INVALID_ARGUMENT: tensor parsing error: x"},
           {"Predict", predict_request(model_spec("half"), {{"x", floats({1LL << 40}, {1})}}),
            "INVALID_ARGUMENT: The input x of shape [1099511627776] repeats one element, too many times"},
           {"Predict", predict_request(model_spec("half"), {{"x", tensor_proto(6, {1}, [](auto&) {})}}),
            "UNIMPLEMENTED: The input x is of type int8, which tensors do not have"},
           {"Predict", predict_request(model_spec("half"), {{"x", tensor_proto(99, {1}, [](auto&) {})}}),
            "UNIMPLEMENTED: The input x is of type 99, which tensors do not have"},
           {"Predict",
            predict_request(model_spec("half"),
                            {{"x", tensor_proto(2, {1}, [](auto& tensor) { tensor.add_double(6, 0.1); })}}),
            "INVALID_ARGUMENT: Expects arg[0] to be float but double is provided"},
           {"Predict",
            predict_request(model_spec("two"),
                            {{"a", a}, {"b", tensor_proto(9, {1, 2}, [](auto& tensor) { tensor.add_int64(10, 5); })}}),
            "INVALID_ARGUMENT: Expects arg[1] to be int32 but int64 is provided"},
           {"Predict", "no message", "INVALID_ARGUMENT: The request is no message of this method, or damaged"},
           {"Predict", predict_request(model_spec("half"), {{"x", x}}).substr(0, 12),
            "INVALID_ARGUMENT: The request is no message of this method, or damaged"},
           {"Classify", examples_request(model_spec("judge"), {}), "INVALID_ARGUMENT: Input is empty."},
           {"Classify", examples_request(model_spec("judge", -1, "s"), {""}),
            "INVALID_ARGUMENT: No signature was found with the name: s"},
           {"Regress", examples_request(model_spec("judge"), {"x"}),
            "INVALID_ARGUMENT: Could not parse example input, number 0"},
           {"Regress", examples_request(model_spec("judge"), {""}),
            "INVALID_ARGUMENT: Example 0 lacks the feature: bias"},
           {"GetModelMetadata", message([](auto& request) { request.add_message(1, model_spec("half")); }),
            "INVALID_ARGUMENT: GetModelMetadataRequest must specify at least one metadata_field"},
           {"GetModelMetadata",
            with_text(message([](auto& request) { request.add_message(1, model_spec("half")); }), 2, "graph"),
            "INVALID_ARGUMENT: Metadata field graph is not supported"},
           {"GetModelStatus", message([](auto& request) { request.add_message(1, model_spec("none")); }),
            "NOT_FOUND: Could not find any versions of model none"},
           {"GetModelStatus", message([](auto& request) { request.add_message(1, model_spec("half", 4)); }),
            "NOT_FOUND: Could not find version 4 of model half"},
           {"HandleReloadConfigRequest", "",
            "INVALID_ARGUMENT: ServerModelConfig type not supported by HandleReloadConfigRequest. Only "
            "ModelConfigList is currently supported"},
           {"MultiInference", "", "INVALID_ARGUMENT: ModelSpec has no name specified."},
           {"Nonsense", "", "UNIMPLEMENTED: The server has no method /tensorflow.serving.PredictionService/Nonsense"},
           {"/grpc.health.v1.Health/Check", "\n\1x", "NOT_FOUND: The server has no service x"},
           // A model without a version: not serving.
           {"/grpc.health.v1.Health/Check", "", "0802"},
       }) {
    INFO(each.method, " ", to_hex(each.request));
    CHECK(models().ask(each.method, each.request) == each.answer);
  }
  CHECK(models().ask("Predict", half(model_spec("half")), std::chrono::steady_clock::now()) ==
        "DEADLINE_EXCEEDED: Timed out before the request was answered");
  // Clients do not see the names of C++.
  CHECK(for_clients("The run takes 9 bytes; it may take 5 (GraphLimits::bytes)") ==
        "The run takes 9 bytes; it may take 5");
  CHECK(for_clients("A limit (of ours)") == "A limit (of ours)");
}

TEST_CASE("versions, labels, signatures and filters choose") {
  const std::string x = floats({1}, {1});
  const auto answer = [](float y, std::int64_t version) {
    return to_hex(message([&](auto& response) {
      response.add_message(1, message([&](auto& entry) {
                             entry.add_string(1, "y");
                             entry.add_message(2, floats({1}, {y}));
                           }));
      response.add_message(2, model_spec("half", version, "serving_default"));
    }));
  };
  const auto ask = [&](const std::string& spec) { return models().ask("Predict", predict_request(spec, {{"x", x}})); };
  CHECK(ask(model_spec("half")) == answer(3.5, 12));
  CHECK(ask(model_spec("half", 3)) == answer(2.5, 3));
  CHECK(ask(model_spec("half", -1, "serving_default", "old")) == answer(2.5, 3));
  const Inputs both{{"a", floats({1}, {2})}, {"b", tensor_proto(3, {1, 2}, [](auto& each) { each.add_int32(7, 5); })}};
  const std::string all = models().ask("Predict", predict_request(model_spec("two"), both)),
                    one = models().ask("Predict", predict_request(model_spec("two"), both, {"q"}));
  CHECK(all.find(to_hex("p")) != std::string::npos);
  CHECK(one == to_hex(message([&](auto& response) {
          response.add_message(1, message([&](auto& entry) {
                                 entry.add_string(1, "q");
                                 entry.add_message(2, tensor_proto(3, {1, 2}, [](auto& each) {
                                                     const std::vector<std::int32_t> sixes{6, 6};
                                                     each.add_packed_int32(7, sixes.begin(), sixes.end());
                                                   }));
                               }));
          response.add_message(2, model_spec("two", 1, "serving_default"));
        })));
}

TEST_CASE("examples are classified and regressed, alone and together") {
  const auto example = [](float first, float bias) {
    data::Example features{{"x", std::vector<float>{first, 2}}};
    if (bias != 0) features["bias"] = bias;
    return data::encode(features);
  };
  const std::string spec = model_spec("judge"), used = model_spec("judge", 1, "serving_default");
  const auto scores = [](protozero::pbf_writer& result, float a, float b) {
    result.add_message(1, message([&](auto& classifications) {
                         for (const float each : {a, b})
                           classifications.add_message(1, message([&](auto& out) { out.add_float(2, each); }));
                       }));
  };
  const auto sum = [](protozero::pbf_writer& result, float value) {
    result.add_message(1, message([&](auto& regression) { regression.add_float(1, value); }));
  };
  const std::string classified = message([&](auto&result) { scores(result, 11, 12), scores(result, 23, 22); }),
                    regressed = message([&](auto&result) { sum(result, 23), sum(result, 45); });
  const auto response = [&](const std::string& result) {
    return to_hex(message([&](auto& answer) {
      answer.add_message(1, result);
      answer.add_message(2, used);
    }));
  };
  const std::string two = examples_request(spec, {example(1, 10), example(3, 20)}),
                    // The context of all; what an example has itself counts.
      context = examples_request(spec, {example(1, 0), example(3, 20)}, data::encode(data::Example{{"bias", 10.0F}}));
  CHECK(models().ask("Classify", two) == response(classified));
  CHECK(models().ask("Classify", context) == response(classified));
  CHECK(models().ask("Regress", two) == response(regressed));
  const auto multi = [&](const std::string& first, const std::string& second, const std::string& model) {
    std::string request = message([&](auto& each) {
      for (const auto& [name, method] : {std::pair(std::string("judge"), first), std::pair(model, second)})
        each.add_message(1, message([&, &model_name = name, &method_name = method](auto& task) {
                           task.add_message(1, model_spec(model_name, -1, method_name == first ? "" : "other"));
                           task.add_string(2, "tensorflow/serving/" + method_name);
                         }));
    });
    return models().ask("MultiInference", request + two.substr(two.find('\x12', 2)));
  };
  CHECK(multi("classify", "classify", "judge") ==
        "INVALID_ARGUMENT: Duplicate evaluation of signature: serving_default");
  CHECK(multi("classify", "regress", "half") ==
        "INVALID_ARGUMENT: All ModelSpecs in a MultiInferenceRequest must access the same model name.");
  CHECK(multi("classify", "predict", "judge") ==
        "UNIMPLEMENTED: Unsupported signature method_name: tensorflow/serving/predict");
  CHECK(multi("classify", "regress", "judge") ==
        "INVALID_ARGUMENT: Requested signature not found in model graph: other");
  const std::string single = message([&](auto& request) {
    request.add_message(1, message([&](auto& task) {
                          task.add_message(1, spec);
                          task.add_string(2, "tensorflow/serving/regress");
                        }));
  });
  CHECK(models().ask("MultiInference", single + two.substr(2 + spec.size())) == to_hex(message([&](auto& answer) {
          answer.add_message(1, message([&](auto& result) {
                               result.add_message(1, used);
                               result.add_message(3, regressed);
                             }));
        })));
}

TEST_CASE("status, metadata, and another configuration") {
  Models own;
  const auto status = [](std::int64_t version, int state) {
    return message([&](auto& each) {
      each.add_message(1, message([&](auto& out) {
                         out.add_int64(1, version);
                         out.add_enum(2, state);
                         out.add_string(3, "");
                       }));
    });
  };
  const auto of = [](const std::string& spec) { return message([&](auto& request) { request.add_message(1, spec); }); };
  CHECK(own.ask("GetModelStatus", of(model_spec("half", 3))) == to_hex(status(3, 30)));
  CHECK(own.ask("GetModelStatus", of(model_spec("half"))) == to_hex(status(12, 30) + status(3, 30)));
  const std::string metadata = own.ask("GetModelMetadata", with_text(of(model_spec("half")), 2, "signature_def"));
  CHECK(metadata.find(to_hex("type.googleapis.com/tensorflow.serving.SignatureDefMap")) != std::string::npos);
  CHECK(metadata.find(to_hex(own.store().find("half")->signatures().at("serving_default").proto)) != std::string::npos);
  const auto reload = [&](const std::string& name, const std::filesystem::path& path) {
    return message([&](auto& request) {
      request.add_message(1, message([&](auto& config) {
                            config.add_message(1, message([&](auto& list) {
                                                 list.add_message(1, message([&](auto& model) {
                                                                    model.add_string(1, name);
                                                                    if (!path.empty())
                                                                      model.add_string(2, path.string());
                                                                    model.add_string(4, "tensorflow");
                                                                    model.add_message(7, message([](auto& policy) {
                                                                                        policy.add_message(
                                                                                            102,
                                                                                            message([](auto& specific) {
                                                                                              specific.add_int64(1, 3);
                                                                                            }));
                                                                                      }));
                                                                    model.add_message(8, message([](auto& label) {
                                                                                        label.add_string(1, "best");
                                                                                        label.add_int64(2, 3);
                                                                                      }));
                                                                  }));
                                               }));
                          }));
    });
  };
  CHECK(own.ask("HandleReloadConfigRequest", reload("renamed", own.folder() / "half")) == "0a00");
  const Inputs x{{"x", floats({1}, {1})}};
  CHECK(own.ask("Predict", predict_request(model_spec("renamed", -1, "", "best"), x)).starts_with("0a"));
  CHECK(own.ask("Predict", predict_request(model_spec("renamed", 12), x)).starts_with("NOT_FOUND"));
  CHECK(own.ask("Predict", predict_request(model_spec("half"), x)).starts_with("NOT_FOUND"));
  CHECK(own.ask("/grpc.health.v1.Health/Check", "") == "0801");
  CHECK(own.ask("HandleReloadConfigRequest", reload("renamed", "")) ==
        "INVALID_ARGUMENT: The model renamed has no base_path");
  CHECK(own.ask("HandleReloadConfigRequest", reload("none", own.folder() / "none")) ==
        "FAILED_PRECONDITION: The model none has no version that can be served");
}

TEST_CASE("requests are counted for models that there are") {
  Models own;
  const Inputs x{{"x", floats({1}, {1})}};
  own.ask("Predict", predict_request(model_spec("half"), x));
  own.ask("Predict", predict_request(model_spec("half", 5), x));
  own.ask("Predict", predict_request(model_spec("unknown"), x));
  const std::string numbers = own.metrics().prometheus();
  CHECK(numbers.find(R"(request_latency_count{model_name="half",API="Predict",entrypoint="GRPC"} 1)") !=
        std::string::npos);
  CHECK(numbers.find(R"(request_count{model_name="half",status="NOT_FOUND"} 1)") != std::string::npos);
  CHECK(numbers.find("unknown") == std::string::npos);
}

TEST_CASE("damaged messages get an error, and the server goes on") {
  const std::string good = predict_request(
      model_spec("two"),
      {{"a", floats({1}, {2})}, {"b", tensor_proto(3, {1, 2}, [](auto& each) { each.add_int32(7, 5); })}}, {"p"});
  const std::string examples = examples_request(
      model_spec("judge"), {data::encode(data::Example{{"x", std::vector<float>{1, 2}}, {"bias", 1.0F}})});
  const std::string right = models().ask("Predict", good);
  std::mt19937 random(7);
  const auto below = [&](std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(random);
  };
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = i % 2 == 0 ? good : examples;
    for (std::size_t change = below(3) + 1; change > 0; --change) {
      const std::size_t place = below(bytes.size());
      if (below(4) == 0) {
        bytes.resize(place + 1);
      } else {
        bytes[place] = static_cast<char>(below(256));
      }
    }
    constexpr std::array methods{"Predict",        "Classify",         "Regress",
                                 "MultiInference", "GetModelMetadata", "GetModelStatus"};
    const std::string method = methods[below(methods.size())];
    INFO(method, " ", to_hex(bytes));
    const std::string answer = models().ask(method, bytes);
    CHECK(!answer.starts_with("INTERNAL"));
  }
  CHECK(models().ask("Predict", good) == right);
  // A configuration can be damaged into another one that is right.
  Models own;
  const std::string configuration = message([](auto& request) {
    request.add_message(1, message([](auto& config) {
                          config.add_message(1, message([](auto& list) {
                                               list.add_message(1, with_text(with_text("", 1, "m"), 2, "/none"));
                                             }));
                        }));
  });
  for (std::size_t i = 0; i < 50 * configuration.size(); ++i) {
    std::string bytes = configuration;
    bytes[i % bytes.size()] = static_cast<char>(below(256));
    INFO(to_hex(bytes));
    CHECK(!own.ask("HandleReloadConfigRequest", bytes).starts_with("INTERNAL"));
  }
}

}  // namespace
}  // namespace tapestry::serve::rpc_test
