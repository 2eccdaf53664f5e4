#pragma once

#include "tapestry/tensor.hpp"

namespace tapestry::nn {

/// 1, 2, ... along an axis of x, whose size may be unknown, int64. A half type could not count beyond 2048.
Tensor positions_along(const Tensor& x, int axis);

}  // namespace tapestry::nn
