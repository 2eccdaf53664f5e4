#include "graph/rewrite.hpp"

#include <algorithm>

#include "graph/state_ops.hpp"

namespace tapestry::detail {
namespace {

bool needs(const Node& node, const Node& other) {
  return std::find(node.control_inputs.begin(), node.control_inputs.end(), &other) != node.control_inputs.end() ||
         std::any_of(node.inputs().begin(), node.inputs().end(),
                     [&](const Tensor& input) { return endpoint_of(input).node == &other; });
}

}  // namespace

Rewrite::Rewrite(const GraphState& from)
    : graph_(std::make_shared<GraphState>()), open_(Graph(graph_)), ordered_(from.size()), nodes_(from.size()) {
  graph_->budget().set_limits(from.budget().limits());
  for (std::size_t i = 0; i < from.size(); ++i) {
    const Node& node = from.node(i);
    const auto is_ordered = [&](const Node* other) { return ordered_[other->index] != 0; };
    ordered_[i] = node.op().stateful ||
                  std::any_of(node.control_inputs.begin(), node.control_inputs.end(), is_ordered) ||
                  std::any_of(node.inputs().begin(), node.inputs().end(),
                              [&](const Tensor& input) { return is_ordered(endpoint_of(input).node); });
  }
}

Tensors Rewrite::inputs_of(const Node& old) const {
  Tensors inputs;
  for (const Tensor& input : old.inputs()) inputs.push_back(of(input));
  return inputs;
}

Node& Rewrite::copy_of(const Node& old, const Tensors& inputs) {
  Specs specs;
  for (const Tensor& output : old.outputs()) specs.push_back(output.spec());
  return add(old.op(), inputs, old.attrs(), specs, old);
}

Node& Rewrite::add(const Op& op, const Tensors& inputs, const Attrs& attrs, const Specs& specs, const Node& like) {
  return graph_->add_node(Call(op, inputs, attrs, like.where(), like.name()), specs);
}

Tensor Rewrite::constant(const Tensor& value, const Node& like, const std::string& name) {
  const auto saved = std::exchange(scopes().control_inputs, {});
  const Tensor there = value.to(like.place);
  Call call(const_op, {}, {{"dtype", value.dtype()}, {"value", there}}, like.where(), name);
  Tensor result = graph_->add_node(std::move(call), {value.spec()}).output();
  scopes().control_inputs = saved;
  return result;
}

std::size_t Rewrite::begin(std::span<const Node* const> group) {
  Scopes& scope = scopes();
  scope.device = group.back()->device;
  scope.colocation = group.back()->colocation;
  scope.gradients.clear();
  for (const Node* old : group)
    if (old->overridden) scope.gradients.insert_or_assign(old->type(), old->overridden->gradient);
  scope.place = group.back()->place;
  scope.control_inputs.clear();
  const auto wait_for = [&](const Node* old) {
    if (!ordered_[old->index]) return;
    for (Node* node : nodes_of(*old)) scope.control_inputs.push_back(operation_of(*node));
  };
  for (const Node* old : group) {
    for (const Node* control : old->control_inputs) wait_for(control);
    // An input may be computed in a way now that does not wait for what it waited for before.
    if (old->op().stateful)
      for (const Tensor& input : old->inputs()) wait_for(endpoint_of(input).node);
  }
  return graph_->size();
}

void Rewrite::finish(std::span<const Node* const> group, std::size_t first, const Tensors& outputs) {
  std::size_t next = 0;
  for (const Node* old : group)
    for (const Tensor& output : old->outputs())
      if (const Tensor& by = outputs[next++]) replace(output, by);
  std::vector<Node*> nodes;
  const auto add = [&](Node* node) {
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
  };
  for (std::size_t i = first; i < graph_->size(); ++i)
    if (const Op* op = &graph_->node(i).op(); op != &const_op && op != &placeholder_op) add(&graph_->node(i));
  const std::size_t made = nodes.size();
  const auto is_waited_for = [&](const Node* other) {
    return std::any_of(nodes.begin(), nodes.begin() + static_cast<std::ptrdiff_t>(made),
                       [&](const Node* node) { return needs(*node, *other); });
  };
  const auto add_waits = [&](const Node* old) {
    if (!ordered_[old->index]) return;
    for (Node* node : nodes_of(*old))
      if (!is_waited_for(node)) add(node);
  };
  for (const Node* old : group) {
    for (const Node* control : old->control_inputs) add_waits(control);
    for (const Tensor& input : old->inputs()) add_waits(endpoint_of(input).node);
  }
  for (const Node* old : group) nodes_[old->index] = nodes;
}

PlanGraph Rewrite::plan_like(const PlanGraph& old) const {
  PlanGraph plan{.graph = graph_, .feeds = {}, .fetches = {}, .operations = {}};
  for (const Tensor& feed : old.feeds) plan.feeds.push_back(of(feed));
  for (const Tensor& fetch : old.fetches) plan.fetches.push_back(of(fetch));
  for (const Node* operation : old.operations)
    plan.operations.insert(plan.operations.end(), nodes_of(*operation).begin(), nodes_of(*operation).end());
  return plan;
}

}  // namespace tapestry::detail
