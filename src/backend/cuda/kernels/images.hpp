#pragma once

#include "backend/cuda/kernels/kernel.hpp"

namespace tapestry::gpu {

/// The fields of Window2d, whose header is too large for kernel files, with the sizes of the image [batch, height,
/// width, channels] and of the window's positions [batch, rows, columns].
struct Windows {
  std::int64_t batch, height, width, channels, rows, columns;
  std::int64_t window_height, window_width, stride_y, stride_x, dilation_y, dilation_x, pad_top, pad_left, groups;

  TAPESTRY_HD std::int64_t positions() const { return batch * rows * columns; }
  TAPESTRY_HD std::int64_t group_channels() const { return channels / groups; }
  /// The number of elements under the window at one position, in one group of channels.
  TAPESTRY_HD std::int64_t patch() const { return window_height * window_width * group_channels(); }
};

// The arrays below are contiguous and of a float type.

/// patches[group, position, y, x, channel] = the image under the window at each position, 0 outside the image.
void read_patches(Stream stream, Type type, const Windows& windows, const void* image, void* patches);
/// Each element of the image becomes the sum of the patches' elements that are read from it.
void add_patches(Stream stream, Type type, const Windows& windows, const void* patches, void* image);

void max_pool(Stream stream, Type type, const Windows& windows, const void* x, void* y);
void average_pool(Stream stream, Type type, const Windows& windows, const void* x, void* y);
/// positions[position, channel] = the pixel of the image to which the maximum's gradient goes: the first that equals
/// y or is NaN, or -1 if there is none.
void max_positions(Stream stream, Type type, const Windows& windows, const void* x, const void* y,
                   std::int32_t* positions);
/// dx = the gradient of x from the gradient g of y. `positions` is null for an average.
void pool_grad(Stream stream, Type type, const Windows& windows, const std::int32_t* positions, const void* g,
               void* dx);

}  // namespace tapestry::gpu
