#pragma once

#include "dispatch/define.hpp"

namespace tapestry::detail {

/// Ops that return their first input, a value that the user's function has computed, and whose attribute "function"
/// gives the gradients of the other inputs.
extern const OpDefinition custom_gradient_op, recompute_op;

/// Returns the first input once the second one is there. Ops on the output are not merged with the same ops on the
/// input. The name is XLA's.
extern const OpDefinition optimization_barrier_op;

/// Records that `op`, one of the first two, gave `value` for the arguments. `gradients` computes the arguments'
/// gradients from the arguments and, behind them, the gradient of the value.
Tensor record_result(const Op& op, const Tensor& value, const Tensors& arguments,
                     std::function<Tensors(const Tensors&)> gradients, Where where);

}  // namespace tapestry::detail
