#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace tapestry::io {

/// How TensorFlow's op of an optimizer takes what our op has: its handles (the Variable, then its slots), the numbers
/// of the formula, and the gradient. Adam and AdamW are told by the five numbers that theirs are made of: the learning
/// rate, beta1, beta2, epsilon and the decay.
///
/// TensorFlow's ops know no decay: it is written in front of them. Its Adam adds epsilon to sqrt(v) before the
/// correction by sqrt(1 - beta2^step), ours after it: an epsilon that is multiplied by this number is the same.
struct UpdateRule {
  enum class Part : std::uint8_t { handle, number, from_step, gradient };
  struct Argument {
    Part part;
    int index = 0;
    std::string_view label = {};  ///< a number's constant is "<node>/<label>"; the first is the learning rate's own
  };
  /// What follows from the step: beta1^step, beta2^step, epsilon sqrt(1 - beta2^step).
  enum FromStep { beta1_power, beta2_power, epsilon };

  std::string_view op, resource, reference;
  bool nesterov;
  int numbers;  ///< the last of them is the weight decay
  std::span<const Argument> arguments;
  bool decays_variable = false;  ///< the Variable itself, and not by the gradient

  bool is_adam() const { return resource == "ResourceApplyAdam"; }
};

inline constexpr int adam_parts = 5;

std::span<const UpdateRule> update_rules();
/// The rule of one of our ops, or nullptr.
const UpdateRule* update_rule_of(std::string_view op);

}  // namespace tapestry::io
