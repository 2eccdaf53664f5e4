#pragma once

#include <string_view>
#include <vector>

#include "io/tensorflow/node_reader.hpp"
#include "tapestry/graph.hpp"

namespace tapestry::io {

class NodeAdder;

/// A node that is being read, with the tensors that are its inputs, in TensorFlow's order.
struct TAPESTRY_API ForeignNode {
  const NodeReader& node;
  const Tensors& inputs;
  Where where;

  const std::string& name() const { return node.def().name; }
  /// An input as a tensor; it must not be a constant that only serves as an attribute.
  const Tensor& in(std::size_t i) const { return inputs[i]; }
  /// The elements of an input's value, an integer scalar or vector. Throws InvalidArgumentError for others.
  std::vector<std::int64_t> numbers(std::size_t i) const;
  std::int64_t number(std::size_t i) const;
  /// The value of an input as a shape. Throws InvalidArgumentError when a size is negative.
  Shape shape(std::size_t i) const;
  /// The result of `f()`, a Tensor or Tensors, the first as an operation with the node's name. The ops that `f()` adds
  /// have names in the node's scope.
  template <class F>
  Tensors composed(F f) const {
    return named([&] {
      const NameScope inside(name() + "/_/", where);
      return Tensors(as_list(f()));
    }());
  }

 private:
  static Tensors as_list(const Tensor& one) { return {one}; }
  static Tensors as_list(Tensors all) { return all; }
  Tensors named(Tensors results) const;
  bool take_name(const Tensors& results) const;
};

/// The type of an output.
struct OutputType {
  int like = -1;                 ///< the input that has the same type
  std::string_view attr = {};    ///< the attribute that tells it
  DType dtype = DType::unknown;  ///< the type, by default if there is an attribute
};
constexpr OutputType like(int input) { return {.like = input}; }
constexpr OutputType typed(DType dtype) { return {.dtype = dtype}; }
constexpr OutputType told_by(std::string_view attr, DType otherwise) { return {.attr = attr, .dtype = otherwise}; }

/// An op of TensorFlow that is read by a function, not by a rule: mostly as several of our ops.
struct ForeignOp {
  std::string_view name;
  int inputs;                                        ///< how many; -1: any number, from 1 on
  std::vector<std::size_t> values = {};              ///< the inputs whose values are needed to read it
  bool all_values = false;                           ///< the values of all inputs are needed
  std::vector<std::size_t> values_if_constant = {};  ///< inputs whose values are used if they are constants
  bool (*applies)(const NodeDef&) = nullptr;         ///< whether `read` reads the node, not a rule; nullptr: always
  bool (*lacks_sizes)(const NodeReader&, const Tensors&) = nullptr;
  std::vector<OutputType> outputs = {};  ///< empty: `specs` or KeptNode knows the op
  /// For an op whose attributes or optional inputs decide it: the numbers of the inputs whose values are needed.
  std::vector<std::size_t> (*find_values)(const NodeReader&) = nullptr;
  bool takes_reals = false;  ///< its `values` may be other numbers than whole ones
  bool takes_parts = false;  ///< it can do with elements of values that are `KnownValues::unknown_element`
  /// The types and ranks of the outputs, as far as they are known before the node is read.
  Specs (*specs)(const NodeReader&, const Tensors&) = nullptr;
  Tensors (*read)(const ForeignNode&) = nullptr;
  /// For an op of another format: adds nodes of TensorFlow's that do the same with what is known only when they run,
  /// and returns the names of the outputs. Without names, no such nodes can do it.
  std::vector<std::string> (*write)(const NodeReader&, const Tensors& inputs, NodeAdder&) = nullptr;
};

/// The op of a node, or nullptr.
TAPESTRY_API const ForeignOp* find_foreign_op(const NodeDef& def);

/// Sets what finds the ops of another format than TensorFlow's. Their names are those with "::".
void set_other_ops(const ForeignOp* (*find)(const NodeDef&));
/// Whether the name is that of an op of another format, or one that stands for several of TensorFlow's:
/// "TensorFlow::...".
TAPESTRY_API bool is_other_op(std::string_view op);

// ---- Parts, which the library needs as well as its plugins

/// a * b. Throws InvalidArgumentError when it is too large for a size.
TAPESTRY_API std::int64_t product(std::int64_t a, std::int64_t b);
/// Throws InvalidArgumentError for a type without elements, which an operand of a file may have.
TAPESTRY_API Tensor vector_of(const std::vector<std::int64_t>& numbers, DType dtype);
TAPESTRY_API Tensor constant_node(const Tensor& value, const std::string& name, Where where);
/// Throws UnimplementedError for a scatter op that is to leave out indices behind the end.
TAPESTRY_API void require_checked_indices(const NodeReader& node);

}  // namespace tapestry::io
