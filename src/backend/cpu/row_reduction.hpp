#pragma once

#include "backend/backend.hpp"
#include "backend/cpu/kernels/elementwise.hpp"

namespace tapestry::host {

/// What reduces few contiguous elements of a type to one, as the backend does: `row(x, y, n, number)`.
struct RowReduction {
  UnaryRow row;
  double number;  ///< the bits of the kernel's address
};
RowReduction row_reduction(ReduceFunction function, DType dtype);

}  // namespace tapestry::host
