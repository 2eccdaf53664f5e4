#pragma once

#include <cstdint>
#include <unordered_map>

#include "graph/graph_state.hpp"

namespace tapestry::detail {

/// The results of a node for these inputs; empty if the op throws. Inputs whose elements the op reads must have values.
Tensors evaluate(const Node& node, const Tensors& inputs);

/// The values of small tensors of a graph that follow from constants and sizes, as those of most computed shapes and
/// axes do.
class TAPESTRY_API KnownValues {
 public:
  /// Marks an element that depends on an unknown size. No size or axis has this value, and programs are assumed not to
  /// use it.
  static constexpr std::int32_t unknown_element = -1734967297;

  /// Notes the value of a tensor, of any size.
  void note(const Tensor& tensor, const Tensor& value) { given_.insert_or_assign(tensor.id(), value); }
  /// Computes the outputs of a node from the values noted for its inputs. Nodes must come in the graph's order.
  void note(const Node& node);
  /// The value of a constant, or the one that was noted; an empty handle if neither is known. Some elements of an
  /// integer tensor may be `unknown_element`.
  Tensor find(const Tensor& tensor) const;
  /// The same, but an empty handle unless all elements are known.
  Tensor find_complete(const Tensor& tensor) const;
  /// Notes that the value of a tensor has become an attribute (`GraphState::absorbed`), and so have those from which it
  /// was computed.
  static void absorb(const Tensor& known);

 private:
  std::unordered_map<std::int64_t, Tensor> given_;   ///< by the tensor's id, as are the following
  std::unordered_map<std::int64_t, Tensor> values_;  ///< that were computed
};

}  // namespace tapestry::detail
