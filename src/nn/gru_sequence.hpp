#pragma once

#include "tapestry/tensor.hpp"

namespace tapestry {

/// A whole GRU layer of one direction: the states after each step, [batch, time, hidden]. `from_input` [batch, time,
/// 3 * hidden] is what the inputs contribute to the gates (reset, update, candidate), with their bias; `weight`
/// [3 * hidden, hidden] and `bias` [3 * hidden] are those of the state; `h` [batch, hidden] is the state before the
/// first step. Throws InvalidArgumentError when the shapes do not fit.
TAPESTRY_API Tensor gru_sequence(const Tensor& from_input, const Tensor& weight, const Tensor& bias, const Tensor& h);

}  // namespace tapestry
