#pragma once

#include <vector>

#include "graph/plan_graph.hpp"

namespace tapestry::detail {

/// What one kind of run asks of a graph.
struct Request {
  Tensors fetches;                ///< tensors of the graph, none of them fed
  std::vector<Node*> operations;  ///< to be run for their effect
  Tensors feeds;                  ///< tensors of the graph that are fed
  Specs fed;                      ///< the dtypes and shapes that they are fed
  std::vector<Node*> done{};      ///< have run already and do not run again; their outputs that are needed are fed
  bool complete = false;          ///< none of the feeds may be a result of a branch that was not taken, without value
  Tensors values{};               ///< of the feeds whose values nodes await, as far as they are known; else empty
};

/// By node: whether the request needs it.
std::vector<char> needed_nodes(const GraphState& graph, const Request& request);

/// Throws one UnimplementedError for nodes of a file that are needed and were not read: it names all ops that Tapestry
/// lacks, or else why the first node was not read.
void require_read(const GraphState& graph, const std::vector<char>& needed);

/// Copies the nodes that the request needs, with the dtypes and shapes that are fed. Nodes that await values (see
/// `awaited_values`) stay as they are where the values must be computed. Throws what the ops' inference throws, and
/// InvalidArgumentError, "You must feed a value for placeholder tensor 'x' ...".
TAPESTRY_API PlanGraph specialize(const GraphState& graph, const Request& request);

}  // namespace tapestry::detail
