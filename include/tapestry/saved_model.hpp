#pragma once

#include <string>

#include "tapestry/signature.hpp"

namespace tapestry::saved_model {

/// @addtogroup models
/// @{

/// Writes the part of the graph that the outputs need as `folder`/saved_model.pb, in TensorFlow's SavedModel format.
/// The current values of Variables become constants. The model has the tag "serve" and the signature "serving_default".
/// TensorFlow Serving needs a folder named by the model's version: "models/mnist/1". The folder is created if
/// necessary; the file is written completely or not at all.
///
///     auto predict = tp::trace([&](tp::Tensor x) { return tp::softmax(model(x)); },
///                              {tp::spec(tp::float32, {-1, 784})});
///     tp::saved_model::save("models/mnist/1", {.inputs = {{"images", predict.input()}},
///                                              .outputs = {{"probabilities", predict.output()}}});
///
/// Throws InvalidArgumentError for a signature that has no outputs, or has eager tensors or tensors of several graphs,
/// and for an output that depends on a placeholder that is not an input. Throws UnimplementedError for an output that
/// depends on a change of a Variable, and for what TensorFlow lacks, with the op and the line that created it. Throws
/// NotFoundError or FailedPreconditionError when the folder cannot be written.
TAPESTRY_API void save(const std::string& folder, const Signature& signature, Where where = Where::here());

/// @}

}  // namespace tapestry::saved_model
