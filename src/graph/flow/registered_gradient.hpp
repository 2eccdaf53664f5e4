#pragma once

#include <string>
#include <vector>

#include "graph/flow/function.hpp"

namespace tapestry::detail {

/// The gradient that a file registers for an operation of its own, which returns its first inputs, the values.
struct RegisteredGradient {
  GraphFunction function{};   ///< takes the gradients of the values, and what it captures
  std::vector<bool> given{};  ///< by value: whether the function returns its gradient
  std::string problem{};      ///< why there is no function; "" if there is one
};

/// Adds an operation with such a gradient, and returns the values. `inputs`: the values, and what the gradient
/// captures. Where there is no function, asking for the gradient throws UnimplementedError.
Tensors with_registered_gradient(const RegisteredGradient& gradient, const Tensors& inputs, std::string_view name,
                                 Where where);

}  // namespace tapestry::detail
