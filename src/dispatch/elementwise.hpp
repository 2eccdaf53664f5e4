#pragma once

#include "backend/program.hpp"
#include "tapestry/op.hpp"

namespace tapestry {

/// Computes the call's output by the backend's kernel for the function.
void run(const Elementwise& function, Backend& backend, const Call& call);

}  // namespace tapestry
