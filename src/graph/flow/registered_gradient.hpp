#pragma once

#include <optional>
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
TAPESTRY_API Tensors with_registered_gradient(const RegisteredGradient& gradient, const Tensors& inputs,
                                              std::string_view name, Where where);

/// Whether an op has a gradient of the file's.
bool has_registered_gradient(const Op& op);
/// The gradient of such a node as a function of the gradients of its outputs and of its inputs. It returns those of the
/// inputs; an empty handle for an input without one. Nothing if there is none, or one that uses more than its inputs.
std::optional<GraphFunction> gradient_function(const Node& node);

}  // namespace tapestry::detail
