#pragma once

#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>

#include "backend/cuda/pieces.hpp"
#include "backend/strided_loop.hpp"

namespace tapestry::gpu {

/// Kernels use 32-bit indices: numbers of elements, and distances between them, are below this.
inline constexpr std::int64_t index_limit = std::int64_t{1} << 31;

/// A loop with the memory of its operands. The axis with the smallest stride of the leading operand is the last.
template <std::size_t most>
struct Loop : StridedLoop<most> {
  using typename StridedLoop<most>::Axis;
  std::array<std::byte*, most> data{};
  std::array<std::int64_t, most> bytes{};  ///< of an element

  /// Loops over the shape of the leading operand, to which the others are broadcast. It has elements.
  Loop(std::span<const View> views, int leader) : StridedLoop<most>(views[leader].shape) {
    for (const View& view : views) {
      data[this->operands] = static_cast<std::byte*>(view.data);
      bytes[this->operands] = view.element_bytes;
      this->add(view.shape, view.stride);
    }
    this->sort_axes([&](const Axis& each) { return std::abs(each.stride[leader]); });
    this->join_axes();
  }

  /// Whether there are fewer than 2^31 elements, and the elements of each operand span less than 2^31.
  bool is_indexable() const {
    bool near = this->elements() < index_limit;
    for (int k = 0; k < this->operands; ++k) near = near && this->span(k) < index_limit;
    return near;
  }

  /// Calls `body` for the loop if `fits(loop)`. Otherwise it halves the loop along the axis with the largest span in
  /// memory, and does the same with both halves.
  template <class Fits, class Body>
  void for_each_piece(const Fits& fits, const Body& body) const {
    if (fits(*this)) return body(*this);
    const auto spread = [&](const Axis& each) {
      std::int64_t farthest = 1;
      for (int k = 0; k < this->operands; ++k) farthest = std::max(farthest, std::abs(each.stride[k]));
      return (each.size - 1) * farthest;
    };
    int widest = 0;
    for (int i = 1; i < this->axes; ++i)
      if (spread(this->axis[i]) > spread(this->axis[widest])) widest = i;
    Loop first = *this, second = *this;
    const Axis& whole = this->axis[widest];
    first.axis[widest].size = whole.size / 2;
    second.axis[widest].size = whole.size - whole.size / 2;
    for (int k = 0; k < this->operands; ++k) second.data[k] += whole.size / 2 * whole.stride[k] * bytes[k];
    first.for_each_piece(fits, body);
    second.for_each_piece(fits, body);
  }
};

/// Writes the axes of a loop as kernels need them, with the strides of the operands k for which `is_located(k)`, in
/// their order.
template <std::size_t most, int arrays, class IsLocated>
void write_layout(const StridedLoop<most>& loop, LayoutOf<arrays>& layout, const IsLocated& is_located) {
  layout.axes = loop.axes;
  for (int i = 0; i < loop.axes; ++i) {
    layout.size[i] = Divider(static_cast<std::uint32_t>(loop.axis[i].size));
    int place = 0;
    for (int k = 0; k < loop.operands; ++k)
      if (is_located(k)) layout.stride[place++][i] = static_cast<std::int32_t>(loop.axis[i].stride[k]);
  }
}

}  // namespace tapestry::gpu
