/// Graphs in DOT, the language of Graphviz.

#include <map>

#include "graph/graph_state.hpp"
#include "graph/state_ops.hpp"
#include "io/drawing/drawing.hpp"

namespace tapestry::io {
namespace {

using detail::Node;

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

/// A name scope with its nodes and the scopes within.
struct Scope {
  std::vector<const Node*> nodes;
  std::map<std::string, Scope> inner;
};

class DotWriter {
 public:
  explicit DotWriter(const detail::GraphState& graph) : graph_(graph) {}

  std::string run(std::string_view rankdir) {
    Scope root;
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      const Node& node = graph_.node(i);
      Scope* scope = &root;
      std::string_view rest = node.name();
      for (std::size_t slash; (slash = rest.find('/')) != std::string_view::npos; rest.remove_prefix(slash + 1))
        scope = &scope->inner[std::string(rest.substr(0, slash))];
      scope->nodes.push_back(&node);
    }
    text_ = detail::join("digraph {\n  rankdir=", rankdir,
                         ";\n  node [fontname=\"sans-serif\", fontsize=10, style=filled, fillcolor=white];\n"
                         "  edge [fontname=\"sans-serif\", fontsize=8, color=\"#555555\"];\n");
    write(root, "", "  ");
    for (std::size_t i = 0; i < graph_.size(); ++i) write_edges(graph_.node(i));
    return std::move(text_) + "}\n";
  }

 private:
  /// Writes a scope and those inside it. Long names may nest them too deeply for recursion, so `open` is the stack.
  void write(const Scope& root, const std::string& root_path, const std::string& root_indent) {
    struct Open {
      const Scope* scope;
      std::string path, indent;
      std::map<std::string, Scope>::const_iterator next;
    };
    std::vector<Open> open;
    const auto enter = [&](const Scope& scope, const std::string& path, const std::string& indent) {
      for (const Node* node : scope.nodes) text_ += indent + declaration(*node);
      open.push_back({&scope, path, indent, scope.inner.begin()});
    };
    enter(root, root_path, root_indent);
    while (!open.empty()) {
      Open& top = open.back();
      if (top.next == top.scope->inner.end()) {
        if (open.size() > 1) text_ += top.indent.substr(2) + "}\n";
        open.pop_back();
        continue;
      }
      const auto& [name, scope] = *top.next++;
      const std::string path = top.path + name, indent = top.indent;
      text_ += indent + "subgraph " + in_quotes("cluster_" + path) + " {\n" + indent + "  label=" + in_quotes(name) +
               ";\n" + indent + "  style=rounded;\n" + indent + "  color=\"#aaaaaa\";\n";
      enter(scope, path + "/", indent + "  ");
    }
  }

  static std::string declaration(const Node& node) {
    const Look look = look_of(node);
    return detail::join(in_quotes(node.name()), " [label=", in_quotes(look.label), ", shape=", look.shape,
                        ", fillcolor=\"", look.colour, "\"];\n");
  }

  void write_edges(const Node& node) {
    for (const Tensor& input : node.inputs()) {
      const Node& from = *detail::endpoint_of(input).node;
      text_ += detail::join("  ", in_quotes(from.name()), " -> ", in_quotes(node.name()),
                            " [label=", in_quotes(edge_label(input)), "];\n");
    }
    for (const Node* from : node.control_inputs)
      text_ += detail::join("  ", in_quotes(from->name()), " -> ", in_quotes(node.name()), " [style=dashed];\n");
  }

  const detail::GraphState& graph_;
  std::string text_;
};

}  // namespace

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

}  // namespace tapestry::io

namespace tapestry {

std::string Graph::to_dot(const DrawOptions& options, Where where) const {
  io::check_direction(options, where);
  const std::lock_guard lock(state_->mutex());
  return io::DotWriter(*state_).run(options.rankdir);
}

}  // namespace tapestry
