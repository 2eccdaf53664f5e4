#pragma once

#include <optional>
#include <string>

#include "serve/rpc_messages.hpp"

namespace tapestry::serve {

/// The answers of one version of a model to the requests of TensorFlow Serving's PredictionService, as the bytes of its
/// messages. The model that a request names is not looked at. They throw InvalidArgumentError and
/// FailedPreconditionError for requests that do not fit the signature, and what `Servable::run` throws.
/// @{
std::string predict(const Servable& model, const PredictRequest& request, Deadline deadline);
std::string classify(const Servable& model, const ExamplesRequest& request, Deadline deadline);
std::string regress(const Servable& model, const ExamplesRequest& request, Deadline deadline);
/// The request has passed `require_tasks`.
std::string multi_inference(const Servable& model, const MultiInferenceRequest& request, Deadline deadline);
/// @}

/// What an answer says of the model: the version and the signature that were used.
ModelSpec used(const Servable& model, const std::string& signature);
ModelSpec used(const Servable& model, const std::optional<ModelSpec>& asked);

/// Throws InvalidArgumentError unless the tasks name one model and different signatures, and UnimplementedError for a
/// task that neither classifies nor regresses.
void require_tasks(const MultiInferenceRequest& request);

}  // namespace tapestry::serve
