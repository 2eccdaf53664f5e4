#pragma once

#include <optional>

#include "tapestry/autocast.hpp"
#include "tapestry/nn/parameter.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::nn {

/// y + bias, or y without a bias. In the scope of an Autocast the sum has the type of the product y, unless y has fewer
/// than two axes.
inline Tensor with_bias(const Tensor& y, const Tensor& bias) {
  if (!bias) return y;
  return Autocast::current() == float32 || y.rank() < 2 ? y + bias : bias_add(y, bias);
}
inline Tensor with_bias(const Tensor& y, const std::optional<Parameter>& bias) {
  return bias ? with_bias(y, Tensor(*bias)) : y;
}

}  // namespace tapestry::nn
