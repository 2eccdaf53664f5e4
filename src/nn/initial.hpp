#pragma once

#include "tapestry/tensor.hpp"

namespace tapestry::nn {

// Initial values of layers. They are computed at once, even while a graph is open, and no tape sees them.

/// Numbers in [-bound, bound).
Tensor uniform_within(double bound, const Shape& shape, DType dtype = float32);
Tensor normal_with(double deviation, const Shape& shape, DType dtype = float32);
Tensor filled(double value, const Shape& shape);

/// Throws InvalidArgumentError, "Dense: in must be at least 1, but is 0".
void require_positive(std::int64_t value, std::string_view layer, std::string_view what, Where where);

}  // namespace tapestry::nn
