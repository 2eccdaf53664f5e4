#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/tensorflow/graph_def.hpp"

namespace tapestry::io {

inline constexpr int adam_parts = 5;  ///< the count of numbers that tells Adam from others

/// The arguments of TensorFlow's op for an optimizer, taken from those of our op: its handles (the Variable, then its
/// slots), the numbers of the formula, and the gradient. For Adam and AdamW, the numbers are the five from which our
/// op's are computed: the learning rate, beta1, beta2, epsilon and the decay.
///
/// TensorFlow's ops have no decay: other ops before them apply it. TensorFlow's Adam adds epsilon to sqrt(v) before the
/// correction by sqrt(1 - beta2^step), ours after it. The file therefore has epsilon multiplied by this number.
///
/// An update of rows has their indices among its arguments. Where TensorFlow has no op for its formula, several ops
/// compute what the last one, a ScatterSub, subtracts; a file tells by hints which update that is.
struct UpdateRule {
  enum class Part : std::uint8_t { handle, number, from_step, gradient, indices, difference };
  struct Argument {
    Part part;
    int index = 0;
    std::string_view label = {};  ///< a number's constant is "<node>/<label>"; the learning rate is a node of its own
  };
  /// The numbers that depend on the step: beta1^step, beta2^step, epsilon sqrt(1 - beta2^step).
  enum FromStep { beta1_power, beta2_power, epsilon };

  std::string_view op, resource, reference;
  bool nesterov;
  int numbers;  ///< how many; the last one is the weight decay
  std::span<const Argument> arguments;
  bool decays_variable = false;  ///< the decay changes the Variable itself, not the gradient

  bool is_adam() const { return numbers == adam_parts; }
  bool has(Part part) const {
    return std::any_of(arguments.begin(), arguments.end(), [&](const Argument& each) { return each.part == part; });
  }
  bool is_of_rows() const { return has(Part::indices); }
};

/// Whether an op of TensorFlow's takes a reference to a Variable, as TensorFlow 1 has it.
TAPESTRY_API bool takes_reference(std::string_view op);
/// Whether its output is this reference.
TAPESTRY_API bool gives_reference(std::string_view op);
/// The nodes that may assign a Variable a value of any sizes: assignments, branches and loops.
struct Assignments {
  int count = 0;
  bool is_unchecked = false;  ///< one that is not the initializer takes a value of another shape than the Variable's
};
/// By the Variable's name.
TAPESTRY_API std::map<std::string, Assignments> assignments_of_any_sizes(const std::vector<NodeDef>& nodes);

TAPESTRY_API std::span<const UpdateRule> update_rules();
/// The rule of one of our ops, or nullptr.
TAPESTRY_API const UpdateRule* update_rule_of(std::string_view op);

}  // namespace tapestry::io
