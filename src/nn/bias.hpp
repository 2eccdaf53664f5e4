#pragma once

#include <optional>

#include "tapestry/autocast.hpp"
#include "tapestry/nn/parameter.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::nn {

/// y + bias, if there is one; in the scope of an Autocast in the type of its products, in which y is.
inline Tensor with_bias(const Tensor& y, const Tensor& bias) {
  if (!bias) return y;
  return Autocast::current() == float32 || y.rank() < 2 ? y + bias : bias_add(y, bias);
}
inline Tensor with_bias(const Tensor& y, const std::optional<Parameter>& bias) {
  return bias ? with_bias(y, Tensor(*bias)) : y;
}

}  // namespace tapestry::nn
