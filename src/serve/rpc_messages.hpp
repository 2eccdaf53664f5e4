#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/examples.hpp"
#include "serve/model_store.hpp"

/// The messages of TensorFlow Serving's gRPC services, in protobuf's wire format. Readers throw InvalidArgumentError
/// for bytes that are no such message.

namespace tapestry::serve {

/// Which model a request asks.
struct ModelSpec {
  std::string name{};
  VersionChoice choice{};
  std::string signature{};
};

struct PredictRequest {
  std::optional<ModelSpec> model_spec{};
  std::map<std::string, std::string_view> inputs{};  ///< TensorProtos, where they lie in the request
  std::vector<std::string> output_filter{};          ///< none: all outputs
};
PredictRequest read_predict_request(std::string_view bytes);

/// ClassificationRequest and RegressionRequest.
struct ExamplesRequest {
  std::optional<ModelSpec> model_spec{};
  std::vector<std::string> examples{};  ///< tf.Examples, with the features of their context
};
ExamplesRequest read_examples_request(std::string_view bytes);

struct InferenceTask {
  ModelSpec model_spec{};
  std::string method_name{};  ///< "tensorflow/serving/classify"
};
struct MultiInferenceRequest {
  std::vector<InferenceTask> tasks{};
  std::vector<std::string> examples{};
};
MultiInferenceRequest read_multi_inference_request(std::string_view bytes);

/// A request that was kept to be run again. The numbers are those of TensorFlow Serving's fields.
struct PredictionLog {
  enum class Kind {
    none = 0,
    classify = 2,
    regress = 3,
    multi_inference = 4,
    session_run = 5,
    predict = 6,
    predict_streamed = 7
  };
  Kind kind = Kind::none;
  std::string_view request{};  ///< where it lies in the log
};
PredictionLog read_prediction_log(std::string_view bytes);
/// `used`: the model, the version and the signature that have answered.
std::string write_prediction_log(PredictionLog::Kind kind, const ModelSpec& used, double sampling_rate,
                                 std::string_view request, std::string_view response);
/// Requests as a client would write them.
/// @{
std::string write_predict_request(const NamedValues& inputs, const ModelSpec& model_spec);
std::string write_examples_request(const std::vector<std::string>& examples, const ModelSpec& model_spec);
/// @}

/// GetModelMetadataRequest and GetModelStatusRequest.
struct ModelRequest {
  std::optional<ModelSpec> model_spec{};
  std::vector<std::string> metadata_fields{};
};
ModelRequest read_model_request(std::string_view bytes);

/// The models of a ReloadConfigRequest; nothing if it has another kind of configuration.
std::optional<std::vector<ModelConfig>> read_reload_request(std::string_view bytes);

/// Field 1 of a message of one string, such as the request of gRPC's health service.
std::string read_text_request(std::string_view bytes);

/// @name The bytes of answers
/// @{
std::string write_predict_response(const NamedValues& outputs, const ModelSpec& model_spec);
std::string write_classification_response(const std::vector<Classes>& results, const ModelSpec& model_spec);
std::string write_regression_response(const std::vector<float>& results, const ModelSpec& model_spec);
/// `InferenceResult`, one of MultiInferenceResponse's; the response is these, one behind the other.
std::string write_inference_result(const std::vector<Classes>& results, const ModelSpec& model_spec);
std::string write_inference_result(const std::vector<float>& results, const ModelSpec& model_spec);
std::string write_metadata_response(const std::map<std::string, SignatureInfo>& signatures,
                                    const ModelSpec& model_spec);
std::string write_status_response(const std::vector<VersionStatus>& versions);
/// ReloadConfigResponse without an error.
std::string write_reload_response();
/// gRPC's HealthCheckResponse.
std::string write_health_response(bool serves);
/// @}

}  // namespace tapestry::serve
