#pragma once

#include <set>

#include "graph/graph_state.hpp"
#include "io/tensorflow/graph_def.hpp"

namespace tapestry::io {

/// The graph in TensorFlow's ops. Throws UnimplementedError, with the op and the call site of the node, for what
/// TensorFlow cannot express, and FailedPreconditionError for a Variable without a value where the style needs one.
GraphDef export_graph(const detail::GraphState& graph, const SaveOptions& options);
/// The same for the part of the graph that some tensors and operations of it depend on.
GraphDef export_part(const detail::GraphState& graph, const SaveOptions& options, const Tensors& tensors,
                     const std::vector<detail::Node*>& operations = {});

/// The graph for a server, where initializers compute the values of Variables.
struct ServedGraph {
  GraphDef file;
  /// The assignments that give values to Variables from outside the graph, which has no initializers for them.
  std::vector<std::string> added_initializers;
  std::set<std::string> added_values;  ///< the constants that they assign
};
TAPESTRY_API ServedGraph export_for_server(const detail::GraphState& graph);

/// The graph as it is, node by node, for display: ops that TensorFlow lacks keep their names, and types may be unknown.
GraphDef describe_graph(const detail::GraphState& graph);

}  // namespace tapestry::io
