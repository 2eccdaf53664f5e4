#pragma once

#include "tapestry/tensor.hpp"

namespace tapestry {

/// The bits of x as elements of another type, of numbers both. If these are smaller, the result has a last axis more,
/// for the parts of each element of x, the lowest bits first; if they are larger, x has the parts along its last axis.
/// There is no gradient.
TAPESTRY_API Tensor bitcast(const Tensor& x, DType dtype);

}  // namespace tapestry
