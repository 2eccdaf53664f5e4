#pragma once

#include "io/tensorflow/node_adder.hpp"
#include "io/tensorflow/node_writer.hpp"

/// TensorFlow's lists of tensors. A graph of ours has instead the tensor in which the elements are stacked along axis
/// 0, so that lists are made of tensors and stacked again.

namespace tapestry::io {

/// The attributes of an op that makes a list.
AttrDefs element_attrs(DType dtype);
/// The shape of an element of a stack.
Shape without_axis_0(const Shape& shape);
/// The shape with 0 for sizes that are not known.
Shape none_of(Shape shape);

/// Adds nodes that make a list of a tensor, or a tensor of a list; `hint` is an attribute that tells whose they are.
/// Each returns a name. TensorFlow has to know the shape of the elements of a list that has none: unknown sizes are 0
/// then, or `shape` tells it.
/// @{
std::string list_of(NodeAdder& add, const std::string& tensor, const Spec& stacked, std::string_view hint);
std::string stack_of(NodeAdder& add, const std::string& list, const Spec& stacked, std::string_view hint,
                     std::string shape = {});
/// @}

/// Whether a node of a file that could not be read at once takes or makes a list.
bool is_list_op(std::string_view op);
/// Writes such a node, `def`, as one that takes and gives tensors.
void write_list_op(NodeWriter& writer, NodeAdder add, const NodeDef& def);

/// Makes one node of what `write_list_op` has written.
TAPESTRY_API void join_list_ops(GraphDef& file);

}  // namespace tapestry::io
