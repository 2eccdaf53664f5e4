#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "graph/graph_state.hpp"

namespace tapestry::io {

/// How a node is drawn: its label, its shape (one of Graphviz's) and its colour.
struct Look {
  std::string label;  ///< the name without its scopes, and the op unless the name starts with it
  std::string_view shape = "box", colour = "#ffffff";
};
Look look_of(const detail::Node& node);

/// What one frame of a picture shows: a graph, or a function of a node, which is drawn inside the node.
struct Frame {
  std::string title;                       ///< the function's name; "" for a graph
  std::string prefix;                      ///< precedes the names of the nodes, and makes them unique in the picture
  std::vector<const detail::Node*> nodes;  ///< each after its inputs
  std::unordered_set<const detail::Node*> given{};    ///< those that stand for the inputs of a function
  std::unordered_set<const detail::Node*> results{};  ///< those that compute the outputs of a function
};
Frame frame_of(const detail::GraphState& graph);
/// The frames of the functions that a node runs. `path`: the name of the node in the picture.
std::vector<Frame> frames_inside(const detail::Node& node, const std::string& path);

/// The label of an edge: the tensor's shape; empty for a resource and for an unknown rank.
std::string edge_label(const Tensor& tensor);

/// Escapes text for an SVG.
std::string escaped(std::string_view text);
inline constexpr double letter_width = 6.2;  ///< on average, at a font size of 11
inline constexpr double margin = 16;         ///< around a picture

/// Throws InvalidArgumentError unless the direction is "LR" or "TB".
void check_direction(const DrawOptions& options, Where where);

}  // namespace tapestry::io
