#pragma once

#include <string_view>
#include <vector>

#include "io/tensorflow/node_reader.hpp"

namespace tapestry::io {

/// Whether there is something that does what a node's op does.
bool is_readable(const NodeDef& def);

/// The numbers of a node's inputs whose values it takes for attributes: shapes, axes and the like. Throws
/// InvalidArgumentError for a node with a wrong number of inputs.
std::vector<std::size_t> value_inputs(const NodeReader& reader);

/// Whether an op may be read only when sizes of its inputs are known; and whether these are not known for a node.
/// `inputs`: TensorFlow's, in its order; empty handles for constants that serve as attributes alone.
bool may_need_sizes(const NodeDef& def);
bool lacks_sizes(const NodeReader& reader, const Tensors& inputs);

/// Adds what a node of a readable op stands for to the open graph, all values and sizes that it needs being known, and
/// returns its outputs. The last of the operations has the node's name.
Tensors read_op(const NodeReader& reader, const Tensors& inputs, Where where);

/// Adds an op of ours whose inputs must be of the types that it wants; by default with the node's name.
Tensors make_op(const OpRule& rule, const NodeReader& reader, const Tensors& inputs, const Attrs& attrs, Where where,
                const std::string& name = {});
Tensors add_op(const Op& op, const Tensors& inputs, const Attrs& attrs, const std::string& name, Where where);

}  // namespace tapestry::io
