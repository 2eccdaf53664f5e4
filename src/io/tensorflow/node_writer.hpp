#pragma once

#include <initializer_list>
#include <string>

#include "io/tensorflow/file_names.hpp"
#include "io/tensorflow/op_rules.hpp"

namespace tapestry::io {

/// Throws UnimplementedError: the node cannot be written as TensorFlow's.
[[noreturn]] void refuse(const detail::Node& node, const std::string& reason);

/// A tensor of the file.
struct Value {
  std::string name;
  DType dtype = DType::unknown;
};

using FieldList = std::map<std::string, AttrDef, std::less<>>;

/// Writes one node of a graph as one or more nodes of the file. All but the last have names in the node's scope.
class NodeWriter {
 public:
  NodeWriter(const detail::Node& node, GraphDef& file, FileNames& names) : node_(node), file_(file), names_(names) {}

  const detail::Node& node() const { return node_; }
  /// The node's inputs, and their shapes.
  Value in(std::size_t i) const;
  const Shape& shape(std::size_t i) const { return node_.input(i).shape(); }

  /// Adds a node with one output; "T" is by default the type of the first input.
  Value op(std::string_view type, const std::vector<Value>& inputs, DType dtype, FieldList fields = {},
           std::string_view label = {});
  /// The same for an op whose output has the type of its first input.
  Value op(std::string_view type, const std::vector<Value>& inputs, FieldList fields = {}) {
    return op(type, inputs, inputs[0].dtype, std::move(fields));
  }
  /// Adds a node that reads or changes a Variable, and so has the control inputs of our node. `fields` are all its
  /// attributes.
  Value stateful_op(std::string_view type, const std::vector<Value>& inputs, DType dtype, FieldList fields);
  Value constant(std::string_view label, const Tensor& value);
  Value number(double value, DType dtype);
  Value ints(std::string_view label, const std::vector<std::int64_t>& values);

  // Ops that many expansions need.
  Value shape_of(const Value& x, DType type = int64);
  Value reshape(const Value& x, const Value& new_shape);
  Value sum(const Value& x, const std::vector<std::int64_t>& axes, bool keep = false);
  Value transpose(const Value& x, const std::vector<std::int64_t>& perm);
  Value cast(const Value& x, DType dtype);
  /// The elements [first, last) of a vector; as a scalar, if it `is_element`. Negative numbers count from its end.
  Value part(const Value& vector, std::int64_t first, std::int64_t last, bool is_element = false);
  /// One element of a vector. A negative number counts from its end.
  Value element(const Value& vector, std::int64_t i);
  /// The size of an axis of input `i`: a constant where it is known. An int64 scalar.
  Value size(std::size_t i, int axis);

  /// Adds the nodes of another graph, whose placeholders `inputs` stand for what is given, and sets `result` to its
  /// outputs.
  void add_inner(std::vector<NodeDef> nodes, const Tensors& inputs, const std::vector<Value>& given,
                 const Tensors& outputs);

  /// Adds the node itself, under its own name.
  void finish(std::string_view type, const std::vector<std::string>& inputs, FieldList fields);
  /// What tells a reader which op of ours the node was.
  FieldList hints() const;
  /// Ends the expansion of the node into several. The last of these, or an IdentityN of several outputs, takes the
  /// node's name and gets the hints.
  void finish_expanded(const std::vector<Value>& outputs);
  /// Writes the node as a constant that lies in memory as `value` does, also when it is read again: sums go through it
  /// in the same order. Axes that are transposed or broadcast become ops; what has gaps is copied.
  void finish_constant(const Tensor& value);
  /// Makes the node, and those that `stateful_op` adds, wait for these operations, too.
  void wait_for(const std::vector<std::string>& operations) {
    awaited_.insert(awaited_.end(), operations.begin(), operations.end());
  }
  /// The node's outputs, which `expand` functions or `add_inner` set.
  std::vector<Value> result;

 private:
  std::string unique(std::string_view label);
  std::string unique_constant(std::string_view label, const Tensor& value);
  NodeDef& add(std::string_view type, std::string_view label);
  void add_controls(std::vector<std::string>& inputs) const;

  const detail::Node& node_;
  GraphDef& file_;
  FileNames& names_;
  std::vector<std::string> awaited_;
};

/// "n" or "n:k".
TAPESTRY_API std::string endpoint_name(const Tensor& tensor);
/// Adds the input "^n" for each name n, unless the node is an input already.
void add_control_inputs(const std::vector<std::string>& names, std::vector<std::string>& inputs);
std::vector<std::string> names_of(const std::vector<detail::Node*>& nodes);
/// An attribute of ours as one of the file's.
AttrDef attr_def(const AttrValue& value);

}  // namespace tapestry::io
