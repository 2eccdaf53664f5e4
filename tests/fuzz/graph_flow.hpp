#pragma once

#include "fuzz/dice.hpp"
#include "io/tensorflow/graph_def.hpp"

namespace tapestry::test {

/// Puts a node of a graph into a function of its library, which a branch, a loop or a call runs in its place. Does
/// nothing if the node that was drawn does not suit.
void put_into_flow(io::GraphDef& graph, Dice& dice);

}  // namespace tapestry::test
