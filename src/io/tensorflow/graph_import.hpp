#pragma once

#include <functional>

#include "io/tensorflow/graph_def.hpp"
#include "io/tensorflow/variable_table.hpp"
#include "tapestry/graph.hpp"

namespace tapestry::io {

/// The graph of a file. Its nodes are in topological order, whatever the file's order. Constants that only hold what
/// our ops have as attributes are left out, and so are the inner nodes of an op that was written as several nodes; the
/// graph gets them when they are asked for by name. A node whose op or type Tapestry lacks is kept as it is, and
/// refused when a run needs it. Throws InvalidArgumentError for a graph that contradicts itself. The graph has the
/// limits.
TAPESTRY_API Graph import_graph(GraphDef file, const GraphLimits& limits, Where where);

/// The same for a graph that can be read again, with these lists of TensorFlow's as `split_variants` makes them: it is
/// read until no other list has elements of different shapes. `shared`: the Variables that it shares with other graphs,
/// which initializers that run give their values; nullptr for Variables of its own.
TAPESTRY_API Graph import_graph(const std::function<GraphDef(const UnevenLists&)>& read, const GraphLimits& limits,
                                Where where, const std::shared_ptr<VariableTable>& shared = nullptr);

}  // namespace tapestry::io
