#pragma once

#include <vector>

#include "tapestry/nn/recurrent.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::nn {

// The next states of networks and cells, from the products of the input and of the state with the weights, and biases.

inline Tensor rnn_step(Nonlinearity nonlinearity, const Tensor& from_input, const Tensor& from_hidden) {
  const Tensor sum = from_input + from_hidden;
  return nonlinearity == Nonlinearity::tanh ? tanh(sum) : relu(sum);
}

inline Tensor gru_step(const Tensor& from_input, const Tensor& from_hidden, const Tensor& before) {
  const std::vector<Tensor> i = split(from_input, 3, -1), h = split(from_hidden, 3, -1);
  const Tensor reset = sigmoid(i[0] + h[0]), update = sigmoid(i[1] + h[1]);
  const Tensor candidate = tanh(i[2] + reset * h[2]);
  return (1 - update) * candidate + update * before;
}

}  // namespace tapestry::nn
