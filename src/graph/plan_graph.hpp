#pragma once

#include <memory>
#include <vector>

#include "graph/graph_state.hpp"

namespace tapestry::detail {

/// The part of a graph that a request needs, with all dtypes and sizes known: a graph of its own, out of which passes
/// make others. What only a plan knows of a node stands beside the graph.
struct PlanGraph {
  std::shared_ptr<GraphState> graph;
  Tensors feeds;  ///< its placeholders, in the order of the request's feeds
  Tensors fetches;
  std::vector<Node*> operations;  ///< to be run for their effect
  std::vector<Device> devices{};  ///< by node: where it runs; before the pass `place`, where its op puts its outputs
  std::vector<int> groups{};      ///< by node, from the pass `parallel` on: see there

  Device device_of(const Node& node) const { return devices[node.index]; }
  /// Neighbours of one number other than 0 may run side by side.
  int group_of(const Node& node) const { return groups.empty() ? 0 : groups[node.index]; }
};

}  // namespace tapestry::detail
