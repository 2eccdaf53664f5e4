#pragma once

#include <array>
#include <functional>

#include "backend/cuda/pieces.hpp"

namespace tapestry::gpu {

/// A batch of products y = op(a) op(b) of row-major matrices. Strides count elements.
struct Product {
  struct Matrix {
    void* data = nullptr;
    std::int64_t row = 0;    ///< stride of the rows as they are stored
    std::int64_t batch = 0;  ///< stride of the matrices
    bool transposed = false;
  };
  std::int64_t m = 0, n = 0, k = 0, count = 1;
  Matrix a, b, y;
};

/// Whether products should read an operand without a copy: its matrices or their transposes are row-major and, unless
/// some stand for several, equally far apart, so that one call computes the batch.
bool is_readable(const View& x);

/// Calls `body` for products that together compute y. a and b are readable and broadcast to y's batch dimensions; y has
/// elements.
void for_each_product(const View& a, const View& b, bool transpose_a, bool transpose_b, const View& y,
                      const std::function<void(const Product&)>& body);

}  // namespace tapestry::gpu
