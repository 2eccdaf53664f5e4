#pragma once

#include "tapestry/op.hpp"

/// Handles on the ops that other components add to graphs, or recognize. A component that only needs to know how an op
/// treats its elements reads the properties of its entry instead.

namespace tapestry::ops {

extern const Op &add, &subtract, &multiply, &divide;
extern const Op &cast, &device_copy, &snapshot;
extern const Op &broadcast_like, &broadcast_to, &expand_dims, &reshape, &sum_like, &transpose;
TAPESTRY_API extern const Op &fill, &identity, &matmul, &ones_like, &zeros_like;
extern const Op &equal, &shape, &where;
extern const Op &gather, &unsorted_segment_sum;
extern const Op &custom_gradient, &linear_recurrence;

}  // namespace tapestry::ops
