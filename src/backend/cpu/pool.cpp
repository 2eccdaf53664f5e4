#include "backend/cpu/kernels/pool.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "backend/cpu/cpu_backend.hpp"
#include "backend/cpu/threads.hpp"
#include "core/make_tensor.hpp"

namespace tapestry::host {
namespace {

template <class T>
const PoolKernels<T>& kernels() {
  static const PoolTable& table = TAPESTRY_PICK_LEVEL(pool_table);
  if constexpr (std::is_same_v<T, float>) {
    return table.f32;
  } else {
    return table.f64;
  }
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

/// Calls run(offset of its elements in x, index of its first window, WindowRun) for one row of windows: once for each
/// window at the border, which has fewer elements, and once for those between.
template <class Run>
void for_runs(const Geometry& g, std::int64_t image, std::int64_t row, const Run& run) {
  const Window2d& w = g.window;
  const Span y = inside(row, w.stride_y, w.pad_top, w.height, w.dilation_y, g.height);
  const auto span_of = [&](std::int64_t column) {
    return inside(column, w.stride_x, w.pad_left, w.width, w.dilation_x, g.width);
  };
  SmallVector<std::int64_t, 16> taps;
  for (std::int64_t column = 0; column < g.columns;) {
    const Span x = span_of(column);
    const bool is_whole = x.first == 0 && x.last == w.width;
    std::int64_t end = column + 1;
    if (is_whole)
      end = std::max(
          end, std::min(g.columns, (g.width - 1 - x.start - (w.width - 1) * w.dilation_x) / w.stride_x + column + 1));
    taps.clear();
    for (std::int64_t ky = y.first; ky < y.last; ++ky)
      for (std::int64_t kx = x.first; kx < x.last; ++kx)
        taps.push_back(((y.start + ky * w.dilation_y) * g.width + x.start + kx * w.dilation_x) * g.channels);
    run(image * g.height * g.width * g.channels, (image * g.rows + row) * g.columns + column,
        WindowRun{end - column, w.stride_x * g.channels, g.channels, g.channels, taps.data(),
                  static_cast<std::int64_t>(taps.size())});
    column = end;
  }
}

template <class T>
void pool(PoolKind f, const Geometry& g, const T* x, T* y) {
  const auto kernel = f == PoolKind::max ? kernels<T>().max : kernels<T>().average;
  constexpr std::int64_t task_elements = 16384;
  // An empty image still has windows, in its padding.
  const std::int64_t seen = std::min(g.window.height, g.height) * std::min(g.window.width, g.width);
  const std::int64_t row_work = g.columns * g.channels * std::max<std::int64_t>(1, seen);
  parallel_for(
      g.batch * g.rows, std::max<std::int64_t>(1, task_elements / row_work), [&](std::int64_t row, std::int64_t end) {
        for (; row < end; ++row)
          for_runs(g, row / g.rows, row % g.rows, [&](std::int64_t from, std::int64_t window, const WindowRun& run) {
            kernel(run, x + from, y + window * g.channels);
          });
      });
}

/// Adjacent windows may share elements of dx, so a task is some channels of a whole image.
template <class T>
void pool_grad(PoolKind f, const Geometry& g, const T* x, const T* y, const T* gradient, T* dx) {
  constexpr std::int64_t width = 64;
  const std::int64_t pieces = (g.channels + width - 1) / width, pixels = g.height * g.width;
  parallel_for(g.batch * pieces, 1, [&](std::int64_t task, std::int64_t) {
    const std::int64_t image = task / pieces, first = task % pieces * width;
    const std::int64_t channels = std::min(width, g.channels - first);
    for (std::int64_t i = 0; i < pixels; ++i)
      std::fill_n(dx + (image * pixels + i) * g.channels + first, channels, T(0));
    for (std::int64_t row = 0; row < g.rows; ++row)
      for_runs(g, image, row, [&](std::int64_t from, std::int64_t window, WindowRun run) {
        const std::int64_t at = window * g.channels + first;
        run.channels = channels;
        from += first;
        if (f == PoolKind::max) {
          kernels<T>().max_grad(run, x + from, y + at, gradient + at, dx + from);
        } else {
          kernels<T>().average_grad(run, gradient + at, dx + from);
        }
      });
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
  if (dx.size() == 0) return;
  if (g.size() == 0) return fill(0, dx);
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
