/// Graphs in DOT, the language of Graphviz.

#include <map>

#include "graph/graph_state.hpp"
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
  std::string run(const detail::GraphState& graph, std::string_view rankdir) {
    text_ = detail::join("digraph {\n  rankdir=", rankdir,
                         ";\n  node [fontname=\"sans-serif\", fontsize=10, style=filled, fillcolor=white];\n"
                         "  edge [fontname=\"sans-serif\", fontsize=8, color=\"#555555\"];\n");
    write(frame_of(graph), "  ");
    return std::move(text_) + std::move(edges_) + "}\n";
  }

 private:
  void write(const Frame& frame, const std::string& indent) {
    Scope root;
    for (const Node* node : frame.nodes) {
      Scope* scope = &root;
      std::string_view rest = node->name();
      for (std::size_t slash; (slash = rest.find('/')) != std::string_view::npos; rest.remove_prefix(slash + 1))
        scope = &scope->inner[std::string(rest.substr(0, slash))];
      scope->nodes.push_back(node);
    }
    write(frame, root, indent);
    for (const Node* node : frame.nodes)
      if (!frame.given.contains(node)) write_edges(frame, *node);
  }

  /// Writes a scope and those inside it. Long names may nest them too deeply for recursion, so `open` is the stack.
  void write(const Frame& frame, const Scope& root, const std::string& root_indent) {
    struct Open {
      const Scope* scope;
      std::string path, indent;
      std::map<std::string, Scope>::const_iterator next;
    };
    std::vector<Open> open;
    const auto enter = [&](const Scope& scope, const std::string& path, const std::string& indent) {
      for (const Node* node : scope.nodes) declare(frame, *node, indent);
      open.push_back({&scope, path, indent, scope.inner.begin()});
    };
    enter(root, frame.prefix, root_indent);
    while (!open.empty()) {
      Open& top = open.back();
      if (top.next == top.scope->inner.end()) {
        if (open.size() > 1) text_ += top.indent.substr(2) + "}\n";
        open.pop_back();
        continue;
      }
      const auto& [name, scope] = *top.next++;
      const std::string path = top.path + name, indent = top.indent;
      open_cluster(path, name, "#aaaaaa", indent);
      enter(scope, path + "/", indent + "  ");
    }
  }

  void open_cluster(const std::string& path, const std::string& label, const char* colour, const std::string& indent) {
    text_ += indent + "subgraph " + in_quotes("cluster_" + path) + " {\n" + indent + "  label=" + in_quotes(label) +
             ";\n" + indent + "  style=rounded;\n" + indent + "  color=\"" + colour + "\";\n";
  }

  /// Writes a node. One that runs functions is in a cluster with a cluster for each of them.
  void declare(const Frame& frame, const Node& node, const std::string& indent) {
    const Look look = look_of(node);
    const std::string path = frame.prefix + node.name();
    const bool is_given = frame.given.contains(&node);
    const std::string declaration =
        detail::join(in_quotes(path), " [label=", in_quotes(look.label), ", shape=", is_given ? "ellipse" : look.shape,
                     ", fillcolor=\"", look.colour, frame.results.contains(&node) ? "\", penwidth=2];\n" : "\"];\n");
    const std::vector<Frame> frames = is_given ? std::vector<Frame>() : frames_inside(node, path);
    if (frames.empty()) {
      text_ += indent + declaration;
      return;
    }
    open_cluster(path + ":", "", "#4477aa", indent);
    text_ += indent + "  " + declaration;
    for (const Frame& each : frames) {
      open_cluster(path + ":" + each.title, each.title, "#4477aa", indent + "  ");
      write(each, indent + "    ");
      text_ += indent + "  }\n";
      // An invisible edge keeps what begins a function beside the node.
      for (const Node* inner : each.nodes)
        if (each.given.contains(inner) || (inner->inputs().empty() && inner->control_inputs.empty()))
          add_edge(path, each.prefix + inner->name(), "style=invis");
    }
    text_ += indent + "}\n";
  }

  void write_edges(const Frame& frame, const Node& node) {
    for (const Tensor& input : node.inputs())
      add_edge(frame.prefix + detail::producer_of(input).name(), frame.prefix + node.name(),
               "label=" + in_quotes(edge_label(input)));
    for (const Node* from : node.control_inputs)
      add_edge(frame.prefix + from->name(), frame.prefix + node.name(), "style=dashed");
  }

  void add_edge(const std::string& from, const std::string& to, const std::string& attributes) {
    edges_ += detail::join("  ", in_quotes(from), " -> ", in_quotes(to), " [", attributes, "];\n");
  }

  std::string text_, edges_;
};

}  // namespace

}  // namespace tapestry::io

namespace tapestry {

std::string Graph::to_dot(const DrawOptions& options, Where where) const {
  io::check_direction(options, where);
  const std::lock_guard lock(state_->mutex());
  return io::DotWriter().run(*state_, options.rankdir);
}

}  // namespace tapestry
