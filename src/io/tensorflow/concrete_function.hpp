#pragma once

#include <string>
#include <vector>

#include "io/tensorflow/graph_def.hpp"

namespace tapestry::io {

/// A part of a graph as a function that TensorFlow 2 calls, in its words a concrete function.
struct ConcreteFunction {
  /// A tensor of the graph, as the nodes have it among their inputs, "n" or "n:1".
  struct Tensor {
    std::string endpoint{};
    std::string name{};  ///< what its users call it
    TypeCode type{};     ///< of a Variable: that of its value
    Shape shape{};
    bool is_variable = false;
  };
  std::string name{};
  std::vector<Tensor> inputs{};  ///< the arguments, and then the Variables
  std::vector<Tensor> outputs{};
  std::vector<const NodeDef*> nodes{};  ///< of the graph: those between the inputs and the outputs
};

/// The names of the arguments in the function.
std::vector<std::string> argument_names(const ConcreteFunction& function);

/// The function as an entry of a FunctionDefLibrary, which several entries make when they are joined. Its arguments and
/// results have names of their own, in the given order. What the nodes tell of their places among others, colocation
/// and the inputs that our ops had, is left out or follows.
std::string encode_in_library(const ConcreteFunction& function);

}  // namespace tapestry::io
