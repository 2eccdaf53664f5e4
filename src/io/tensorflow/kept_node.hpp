#pragma once

#include <vector>

#include "graph/known_values.hpp"
#include "io/tensorflow/node_reader.hpp"

namespace tapestry::io {

/// A node that cannot be read before it is known what is fed, because a shape or the like is computed: as the file has
/// it, until a session copies it for shapes that are fed and calls this with its inputs, those that `value_inputs`
/// names by their values. It then adds what the node stands for and returns the outputs.
struct KeptNode {
  NodeDef def;
  Specs specs;  ///< of the outputs, as far as the file tells
  Where where;

  Tensors operator()(const Tensors& inputs) const;
};

/// Adds such a node to the graph, with all inputs of TensorFlow's op. `known`: of the graph so far.
detail::Node& keep_node(detail::GraphState& graph, const NodeReader& reader, const Tensors& inputs,
                        const detail::KnownValues& known, Where where);

/// What a node of a graph was kept as, or nullptr.
const KeptNode* kept_node(const detail::Node& node);

}  // namespace tapestry::io
