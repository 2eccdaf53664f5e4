#include "backend/cpu/kernels/pool.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "backend/cpu/cpu_backend.hpp"
#include "backend/cpu/kernels/elementwise.hpp"
#include "backend/cpu/threads.hpp"
#include "core/make_tensor.hpp"

namespace tapestry::host {
namespace {

template <class T>
TakeGradient<T> take_gradient() {
  static const PoolTable& table = TAPESTRY_PICK_LEVEL(pool_table);
  if constexpr (std::is_same_v<T, float>) {
    return table.f32;
  } else {
    return table.f64;
  }
}

/// The loop of an elementwise function over adjacent channels.
template <class T>
BinaryRow row_of(Binary f) {
  return binary_kernels().rows[static_cast<std::size_t>(f)][static_cast<std::size_t>(dtype_of<T>())];
}

/// The image x [batch, height, width, channels] and the windows' results y [batch, rows, columns, channels].
struct Geometry {
  std::int64_t batch, height, width, channels, rows, columns;
  Window2d window;

  Geometry(const Shape& x, const Shape& y, const Window2d& w)
      : batch(x[0]), height(x[1]), width(x[2]), channels(x[3]), rows(y[1]), columns(y[2]), window(w) {}
};

/// The elements of a window that are inside the image along one axis: [first, last) of `size`.
struct Span {
  std::int64_t start, first, last;
};
Span inside(std::int64_t index, std::int64_t stride, std::int64_t pad, std::int64_t size, std::int64_t dilation,
            std::int64_t limit) {
  const std::int64_t start = index * stride - pad;
  const auto steps = [&](std::int64_t distance) { return distance <= 0 ? 0 : (distance + dilation - 1) / dilation; };
  const std::int64_t first = std::min(steps(-start), size);
  return {start, first, std::max(first, std::min(steps(limit - start), size))};
}

/// Calls element(offset in x) for each element of the window at a position that is inside the image. Returns their
/// number.
template <class Element>
std::int64_t for_window(const Geometry& g, std::int64_t image, std::int64_t row, std::int64_t column,
                        const Element& element) {
  const Window2d& w = g.window;
  const Span y = inside(row, w.stride_y, w.pad_top, w.height, w.dilation_y, g.height);
  const Span x = inside(column, w.stride_x, w.pad_left, w.width, w.dilation_x, g.width);
  for (std::int64_t ky = y.first; ky < y.last; ++ky)
    for (std::int64_t kx = x.first; kx < x.last; ++kx) {
      const std::int64_t line = image * g.height + y.start + ky * w.dilation_y;
      element((line * g.width + x.start + kx * w.dilation_x) * g.channels);
    }
  return (y.last - y.first) * (x.last - x.first);
}

template <class T>
void pool(PoolKind f, const Geometry& g, const T* x, T* y) {
  const BinaryRow combine = row_of<T>(f == PoolKind::max ? Binary::maximum : Binary::add);
  const BinaryRow divide = row_of<T>(Binary::divide);
  const T start = f == PoolKind::max ? -std::numeric_limits<T>::infinity() : T(0);
  constexpr std::int64_t task_elements = 16384;
  // An empty image still has windows, in its padding.
  const std::int64_t seen = std::min(g.window.height, g.height) * std::min(g.window.width, g.width);
  const std::int64_t row_work = g.columns * g.channels * std::max<std::int64_t>(1, seen);
  parallel_for(
      g.batch * g.rows, std::max<std::int64_t>(1, task_elements / row_work), [&](std::int64_t row, std::int64_t end) {
        for (; row < end; ++row) {
          for (std::int64_t column = 0; column < g.columns; ++column) {
            T* to = y + (row * g.columns + column) * g.channels;
            std::fill_n(to, g.channels, start);
            const std::int64_t count = for_window(g, row / g.rows, row % g.rows, column, [&](std::int64_t from) {
              combine(to, 1, x + from, 1, to, g.channels, 0);
            });
            if (f == PoolKind::average) {
              const T divisor = static_cast<T>(count);
              divide(to, 1, &divisor, 0, to, g.channels, 0);
            }
          }
        }
      });
}

/// Adjacent windows share elements of dx, so a task is some channels of a whole image.
template <class T>
void pool_grad(PoolKind f, const Geometry& g, const T* x, const T* y, const T* gradient, T* dx) {
  const BinaryRow add = row_of<T>(Binary::add), divide = row_of<T>(Binary::divide);
  const TakeGradient<T> take = take_gradient<T>();
  constexpr std::int64_t width = 64;
  const std::int64_t pieces = (g.channels + width - 1) / width;
  parallel_for(g.batch * pieces, 1, [&](std::int64_t task, std::int64_t) {
    const std::int64_t image = task / pieces, first = task % pieces * width;
    const std::int64_t channels = std::min(width, g.channels - first);
    T left[width];
    for (std::int64_t row = 0; row < g.rows; ++row) {
      for (std::int64_t column = 0; column < g.columns; ++column) {
        const std::int64_t place = ((image * g.rows + row) * g.columns + column) * g.channels + first;
        std::copy_n(gradient + place, channels, left);
        if (f == PoolKind::max) {
          for_window(g, image, row, column,
                     [&](std::int64_t at) { take(x + at + first, y + place, left, dx + at + first, channels); });
        } else {
          const T divisor = static_cast<T>(for_window(g, image, row, column, [](std::int64_t) {}));
          divide(left, 1, &divisor, 0, left, channels, 0);
          for_window(g, image, row, column,
                     [&](std::int64_t at) { add(dx + at + first, 1, left, 1, dx + at + first, channels, 0); });
        }
      }
    }
  });
}

template <class T>
const T* elements(const Tensor& x) {
  return static_cast<const T*>(x.impl().data);
}

}  // namespace

using detail::mutable_data;

void CpuBackend::pool2d(PoolKind f, const Tensor& x, const Window2d& window, const Tensor& y) {
  if (is_half(y.dtype())) return Backend::pool2d(f, x, window, y);
  if (y.size() == 0) return;
  const Geometry geometry(x.shape(), y.shape(), window);
  const Tensor image = contiguous(x);
  if (y.dtype() == DType::float32) {
    pool(f, geometry, elements<float>(image), mutable_data<float>(y));
  } else {
    pool(f, geometry, elements<double>(image), mutable_data<double>(y));
  }
}

void CpuBackend::pool2d_grad(PoolKind f, const Tensor& x, const Tensor& y, const Tensor& g, const Window2d& window,
                             const Tensor& dx) {
  if (is_half(dx.dtype())) return Backend::pool2d_grad(f, x, y, g, window, dx);
  fill(0, dx);
  if (dx.size() == 0 || g.size() == 0) return;
  const Geometry geometry(dx.shape(), g.shape(), window);
  const Tensor gradient = contiguous(g);
  // An average reads neither x nor y.
  const Tensor image = f == PoolKind::max ? contiguous(x) : dx, result = f == PoolKind::max ? contiguous(y) : gradient;
  if (dx.dtype() == DType::float32) {
    pool_grad(f, geometry, elements<float>(image), elements<float>(result), elements<float>(gradient),
              mutable_data<float>(dx));
  } else {
    pool_grad(f, geometry, elements<double>(image), elements<double>(result), elements<double>(gradient),
              mutable_data<double>(dx));
  }
}

}  // namespace tapestry::host
