#pragma once

#include "backend/cuda/kernels/kernel.hpp"

namespace tapestry::gpu {

// Arrays of rows of n elements without gaps; float types. See Backend for what is computed.

/// Their sizes, none of them 0.
struct Rows {
  std::int64_t rows, n;
};

void softmax(Stream stream, Type type, Rows size, bool logarithm, const void* x, void* y);
void softmax_grad(Stream stream, Type type, Rows size, bool logarithm, const void* y, const void* g, void* dx);

void normalize(Stream stream, Type type, Rows size, const void* x, const void* scale, const void* offset,
               double epsilon, void* y, void* mean, void* rstd);
void normalize_grad(Stream stream, Type type, Rows size, const void* x, const void* scale, const void* mean,
                    const void* rstd, const void* g, void* dx);

/// Rows whose sums are one row of the partial sums below.
inline constexpr std::int64_t sum_rows = 256;
/// Sums over each `sum_rows` rows, of g times the normalized x and of g: arrays of ceil(rows / sum_rows) rows.
void normalize_sums(Stream stream, Type type, Rows size, const void* x, const void* mean, const void* rstd,
                    const void* g, void* scales, void* offsets);

}  // namespace tapestry::gpu
