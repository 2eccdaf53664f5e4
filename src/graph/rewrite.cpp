#include "graph/rewrite.hpp"

#include <algorithm>

#include "graph/state_ops.hpp"

namespace tapestry::detail {
namespace {

/// More nodes than these to wait for are joined by a NoOp. Without that, long chains of replaced nodes would take time
/// and memory that grow with the square of their length.
constexpr std::size_t most_waits = 16;

/// Calls `each(other)` for all nodes that a node needs directly.
void for_each_need(const Node& node, auto each) {
  for (Node* control : node.control_inputs) each(*control);
  for (const Tensor& input : node.inputs()) each(producer_of(input));
}

}  // namespace

Rewrite::Rewrite(const GraphState& from)
    : from_(from),
      graph_(std::make_shared<GraphState>()),
      ordered_(from.size()),
      nodes_(from.size()),
      outputs_(from.size()),
      taken_(from.size()) {
  graph_->budget().set_limits(from.budget().limits());
  graph_->arena_pool = from.arena_pool;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const Node& node = from.node(i);
    const auto is_ordered = [&](const Node* other) { return ordered_[other->index] != 0; };
    ordered_[i] = node.op().stateful ||
                  std::any_of(node.control_inputs.begin(), node.control_inputs.end(), is_ordered) ||
                  std::any_of(node.inputs().begin(), node.inputs().end(),
                              [&](const Tensor& input) { return is_ordered(endpoint_of(input).node); });
  }
}

Rewrite::Rewrite(const PlanGraph& from) : Rewrite(*from.graph) { old_devices_ = from.devices; }

void Rewrite::replace(const Tensor& old, const Tensor& by) {
  const Endpoint end = endpoint_of(old);
  Tensors& outputs = outputs_[end.node->index];
  if (outputs.empty()) outputs.resize(end.node->outputs().size());
  if (Tensor& output = outputs[end.output]; !output) output = by;
}

Tensors Rewrite::inputs_of(const Node& old) const {
  Tensors inputs;
  for (const Tensor& input : old.inputs()) inputs.push_back(of(input));
  return inputs;
}

Node& Rewrite::copy_of(const Node& old, const Tensors& inputs) {
  return add(old.op(), inputs, old.attrs(), specs_of(old), old);
}

Node& Rewrite::add(const Op& op, const Tensors& inputs, const Attrs& attrs, const Specs& specs, const Node& like) {
  return add(Call(op, inputs, attrs, like.where(), like.name()), specs, options_like(like));
}

Node& Rewrite::add(Call call, const Specs& specs, NodeOptions options) {
  if (options.overridden && options.overridden->name != call.op().name) options.overridden = nullptr;
  // The nodes of a plan get names only here, because no scopes are open for it. Most have the unique ones of the old
  // graph.
  if (!old_devices_.empty()) {
    const std::string name = call.name();
    while (!take_name(call.name())) call.set_name(graph_->names().unique(name));
    options.name_is_taken = true;
  }
  Node& node = graph_->add_node(std::move(call), specs, options);
  if (options.outputs_on) devices_.push_back(*options.outputs_on);
  return node;
}

/// Returns false if another node of the new graph has the name.
bool Rewrite::take_name(const std::string& name) {
  // Most nodes take the name of the one that they replace, for which nothing has to be looked up.
  const Node* old = replaced_ && replaced_->name() == name ? replaced_ : from_.find(name);
  return old ? !std::exchange(taken_[old->index], 1) : more_names_.insert(name).second;
}

NodeOptions Rewrite::options_like(const Node& old) const {
  return {.control_inputs = waits_,
          .device = old.device,
          .colocation = old.colocation,
          .overridden = old.overridden,
          .outputs_on = old_devices_.empty() ? std::nullopt : std::optional(old_devices_[old.index])};
}

Tensor Rewrite::constant(const Tensor& value, const Node& like, const std::string& name) {
  NodeOptions options = options_like(like);
  options.control_inputs.clear();
  const Tensor there = value.to(*options.outputs_on);
  Call call(const_op, {}, {{"dtype", value.dtype()}, {"value", there}}, like.where(), name);
  return add(std::move(call), {value.spec()}, std::move(options)).output();
}

std::size_t Rewrite::begin(std::span<const Node* const> group) {
  waits_.clear();
  replaced_ = group.back();
  const auto wait_for = [&](const Node* old) {
    if (ordered_[old->index]) waits_.insert(waits_.end(), nodes_of(*old).begin(), nodes_of(*old).end());
  };
  for (const Node* old : group) {
    for (const Node* control : old->control_inputs) wait_for(control);
    // The new input may no longer wait for what the old one waited for.
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
  Nodes nodes;
  for (std::size_t i = first; i < graph_->size(); ++i)
    if (const Op* op = &graph_->node(i).op(); op != &const_op && op != &placeholder_op)
      nodes.push_back(&graph_->node(i));
  const std::size_t made = nodes.size();
  ++replacement_;
  waited_for_.resize(graph_->size());
  const auto mark = [&](const Node& node) {
    return std::exchange(waited_for_[node.index], replacement_) != replacement_;
  };
  for (const Node* node : nodes) {
    mark(*node);
    for_each_need(*node, mark);
  }
  const auto add_waits = [&](const Node& old) {
    if (!ordered_[old.index]) return;
    for (Node* node : nodes_of(old))
      if (mark(*node)) nodes.push_back(node);
  };
  for (const Node* old : group) for_each_need(*old, add_waits);
  if (nodes.size() > made + most_waits) {
    const Node& last = *group.back();
    NodeOptions options = options_like(last);
    options.control_inputs.assign(nodes.begin() + made, nodes.end());
    nodes.resize(made);
    nodes.push_back(&add(Call(no_op_op, {}, {}, last.where(), last.name() + "/waits"), {}, std::move(options)));
  }
  for (const Node* old : group) nodes_[old->index] = nodes;
}

PlanGraph Rewrite::plan_like(const PlanGraph& old) const {
  PlanGraph plan{
      .graph = graph_, .feeds = {}, .fetches = {}, .operations = {}, .devices = devices_, .complete = old.complete};
  for (const Tensor& feed : old.feeds) plan.feeds.push_back(of(feed));
  for (const Tensor& fetch : old.fetches) plan.fetches.push_back(of(fetch));
  for (const Node* operation : old.operations)
    plan.operations.insert(plan.operations.end(), nodes_of(*operation).begin(), nodes_of(*operation).end());
  return plan;
}

}  // namespace tapestry::detail
