#pragma once

#include <limits>

#include "backend/backend.hpp"
#include "backend/cuda/kernels/images.hpp"

namespace tapestry::gpu {

/// A window on images of shape `image`, at the positions of `result`.
inline Windows windows_on(const Shape& image, const Shape& result, const Window2d& w) {
  return {image[0],   image[1],   image[2],     image[3],     result[1], result[2],  w.height, w.width,
          w.stride_y, w.stride_x, w.dilation_y, w.dilation_x, w.pad_top, w.pad_left, w.groups};
}

/// Whether cuDNN is asked to compute a convolution with `out` output channels, and its gradients. Our own kernels
/// compute the others: those of float64, those with sizes beyond 32 bits, and most of those with more padding on one
/// side than on the other. cuDNN pads both sides alike. That is right if it gives the same number of positions: no
/// window then reaches the padding in which they differ.
inline bool is_for_cudnn(const Windows& w, std::int64_t out, DType dtype) {
  constexpr std::int64_t limit = std::numeric_limits<int>::max();
  const std::int64_t image = w.batch * w.height * w.width * w.channels;
  for (const std::int64_t each : {image, w.positions() * out, w.patch() * out, w.stride_y, w.stride_x, w.dilation_y,
                                  w.dilation_x, w.pad_top, w.pad_left})
    if (each > limit) return false;
  const auto positions = [](std::int64_t size, std::int64_t pad, std::int64_t window, std::int64_t dilation,
                            std::int64_t stride) {
    return (size + 2 * pad - (window - 1) * dilation - 1) / stride + 1;
  };
  return dtype != float64 && image > 0 &&
         positions(w.height, w.pad_top, w.window_height, w.dilation_y, w.stride_y) == w.rows &&
         positions(w.width, w.pad_left, w.window_width, w.dilation_x, w.stride_x) == w.columns;
}

}  // namespace tapestry::gpu
