#pragma once

#include "backend/cuda/kernels/kernel.hpp"

namespace tapestry::gpu {

/// A matrix with any strides, in elements, and the distance to the next of its batch.
struct Matrices {
  const void* data;
  std::int64_t row, column, batch;
};

/// y = a b for `count` products of whole numbers, a [m, k] and b [k, n]; y [m, n] lies without gaps. They wrap.
void multiply_whole(Stream stream, Type type, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t count,
                    Matrices a, Matrices b, void* y, std::int64_t y_batch);

}  // namespace tapestry::gpu
