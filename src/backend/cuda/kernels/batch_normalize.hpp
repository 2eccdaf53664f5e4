#pragma once

#include "backend/cuda/kernels/kernel.hpp"

namespace tapestry::gpu {

// The arrays x, y, g and dx are contiguous rows of n elements of a float type; all others have n elements. Backend
// tells what is computed.

/// How the rows are shared out: block (tile, part) has the columns of a tile and a part of the rows. Threads of a warp
/// have neighbouring columns, and then neighbouring rows.
struct RowParts {
  std::int64_t rows, n;
  int width;               ///< columns of a tile: a power of two up to a warp
  std::int64_t part_rows;  ///< rows of a part, but for the last one
  unsigned tiles, parts;
};
/// For rows > 0 and n > 0.
RowParts row_parts(std::int64_t rows, std::int64_t n);

/// Sums for each part and column: of the elements' means and of their squared distances from it. Both [parts, n].
void part_moments(Stream stream, Type type, const RowParts& size, const void* x, void* means, void* squares);
/// The mean and the variance of each column from the parts' moments.
void join_moments(Stream stream, Type type, const RowParts& size, const void* means, const void* squares, void* mean,
                  void* variance);
void batch_normalize(Stream stream, Type type, const RowParts& size, const void* x, const void* scale,
                     const void* offset, const void* mean, const void* variance, double epsilon, void* y);

/// Sums for each part and column: of g times the normalized x, and of g. Both [parts, n].
void part_sums(Stream stream, Type type, const RowParts& size, const void* x, const void* g, const void* mean,
               const void* variance, double epsilon, void* scales, void* offsets);
void join_sums(Stream stream, Type type, const RowParts& size, const void* scales, const void* offsets, void* dscale,
               void* doffset);
void batch_normalize_grad(Stream stream, Type type, const RowParts& size, const void* x, const void* g,
                          const void* scale, const void* mean, const void* variance, double epsilon, const void* dscale,
                          const void* doffset, void* dx);

}  // namespace tapestry::gpu
