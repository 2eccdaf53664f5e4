#pragma once

#include "io/tensorflow/graph_def.hpp"

namespace tapestry::io {

/// The Identity that reads a Variable of TensorFlow 1 has the Variable's own memory, so that what uses it finds the
/// value of the moment when it runs: behind an update, the new one. A node that waits for an update of a Variable that
/// it uses so, gets a read of its own, which waits for the update, too.
void add_late_reads(GraphDef& graph);

}  // namespace tapestry::io
