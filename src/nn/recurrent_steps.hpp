#pragma once

#include <vector>

#include "tapestry/nn/recurrent.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::nn {

// The next state of RNN and RNNCell, from the products of the input and of the state with the weights, and biases.

inline Tensor rnn_step(Nonlinearity nonlinearity, const Tensor& from_input, const Tensor& from_hidden) {
  const Tensor sum = from_input + from_hidden;
  return nonlinearity == Nonlinearity::tanh ? tanh(sum) : relu(sum);
}

}  // namespace tapestry::nn
