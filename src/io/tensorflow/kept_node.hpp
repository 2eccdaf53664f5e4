#pragma once

#include <vector>

#include "graph/known_values.hpp"
#include "io/tensorflow/node_reader.hpp"

namespace tapestry::io {

/// A node that cannot be read yet, because its attributes, or the sizes of its inputs, depend on what is fed. The graph
/// keeps it as the file has it. A session that copies the graph calls this once all is known, with the node's inputs,
/// where those that `value_inputs` names are values. The call adds the ops that the node stands for and returns its
/// outputs.
struct KeptNode {
  NodeDef def;
  Specs specs;  ///< of the outputs, as far as the file tells
  Where where;

  Tensors operator()(const Tensors& inputs) const;
};

/// The specs of a node's outputs, as far as its inputs and the known values of the graph tell them.
TAPESTRY_API Specs outlook(const NodeReader& reader, const Tensors& inputs, const detail::KnownValues& known);

/// Adds such a node to the graph, with all inputs of TensorFlow's op and these specs of its outputs.
TAPESTRY_API detail::Node& keep_node(detail::GraphState& graph, const NodeReader& reader, const Tensors& inputs,
                                     const Specs& specs, Where where);

/// Adds a node that is not read at all, with all inputs of TensorFlow's op. `outputs`: how many of its outputs the file
/// uses. `reason`: why it is not read; empty when Tapestry lacks its op.
TAPESTRY_API detail::Node& keep_unread_node(detail::GraphState& graph, const NodeReader& reader, const Tensors& inputs,
                                            std::int64_t outputs, const std::string& reason, Where where);

/// The KeptNode of a node that `keep_node` or `keep_unread_node` has added; nullptr for any other node.
TAPESTRY_API const KeptNode* kept_node(const detail::Node& node);

}  // namespace tapestry::io
