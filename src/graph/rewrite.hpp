#pragma once

#include <cassert>
#include <span>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "graph/plan_graph.hpp"

namespace tapestry::detail {

/// Makes a new graph from an old one, and remembers which new tensors and nodes stand for the old ones. Names, devices,
/// call sites and control inputs are kept; the old graph does not change.
///
/// Nodes must be visited in an order in which they could run. If a control input is left out, the nodes that it waited
/// for take its place. So ops that change Variables keep their order, whatever a pass leaves out.
class Rewrite {
 public:
  using Nodes = SmallVector<Node*, 2>;

  /// Rewrites a graph that is not a plan yet.
  explicit Rewrite(const GraphState& from);
  /// Rewrites a plan, whose nodes have devices.
  explicit Rewrite(const PlanGraph& from);

  const std::shared_ptr<GraphState>& graph() const { return graph_; }

  /// The new tensor that stands for an old one, and those for the inputs of an old node.
  const Tensor& of(const Tensor& old) const {
    const Endpoint end = endpoint_of(old);
    const Tensors& outputs = outputs_[end.node->index];
    assert(static_cast<std::size_t>(end.output) < outputs.size());
    return outputs[end.output];
  }
  Tensors inputs_of(const Node& old) const;
  /// Lets a tensor stand for an old one, unless another does already.
  void replace(const Tensor& old, const Tensor& by);
  /// The new nodes that stand for an old node as a control input.
  const Nodes& nodes_of(const Node& old) const { return nodes_[old.index]; }

  /// Adds a copy of the node.
  void copy(const Node& old) {
    build(old, [&] { return copy_of(old, inputs_of(old)).outputs(); });
  }
  /// Replaces a node: `make()` adds the new nodes and returns the tensors that stand for the old outputs.
  template <class Make>
  void build(const Node& old, Make make) {
    const Node* const one[] = {&old};
    build(std::span<const Node* const>(one), make);
  }
  /// Replaces several nodes at once: `make()` returns the outputs for the first, for the second, ..., and empty handles
  /// for those that nothing needs.
  template <class Make>
  void build(std::span<const Node* const> group, Make make) {
    const CallSiteScope site(group.back()->where());
    const std::size_t first = begin(group);
    finish(group, first, make());
  }

  /// For `make`: adds a copy of the node with other inputs of the same dtypes and shapes.
  Node& copy_of(const Node& old, const Tensors& inputs);
  /// Adds a node with the name and the options of `like` and the control inputs of the nodes that are being replaced.
  Node& add(const Op& op, const Tensors& inputs, const Attrs& attrs, const Specs& specs, const Node& like);
  /// Adds any node. In a plan, `outputs_on` is the device on which it runs. An `overridden` of another op is ignored.
  Node& add(Call call, const Specs& specs, NodeOptions options);
  NodeOptions options_like(const Node& old) const;
  /// Adds a constant, which waits for nothing.
  Tensor constant(const Tensor& value, const Node& like, const std::string& name);

  /// The plan of the new graph, with the feeds, fetches and operations of the old plan.
  PlanGraph plan_like(const PlanGraph& old) const;

 private:
  std::size_t begin(std::span<const Node* const> group);
  void finish(std::span<const Node* const> group, std::size_t first, const Tensors& outputs);
  bool take_name(const std::string& name);

  const GraphState& from_;
  std::shared_ptr<GraphState> graph_;
  std::vector<char> ordered_;                   ///< by old node: whether it or a node that it needs is stateful
  std::vector<Nodes> nodes_;                    ///< by old node
  std::vector<Tensors> outputs_;                ///< by old node: what stands for its outputs
  std::vector<Node*> waits_;                    ///< control inputs of the nodes that are being replaced
  const Node* replaced_ = nullptr;              ///< the last of the nodes that are being replaced
  std::vector<char> taken_;                     ///< by old node: whether a new node has its name
  std::unordered_set<std::string> more_names_;  ///< of new nodes; no old node has them
  std::vector<std::uint32_t> waited_for_;       ///< by new node: the last replacement that waits for it
  std::uint32_t replacement_ = 0;               ///< the number of replacements until now
  std::vector<Device> old_devices_, devices_;   ///< by node; empty when the old graph is no plan
};

}  // namespace tapestry::detail
