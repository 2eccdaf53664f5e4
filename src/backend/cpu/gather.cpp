#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "backend/cpu/cpu_backend.hpp"
#include "backend/cpu/threads.hpp"
#include "backend/place.hpp"
#include "core/make_tensor.hpp"

namespace tapestry::host {
namespace {

constexpr std::int64_t task_elements = 32768;

/// The products of a tensor's sizes before and behind some of its axes.
struct Lines {
  std::int64_t outer = 1, inner = 1;
};
Lines lines_around(const Shape& shape, int axis, int axes = 1) {
  Lines lines;
  for (int i = 0; i < axis; ++i) lines.outer *= shape.sizes()[i];
  for (int i = axis + axes; i < shape.rank(); ++i) lines.inner *= shape.sizes()[i];
  return lines;
}

/// An array of int64. More than a few are in memory of the backend's allocator, which is faster than the heap.
class Positions {
 public:
  explicit Positions(std::int64_t count) : size_(static_cast<std::size_t>(count)) {
    if (size_ > few_.size()) memory_ = detail::make_tensor(DType::int64, {count}, cpu());
  }
  std::size_t size() const { return size_; }
  std::int64_t* begin() { return memory_ ? detail::mutable_data<std::int64_t>(memory_) : few_.data(); }
  const std::int64_t* begin() const { return const_cast<Positions*>(this)->begin(); }
  std::int64_t& operator[](std::size_t i) { return begin()[i]; }
  const std::int64_t& operator[](std::size_t i) const { return begin()[i]; }

 private:
  std::size_t size_;
  std::array<std::int64_t, 32> few_;
  Tensor memory_{};
};

Positions whole_numbers(Backend& backend, const Tensor& indices) {
  const Tensor plain = backend.contiguous(indices);
  Positions numbers(plain.size());
  if (plain.dtype() == DType::int32) {
    std::copy_n(static_cast<const std::int32_t*>(plain.impl().data), plain.size(), numbers.begin());
  } else {
    std::copy_n(static_cast<const std::int64_t*>(plain.impl().data), plain.size(), numbers.begin());
  }
  return numbers;
}

/// The indices into an axis of `size` elements. Throws InvalidArgumentError for an index outside of it.
Positions checked(Backend& backend, const Tensor& indices, std::int64_t size) {
  Positions numbers = whole_numbers(backend, indices);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (numbers[i] < 0 || numbers[i] >= size)
      throw InvalidArgumentError(detail::join("indices", place_in(indices.shape(), static_cast<std::int64_t>(i)), " = ",
                                              numbers[i], " is not in [0, ", size, ")"));
  return numbers;
}

/// The flat positions, in the leading dimensions of `shape`, of the coordinates in the last axis of `indices`. Throws
/// InvalidArgumentError for coordinates outside of the shape.
Positions checked_coordinates(Backend& backend, const Tensor& indices, const Shape& shape, std::string_view what) {
  const Positions numbers = whole_numbers(backend, indices);
  const auto depth = static_cast<std::size_t>(indices.shape().sizes().back());
  Shape leading = indices.shape();
  leading.erase(leading.rank() - 1);
  Positions positions(leading.size());
  std::fill_n(positions.begin(), leading.size(), 0);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    bool inside = true;
    for (std::size_t d = 0; d < depth; ++d) {
      const std::int64_t size = shape.sizes()[static_cast<int>(d)], index = numbers[i * depth + d];
      inside = inside && index >= 0 && index < size;
      positions[i] = positions[i] * size + (inside ? index : 0);
    }
    if (!inside) {
      std::string text;
      for (std::size_t d = 0; d < depth; ++d) text += (d > 0 ? ", " : "") + std::to_string(numbers[i * depth + d]);
      throw InvalidArgumentError(detail::join("indices", place_in(leading, static_cast<std::int64_t>(i)), " = [", text,
                                              "] does not index into ", what, " ", shape));
    }
  }
  return positions;
}

/// y[o, j, :] = x[o, positions[j], :], with slices of `inner` elements; x's axis has `size` elements.
void gather_slices(const Tensor& x, std::int64_t size, const Positions& positions, const Lines& lines,
                   const Tensor& y) {
  if (y.size() == 0) return;
  const auto count = static_cast<std::int64_t>(positions.size());
  const std::int64_t bytes = lines.inner * static_cast<std::int64_t>(size_of(x.dtype()));
  const auto copy_all = [&](const auto& copy_slice) {
    const auto* from = static_cast<const std::byte*>(x.impl().data);
    auto* to = static_cast<std::byte*>(y.impl().data);
    parallel_for(lines.outer * count, std::max<std::int64_t>(1, task_elements / lines.inner),
                 [&](std::int64_t i, std::int64_t end) {
                   for (std::int64_t o = i / count, j = i % count; i < end; ++i, ++j) {
                     if (j == count) {
                       j = 0;
                       ++o;
                     }
                     copy_slice(to + i * bytes, from + (o * size + positions[j]) * bytes);
                   }
                 });
  };
  // A copy whose size the compiler knows becomes one move.
  switch (bytes) {
    case 1:
      return copy_all([](std::byte* to, const std::byte* from) { std::memcpy(to, from, 1); });
    case 2:
      return copy_all([](std::byte* to, const std::byte* from) { std::memcpy(to, from, 2); });
    case 4:
      return copy_all([](std::byte* to, const std::byte* from) { std::memcpy(to, from, 4); });
    case 8:
      return copy_all([](std::byte* to, const std::byte* from) { std::memcpy(to, from, 8); });
    default:
      copy_all(
          [bytes](std::byte* to, const std::byte* from) { std::memcpy(to, from, static_cast<std::size_t>(bytes)); });
  }
}

template <class T>
void add(T& to, T from) {
  if constexpr (std::is_same_v<T, bool>) {
    to = to || from;
  } else if constexpr (std::is_integral_v<T>) {
    to = static_cast<T>(static_cast<std::make_unsigned_t<T>>(to) + static_cast<std::make_unsigned_t<T>>(from));
  } else {
    to = static_cast<T>(to + from);
  }
}

void clear(const Tensor& y) { std::memset(y.impl().data, 0, detail::nbytes(y)); }

/// Calls body(outer, first column, columns) for ranges of the inner elements. All additions to one element of the
/// output are in one range, and so in order. `rows` is the number of slices that are added.
template <class Body>
void for_columns(const Lines& lines, std::int64_t rows, const Body& body) {
  constexpr std::int64_t narrowest = 16;  // a cache line of floats
  const std::int64_t width =
      std::clamp(task_elements / std::max<std::int64_t>(1, rows), narrowest, std::max(narrowest, lines.inner));
  const std::int64_t pieces = (lines.inner + width - 1) / width;
  const std::int64_t grain = std::max<std::int64_t>(1, task_elements / std::max<std::int64_t>(1, rows * width));
  parallel_for(lines.outer * pieces, grain, [&](std::int64_t i, std::int64_t end) {
    for (; i < end; ++i) {
      const std::int64_t first = i % pieces * width;
      body(i / pieces, first, std::min(width, lines.inner - first));
    }
  });
}

/// y = 0, then y[o, positions[j], :] += updates[o, j, :].
void add_slices(const Tensor& updates, std::int64_t size, const Positions& positions, const Lines& lines,
                const Tensor& y) {
  clear(y);
  if (updates.size() == 0) return;
  const auto count = static_cast<std::int64_t>(positions.size());
  detail::visit_dtype(y.dtype(), [&]<class T>() {
    for_columns(lines, count, [&](std::int64_t o, std::int64_t first, std::int64_t columns) {
      for (std::int64_t j = 0; j < count; ++j) {
        const T* from = static_cast<const T*>(updates.impl().data) + (o * count + j) * lines.inner + first;
        T* to = detail::mutable_data<T>(y) + (o * size + positions[j]) * lines.inner + first;
        for (std::int64_t c = 0; c < columns; ++c) add(to[c], from[c]);
      }
    });
  });
}

/// The number of elements of the leading axes.
std::int64_t leading_size(const Shape& shape, std::int64_t axes) {
  std::int64_t size = 1;
  for (int i = 0; i < static_cast<int>(axes); ++i) size *= shape.sizes()[i];
  return size;
}

}  // namespace

void CpuBackend::gather(const Tensor& x, const Tensor& indices, int axis, const Tensor& y) {
  const std::int64_t size = x.shape().sizes()[axis];
  gather_slices(contiguous(x), size, checked(*this, indices, size), lines_around(x.shape(), axis), y);
}

void CpuBackend::put_rows(const Tensor& rows, const Tensor& indices, const Tensor& y) {
  if (rows.size() == 0) return;
  const Positions positions = checked(*this, indices, y.shape().sizes()[0]);
  const Tensor in_order = contiguous(rows);
  const std::size_t row = static_cast<std::size_t>(lines_around(y.shape(), 0).inner) * size_of(y.dtype());
  for (std::size_t j = 0; j < positions.size(); ++j)
    std::memcpy(static_cast<std::byte*>(y.impl().data) + static_cast<std::size_t>(positions[j]) * row,
                static_cast<const std::byte*>(in_order.impl().data) + j * row, row);
}

void CpuBackend::scatter_add(const Tensor& indices, const Tensor& updates, int axis, const Tensor& y) {
  if (is_half(y.dtype())) return Backend::scatter_add(indices, updates, axis, y);
  const std::int64_t size = y.shape().sizes()[axis];
  add_slices(contiguous(updates), size, checked(*this, indices, size), lines_around(y.shape(), axis), y);
}

void CpuBackend::gather_nd(const Tensor& x, const Tensor& indices, const Tensor& y) {
  const std::int64_t depth = indices.shape().sizes().back();
  const auto positions = checked_coordinates(*this, indices, x.shape(), "param shape");
  gather_slices(contiguous(x), leading_size(x.shape(), depth), positions,
                lines_around(x.shape(), 0, static_cast<int>(depth)), y);
}

void CpuBackend::scatter_nd_add(const Tensor& indices, const Tensor& updates, const Tensor& y) {
  if (is_half(y.dtype())) return Backend::scatter_nd_add(indices, updates, y);
  const std::int64_t depth = indices.shape().sizes().back();
  const auto positions = checked_coordinates(*this, indices, y.shape(), "shape");
  add_slices(contiguous(updates), leading_size(y.shape(), depth), positions,
             lines_around(y.shape(), 0, static_cast<int>(depth)), y);
}

void CpuBackend::take_along(const Tensor& x, const Tensor& indices, int axis, const Tensor& y) {
  if (y.size() == 0) return;  // else there may be a huge number of empty rows
  const std::int64_t size = x.shape().sizes()[axis], length = indices.shape().sizes()[axis];
  const auto positions = checked(*this, indices, size);
  const Lines lines = lines_around(x.shape(), axis);
  const Tensor from = contiguous(x);
  detail::visit_dtype(y.dtype(), [&]<class T>() {
    const T* data = static_cast<const T*>(from.impl().data);
    T* to = detail::mutable_data<T>(y);
    parallel_for(lines.outer * length,
                 std::max<std::int64_t>(1, task_elements / std::max<std::int64_t>(1, lines.inner)),
                 [&](std::int64_t row, std::int64_t end) {
                   for (; row < end; ++row) {
                     const std::int64_t o = row / length;
                     for (std::int64_t c = 0; c < lines.inner; ++c) {
                       const std::int64_t place = row * lines.inner + c;
                       to[place] = data[(o * size + positions[place]) * lines.inner + c];
                     }
                   }
                 });
  });
}

void CpuBackend::put_along_add(const Tensor& indices, const Tensor& updates, int axis, const Tensor& y) {
  if (is_half(y.dtype())) return Backend::put_along_add(indices, updates, axis, y);
  const std::int64_t size = y.shape().sizes()[axis], length = indices.shape().sizes()[axis];
  const auto positions = checked(*this, indices, size);
  const Lines lines = lines_around(y.shape(), axis);
  const Tensor from = contiguous(updates);
  clear(y);
  if (updates.size() == 0) return;
  detail::visit_dtype(y.dtype(), [&]<class T>() {
    for_columns(lines, length, [&](std::int64_t o, std::int64_t first, std::int64_t columns) {
      for (std::int64_t j = 0; j < length; ++j) {
        for (std::int64_t c = first; c < first + columns; ++c) {
          const std::int64_t place = (o * length + j) * lines.inner + c;
          add(detail::mutable_data<T>(y)[(o * size + positions[place]) * lines.inner + c],
              static_cast<const T*>(from.impl().data)[place]);
        }
      }
    });
  });
}

}  // namespace tapestry::host
