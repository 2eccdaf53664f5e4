#pragma once

#include "backend/cuda/kernels/kernel.hpp"

namespace tapestry::gpu {

// The arrays are contiguous rows of n elements of a float type. Backend tells what is computed.

/// The number of rows, and of elements in each; neither is 0.
struct Rows {
  std::int64_t rows, n;
};

void softmax(Stream stream, Type type, Rows size, bool logarithm, const void* x, void* y);
void softmax_grad(Stream stream, Type type, Rows size, bool logarithm, const void* y, const void* g, void* dx);

/// `labels` has an int32, or an int64 if it is `wide`, for each row. *refused is lowered to the first row whose label
/// is no position in it.
void sparse_softmax_cross_entropy(Stream stream, Type type, Rows size, const void* logits, const void* labels,
                                  bool wide, void* loss, void* backprop, unsigned long long* refused);

void normalize(Stream stream, Type type, Rows size, const void* x, const void* scale, const void* offset,
               double epsilon, void* y, void* mean, void* rstd);
void normalize_grad(Stream stream, Type type, Rows size, const void* x, const void* scale, const void* mean,
                    const void* rstd, const void* g, void* dx);

/// The number of rows that are added to one row of partial sums.
inline constexpr std::int64_t sum_rows = 64;
/// Partial sums over each `sum_rows` rows: `scales` of g times the normalized x, and `offsets` of g. Both have
/// ceil(rows / sum_rows) rows.
void normalize_sums(Stream stream, Type type, Rows size, const void* x, const void* mean, const void* rstd,
                    const void* g, void* scales, void* offsets);

}  // namespace tapestry::gpu
