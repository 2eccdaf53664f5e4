#pragma once

#include "io/tensorflow/graph_def.hpp"

namespace tapestry::io {

/// TensorFlow before 1.0 has other names for the ops of TensorArrays, and constants for their first flows. They become
/// those of TensorFlow 1.
void rename_old_arrays(GraphDef& graph);

}  // namespace tapestry::io
