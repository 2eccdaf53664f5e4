#pragma once

#include <string>
#include <string_view>

#include "serve/metrics.hpp"
#include "serve/rpc_messages.hpp"

namespace tapestry::serve {

/// TensorFlow Serving's gRPC services, PredictionService and ModelService, and gRPC's service of health, with their
/// answers. It has no part of gRPC's own, such as connections: messages are bytes.
class RpcApi {
 public:
  RpcApi(ModelStore& models, Metrics& metrics) : models_(models), metrics_(metrics) {}

  /// The reply to a method, such as "/tensorflow.serving.PredictionService/Predict". Throws the error that the client
  /// gets.
  std::string answer(std::string_view method, std::string_view request, Deadline deadline) const;

 private:
  /// A request, and the model that it asks as soon as that is known.
  struct Asked;
  std::string handle(Asked& asked) const;
  std::shared_ptr<const Servable> model_of(const std::optional<ModelSpec>& spec, Asked& asked) const;
  std::string predict(Asked& asked) const;
  std::string classify(Asked& asked) const;
  std::string regress(Asked& asked) const;
  std::string multi_inference(Asked& asked) const;
  /// Writes what was asked and answered into the log of the model's requests, if it has one.
  void log(PredictionLog::Kind kind, const Asked& asked, const ModelSpec& used, std::string_view reply) const;
  std::string metadata(std::string_view bytes) const;
  std::string status(std::string_view bytes) const;
  std::string reload(std::string_view bytes) const;
  std::string health(std::string_view bytes) const;

  ModelStore& models_;
  Metrics& metrics_;
};

}  // namespace tapestry::serve
