#pragma once

#include "io/tensorflow/graph_def.hpp"

namespace tapestry::io {

/// Replaces lookups in hash tables of numbers by searches in their keys, where the graph fills the table with
/// constants.
void search_number_tables(GraphDef& graph);

}  // namespace tapestry::io
