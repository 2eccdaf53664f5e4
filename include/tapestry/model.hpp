#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tapestry/detail/handle.hpp"
#include "tapestry/session.hpp"
#include "tapestry/signature.hpp"
#include "tapestry/trace.hpp"

namespace tapestry::detail {
struct SavedModelExtras;
}

namespace tapestry {

/// @addtogroup models
/// @{

/// A graph with signatures, by which it is called as a function: a model from a file, or the part of a program's graph
/// that is to be written to one. Copies are handles to the same model.
///
///     tp::Model model = tp::saved_model::load("export/1");
///     tp::Tensor scores = model({{"images", x}})[0];
///
/// It is called by one of its signatures: "serving_default" if it has one, else the first one.
class TAPESTRY_API Model {
 public:
  /// The model of this signature alone, as "serving_default". Throws InvalidArgumentError for a signature that has no
  /// outputs, or has eager tensors or tensors of several graphs.
  explicit Model(const Signature& signature, Where where = Where::here());

  /// What a file tells of its model.
  struct Parts {
    Graph graph = {};                                  ///< computes all signatures
    std::map<std::string, Signature> signatures = {};  ///< of tensors of the graph
    std::string called = {};                           ///< the signature by which the model is called
    std::vector<std::string> inputs = {};              ///< the names of its inputs in order; by default sorted
    std::vector<std::string> outputs = {};             ///< the names of its outputs in order; by default sorted
    /// What else a SavedModel has; empty for other formats.
    std::shared_ptr<const detail::SavedModelExtras> extras = {};
  };
  /// For readers of files.
  explicit Model(Parts parts);

  /// The results of the model for these values, in the order of `outputs()`. The feeds name inputs, or are the input
  /// tensors themselves; every input of the signature needs a value of its dtype (literals take it) and of a shape that
  /// fits. The model's Variables are read, and changed if the signature changes them.
  ///
  /// While a GradientTape records, the tape sees all ops, so that it differentiates the results by the values and by
  /// the parameters. A symbolic value, or an open graph, gets the ops into that graph.
  ///
  /// Throws InvalidArgumentError for a missing or unknown input, and for a value that does not fit; UnimplementedError
  /// for ops that Tapestry lacks; FailedPreconditionError for a model without signatures, and for a Variable without a
  /// value.
  std::vector<Tensor> operator()(const Feeds& feeds, Where where = Where::here()) const;

  /// The inputs and the outputs by which the model is called, with dtype and shape; -1 is any size. They are sorted by
  /// name, or in the order of the file where a format has one.
  /// @{
  std::vector<TensorSpec> inputs() const;
  std::vector<TensorSpec> outputs() const;
  /// @}
  /// The trainable Variables that the outputs of any signature depend on, in the order of the graph.
  std::vector<Variable> parameters() const;
  /// The signature by which the model is called. Throws FailedPreconditionError for a model without signatures.
  const Signature& signature(Where where = Where::here()) const;
  /// All signatures by their names.
  const std::map<std::string, Signature>& signatures() const;
  /// The same model, called by another of its signatures. Throws NotFoundError, with the names that there are.
  Model signature(std::string_view name, Where where = Where::here()) const;
  /// The graph of the model. Its tensors have the names of the file.
  Graph graph() const;
  /// What a SavedModel has beside its graph and its signatures, for writers of that format.
  const std::shared_ptr<const detail::SavedModelExtras>& extras() const;

 private:
  struct State;
  explicit Model(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  detail::Handle<const State> state_;
};

/// @}

}  // namespace tapestry
