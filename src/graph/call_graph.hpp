#pragma once

#include <functional>

#include "graph/graph_state.hpp"

namespace tapestry::detail {

/// Gives the outputs of a node for these inputs. `once` applies the node's op.
using NodeRule =
    std::function<Tensors(const Node& node, const Tensors& inputs, const std::function<Tensors(const Tensors&)>& once)>;

/// Applies the ops that some tensors of a graph need to other inputs, one by one, as the program that built the graph
/// would: so that tapes record them, and the open graph takes them. Variables are read, and changed, as the graph
/// does. `feeds`: tensors of the graph, which have these values. `operations`: applied, too, for their effect. Throws
/// UnimplementedError for an op that Tapestry lacks, and for one that changes Variables or needs values when the values
/// are symbolic. `rule`, if there is one, applies each op instead.
Tensors call_graph(const GraphState& graph, const Tensors& feeds, const Tensors& values, const Tensors& fetches,
                   Where where, const std::vector<Node*>& operations = {}, const NodeRule& rule = {});

/// By node: whether some tensors of the graph depend on it.
std::vector<char> nodes_behind(const GraphState& graph, const Tensors& tensors);
/// The Variables that some tensors of a graph depend on, in the order of the graph.
std::vector<Variable> variables_behind(const GraphState& graph, const Tensors& tensors);

}  // namespace tapestry::detail
