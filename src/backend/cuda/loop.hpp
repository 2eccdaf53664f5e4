#pragma once

#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>

#include "backend/cuda/pieces.hpp"

namespace tapestry::gpu {

/// Up to `most` arrays of which a kernel goes over the elements together, and the axes that they share: as few as
/// possible, the leading array's nearest neighbours last.
template <std::size_t most>
struct Loop {
  struct Axis {
    std::int64_t size = 1;
    std::array<std::int64_t, most> stride{};  ///< 0 where an array is broadcast
  };
  std::array<Axis, Shape::max_rank> axis;
  std::size_t axes = 0, arrays = 0;
  std::array<std::byte*, most> data{};
  std::array<std::int64_t, most> bytes{};  ///< of an element

  /// Over the shape of the leading array, to which the others are broadcast; it has elements.
  Loop(std::span<const View> views, std::size_t leader) : arrays(views.size()) {
    for (std::size_t k = 0; k < arrays; ++k) {
      data[k] = static_cast<std::byte*>(views[k].data);
      bytes[k] = views[k].element_bytes;
    }
    const Shape& shape = views[leader].shape;
    for (int i = 0; i < shape.rank(); ++i)
      if (shape.sizes()[i] != 1) axis[axes++] = common_axis(views, shape, i);
    const auto farther = [&](const Axis& a, const Axis& b) {
      return std::abs(a.stride[leader]) > std::abs(b.stride[leader]);
    };
    std::stable_sort(axis.begin(), axis.begin() + static_cast<std::ptrdiff_t>(axes), farther);
    join_axes();
  }

  std::int64_t count() const {
    std::int64_t n = 1;
    for (std::size_t i = 0; i < axes; ++i) n *= axis[i].size;
    return n;
  }
  /// Whether there are less than 2^31 elements, none of them farther than that from its array's first.
  bool is_indexable() const {
    bool near = count() < index_limit;
    for (std::size_t k = 0; k < arrays; ++k) near = near && span(k) < index_limit;
    return near;
  }

  /// Calls `body` for the loop if `fits(loop)`, and otherwise for parts of it that do: it is halved along the axis that
  /// spreads its elements most.
  template <class Fits, class Body>
  void for_each_piece(const Fits& fits, const Body& body) const {
    if (fits(*this)) return body(*this);
    const auto spread = [&](const Axis& each) {
      std::int64_t farthest = 1;
      for (std::size_t k = 0; k < arrays; ++k) farthest = std::max(farthest, std::abs(each.stride[k]));
      return (each.size - 1) * farthest;
    };
    std::size_t widest = 0;
    for (std::size_t i = 1; i < axes; ++i)
      if (spread(axis[i]) > spread(axis[widest])) widest = i;
    Loop first = *this, second = *this;
    const Axis& whole = axis[widest];
    first.axis[widest].size = whole.size / 2;
    second.axis[widest].size = whole.size - whole.size / 2;
    for (std::size_t k = 0; k < arrays; ++k) second.data[k] += whole.size / 2 * whole.stride[k] * bytes[k];
    first.for_each_piece(fits, body);
    second.for_each_piece(fits, body);
  }

 private:
  static constexpr std::int64_t index_limit = std::int64_t{1} << 31;

  /// How far the elements of an array are apart.
  std::int64_t span(std::size_t array) const {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < axes; ++i) sum += (axis[i].size - 1) * std::abs(axis[i].stride[array]);
    return sum;
  }

  static Axis common_axis(std::span<const View> views, const Shape& shape, int i) {
    Axis result{.size = shape.sizes()[i], .stride = {}};
    for (std::size_t k = 0; k < views.size(); ++k) {
      const int j = i - shape.rank() + views[k].shape.rank();
      if (j >= 0 && views[k].shape.sizes()[j] != 1) result.stride[k] = views[k].stride[static_cast<std::size_t>(j)];
    }
    return result;
  }

  void join_axes() {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < axes; ++i) {
      const Axis inner = axis[i];
      const auto joins = [&](const Axis& outer) {
        for (std::size_t k = 0; k < arrays; ++k)
          if (outer.stride[k] != inner.stride[k] * inner.size) return false;
        return true;
      };
      if (kept > 0 && joins(axis[kept - 1])) {
        axis[kept - 1] = {axis[kept - 1].size * inner.size, inner.stride};
      } else {
        axis[kept++] = inner;
      }
    }
    axes = kept;
  }
};

/// The axes of a loop as kernels need them, of the arrays that `is_located(k)` names, in their order.
template <std::size_t most, int arrays, class IsLocated>
void write_layout(const Loop<most>& loop, LayoutOf<arrays>& layout, const IsLocated& is_located) {
  layout.axes = static_cast<int>(loop.axes);
  for (std::size_t i = 0; i < loop.axes; ++i) {
    layout.size[i] = Divider(static_cast<std::uint32_t>(loop.axis[i].size));
    int place = 0;
    for (std::size_t k = 0; k < loop.arrays; ++k)
      if (is_located(k)) layout.stride[place++][i] = static_cast<std::int32_t>(loop.axis[i].stride[k]);
  }
}

}  // namespace tapestry::gpu
