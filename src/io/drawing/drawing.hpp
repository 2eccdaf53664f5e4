#pragma once

#include <string>
#include <string_view>

#include "graph/graph_state.hpp"

namespace tapestry::io {

/// How a node is drawn: its label, its shape (one of Graphviz's) and its colour.
struct Look {
  std::string label;  ///< the name without its scopes, and the op unless the name starts with it
  std::string_view shape = "box", colour = "#ffffff";
};
Look look_of(const detail::Node& node);

/// The label of an edge: the tensor's shape; empty for a resource and for an unknown rank.
std::string edge_label(const Tensor& tensor);

/// Escapes text for an SVG.
std::string escaped(std::string_view text);
inline constexpr double letter_width = 6.2;  ///< on average, at a font size of 11
inline constexpr double margin = 16;         ///< around a picture

/// Throws InvalidArgumentError unless the direction is "LR" or "TB".
void check_direction(const DrawOptions& options, Where where);

}  // namespace tapestry::io
