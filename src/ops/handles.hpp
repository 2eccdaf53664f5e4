#pragma once

#include "tapestry/op.hpp"

/// The ops that the parts above make nodes of, or know by what they compute. A part that asks only how an op treats its
/// elements reads the properties of its entry instead.

namespace tapestry::ops {

extern const Op &add, &subtract, &multiply, &divide;
extern const Op &cast, &device_copy, &identity, &snapshot;
extern const Op &broadcast_like, &broadcast_to, &expand_dims, &reshape, &sum_like, &transpose;
extern const Op &fill, &ones_like, &zeros_like;
extern const Op &matmul, &shape;

}  // namespace tapestry::ops
