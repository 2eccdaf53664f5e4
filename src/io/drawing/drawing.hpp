#pragma once

#include <string>
#include <string_view>

#include "graph/graph_state.hpp"

namespace tapestry::io {

/// How a node is drawn: in which of Graphviz' shapes and in which colour.
struct Look {
  std::string label;  ///< the name without its scopes, and the op unless the name tells it
  std::string_view shape = "box", colour = "#ffffff";
};
Look look_of(const detail::Node& node);

/// What is written at an edge: the tensor's shape, as far as it is known.
std::string edge_label(const Tensor& tensor);

/// Text inside an SVG.
std::string escaped(std::string_view text);
inline constexpr double letter_width = 6.2;  ///< on average, at a font size of 11

/// Throws InvalidArgumentError unless the direction is "LR" or "TB".
void check_direction(const DrawOptions& options, Where where);

}  // namespace tapestry::io
