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

/// Whether an op has a gradient of the file's; or that, or one of the program's own, from `custom_gradient`.
/// @{
bool has_registered_gradient(const Op& op);
bool has_own_gradient(const Op& op);
/// @}

/// The gradient of such a node.
struct NodeGradient {
  /// Takes the gradients of the node's outputs, its inputs and the others. It returns the gradients of the inputs; an
  /// empty handle for an input without one.
  GraphFunction function{};
  Tensors others{};  ///< what else it uses of the node's graph
};
/// Nothing if a file's gradient cannot be computed. Throws UnimplementedError if this is so of the program's own, or if
/// the gradient changes Variables or draws random numbers.
std::optional<NodeGradient> gradient_function(const Node& node);

}  // namespace tapestry::detail
