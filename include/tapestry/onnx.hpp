#pragma once

#include <string>

#include "tapestry/model.hpp"

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
/// The same for the signature by which a model is called. Its inputs and outputs keep their order.
TAPESTRY_API void save(const std::string& path, const Model& model, Where where = Where::here());

/// Reads an ONNX model, of opset 1 to 23. Its inputs and outputs are called by their names in the file, and are in its
/// order; initializers of floats become Variables, so that a tape, or a graph, trains the model. (ONNX does not tell
/// what is trained: scalars, statistics of normalizations, and numbers that tell axes, sizes and the like are
/// constants. A file of Tapestry's own does tell.) Images have their channels first, as ONNX has them.
///
///     tp::Model model = tp::onnx::load("resnet18.onnx");
///     tp::Tensor scores = model({{"input", x}})[0];
///
/// Branches and loops become those of Tapestry, and calls of the model's own functions become their nodes. Elements of
/// tensors may be in other files in the model's folder, and in no other folder. Ops and types that Tapestry lacks do no
/// harm until a call needs them.
///
/// Throws NotFoundError when there is no such file, InvalidArgumentError for a file of another kind and for a graph
/// that is not consistent, DataLossError for a damaged file, and ResourceExhaustedError for a model that exceeds the
/// limits, which its graph keeps.
TAPESTRY_API Model load(const std::string& path, const GraphLimits& limits = {}, Where where = Where::here());

/// @}

}  // namespace tapestry::onnx
