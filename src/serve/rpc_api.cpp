#include "serve/rpc_api.hpp"

#include <new>

#include "serve/inference.hpp"
#include "serve/request_log.hpp"
#include "serve/rest.hpp"

namespace tapestry::serve {
namespace {

const ModelSpec& required(const std::optional<ModelSpec>& spec) {
  if (!spec) throw InvalidArgumentError("Missing ModelSpec");
  return *spec;
}

std::shared_ptr<const Servable> find(const ModelStore& models, const ModelSpec& spec) {
  if (spec.name.empty()) throw InvalidArgumentError("ModelSpec has no name specified.");
  return models.find(spec.name, spec.choice);
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

std::shared_ptr<const Servable> RpcApi::model_of(const std::optional<ModelSpec>& spec, Asked& asked) const {
  asked.model = required(spec).name;
  return find(models_, *spec);
}

std::string RpcApi::predict(Asked& asked) const {
  const PredictRequest request = read_predict_request(asked.bytes);
  const std::shared_ptr<const Servable> model = model_of(request.model_spec, asked);
  std::string reply = serve::predict(*model, request, asked.deadline);
  log(PredictionLog::Kind::predict, asked, used(*model, request.model_spec), reply);
  return reply;
}

std::string RpcApi::classify(Asked& asked) const {
  const ExamplesRequest request = read_examples_request(asked.bytes);
  const std::shared_ptr<const Servable> model = model_of(request.model_spec, asked);
  std::string reply = serve::classify(*model, request, asked.deadline);
  log(PredictionLog::Kind::classify, asked, used(*model, request.model_spec), reply);
  return reply;
}

std::string RpcApi::regress(Asked& asked) const {
  const ExamplesRequest request = read_examples_request(asked.bytes);
  const std::shared_ptr<const Servable> model = model_of(request.model_spec, asked);
  std::string reply = serve::regress(*model, request, asked.deadline);
  log(PredictionLog::Kind::regress, asked, used(*model, request.model_spec), reply);
  return reply;
}

std::string RpcApi::multi_inference(Asked& asked) const {
  const MultiInferenceRequest request = read_multi_inference_request(asked.bytes);
  require_tasks(request);
  // One version for all tasks, though another one may come meanwhile.
  const ModelSpec& first = request.tasks.front().model_spec;
  const std::shared_ptr<const Servable> model = model_of(first, asked);
  std::string reply = serve::multi_inference(*model, request, asked.deadline);
  log(PredictionLog::Kind::multi_inference, asked, used(*model, first), reply);
  return reply;
}

void RpcApi::log(PredictionLog::Kind kind, const Asked& asked, const ModelSpec& used, std::string_view reply) const {
  const std::shared_ptr<RequestLog> log = models_.request_log(asked.model);
  if (log && log->is_due()) log->write(kind, used, asked.bytes, reply);
}

std::string RpcApi::metadata(std::string_view bytes) const {
  const ModelRequest request = read_model_request(bytes);
  const ModelSpec& spec = required(request.model_spec);
  if (request.metadata_fields.empty())
    throw InvalidArgumentError("GetModelMetadataRequest must specify at least one metadata_field");
  for (const std::string& each : request.metadata_fields)
    if (each != "signature_def") throw InvalidArgumentError("Metadata field " + each + " is not supported");
  const std::shared_ptr<const Servable> model = find(models_, spec);
  return write_metadata_response(
      model->signatures(),
      {.name = model->name(), .choice = {.version = model->version(), .label = {}}, .signature = {}});
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
  models_.configure_by_client(*models);
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
