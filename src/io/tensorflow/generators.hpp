#pragma once

#include "io/tensorflow/graph_def.hpp"

namespace tapestry::io {

/// Replaces what draws from the state of a tf.random.Generator, which is a Variable, by reads and assignments of the
/// Variable and by ops without a state.
void split_generators(GraphDef& file);

}  // namespace tapestry::io
