#pragma once

#include "graph/graph_state.hpp"
#include "io/tensorflow/graph_def.hpp"

namespace tapestry::io {

/// The graph in TensorFlow's ops. Throws UnimplementedError, with the op and the call site of the node, for what
/// TensorFlow cannot express, and FailedPreconditionError for a Variable without a value where the style needs one.
GraphDef export_graph(const detail::GraphState& graph, const SaveOptions& options);
/// The same for the part of the graph that some tensors and operations of it depend on.
GraphDef export_part(const detail::GraphState& graph, const SaveOptions& options, const Tensors& tensors,
                     const std::vector<detail::Node*>& operations = {});

/// The graph as it is, node by node, for display: ops that TensorFlow lacks keep their names, and types may be unknown.
GraphDef describe_graph(const detail::GraphState& graph);

}  // namespace tapestry::io
