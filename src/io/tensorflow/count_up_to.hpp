#pragma once

#include "graph/graph_state.hpp"
#include "io/tensorflow/node_reader.hpp"
#include "io/tensorflow/node_writer.hpp"

/// CountUpTo and ResourceCountUpTo: what a Variable has, to which 1 is added, until it reaches a limit.

namespace tapestry::io {

/// Adds the node; `handle`: that of the Variable. Throws InvalidArgumentError unless this is an integer scalar.
TAPESTRY_API Tensors read_count_up_to(const NodeReader& reader, const Variable& variable, const Tensor& handle,
                                      Where where);
bool is_count_up_to(const detail::Node& node);
/// Writes the node for a Variable of this style.
void write_count_up_to(NodeWriter& writer, bool is_resource, const AttrDef& class_of_handle);

}  // namespace tapestry::io
