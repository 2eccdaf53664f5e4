#pragma once

#include "io/tensorflow/file_graph.hpp"
#include "io/tensorflow/node_writer.hpp"

/// TensorFlow's Assert, which ends a run with an error unless its condition holds. The texts of the error are no
/// tensors of ours: the graph's node has the error as an attribute, with the names of the constants that hold the
/// texts.

namespace tapestry::io {

bool is_assertion(const detail::Node& node);

/// Adds the node for an Assert to the open graph. `tensor_of` gives the tensors of its inputs that are no texts.
TAPESTRY_API Tensors read_assertion(const Entry& entry, const NodeReader& reader,
                                    const std::function<Tensor(const Source&)>& tensor_of, Where where);

/// Writes the node with those of the texts that the file has.
void write_assertion(NodeWriter& writer, const std::function<bool(const std::string&)>& is_written);

}  // namespace tapestry::io
