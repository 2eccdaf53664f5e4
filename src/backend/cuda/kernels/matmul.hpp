#pragma once

#include "backend/cuda/kernels/kernel.hpp"

namespace tapestry::gpu {

/// A batch of matrices with any strides, in elements.
struct Matrices {
  const void* data;
  std::int64_t row, column, batch;
};

/// y = a b for `count` products of integers, which wrap: a [m, k], b [k, n], and y [m, n], which is contiguous.
void multiply_whole(Stream stream, Type type, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t count,
                    Matrices a, Matrices b, void* y, std::int64_t y_batch);

}  // namespace tapestry::gpu
