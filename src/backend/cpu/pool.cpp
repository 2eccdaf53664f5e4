#include "backend/cpu/kernels/pool.hpp"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "backend/cpu/cpu_backend.hpp"
#include "backend/cpu/threads.hpp"
#include "backend/cpu/window_runs.hpp"
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

template <class T>
void pool(PoolKind f, const ConvGeometry& g, const T* x, T* y) {
  const auto kernel = f == PoolKind::max ? kernels<T>().max : kernels<T>().average;
  constexpr std::int64_t task_elements = 16384;
  // An empty image still has windows, in its padding.
  const std::int64_t seen = std::min(g.window.height, g.height) * std::min(g.window.width, g.width);
  const std::int64_t row_work = g.columns * g.in * std::max<std::int64_t>(1, seen);
  parallel_for(
      g.batch * g.rows, std::max<std::int64_t>(1, task_elements / row_work), [&](std::int64_t row, std::int64_t end) {
        for (; row < end; ++row)
          for_window_runs<false>(g, row / g.rows, row % g.rows, [&](std::int64_t window, const WindowRun& run) {
            kernel(run, {g.in, g.in}, x, y + window * g.in);
          });
      });
}

/// Whether no two windows share elements.
bool are_apart(const Window2d& w) {
  return w.stride_y > (w.height - 1) * w.dilation_y && w.stride_x > (w.width - 1) * w.dilation_x;
}
/// Whether each element of the image is in exactly one window.
bool are_a_partition(const ConvGeometry& g) {
  const Window2d& w = g.window;
  return w.stride_y == w.height && w.stride_x == w.width && w.dilation_y == 1 && w.dilation_x == 1 && w.pad_top == 0 &&
         w.pad_left == 0 && g.rows * w.height == g.height && g.columns * w.width == g.width;
}

/// Adjacent windows may share elements of dx, so a task is some channels of a whole image.
template <class T>
void pool_grad(PoolKind f, const ConvGeometry& g, const T* x, const T* y, const T* gradient, T* dx) {
  constexpr std::int64_t width = 64;
  const std::int64_t pieces = (g.in + width - 1) / width, pixels = g.height * g.width;
  const bool sets_all = f == PoolKind::max && are_a_partition(g);
  const auto max_grad = are_apart(g.window) ? kernels<T>().apart_max_grad : kernels<T>().max_grad;
  parallel_for(g.batch * pieces, 1, [&](std::int64_t task, std::int64_t) {
    const std::int64_t image = task / pieces, first = task % pieces * width;
    const Channels channels{std::min(width, g.in - first), g.in};
    for (std::int64_t i = 0; i < pixels && !sets_all; ++i)
      std::fill_n(dx + (image * pixels + i) * g.in + first, channels.count, T(0));
    for (std::int64_t row = 0; row < g.rows; ++row)
      for_window_runs<false>(g, image, row, [&](std::int64_t window, const WindowRun& run) {
        const std::int64_t at = window * g.in + first;
        if (f == PoolKind::max) {
          max_grad(run, channels, x + first, y + at, gradient + at, dx + first);
        } else {
          kernels<T>().average_grad(run, channels, gradient + at, dx + first);
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
  const ConvGeometry geometry(x.shape(), y.shape(), window);
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
  const ConvGeometry geometry(dx.shape(), g.shape(), window);
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
