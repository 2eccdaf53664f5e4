#pragma once

#include "io/tensorflow/graph_def.hpp"

namespace tapestry::io {

/// Replaces each call of a function by the nodes of its body, as TensorFlow does before it runs a graph. These have
/// names "call/node". The call's own node becomes an Identity of the results (an IdentityN of several, a NoOp of none),
/// which waits for the nodes that run whenever the function is called. So the results keep their names.
///
/// A call of a function that the library lacks stays, and so do nodes that call a function under a condition. The
/// library stays if such nodes do. Throws InvalidArgumentError for a call that does not fit its function and for a
/// function that calls itself, and ResourceExhaustedError when the graph would get more nodes than the limits allow, or
/// more than a KiB of text per node.
GraphDef inline_functions(GraphDef file, const GraphLimits& limits);

}  // namespace tapestry::io
