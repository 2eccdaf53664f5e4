#pragma once

#include "tapestry/tensor.hpp"

namespace tapestry::nn {

/// 1, 2, ... along an axis of x, whose size may be unknown, in the dtype of x.
Tensor positions_along(const Tensor& x, int axis);

}  // namespace tapestry::nn
