#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "tapestry/tensor.hpp"

namespace tapestry {

using Strides = std::array<std::int64_t, Shape::max_rank>;

/// The stride of an operand along axis i of a shape of `rank` axes to which it is broadcast; 0 where it is repeated.
inline std::int64_t broadcast_stride(const Shape& operand, const Strides& strides, int rank, int i) {
  const int own = i - rank + operand.rank();
  return own < 0 || operand.sizes()[own] == 1 ? 0 : strides[own];
}

/// A nested loop over the elements of up to `most` operands. It begins with the axes of a shape to which the operands
/// are broadcast; `join_axes` leaves as few of them as possible.
template <std::size_t most>
struct StridedLoop {
  struct Axis {
    std::int64_t size;
    std::array<std::int64_t, most> stride;  ///< of each operand, in elements; 0 where it is broadcast
  };
  // Not initialised: this would take longer than a small program takes to run.
  std::array<Axis, Shape::max_rank> axis;  ///< the outermost first
  int axes = 0, operands = 0;

  StridedLoop() = default;
  explicit StridedLoop(const Shape& shape) : axes(shape.rank()) {
    for (int i = 0; i < axes; ++i) axis[i].size = shape.sizes()[i];
  }

  /// Adds an operand that is broadcast to the shape. All operands are added before the axes change.
  void add(const Shape& shape, const Strides& strides) {
    for (int i = 0; i < axes; ++i) axis[i].stride[operands] = broadcast_stride(shape, strides, axes, i);
    ++operands;
  }
  void add(const Tensor& tensor) { add(tensor.impl().shape, tensor.impl().strides); }

  std::int64_t elements() const {
    std::int64_t count = 1;
    for (int i = 0; i < axes; ++i) count *= axis[i].size;
    return count;
  }
  /// The distance, in elements, between an operand's lowest and highest addresses.
  std::int64_t span(int operand) const {
    std::int64_t sum = 0;
    for (int i = 0; i < axes; ++i) sum += (axis[i].size - 1) * std::abs(axis[i].stride[operand]);
    return sum;
  }
  Axis& last() { return axis[axes - 1]; }
  const Axis& last() const { return axis[axes - 1]; }

  /// Sorts the axes by a distance, the largest first. The sort is stable.
  template <class Distance>
  void sort_axes(const Distance& distance) {
    for (int i = 1; i < axes; ++i)
      for (int k = i; k > 0 && distance(axis[k - 1]) < distance(axis[k]); --k) std::swap(axis[k - 1], axis[k]);
  }

  /// Drops the axes of size 1, and merges adjacent axes along which all operands continue without a gap.
  void join_axes() {
    const int before = axes;
    axes = 0;
    for (int i = 0; i < before; ++i) {
      if (axis[i].size == 1) continue;
      std::int64_t size = axis[i].size;
      if (axes > 0 && continues(last(), axis[i])) size *= axis[--axes].size;
      Axis& kept = axis[axes++];
      for (int k = 0; k < operands; ++k) kept.stride[k] = axis[i].stride[k];
      kept.size = size;
    }
  }

  /// Adds outer axes of size 1 until there are `count` axes.
  void pad_axes(int count) {
    for (; axes < count; ++axes) {
      std::copy_backward(axis.begin(), axis.begin() + axes, axis.begin() + axes + 1);
      axis[0].size = 1;
      std::fill_n(axis[0].stride.begin(), operands, 0);
    }
  }

 private:
  bool continues(const Axis& outer, const Axis& inner) const {
    for (int k = 0; k < operands; ++k)
      if (outer.stride[k] != inner.stride[k] * inner.size) return false;
    return true;
  }
};

}  // namespace tapestry
