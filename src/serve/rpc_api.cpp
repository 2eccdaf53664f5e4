#include "serve/rpc_api.hpp"

#include <algorithm>
#include <new>
#include <set>
#include <variant>

#include "io/tensorflow/graph_def.hpp"
#include "serve/proto_tensor.hpp"
#include "serve/rest.hpp"

namespace tapestry::serve {
namespace {

/// "{a,b}" of the names in a map or a set.
template <class Names>
std::string listed(const Names& names) {
  std::string text = "{";
  for (const auto& each : names) {
    if (text.size() > 1) text += ",";
    if constexpr (requires { each.first; }) {
      text += each.first;
    } else {
      text += each;
    }
  }
  return text + "}";
}

/// The names that only the first map has.
template <class A, class B>
std::set<std::string> only_in(const A& a, const B& b) {
  std::set<std::string> names;
  for (const auto& [name, value] : a)
    if (!b.contains(name)) names.insert(name);
  return names;
}

const ModelSpec& required(const std::optional<ModelSpec>& spec) {
  if (!spec) throw InvalidArgumentError("Missing ModelSpec");
  return *spec;
}

constexpr std::string_view classify_method = "tensorflow/serving/classify",
                           regress_method = "tensorflow/serving/regress";

std::string signature_name(const ModelSpec& spec) {
  return spec.signature.empty() ? "serving_default" : spec.signature;
}

std::shared_ptr<const Servable> find(const ModelStore& models, const ModelSpec& spec) {
  if (spec.name.empty()) throw InvalidArgumentError("ModelSpec has no name specified.");
  return models.find(spec.name, spec.choice);
}

/// The spec of an answer: the version and the signature that were used.
ModelSpec used(const Servable& model, const std::string& signature) {
  return {.name = model.name(), .choice = {.version = model.version(), .label = {}}, .signature = signature};
}

/// Throws InvalidArgumentError unless an input has the signature's type: no number becomes a less exact one. `place`:
/// the input's among the inputs.
void require_type(const std::variant<Tensor, Texts>& value, TypeNumber type, std::size_t place) {
  const Tensor* tensor = std::get_if<Tensor>(&value);
  const DType due = dtype_of(type);
  if (!tensor || due == DType::unknown || tensor->dtype() == due) return;
  throw InvalidArgumentError(detail::join("Expects arg[", place, "] to be ", type_name(type), " but ",
                                          type_name(io::code_of(tensor->dtype()).value), " is provided"));
}

/// The inputs that a signature has. Throws InvalidArgumentError for others.
NamedValues inputs_of(const PredictRequest& request, const SignatureInfo& signature) {
  const auto& given = request.inputs;
  if (given.size() != signature.inputs.size())
    throw InvalidArgumentError(detail::join(
        "input size does not match signature: ", given.size(), "!=", signature.inputs.size(), " len(", listed(given),
        ") != len(", listed(signature.inputs), "). Sent extra: ", listed(only_in(given, signature.inputs)),
        ". Missing but required: ", listed(only_in(signature.inputs, given)), "."));
  NamedValues inputs;
  inputs.reserve(given.size());
  for (const auto& [name, info] : signature.inputs) {
    const auto found = given.find(name);
    if (found == given.end())
      throw InvalidArgumentError(
          detail::join("Signature input alias: ", name, "(feed name: ", info.name,
                       ") not found in request and no default value provided. Inputs expected to be in the request ",
                       listed(given), ", or default input alias set: "));
    std::variant<Tensor, Texts> value = read_value(name, found->second);
    require_type(value, info.type, inputs.size());
    inputs.emplace(name, std::move(value));
  }
  return inputs;
}

/// Takes the outputs that nobody asked for away.
void filter(NamedValues& outputs, const std::vector<std::string>& wanted) {
  if (wanted.empty()) return;
  const std::set<std::string> names(wanted.begin(), wanted.end());
  outputs.erase_if([&](const auto& each) { return !names.contains(each.first); });
}

void check_filter(const std::vector<std::string>& wanted, const SignatureInfo& signature) {
  std::set<std::string_view> seen;
  for (const std::string& each : wanted) {
    if (!signature.outputs.contains(each))
      throw InvalidArgumentError(detail::join("output tensor alias not found in signature: ", each,
                                              " Outputs expected to be in the set ", listed(signature.outputs), "."));
    if (!seen.insert(each).second) throw InvalidArgumentError("duplicate output tensor alias: " + each);
  }
}

}  // namespace

struct RpcApi::Asked {
  std::string_view method, bytes;
  Deadline deadline;
  std::string model{};
};

std::string RpcApi::answer(std::string_view method, std::string_view request, Deadline deadline) const {
  constexpr std::string_view service = "/tensorflow.serving.PredictionService/";
  const auto start = std::chrono::steady_clock::now();
  Asked asked{.method = method, .bytes = request, .deadline = deadline};
  const auto count = [&](std::string_view status) {
    // Names that no model has would each make new numbers.
    if (!asked.model.empty() && models_.contains(asked.model))
      metrics_.count({.model = asked.model, .api = std::string(method.substr(service.size())), .entrypoint = "GRPC"},
                     std::string(status), std::chrono::steady_clock::now() - start);
  };
  try {
    std::string reply = handle(asked);
    count("OK");
    return reply;
  } catch (const UnavailableError& error) {
    // The queue of batches is full; gRPC's clients take Unavailable for a server that is gone.
    count(code_name(Code::resource_exhausted));
    throw ResourceExhaustedError(error.message());
  } catch (const Error& error) {
    count(code_name(error.code()));
    throw;
  } catch (const std::bad_alloc&) {
    count(code_name(Code::resource_exhausted));
    throw ResourceExhaustedError("Not enough memory for the request");
  }
}

std::string RpcApi::handle(Asked& asked) const {
  require_time(asked.deadline);
  const std::size_t slash = asked.method.rfind('/');
  const std::string_view service = asked.method.substr(0, slash), name = asked.method.substr(slash + 1);
  if (service == "/tensorflow.serving.PredictionService") {
    if (name == "Predict") return predict(asked);
    if (name == "Classify") return classify(asked);
    if (name == "Regress") return regress(asked);
    if (name == "MultiInference") return multi_inference(asked);
    if (name == "GetModelMetadata") return metadata(asked.bytes);
  } else if (service == "/tensorflow.serving.ModelService") {
    if (name == "GetModelStatus") return status(asked.bytes);
    if (name == "HandleReloadConfigRequest") return reload(asked.bytes);
  } else if (service == "/grpc.health.v1.Health" && name == "Check") {
    return health(asked.bytes);
  }
  throw UnimplementedError(detail::join("The server has no method ", asked.method));
}

std::string RpcApi::predict(Asked& asked) const {
  const PredictRequest request = read_predict_request(asked.bytes);
  const ModelSpec& spec = required(request.model_spec);
  asked.model = spec.name;
  const std::shared_ptr<const Servable> model = find(models_, spec);
  const std::string name = signature_name(spec);
  const auto signature = model->signatures().find(name);
  if (signature == model->signatures().end())
    throw FailedPreconditionError("Serving signature key \"" + name + "\" not found.");
  NamedValues inputs = inputs_of(request, signature->second);
  check_filter(request.output_filter, signature->second);
  NamedValues outputs = model->run(name, std::move(inputs), asked.deadline);
  filter(outputs, request.output_filter);
  return write_predict_response(outputs, used(*model, name));
}

/// What a classification or regression found.
struct RpcApi::Inferred {
  NamedValues outputs;
  std::size_t examples;
  ModelSpec used;
};

RpcApi::Inferred RpcApi::infer_examples(Asked& asked) const {
  const ExamplesRequest request = read_examples_request(asked.bytes);
  const ModelSpec& spec = required(request.model_spec);
  asked.model = spec.name;
  const std::shared_ptr<const Servable> model = find(models_, spec);
  return infer(*model, signature_name(spec), request.examples, asked.deadline);
}

RpcApi::Inferred RpcApi::infer(const Servable& model, const std::string& name, const std::vector<std::string>& examples,
                               Deadline deadline) {
  const auto signature = model.signatures().find(name);
  if (signature == model.signatures().end())
    throw InvalidArgumentError("No signature was found with the name: " + name);
  if (examples.empty()) throw InvalidArgumentError("Input is empty.");
  return {.outputs = model.run(name, serve::inputs_of(examples, signature->second), deadline),
          .examples = examples.size(),
          .used = used(model, name)};
}

std::string RpcApi::classify(Asked& asked) const {
  const Inferred found = infer_examples(asked);
  return write_classification_response(classes_of(found.outputs, found.examples), found.used);
}

std::string RpcApi::regress(Asked& asked) const {
  const Inferred found = infer_examples(asked);
  return write_regression_response(regressions_of(found.outputs, found.examples), found.used);
}

std::string RpcApi::multi_inference(Asked& asked) const {
  const MultiInferenceRequest request = read_multi_inference_request(asked.bytes);
  std::set<std::string> names;
  for (const InferenceTask& task : request.tasks) {
    const ModelSpec& spec = task.model_spec;
    if (spec.name.empty()) throw InvalidArgumentError("Found ModelSpec with an empty model name.");
    if (spec.name != request.tasks.front().model_spec.name)
      throw InvalidArgumentError("All ModelSpecs in a MultiInferenceRequest must access the same model name.");
    if (!names.insert(signature_name(spec)).second)
      throw InvalidArgumentError("Duplicate evaluation of signature: " + signature_name(spec));
    if (task.method_name != classify_method && task.method_name != regress_method)
      throw UnimplementedError("Unsupported signature method_name: " + task.method_name);
  }
  if (request.tasks.empty()) throw InvalidArgumentError("ModelSpec has no name specified.");
  asked.model = request.tasks.front().model_spec.name;
  // One version for all tasks, though another one may come meanwhile.
  const std::shared_ptr<const Servable> model = find(models_, request.tasks.front().model_spec);
  std::string response;
  for (const InferenceTask& task : request.tasks) {
    const std::string name = signature_name(task.model_spec);
    if (!model->signatures().contains(name))
      throw InvalidArgumentError("Requested signature not found in model graph: " + name);
    const Inferred found = infer(*model, name, request.examples, asked.deadline);
    response += task.method_name == classify_method
                    ? write_inference_result(classes_of(found.outputs, found.examples), found.used)
                    : write_inference_result(regressions_of(found.outputs, found.examples), found.used);
  }
  return response;
}

std::string RpcApi::metadata(std::string_view bytes) const {
  const ModelRequest request = read_model_request(bytes);
  const ModelSpec& spec = required(request.model_spec);
  if (request.metadata_fields.empty())
    throw InvalidArgumentError("GetModelMetadataRequest must specify at least one metadata_field");
  for (const std::string& each : request.metadata_fields)
    if (each != "signature_def") throw InvalidArgumentError("Metadata field " + each + " is not supported");
  const std::shared_ptr<const Servable> model = find(models_, spec);
  return write_metadata_response(model->signatures(), used(*model, ""));
}

std::string RpcApi::status(std::string_view bytes) const {
  const ModelRequest request = read_model_request(bytes);
  const ModelSpec& spec = required(request.model_spec);
  return write_status_response(models_.status(spec.name, spec.choice));
}

std::string RpcApi::reload(std::string_view bytes) const {
  const auto models = read_reload_request(bytes);
  if (!models)
    throw InvalidArgumentError(
        "ServerModelConfig type not supported by HandleReloadConfigRequest. Only ModelConfigList is currently "
        "supported");
  models_.configure(*models);
  models_.look();
  for (const ModelConfig& each : *models) {
    const std::vector<VersionStatus> versions = models_.known(each.name);
    const auto is_served = [](const VersionStatus& version) { return version.state == VersionState::available; };
    if (std::none_of(versions.begin(), versions.end(), is_served))
      throw FailedPreconditionError(
          "The model " + each.name + " has no version that can be served" +
          (versions.empty() || versions.front().message.empty() ? "" : ": " + versions.front().message));
  }
  models_.require_labels();
  return write_reload_response();
}

std::string RpcApi::health(std::string_view bytes) const {
  const std::string service = read_text_request(bytes);
  const bool is_known = service.empty() || service == "tensorflow.serving.PredictionService" ||
                        service == "tensorflow.serving.ModelService";
  if (!is_known) throw NotFoundError("The server has no service " + service);
  return write_health_response(models_.is_ready());
}

}  // namespace tapestry::serve
