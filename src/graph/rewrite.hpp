#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "graph/plan_graph.hpp"

namespace tapestry::detail {

/// Makes a new graph out of another one and remembers what stands in it for what. Names, devices, places in the user's
/// program and control inputs are kept; the old graph stays as it is.
///
/// Nodes are to be visited in an order in which they could run. A control input of a node that is gone becomes one of
/// all that this node waited for, so that what changes Variables keeps its order, whatever a pass leaves out.
class Rewrite {
 public:
  /// Of a graph that is no plan yet.
  explicit Rewrite(const GraphState& from);
  /// Of a plan, whose nodes run somewhere.
  explicit Rewrite(const PlanGraph& from);

  const std::shared_ptr<GraphState>& graph() const { return graph_; }

  /// The tensor that stands for one of the old graph, and those for the inputs of a node.
  const Tensor& of(const Tensor& old) const { return tensors_.at(old.id()); }
  Tensors inputs_of(const Node& old) const;
  /// Lets a tensor stand for an old one, unless another does already.
  void replace(const Tensor& old, const Tensor& by) { tensors_.try_emplace(old.id(), by); }
  /// The nodes that stand for a node when others wait for it.
  const std::vector<Node*>& nodes_of(const Node& old) const { return nodes_[old.index]; }

  /// Adds the node as it stands.
  void copy(const Node& old) {
    build(old, [&] { return copy_of(old, inputs_of(old)).outputs(); });
  }
  /// Lets `make()` add what stands for a node, and return what stands for its outputs.
  template <class Make>
  void build(const Node& old, Make make) {
    const Node* const one[] = {&old};
    build(std::span<const Node* const>(one), make);
  }
  /// The same for several nodes at once; `make` returns the outputs of the first, of the second, ...; empty handles for
  /// those that nobody needs.
  template <class Make>
  void build(std::span<const Node* const> group, Make make) {
    const CallSiteScope site(group.back()->where());
    const std::size_t first = begin(group);
    finish(group, first, make());
  }

  /// For `make`: the node with other inputs of the same dtypes and shapes.
  Node& copy_of(const Node& old, const Tensors& inputs);
  /// A node with the name and the options of another, which waits for what the nodes wait for that are being built.
  Node& add(const Op& op, const Tensors& inputs, const Attrs& attrs, const Specs& specs, const Node& like);
  /// Any node; of a plan, with a device for its outputs, on which it runs. A gradient of another op does not count.
  Node& add(Call call, const Specs& specs, NodeOptions options);
  NodeOptions options_like(const Node& old) const;
  /// A constant, which waits for nothing.
  Tensor constant(const Tensor& value, const Node& like, const std::string& name);

  /// The new graph as the plan for what the old one was a plan for.
  PlanGraph plan_like(const PlanGraph& old) const;

 private:
  std::size_t begin(std::span<const Node* const> group);
  void finish(std::span<const Node* const> group, std::size_t first, const Tensors& outputs);

  std::shared_ptr<GraphState> graph_;
  std::vector<char> ordered_;  ///< whether a node or what it needs changes or reads anything outside the graph
  std::vector<std::vector<Node*>> nodes_;             ///< by old node
  std::unordered_map<std::int64_t, Tensor> tensors_;  ///< by id
  std::vector<Node*> waits_;                          ///< what the nodes wait for that are being built
  std::vector<Device> old_devices_, devices_;         ///< by node; empty when the old graph is no plan
};

}  // namespace tapestry::detail
