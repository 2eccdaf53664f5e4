#pragma once

#include <string_view>

#include "io/tensorflow/graph_def.hpp"

namespace tapestry::io {

/// The beginning of the attributes by which an op of quantized numbers knows the codes of its types: that of its "T" is
/// "_quantized_T".
inline constexpr std::string_view quantized_type = "_quantized_";

/// Gives int8, int16, uint16 and the quantized types the type int32, uint32 and uint64 the type int64, where all nodes
/// that such a tensor passes through can do with it; sums, products and conversions are brought back into the range of
/// the type. Tensors that meet another node stay as they are, and are refused when a run needs them. So it is in the
/// functions of branches and loops.
void widen_integers(GraphDef& graph);

}  // namespace tapestry::io
