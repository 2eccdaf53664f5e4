#pragma once

#include <functional>
#include <vector>

#include "tapestry/op.hpp"

namespace tapestry {

/// @addtogroup extending
/// @{

/// A call for all examples of a batch at once: an argument of an op's `batch` function.
class TAPESTRY_API BatchedCall {
 public:
  /// Applies a function of one example to all: it takes the inputs, whether each has a batch (at least one has), and a
  /// call site, and returns outputs that all have a batch.
  using Vmap = Tensors (*)(const std::function<Tensors(const Tensors&)>&, const Tensors&, const std::vector<bool>&,
                           Where);

  /// A call with inputs for `count` examples. Those that have a batch have its axis in front; the examples share the
  /// others. All have a rank. `one` must outlive it.
  BatchedCall(const Call& one, Tensors inputs, std::vector<bool> has_batch, Dimension count, Vmap map);

  /// The call for one example: its attributes, and inputs and outputs that have the dtypes and shapes of one example,
  /// but no elements.
  const Call& one() const { return one_; }
  /// Input i of all examples.
  const Tensor& input(std::size_t i) const { return inputs_[i]; }
  /// Whether input i has a batch.
  bool has_batch(std::size_t i) const { return has_batch_[i]; }
  /// The same for each input.
  const std::vector<bool>& has_batch() const { return has_batch_; }
  /// The number of inputs.
  std::size_t size() const { return inputs_.size(); }
  /// The rank of input i for one example.
  int rank(std::size_t i) const;
  /// The number of examples.
  Dimension count() const { return count_; }
  /// The axis of the batch in front of the axes of a shape.
  Shape with_batch(const Shape& shape) const;

  /// Input i, or all inputs, with the axis of the batch in front, along which an input that has no batch is broadcast.
  /// @{
  Tensor all(std::size_t i) const;
  Tensors all() const;
  /// @}
  /// Input i so that it broadcasts, as it does for one example, against inputs of that rank: behind the axis of the
  /// batch it has axes of size 1 if it has fewer. An input that has no batch stays as it is.
  Tensor aligned(std::size_t i, int rank) const;
  /// The op on other inputs, with other attributes.
  Tensors apply(const Tensors& inputs, const Attrs& attrs) const;
  /// What applies other functions to all examples.
  Vmap vmap() const { return vmap_; }

 private:
  const Call& one_;
  Tensors inputs_;
  std::vector<bool> has_batch_;
  Dimension count_;
  Vmap vmap_;
};

/// @}

}  // namespace tapestry
