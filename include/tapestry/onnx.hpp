#pragma once

#include <string>

#include "tapestry/signature.hpp"

namespace tapestry::onnx {

/// @addtogroup models
/// @{

/// Writes the part of the graph that the outputs need as an ONNX model of opset 18. The current values of Variables
/// become initializers. Known sizes are kept. Unknown sizes get names: the first size of an input is "batch", or
/// "x_batch" if several inputs "x" have an unknown first size, and size i is "x_i". The file is written completely or
/// not at all. Branches become `If`, loops `Loop` or `Scan`, whose functions must not change Variables.
///
///     auto predict = tp::trace([&](tp::Tensor x) { return tp::softmax(model(x)); },
///                              {tp::spec(tp::float32, {-1, 784})});
///     tp::onnx::save("model.onnx", {.inputs = {{"images", predict.input()}},
///                                   .outputs = {{"scores", predict.output()}}});
///
/// Throws InvalidArgumentError for a signature that has no outputs, has eager tensors or tensors of several graphs, or
/// uses one name twice, and for an output that depends on a placeholder that is not an input. Throws UnimplementedError
/// for a model of 2 GiB or more, and for what ONNX lacks, with the op and the line that created it. Throws
/// FailedPreconditionError for a Variable without a value, and NotFoundError or FailedPreconditionError when the file
/// cannot be written.
TAPESTRY_API void save(const std::string& path, const Signature& signature, Where where = Where::here());

/// @}

}  // namespace tapestry::onnx
