#pragma once

#include "tapestry/tensor.hpp"

namespace tapestry::nn {

// Initial values of layers. They are computed at once, even while a graph is open, and no tape sees them. `where` is
// the line that makes the layer.

/// Numbers in [-bound, bound).
Tensor uniform_within(double bound, const Shape& shape, Where where, DType dtype = float32);
Tensor normal_with(double deviation, const Shape& shape, Where where, DType dtype = float32);
Tensor filled(double value, const Shape& shape, Where where);

/// Throws InvalidArgumentError, "Dense: in must be at least 1, but is 0", also for what no memory could hold.
void require_positive(std::int64_t value, std::string_view layer, std::string_view what, Where where);
/// Throws InvalidArgumentError, "Dropout: rate must be in [0, 1), but is 1.5".
void require_rate(double value, std::string_view layer, std::string_view what, Where where);

}  // namespace tapestry::nn
