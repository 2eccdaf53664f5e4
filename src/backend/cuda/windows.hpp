#pragma once

#include "backend/backend.hpp"
#include "backend/cuda/kernels/images.hpp"

namespace tapestry::gpu {

/// A window on images of shape `image`, at the positions of `result`.
inline Windows windows_on(const Shape& image, const Shape& result, const Window2d& w) {
  return {image[0],   image[1],   image[2],     image[3],     result[1], result[2],  w.height, w.width,
          w.stride_y, w.stride_x, w.dilation_y, w.dilation_x, w.pad_top, w.pad_left, w.groups};
}

}  // namespace tapestry::gpu
