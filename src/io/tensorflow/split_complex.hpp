#pragma once

#include "io/tensorflow/graph_def.hpp"

namespace tapestry::io {

/// Gives each tensor of complex numbers two tensors, of the real parts and of the imaginary ones, and replaces the
/// nodes that give real numbers of complex ones by formulas of these. Transforms (FFT and the like) are matrix
/// products. The nodes that give complex numbers stay, and are refused when a run needs them; so are those that have no
/// formula here.
void split_complex(GraphDef& graph);

}  // namespace tapestry::io
