#pragma once

#include "graph/graph_state.hpp"
#include "io/tensorflow/object_graph.hpp"

namespace tapestry::io {

/// Makes of the nodes with a gradient of a file's what TensorFlow has: an IdentityN, which passes on all that the
/// gradient may take. `graph`: has the nodes.
void pass_on_inputs(GraphDef& file, const detail::GraphState& graph);
/// Adds the gradients of the nodes of a signature's function that have one of a file's. `graph`: has the nodes.
void add_gradients(ObjectGraph::SignatureObject& signature, const detail::GraphState& graph);

/// Gives the nodes of the graph the names of the gradients that were added, for our reader.
void name_gradients(GraphDef& graph, const ObjectGraph& objects);

}  // namespace tapestry::io
