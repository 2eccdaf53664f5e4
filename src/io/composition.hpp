#pragma once

#include <functional>

#include "graph/graph_state.hpp"

namespace tapestry::io {

/// The composition of a node's op, traced into a graph of its own.
struct ComposedGraph {
  std::shared_ptr<detail::GraphState> graph;
  Tensors inputs;   ///< placeholders like the node's inputs: the first nodes of the graph
  Tensors outputs;  ///< as many as the node has
};

/// Traces a function of tensors with these specs. The order of its operations depends on what it computes alone.
ComposedGraph compose(const Specs& specs, const std::function<Tensors(const Tensors&)>& function, Where where);
/// Traces the composition of the node's op, which must have one, or that of a loop that computes another one again.
TAPESTRY_API ComposedGraph compose(const detail::Node& node);

}  // namespace tapestry::io
