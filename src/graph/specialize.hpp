#pragma once

#include <vector>

#include "graph/plan_graph.hpp"

namespace tapestry::detail {

/// What one kind of run asks of a graph.
struct Request {
  Tensors fetches;                ///< tensors of the graph, none of them fed
  std::vector<Node*> operations;  ///< to be run for their effect
  Tensors feeds;                  ///< tensors of the graph that are fed
  Specs fed;                      ///< what they are fed with
  std::vector<Node*> done{};      ///< what has run already and does not run again: what is needed of it is fed
};

/// By the nodes' indices, whether what the request asks for needs them.
std::vector<char> needed_nodes(const GraphState& graph, const Request& request);

/// Copies what is needed of a graph, with the shapes of the feeds. Throws what the ops' inference throws for them, and
/// InvalidArgumentError, "You must feed a value for placeholder tensor 'x' ...".
PlanGraph specialize(const GraphState& graph, const Request& request);

}  // namespace tapestry::detail
