#pragma once

#include "io/tensorflow/graph_def.hpp"

namespace tapestry::io {

/// TensorFlow sums the gradient of Tile in a tensor of twice as many axes: Sum(Reshape(g, [m0, d0, m1, d1, ...]), [0,
/// 2,
/// ...]). Where these are more than a tensor has here, the axes are summed one after the other.
void split_tile_gradients(GraphDef& file);

}  // namespace tapestry::io
