#pragma once

#include "io/tensorflow/graph_def.hpp"

namespace tapestry::io {

/// Replaces the variants of TensorFlow's gradients by the tensors that they consist of. An optional that several
/// branches give becomes an output for each branch; a list of lists becomes one list, and the list of their lengths. In
/// the functions of the nodes, too. A list of `uneven` becomes the list of all numbers in its elements, and that of the
/// elements' shapes. Throws UnimplementedError for a variant that is used in another way.
void split_variants(GraphDef& graph, const UnevenLists& uneven);

}  // namespace tapestry::io
