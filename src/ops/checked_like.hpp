#pragma once

#include "tapestry/tensor.hpp"

namespace tapestry {

// The caller has compared the two shapes as far as they are known. A graph that does not know all sizes yet compares
// them when it does: the result is x, or the run is refused. So that gradients are added in the same order everywhere,
// a tape sees an op in any case.

/// x, which must have the shape of `like`.
Tensor checked_like(const Tensor& x, const Tensor& like);
/// x, which must have the shape, whose unknown sizes are those of tensors.
Tensor checked_like(const Tensor& x, const Shape& shape);

}  // namespace tapestry
