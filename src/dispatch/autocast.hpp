#pragma once

#include "tapestry/autocast.hpp"
#include "tapestry/op.hpp"

namespace tapestry {

/// The type of the innermost scope of this thread. Constant-initialised, so that access needs no guard.
extern constinit thread_local DType autocast_type __attribute__((tls_model("initial-exec")));

/// Casts the inputs of an op to the type in which it runs in such a scope; C++ numbers follow the others.
void autocast_inputs(const Op& op, Tensors& inputs, Where where);

}  // namespace tapestry
