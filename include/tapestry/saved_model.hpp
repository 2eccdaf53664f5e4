#pragma once

#include <string>

#include "tapestry/signature.hpp"

namespace tapestry::saved_model {

/// @addtogroup models
/// @{

/// Writes the part of the graph that the outputs need as `folder`/saved_model.pb, TensorFlow's SavedModel, with the
/// values that Variables have now as constants, under the tag "serve" and the signature "serving_default". TensorFlow
/// Serving wants it in a folder named by the model's version: "models/mnist/1". The folder is made; the file appears
/// whole or not at all.
///
///     auto predict = tp::trace([&](tp::Tensor x) { return tp::softmax(model(x)); },
///                              {tp::spec(tp::float32, {-1, 784})});
///     tp::saved_model::save("models/mnist/1", {.inputs = {{"images", predict.input()}},
///                                              .outputs = {{"probabilities", predict.output()}}});
///
/// Throws InvalidArgumentError for a signature without outputs, of eager tensors or of several graphs, and for an
/// output that depends on a placeholder that is no input; UnimplementedError, with the op and the line that made it,
/// for what TensorFlow lacks and for an output behind a change of a Variable; NotFoundError or FailedPreconditionError
/// when the folder cannot be written.
TAPESTRY_API void save(const std::string& folder, const Signature& signature, Where where = Where::here());

/// @}

}  // namespace tapestry::saved_model
