#pragma once

#include <cstdint>

#include "backend/cpu/levels.hpp"

namespace tapestry::host {

// Winograd's F(4x4, 3x3) as Lavin and Gray (Fast algorithms for convolutional neural networks, 2016) write it: a tile
// of 4 x 4 outputs of a 3 x 3 convolution from 36 products in place of 144, and these as 36 products of matrices.
constexpr int winograd_tile = 4, winograd_window = 6, winograd_products = 36;

/// Which elements of a window or tile exist: rows [top, bottom) and columns [left, right).
struct Extent {
  std::int64_t top, bottom, left, right;
};

/// Over the neighbouring channels of each element; products lie `plane` floats apart.
struct WinogradTable {
  /// For one tile the window with its corner at x[corner] (which may lie outside of x), 6 x 6 with zeros where it has
  /// no elements.
  void (*input)(const float* x, std::int64_t corner, std::int64_t row, std::int64_t channels, const Extent& extent,
                float* to, std::int64_t plane);
  /// A filter [3, 3, n] as products [36, n].
  void (*filter)(const float* filter, std::int64_t n, float* to);
  /// The tile at `image` from its products.
  void (*output)(const float* from, std::int64_t plane, std::int64_t row, std::int64_t channels, const Extent& extent,
                 float* image);
  // The transposes of the last two, for gradients.
  /// The gradient [3, 3, n] of a filter from that of its products.
  void (*filter_gradient)(const float* from, std::int64_t n, float* filter);
  /// The gradients of a tile's products from those at `image`.
  void (*output_gradient)(const float* image, std::int64_t row, std::int64_t channels, const Extent& extent, float* to,
                          std::int64_t plane);
};
TAPESTRY_KERNEL_TABLE(WinogradTable, winograd_table)

}  // namespace tapestry::host
