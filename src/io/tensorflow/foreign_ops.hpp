#pragma once

#include <string_view>
#include <vector>

#include "io/tensorflow/node_reader.hpp"
#include "tapestry/graph.hpp"

namespace tapestry::io {

/// A node that is being read: what the file says of it, and the tensors that are its inputs, TensorFlow's in its order.
struct ForeignNode {
  const NodeReader& node;
  const Tensors& inputs;
  Where where;

  const std::string& name() const { return node.def().name; }
  /// An input that is no constant's value alone.
  const Tensor& in(std::size_t i) const { return inputs[i]; }
  /// The elements of a value: a scalar or a vector of whole numbers. Throws InvalidArgumentError for others.
  std::vector<std::int64_t> numbers(std::size_t i) const;
  std::int64_t number(std::size_t i) const;
  /// The value of an input that is a shape, with all sizes; throws where one is negative.
  Shape shape(std::size_t i) const;
  /// What `f()` computes of several ops, whose names are in the node's scope, as an operation of the node's name.
  template <class F>
  Tensors composed(F f) const {
    return {named([&] {
      const NameScope inside(name() + "/_/", where);
      return f();
    }())};
  }

 private:
  Tensor named(const Tensor& result) const;
};

/// An op of TensorFlow's that we have no op like, but several that together do the same.
struct ForeignOp {
  std::string_view name;
  int inputs;                                        ///< how many; -1: any number, from 1 on
  std::vector<std::size_t> values = {};              ///< the inputs whose values are needed to read it
  bool all_values = false;                           ///< whether these are all inputs
  std::vector<std::size_t> values_if_constant = {};  ///< and those that make it simpler
  bool (*applies)(const NodeDef&) = nullptr;         ///< whether a node is one that our op cannot do; nullptr: always
  bool (*lacks_sizes)(const NodeReader&, const Tensors&) = nullptr;
  Tensors (*read)(const ForeignNode&) = nullptr;
};

/// The op of a node, or nullptr.
const ForeignOp* find_foreign_op(const NodeDef& def);

}  // namespace tapestry::io
