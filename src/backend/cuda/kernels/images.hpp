#pragma once

#include "backend/cuda/kernels/kernel.hpp"

namespace tapestry::gpu {

/// Window2d, whose header is too large for kernel files, with the sizes of the image [batch, height, width, channels]
/// and of the positions [batch, rows, columns] at which the window lies on it.
struct Windows {
  std::int64_t batch, height, width, channels, rows, columns;
  std::int64_t window_height, window_width, stride_y, stride_x, dilation_y, dilation_x, pad_top, pad_left, groups;

  TAPESTRY_HD std::int64_t positions() const { return batch * rows * columns; }
  TAPESTRY_HD std::int64_t group_channels() const { return channels / groups; }
  /// Elements that a position sees of one group of channels.
  TAPESTRY_HD std::int64_t patch() const { return window_height * window_width * group_channels(); }
};

// Float types, arrays without gaps.

/// patches[group, position, y, x, channel]: what each position sees, 0 outside the image.
void read_patches(Stream stream, Type type, const Windows& windows, const void* image, void* patches);
/// image = the sums of the patches' elements that lie on each of its own.
void add_patches(Stream stream, Type type, const Windows& windows, const void* patches, void* image);

void max_pool(Stream stream, Type type, const Windows& windows, const void* x, void* y);
void average_pool(Stream stream, Type type, const Windows& windows, const void* x, void* y);
/// places[position, channel]: which element of the window the maximum's gradient goes to, the first that is y or NaN;
/// -1 where there is none.
void max_places(Stream stream, Type type, const Windows& windows, const void* x, const void* y, std::int32_t* places);
/// The gradients of x from those of y; `places` for a maximum, null for an average.
void pool_grad(Stream stream, Type type, const Windows& windows, const std::int32_t* places, const void* g, void* dx);

}  // namespace tapestry::gpu
