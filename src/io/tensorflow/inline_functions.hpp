#pragma once

#include <map>
#include <string>
#include <vector>

#include "io/tensorflow/graph_def.hpp"

namespace tapestry::io {

/// The gradients that a SavedModel has for functions of its own.
struct FileGradients {
  /// What a gradient takes behind the gradients of the results: the object of a Variable, or a tensor of the function
  /// for which it was made.
  struct Capture {
    std::size_t object = 0;
    std::string tensor{};    ///< "" for a Variable
    std::string function{};  ///< the one that computes the tensor
  };
  struct Gradient {
    std::string function{};
    std::vector<Capture> captured{};
    std::vector<bool> given{};  ///< see FileGradient
  };
  std::map<std::string, Gradient, std::less<>> by_type{};     ///< by what nodes name as `_gradient_op_type`
  std::map<std::string, std::size_t, std::less<>> objects{};  ///< of Variables, by their nodes
};

/// Replaces each call of a function by the nodes of its body, as TensorFlow does before it runs a graph. These have
/// names "call/node". The call's own node becomes an Identity of the results (an IdentityN of several, a NoOp of none),
/// which waits for the nodes that run whenever the function is called. So the results keep their names.
///
/// A call of a function that the library lacks stays, and so do nodes that call a function under a condition. The
/// library stays if such nodes do. Throws InvalidArgumentError for a call that does not fit its function and for a
/// function that calls itself, and ResourceExhaustedError when the graph would get more nodes than the limits allow, or
/// more than a KiB of text per node.
///
/// A node for which `gradients` has one keeps it, and gets what it takes as further inputs.
GraphDef inline_functions(GraphDef file, const GraphLimits& limits, const FileGradients& gradients = {});

}  // namespace tapestry::io
