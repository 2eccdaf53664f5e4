#pragma once

#include <span>
#include <string_view>

namespace tapestry::io {

/// How TensorFlow's op of an optimizer takes what our op has: its handles (the Variable, then its slots), the numbers
/// of the formula, and the gradient.
struct UpdateRule {
  enum class Part : std::uint8_t { handle, number, gradient };
  struct Argument {
    Part part;
    int index = 0;
    std::string_view label = {};  ///< a number's constant is "<node>/<label>"; the first is the learning rate's own
  };
  std::string_view op, resource, reference;
  bool nesterov;
  int handles, numbers;  ///< the last of the numbers is the weight decay, which TensorFlow's ops lack
  std::span<const Argument> arguments;
};

std::span<const UpdateRule> update_rules();

}  // namespace tapestry::io
