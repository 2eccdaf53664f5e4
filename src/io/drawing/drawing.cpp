/// What the drawings of graphs in DOT and SVG share.

#include "io/drawing/drawing.hpp"

#include <set>

#include "graph/flow/flow_ops.hpp"
#include "graph/state_ops.hpp"

namespace tapestry::io {

using detail::Node;

Look look_of(const Node& node) {
  const std::string name = node.name().substr(node.name().rfind('/') + 1);
  const bool unnamed = name.starts_with(node.type());
  Look look{.label = unnamed ? name : detail::join(name, " : ", node.type())};
  if (&node.op() == &placeholder_op) {
    look.shape = "ellipse";
    look.colour = "#d7ecff";
  } else if (&node.op() == &const_op) {
    look.shape = "ellipse";
    look.colour = "#eeeeee";
  } else if (&node.op() == &var_handle_op) {
    look.shape = "cylinder";
    look.colour = "#ffe9b8";
  } else if (node.op().stateful) {
    look.colour = "#fff4dc";
  }
  return look;
}

std::string edge_label(const Tensor& tensor) {
  return tensor.dtype() == DType::resource || !tensor.shape().has_rank() ? std::string() : to_string(tensor.shape());
}

Frame frame_of(const detail::GraphState& graph) {
  Frame frame;
  for (std::size_t i = 0; i < graph.size(); ++i) frame.nodes.push_back(&graph.node(i));
  return frame;
}

std::vector<Frame> frames_inside(const Node& node, const std::string& path) {
  std::vector<Frame> frames;
  if (!detail::is_flow(node.op())) return frames;
  std::set<std::string> titles;
  for (const detail::GraphFunction& function : detail::functions_of(node)) {
    Frame frame;
    frame.title = function.name;
    for (int number = 1; !titles.insert(frame.title).second; ++number)
      frame.title = detail::join(function.name, '_', number);
    frame.prefix = path + ":" + frame.title + "/";
    const detail::FunctionNodes nodes = detail::nodes_of(function);
    frame.given.insert(nodes.given.begin(), nodes.given.end());
    frame.nodes = nodes.given;
    frame.nodes.insert(frame.nodes.end(), nodes.running.begin(), nodes.running.end());
    for (const Tensor& output : function.outputs)
      if (output) frame.results.insert(&detail::producer_of(output));
    frames.push_back(std::move(frame));
  }
  return frames;
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) result += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return result;
}

void check_direction(const DrawOptions& options, Where where) {
  if (options.rankdir != "LR" && options.rankdir != "TB")
    throw InvalidArgumentError(detail::join("rankdir must be \"LR\" or \"TB\", but is \"", options.rankdir, "\""),
                               where);
}

}  // namespace tapestry::io
