#pragma once

#include <cstdint>
#include <unordered_map>

#include "graph/graph_state.hpp"

namespace tapestry::detail {

/// The results of a node for these inputs, of which those have values that the op reads; empty when it throws.
Tensors evaluate(const Node& node, const Tensors& inputs);

/// What is known beforehand of the small tensors of a graph: what follows from constants and from sizes. So it is with
/// most shapes, axes and the like that a graph computes.
class KnownValues {
 public:
  /// Stands in a value for an element that depends on a size which is not known: no size or axis, and no number that
  /// anybody writes, is this one.
  static constexpr std::int32_t unknown_element = -1734967297;

  /// Computes the outputs of a node from what was noted of its inputs. The graph's nodes come in their order.
  void note(const Node& node);
  /// A constant's value, or what was noted; an empty handle when nothing is known. Of whole numbers some elements may
  /// be `unknown_element`.
  Tensor find(const Tensor& tensor) const;
  /// The same, if all elements are known.
  Tensor find_complete(const Tensor& tensor) const;
  /// For a tensor whose value has become an attribute: whatever it was computed from may not be fed any more.
  static void prevent_feeding(const Tensor& known);

 private:
  std::unordered_map<std::int64_t, Tensor> values_;  ///< by the tensor's id
};

}  // namespace tapestry::detail
