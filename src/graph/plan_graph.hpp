#pragma once

#include <memory>
#include <vector>

#include "graph/graph_state.hpp"

namespace tapestry::detail {

/// The nodes of a graph that a request needs, with all dtypes and sizes known. They are a graph of their own, from
/// which passes make others. What only a plan knows of a node is stored beside the graph.
struct PlanGraph {
  std::shared_ptr<GraphState> graph;
  Tensors feeds;  ///< its placeholders, in the order of the request's feeds
  Tensors fetches;
  std::vector<Node*> operations;  ///< to be run for their effect
  std::vector<Device> devices{};  ///< by node: where it runs; before the pass `place`, what `device_of` returns
  bool complete = false;          ///< as in the request
  std::vector<int> groups{};      ///< by node, from the pass `parallel`: see `group_of`; empty for no groups

  Device device_of(const Node& node) const { return devices[node.index]; }
  /// The group of a node. Neighbouring nodes of the same group may run side by side, except those of group 0.
  int group_of(const Node& node) const { return groups.empty() ? 0 : groups[node.index]; }
};

}  // namespace tapestry::detail
