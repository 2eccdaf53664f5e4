#pragma once

#include "tapestry/tensor.hpp"

namespace tapestry {

/// The tensor with neighbouring axes merged: `counts` says of how many of them each axis of the result is made. Its
/// rank must be known; sizes may be unknown, and may turn out to be 0.
Tensor merged(const Tensor& x, const Ints& counts);

}  // namespace tapestry
