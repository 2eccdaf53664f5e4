#pragma once

#include <cstdint>

#include "backend/cpu/levels.hpp"

namespace tapestry::host {

// Winograd's F(4x4, 3x3) as Lavin and Gray (Fast algorithms for convolutional neural networks, 2016) write it. A tile
// of 4 x 4 outputs of a 3 x 3 convolution needs 36 products instead of 144. Over all channels and tiles, these are 36
// products of matrices.
constexpr int winograd_tile = 4, winograd_window = 6, winograd_products = 36;

/// Which elements of a window or tile exist: rows [top, bottom) and columns [left, right).
struct Extent {
  std::int64_t top, bottom, left, right;
};

/// Each function works on the adjacent channels of each element. Products are `plane` floats apart.
struct WinogradTable {
  /// Transforms the 6 x 6 window of one tile, with its corner at x[corner] (which may be outside of x). Elements
  /// outside of `extent` are 0.
  void (*input)(const float* x, std::int64_t corner, std::int64_t row, std::int64_t channels, const Extent& extent,
                float* to, std::int64_t plane);
  /// Transforms a filter [3, 3, n] to [36, n].
  void (*filter)(const float* filter, std::int64_t n, float* to);
  /// Computes the tile at `image` from its products.
  void (*output)(const float* from, std::int64_t plane, std::int64_t row, std::int64_t channels, const Extent& extent,
                 float* image);
  // The transposes of `filter` and `output`, for gradients.
  /// Computes the gradient [3, 3, n] of a filter from that of its transform [36, n].
  void (*filter_gradient)(const float* from, std::int64_t n, float* filter);
  /// Computes the gradients of a tile's products from those at `image`.
  void (*output_gradient)(const float* image, std::int64_t row, std::int64_t channels, const Extent& extent, float* to,
                          std::int64_t plane);
};
TAPESTRY_KERNEL_TABLE(WinogradTable, winograd_table)

}  // namespace tapestry::host
