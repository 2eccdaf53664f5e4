#include "backend/cpu/conv.hpp"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "backend/cpu/blas.hpp"
#include "backend/cpu/cpu_backend.hpp"
#include "backend/cpu/kernels/elementwise.hpp"
#include "backend/cpu/threads.hpp"
#include "backend/views.hpp"
#include "core/make_tensor.hpp"

// A convolution is computed as a product of matrices (for most 3 x 3 ones see winograd.cpp, for windows of few elements
// direct_conv.cpp). A row of the matrix
// "patches" holds all elements of the image that one output position reads, so y = patches * filter. Only a tile of the
// patches exists at a time, in the second-level cache.

namespace tapestry::host {
namespace {

/// Calls row(offset in the image, or -1 outside it; offset in the patches; elements) for each segment of one group's
/// patches, at the positions [begin, end), that is contiguous in the image.
template <class Row>
void for_segments(const ConvGeometry& geometry, std::int64_t group, std::int64_t begin, std::int64_t end,
                  const Row& row) {
  const Window2d& w = geometry.window;
  const std::int64_t channels = geometry.group_in();
  std::int64_t to = 0;
  const auto emit = [&](std::int64_t from, std::int64_t count) {
    if (count > 0) row(from, to, count);
    to += count;
  };
  for (std::int64_t position = begin; position < end; ++position) {
    const std::int64_t image = position / (geometry.rows * geometry.columns);
    const std::int64_t top = position / geometry.columns % geometry.rows * w.stride_y - w.pad_top;
    const std::int64_t left = position % geometry.columns * w.stride_x - w.pad_left;
    for (std::int64_t ky = 0; ky < w.height; ++ky) {
      const std::int64_t y = top + ky * w.dilation_y;
      const std::int64_t line = (image * geometry.height + y) * geometry.width;
      if (y < 0 || y >= geometry.height) {
        emit(-1, w.width * channels);
      } else if (w.groups == 1 && w.dilation_x == 1) {
        const std::int64_t first = std::clamp<std::int64_t>(-left, 0, w.width);
        const std::int64_t last = std::clamp<std::int64_t>(geometry.width - left, first, w.width);
        emit(-1, first * channels);
        emit((line + left + first) * channels, (last - first) * channels);
        emit(-1, (w.width - last) * channels);
      } else {
        for (std::int64_t kx = 0; kx < w.width; ++kx) {
          const std::int64_t x = left + kx * w.dilation_x;
          const bool inside = x >= 0 && x < geometry.width;
          emit(inside ? (line + x) * geometry.in + group * channels : -1, channels);
        }
      }
    }
  }
}

template <class T>
void read_patches(const ConvGeometry& geometry, std::int64_t group, std::int64_t begin, std::int64_t end,
                  const T* image, T* patches) {
  for_segments(geometry, group, begin, end, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
    if (from < 0) {
      std::fill_n(patches + to, count, T(0));
    } else {
      std::copy_n(image + from, count, patches + to);
    }
  });
}

/// image += patches
template <class T>
void add_patches(const ConvGeometry& geometry, std::int64_t group, std::int64_t begin, std::int64_t end,
                 const T* patches, T* image) {
  const auto add =
      binary_kernels().rows[static_cast<std::size_t>(Binary::add)][static_cast<std::size_t>(dtype_of<T>())];
  for_segments(geometry, group, begin, end, [&](std::int64_t at, std::int64_t from, std::int64_t count) {
    if (at >= 0) add(image + at, 1, patches + from, 1, image + at, count, 0);
  });
}

template <class T>
Tensor scratch(std::int64_t elements) {
  return detail::make_tensor(dtype_of<T>(), {elements}, cpu());
}

template <class T>
void convolve(const ConvGeometry& geometry, const T* x, const T* filter, T* y) {
  if (is_direct(geometry)) return direct_conv(geometry, x, filter, y);
  if constexpr (std::is_same_v<T, float>) {
    if (winograd(geometry, x, filter, y)) return;
  }
  const std::int64_t patch = geometry.patch(), out = geometry.out, tile = geometry.tile<T>();
  parallel_for(geometry.positions(), tile, [&](std::int64_t begin, std::int64_t end) {
    Tensor patches;
    if (!geometry.is_pointwise()) patches = scratch<T>((end - begin) * patch);
    for (std::int64_t group = 0; group < geometry.window.groups; ++group) {
      const T* rows = x + begin * geometry.in + group * geometry.group_in();
      std::int64_t stride = geometry.in;
      if (patches) {
        read_patches(geometry, group, begin, end, x, detail::mutable_data<T>(patches));
        rows = detail::mutable_data<T>(patches);
        stride = patch;
      }
      const std::int64_t first = group * geometry.group_out();
      gemm_block(false, false, end - begin, geometry.group_out(), patch, rows, stride, filter + first, out, false,
                 y + begin * out + first, out);
    }
  });
}

/// Computes dx as the sum of the gradients of the patches, one image per task.
template <class T>
void spread_gradient(const ConvGeometry& geometry, const T* g, const T* filter, T* dx) {
  const std::int64_t patch = geometry.patch(), out = geometry.out;
  const std::int64_t positions = geometry.rows * geometry.columns, tile = std::min(geometry.tile<T>(), positions);
  const std::int64_t image_size = geometry.height * geometry.width * geometry.in;
  parallel_for(geometry.batch, 1, [&](std::int64_t image, std::int64_t) {
    std::fill_n(dx + image * image_size, image_size, T(0));
    if (positions == 0) return;
    const Tensor buffer = scratch<T>(tile * patch);
    T* patches = detail::mutable_data<T>(buffer);
    for (std::int64_t begin = image * positions; begin < (image + 1) * positions; begin += tile) {
      const std::int64_t end = std::min(begin + tile, (image + 1) * positions);
      for (std::int64_t group = 0; group < geometry.window.groups; ++group) {
        const std::int64_t first = group * geometry.group_out();
        gemm_block(false, true, end - begin, patch, geometry.group_out(), g + begin * out + first, out, filter + first,
                   out, false, patches, patch);
        add_patches(geometry, group, begin, end, patches, dx);
      }
    }
  });
}

/// The window of the convolution that computes dx from g. There is one if the stride is 1; its filter is the original
/// one rotated by 180 degrees, with inputs and outputs exchanged.
Window2d turned(const Window2d& w) {
  Window2d result = w;
  result.pad_top = (w.height - 1) * w.dilation_y - w.pad_top;
  result.pad_bottom = (w.height - 1) * w.dilation_y - w.pad_bottom;
  result.pad_left = (w.width - 1) * w.dilation_x - w.pad_left;
  result.pad_right = (w.width - 1) * w.dilation_x - w.pad_right;
  return result;
}

template <class T>
Tensor turned_filter(const ConvGeometry& geometry, const T* filter) {
  const std::int64_t in = geometry.group_in(), out = geometry.group_out();
  const std::int64_t places = geometry.window.height * geometry.window.width;
  Tensor result = scratch<T>(places * out * geometry.in);
  T* to = detail::mutable_data<T>(result);
  for (std::int64_t place = places - 1; place >= 0; --place)
    for (std::int64_t o = 0; o < out; ++o)
      for (std::int64_t group = 0; group < geometry.window.groups; ++group)
        for (std::int64_t i = 0; i < in; ++i) *to++ = filter[(place * in + i) * geometry.out + group * out + o];
  return result;
}

/// Computes `count` partial sums of dfilter, each over its share of the positions. `parts` is [count, elements of a
/// filter].
template <class T>
void filter_gradients(const ConvGeometry& geometry, const T* x, const T* g, T* parts, std::int64_t count) {
  const std::int64_t patch = geometry.patch(), out = geometry.out;
  const std::int64_t tile = std::min(geometry.tile<T>(), geometry.positions());
  const std::int64_t share = (geometry.positions() + count - 1) / count;
  parallel_for(count, 1, [&](std::int64_t part, std::int64_t) {
    T* sum = parts + part * patch * out;
    std::fill_n(sum, patch * out, T(0));
    const Tensor buffer = scratch<T>(tile * patch);
    const std::int64_t last = std::min((part + 1) * share, geometry.positions());
    for (std::int64_t begin = part * share; begin < last; begin += tile) {
      const std::int64_t end = std::min(begin + tile, last);
      for (std::int64_t group = 0; group < geometry.window.groups; ++group) {
        read_patches(geometry, group, begin, end, x, detail::mutable_data<T>(buffer));
        const std::int64_t first = group * geometry.group_out();
        gemm_block(true, false, patch, geometry.group_out(), end - begin, detail::mutable_data<T>(buffer), patch,
                   g + begin * out + first, out, true, sum + first, out);
      }
    }
  });
}

template <class T>
const T* elements(const Tensor& x) {
  return static_cast<const T*>(x.impl().data);
}

template <class F>
void visit_float(DType dtype, const F& f) {
  if (dtype == DType::float32) {
    f.template operator()<float>();
  } else {
    f.template operator()<double>();
  }
}

}  // namespace

using detail::mutable_data;

void CpuBackend::conv2d(const Tensor& x, const Tensor& filter, const Window2d& window, const Tensor& y) {
  if (is_half(y.dtype())) return Backend::conv2d(x, filter, window, y);
  if (y.size() == 0) return;
  const ConvGeometry geometry(x.shape(), y.shape(), window);
  if (geometry.patch() == 0) return fill(0, y);
  prepare_blas();
  const Tensor image = contiguous(x), weights = contiguous(filter);
  visit_float(y.dtype(),
              [&]<class T>() { convolve(geometry, elements<T>(image), elements<T>(weights), mutable_data<T>(y)); });
}

void CpuBackend::conv2d_grad_input(const Tensor& g, const Tensor& filter, const Window2d& window, const Tensor& dx) {
  if (is_half(dx.dtype())) return Backend::conv2d_grad_input(g, filter, window, dx);
  if (dx.size() == 0) return;
  if (g.size() == 0) return fill(0, dx);
  prepare_blas();
  const ConvGeometry geometry(dx.shape(), g.shape(), window);
  const Tensor gradient = contiguous(g), weights = contiguous(filter);
  const Window2d back = turned(window);
  const bool is_convolution = window.stride_y == 1 && window.stride_x == 1 && back.pad_top >= 0 && back.pad_left >= 0;
  visit_float(dx.dtype(), [&]<class T>() {
    if (is_convolution) {
      const Tensor turned_weights = turned_filter(geometry, elements<T>(weights));
      convolve(ConvGeometry(g.shape(), dx.shape(), back), elements<T>(gradient), elements<T>(turned_weights),
               mutable_data<T>(dx));
    } else {
      spread_gradient(geometry, elements<T>(gradient), elements<T>(weights), mutable_data<T>(dx));
    }
  });
}

void CpuBackend::conv2d_grad_filter(const Tensor& x, const Tensor& g, const Window2d& window, const Tensor& dfilter) {
  if (is_half(dfilter.dtype())) return Backend::conv2d_grad_filter(x, g, window, dfilter);
  if (dfilter.size() == 0) return;
  if (g.size() == 0) return fill(0, dfilter);
  prepare_blas();
  const ConvGeometry geometry(x.shape(), g.shape(), window);
  const Tensor image = contiguous(x), gradient = contiguous(g);
  visit_float(dfilter.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<T, float>) {
      if (winograd_grad_filter(*this, geometry, elements<T>(image), elements<T>(gradient), mutable_data<T>(dfilter)))
        return;
    }
    // The number of partial sums depends on the shape alone, and so do the bits of their sum.
    constexpr std::int64_t most = 8;
    const std::int64_t tiles = (geometry.positions() + geometry.tile<T>() - 1) / geometry.tile<T>();
    const std::int64_t count = std::min(most, is_direct(geometry) ? geometry.batch : tiles);
    const auto compute = is_direct(geometry) ? direct_filter_gradients<T> : filter_gradients<T>;
    if (count == 1) {
      compute(geometry, elements<T>(image), elements<T>(gradient), mutable_data<T>(dfilter), 1);
    } else {
      const Tensor parts = detail::make_tensor(dfilter.dtype(), {count, dfilter.size()}, cpu());
      compute(geometry, elements<T>(image), elements<T>(gradient), mutable_data<T>(parts), count);
      reduce(ReduceFunction::sum, parts, 1, view_as(dfilter, {dfilter.size()}));
    }
  });
}

}  // namespace tapestry::host
