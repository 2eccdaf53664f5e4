#include <algorithm>

#include "graph/known_values.hpp"
#include "graph/passes/passes.hpp"
#include "graph/rewrite.hpp"
#include "graph/state_ops.hpp"

namespace tapestry::detail {
namespace {

/// Larger results are computed anew in every run, rather than kept.
constexpr std::int64_t largest_bytes = 10 << 20;

bool may_be_constant(const Node& node) {
  const Op& op = node.op();
  if (op.stateful || op.evaluate || &op == &const_op || &op == &placeholder_op || node.outputs().empty()) return false;
  return std::all_of(node.outputs().begin(), node.outputs().end(), [](const Tensor& output) {
    const auto element = static_cast<std::int64_t>(size_of(output.dtype()));
    return element > 0 && output.shape().num_elements() <= largest_bytes / element && output.device().is_cpu();
  });
}

/// Appends the constant values of the inputs. Where the op reads only dtype and shape, the input itself will do.
/// Returns false if a value is not known or an input is not on the CPU.
bool known_inputs(const Node& node, const Tensors& inputs, Tensors& values) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor value = constant_value(inputs[i]);
    if (!value && !reads_shape_only(node.op(), i)) return false;
    if (!inputs[i].device().is_cpu()) return false;
    values.push_back(value ? value : inputs[i]);
  }
  return true;
}

/// The node's results; empty if they cannot be computed now.
Tensors computed(const Node& node, const Tensors& inputs) {
  Tensors values;
  return may_be_constant(node) && known_inputs(node, inputs, values) ? evaluate(node, values) : Tensors();
}

bool folds_any(const GraphState& graph) {
  for (std::size_t i = 0; i < graph.size(); ++i)
    if (!computed(graph.node(i), graph.node(i).inputs()).empty()) return true;
  return false;
}

}  // namespace

PlanGraph fold(const PlanGraph& plan) {
  const GraphState& graph = *plan.graph;
  if (!folds_any(graph)) return plan;
  Rewrite rewrite(plan);
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    const Tensors values = computed(node, rewrite.inputs_of(node));
    if (values.empty()) {
      rewrite.copy(node);
      continue;
    }
    rewrite.build(node, [&] {
      Tensors constants;
      for (const Tensor& value : values) constants.push_back(rewrite.constant(value, node, node.name()));
      return constants;
    });
  }
  return rewrite.plan_like(plan);
}

}  // namespace tapestry::detail
