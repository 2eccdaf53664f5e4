#pragma once

#include <map>

#include "graph/flow/registered_gradient.hpp"
#include "graph/graph_state.hpp"
#include "io/tensorflow/object_graph.hpp"

namespace tapestry::io {

/// The gradients of the nodes that have one of a file's, or of the program's own.
using NodeGradients = std::map<const detail::Node*, detail::NodeGradient>;
/// Those of the nodes that are needed for these tensors and operations. What a gradient uses is needed, too, and added
/// to the tensors. Throws UnimplementedError for a gradient of the program's own that no function can compute.
NodeGradients gradients_to_write(const detail::GraphState& graph, Tensors& tensors,
                                 const std::vector<detail::Node*>& operations);

/// Makes of the nodes with a gradient of their own what TensorFlow has: an IdentityN, which passes on all that the
/// gradient may take. `graph`: has the nodes.
void pass_on_inputs(GraphDef& file, const detail::GraphState& graph, const NodeGradients& gradients);
/// Adds the gradients of the nodes of a signature's function. `graph`: has the nodes.
void add_gradients(ObjectGraph::SignatureObject& signature, const detail::GraphState& graph,
                   const NodeGradients& gradients);

/// Gives the nodes of the graph the names of the gradients that were added, for our reader.
void name_gradients(GraphDef& graph, const ObjectGraph& objects);

}  // namespace tapestry::io
