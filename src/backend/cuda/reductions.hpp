#pragma once

#include "backend/cuda/kernels/reduce.hpp"
#include "backend/cuda/pieces.hpp"

namespace tapestry::gpu {

/// How x, which has elements, is reduced along the axes whose bits are set in `reduced`; only y is left to be filled
/// in. Throws UnimplementedError for more than 2^31 elements, or such that are spread as far.
Reduction plan_reduction(const View& x, std::uint32_t reduced);

}  // namespace tapestry::gpu
