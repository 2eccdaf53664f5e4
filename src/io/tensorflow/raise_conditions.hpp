#pragma once

#include "io/tensorflow/graph_def.hpp"

namespace tapestry::io {

/// Replaces TensorFlow 1's conditions, which are Switches and Merges, by an If each, or by a Case. A Merge becomes an
/// Identity of the result, so results keep their names; what is in a branch only runs in it. Conditions that follow
/// from constants stay as they are. Does the same in the functions of branches and loops. Throws UnimplementedError for
/// Switches and Merges that are no such condition.
void raise_conditions(GraphDef& graph);

}  // namespace tapestry::io
