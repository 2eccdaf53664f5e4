#pragma once

#include "tapestry/tensor.hpp"

namespace tapestry::nn {

// What the layers start from: computed at once, whatever graph is open, and seen by no tape.

/// Numbers in [-bound, bound).
Tensor uniform_within(double bound, const Shape& shape, DType dtype = float32);
Tensor normal_with(double deviation, const Shape& shape, DType dtype = float32);
Tensor filled(double value, const Shape& shape);

/// Throws InvalidArgumentError, "Dense: in must be at least 1, but is 0".
void require_positive(std::int64_t value, std::string_view layer, std::string_view what, Where where);

}  // namespace tapestry::nn
