#pragma once

#include <string>

#include "tapestry/signature.hpp"

namespace tapestry::onnx {

/// @addtogroup models
/// @{

/// Writes the part of the graph that the outputs need as an ONNX model, of opset 18, with the values that Variables
/// have now as initializers. What the graph knows of sizes is kept; those that it does not know have names: the first
/// size of an input is "batch", or "x_batch" where several inputs "x" have such, and size i is "x_i". The file appears
/// whole or not at all.
///
///     auto predict = tp::trace([&](tp::Tensor x) { return tp::softmax(model(x)); },
///                              {tp::spec(tp::float32, {-1, 784})});
///     tp::onnx::save("model.onnx", {.inputs = {{"images", predict.input()}},
///                                   .outputs = {{"scores", predict.output()}}});
///
/// Throws InvalidArgumentError for a signature without outputs, of eager tensors or of several graphs, with one name
/// twice, and for an output that depends on a placeholder that is no input; UnimplementedError, with the op and the
/// line that made it, for what ONNX lacks, and for a model of 2 GiB or more; FailedPreconditionError for a Variable
/// without a value; NotFoundError or FailedPreconditionError when the file cannot be written.
TAPESTRY_API void save(const std::string& path, const Signature& signature, Where where = Where::here());

/// @}

}  // namespace tapestry::onnx
