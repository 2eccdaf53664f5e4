#pragma once

#include "io/tensorflow/graph_def.hpp"

namespace tapestry::io {

/// Replaces TensorFlow 1's loops, which are cycles of Enter, Merge, Switch, NextIteration and Exit, by a While each. An
/// Exit becomes an Identity of the loop's result, so results keep their names. TensorArrays become lists. Throws
/// UnimplementedError for a cycle that is no such loop.
void raise_frames(GraphDef& graph);

}  // namespace tapestry::io
