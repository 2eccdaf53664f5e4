#pragma once

#include "tapestry/tensor.hpp"

namespace tapestry::nn {

/// 1, 2, ... along an axis of x, however long it is, in the dtype of x.
Tensor positions_along(const Tensor& x, int axis);

}  // namespace tapestry::nn
