#pragma once

#include "tapestry/autocast.hpp"
#include "tapestry/op.hpp"

namespace tapestry {

/// The type of this thread's innermost `Autocast`. Constant-initialised, so that access needs no guard.
extern constinit thread_local DType autocast_type __attribute__((tls_model("initial-exec")));

/// Casts the float inputs of an op to the type in which it runs in that scope, unless one of them is float64. C++
/// numbers are left to the promotion. Throws InvalidArgumentError for an input whose type is not known yet.
void autocast_inputs(const Op& op, Tensors& inputs, Where where);

}  // namespace tapestry
