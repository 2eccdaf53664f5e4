#pragma once

#include <string_view>
#include <vector>

#include "io/tensorflow/node_reader.hpp"

namespace tapestry::io {

/// More outputs than any op of a real graph has.
inline constexpr std::int64_t most_outputs = 1 << 16;

/// Whether the op of a node can be read, by a rule or as a ForeignOp.
TAPESTRY_API bool is_readable(const NodeDef& def);

/// The numbers of a node's inputs whose values become attributes: shapes, axes and the like. Throws
/// InvalidArgumentError for a node with a wrong number of inputs.
TAPESTRY_API std::vector<std::size_t> value_inputs(const NodeReader& reader);

/// Whether some nodes of this op can be read only when sizes of their inputs are known.
TAPESTRY_API bool may_need_sizes(const NodeDef& def);
/// Whether sizes that the node needs to be read are not known. `inputs`: TensorFlow's, in its order; empty handles for
/// constants that only serve as attributes.
TAPESTRY_API bool lacks_sizes(const NodeReader& reader, const Tensors& inputs);

/// The numbers of the inputs that have the type that the node's attribute "T" tells.
TAPESTRY_API std::vector<std::size_t> inputs_of_type_t(const NodeReader& reader);

/// Adds the ops that a node stands for to the open graph, and returns its outputs. The node's op must be readable, and
/// all values and sizes that it needs must be known. The last of the operations has the node's name.
TAPESTRY_API Tensors read_op(const NodeReader& reader, const Tensors& inputs, Where where);

/// Adds an op of ours, by default with the node's name. Throws InvalidArgumentError for a wrong number of inputs, and
/// for types that the op does not take.
TAPESTRY_API Tensors make_op(const OpRule& rule, const NodeReader& reader, const Tensors& inputs, const Attrs& attrs,
                             Where where, const std::string& name = {});
TAPESTRY_API Tensors add_op(const Op& op, const Tensors& inputs, const Attrs& attrs, const std::string& name,
                            Where where);

}  // namespace tapestry::io
