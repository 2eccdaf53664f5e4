#pragma once

#include "tapestry/tensor.hpp"

namespace tapestry {

/// What `lstm_sequence` computes.
struct LSTMSequence {
  Tensor h;  ///< the outputs after each step: [batch, time, hidden]
  Tensor c;  ///< the cells after each step: [time, batch, hidden]
};
/// A whole LSTM layer of one direction. `from_input` [batch, time, 4 * hidden] is what the inputs contribute to the
/// gates (input, forget, cell, output), with all biases; `weight` is [4 * hidden, hidden]; the states before the first
/// step are [batch, hidden]. Throws InvalidArgumentError when the shapes do not fit.
TAPESTRY_API LSTMSequence lstm_sequence(const Tensor& from_input, const Tensor& weight, const Tensor& h,
                                        const Tensor& c);

}  // namespace tapestry
