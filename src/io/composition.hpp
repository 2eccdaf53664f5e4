#pragma once

#include "graph/graph_state.hpp"

namespace tapestry::io {

/// What an op's composition makes of tensors like a node's inputs: a graph of its own.
struct ComposedGraph {
  std::shared_ptr<detail::GraphState> graph;
  Tensors inputs;   ///< placeholders, which come first in the graph
  Tensors outputs;  ///< as many as the node has
};

/// Traces the composition of the node's op, which must have one.
ComposedGraph compose(const detail::Node& node);

}  // namespace tapestry::io
