#pragma once

#include "io/tensorflow/graph_def.hpp"
#include "tapestry/graph.hpp"

namespace tapestry::io {

/// The graph of a file. The nodes are made in an order in which they could run, whatever the file's order; constants
/// that only say what our ops have as attributes, and the insides of what was written as several nodes, are not made.
/// Throws UnimplementedError for an op, with its node, that Tapestry lacks, and InvalidArgumentError for a graph that
/// makes no sense. The graph has the limits.
Graph import_graph(const GraphDef& file, const GraphLimits& limits, Where where);

}  // namespace tapestry::io
