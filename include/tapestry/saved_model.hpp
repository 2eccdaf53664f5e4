#pragma once

#include <string>
#include <vector>

#include "tapestry/model.hpp"

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

/// Which of the graphs of a SavedModel is read.
struct LoadOptions {
  std::vector<std::string> tags = {"serve"};  ///< exactly these tags, in any order
};

/// Reads the SavedModel in a folder, of TensorFlow 1 or 2: the graph with these tags, its signatures, and the values of
/// its Variables from `folder`/variables. A call of a function becomes the function's nodes, which are named
/// "call/node". The nodes that restore and save the Variables are left out. Variables are trainable as the file says;
/// those of integers or bools never are.
///
///     tp::Model model = tp::saved_model::load("export/1");
///     tp::Tensor y = model({{"x", tp::tensor<float>({{1, 2}})}})[0];
///
/// Signatures with sparse or composite tensors are left out. Ops and types that Tapestry lacks do no harm until a
/// call needs them. Operations that initialize tables are not run.
///
/// Throws NotFoundError when there is no such model, none with these tags (with the tags that there are), or no
/// checkpoint for Variables that need one; InvalidArgumentError for a file of another kind; DataLossError for a damaged
/// file; ResourceExhaustedError for a model that exceeds the limits, which the graph keeps.
TAPESTRY_API Model load(const std::string& folder, const LoadOptions& options = {}, const GraphLimits& limits = {},
                        Where where = Where::here());

/// Writes a model with all its signatures and its Variables: the values become `folder`/variables, a checkpoint of
/// TensorFlow's, and the rest `folder`/saved_model.pb, with the tag "serve". Only what the signatures need is written,
/// including changes of Variables. TensorFlow 1 and 2 read the model, with trainable Variables; one with an operation
/// that initializes tables is a model of TensorFlow 1 only.
///
/// Throws FailedPreconditionError for a Variable without a value and when the folder cannot be written, and what the
/// `save` of a signature throws, but it does write changes of Variables.
TAPESTRY_API void save(const std::string& folder, const Model& model, Where where = Where::here());

/// @}

}  // namespace tapestry::saved_model
