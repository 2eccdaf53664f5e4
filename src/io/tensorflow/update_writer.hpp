#pragma once

#include <unordered_map>

#include "io/tensorflow/node_writer.hpp"
#include "io/tensorflow/updates.hpp"
#include "tapestry/graph.hpp"

namespace tapestry::io {

/// Whether the node is the update of a Variable by an optimizer.
bool is_update(const detail::Node& node);
/// The node that gives an update its numbers.
const detail::Node& rate_of(const detail::Node& update);
/// The Variable that a node reads or changes.
TAPESTRY_API const Variable& variable_of(const detail::Node& node);
/// TensorFlow's attribute "_class" of a node that is colocated with a Variable or another node.
AttrDef class_of(const detail::Node& handle);

/// Writes the updates of optimizers: TensorFlow's op of the same formula, and before it ops for what that one lacks.
class UpdateWriter {
 public:
  explicit UpdateWriter(VariableStyle style)
      : resource_(style == VariableStyle::resource), frozen_(style == VariableStyle::frozen) {}

  /// Notes the node that gives an update its numbers. The learning rate is written in the type of the first update that
  /// is noted for it.
  void note(const detail::Node& update);
  /// Whether the node gives updates their numbers, and is written as the learning rate alone.
  bool is_rate(const detail::Node& node) const {
    const auto found = rates_.find(&node);
    return found != rates_.end() && !found->second.is_computed;
  }
  void write_rate(NodeWriter& writer);
  /// Writes the numbers of an optimizer whose updates are composed of ops: the learning rate and the number of the
  /// step.
  void write_composed_numbers(NodeWriter& writer) const;
  void write_update(NodeWriter& writer) const;

 private:
  /// What is written for an optimizer.
  struct Rate {
    DType dtype = DType::unknown;
    bool is_adam = false;
    bool is_computed = false;              ///< the graph computes the numbers, as in a file of TensorFlow's own
    bool is_scheduled = false;             ///< the learning rate follows a formula of the number of steps
    std::vector<double> numbers{};         ///< in the order of UpdateRule; AdamW's scheduled decay: per rate
    Value scheduled{};                     ///< the scheduled rate; float64
    std::vector<std::string> gradients{};  ///< the operations that compute the gradients of its updates
    std::string counter{};                 ///< Adam's: the Variable that counts the steps
    std::vector<Value> from_step{};        ///< Adam's: beta1^step, beta2^step, epsilon sqrt(1 - beta2^step); float64
  };

  Value read(NodeWriter& writer, const std::string& handle, DType dtype) const;
  void write_computed_update(NodeWriter& writer, const UpdateRule& rule) const;
  void write_row_update(NodeWriter& writer, const UpdateRule& rule) const;
  Value decayed_gradient(NodeWriter& writer, const Rate& rate) const;
  static Value decay_of(NodeWriter& writer, const Rate& rate, DType dtype);
  Value write_step(NodeWriter& writer) const;
  Value write_schedule(NodeWriter& writer) const;
  void write_adam_step(NodeWriter& writer, Rate& rate) const;

  bool resource_, frozen_;
  std::unordered_map<const detail::Node*, Rate> rates_;
};

}  // namespace tapestry::io
