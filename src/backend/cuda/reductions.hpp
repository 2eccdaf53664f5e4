#pragma once

#include "backend/cuda/kernels/reduce.hpp"
#include "backend/cuda/pieces.hpp"

namespace tapestry::gpu {

/// Plans the reduction of x, which has elements, along the axes whose bits are set in `reduced`. The caller sets y and,
/// where needed, `divisor` or `wide`. Throws UnimplementedError if the results, the elements of one result, or the span
/// of x's elements in memory reach 2^31.
Reduction plan_reduction(const View& x, std::uint32_t reduced);

}  // namespace tapestry::gpu
