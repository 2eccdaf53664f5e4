#pragma once

#include "io/tensorflow/graph_def.hpp"

namespace tapestry::io {

/// Gives int8, int16 and uint16 the type int32, uint32 and uint64 the type int64, where all nodes that such a tensor
/// passes through can do with it; sums, products and conversions are brought back into the range of the type. Tensors
/// that meet another node stay as they are, and are refused when a run needs them. So it is in the functions of
/// branches and loops.
void widen_integers(GraphDef& graph);

}  // namespace tapestry::io
