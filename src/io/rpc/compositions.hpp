#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

#include "io/rpc/node_edges.hpp"
#include "io/tensorflow/op_rules.hpp"

/// Several nodes of a file may stand for one op of ours. The last of them tells so by hints, which name the inputs of
/// the op. A task that gets all of them runs the op, whose plan does not depend on sizes that only the nodes between
/// have.

namespace tapestry::io::rpc {

inline bool is_hint(std::string_view attr) {
  return attr.starts_with(hint_prefix) || attr == hint_op || attr == hint_inputs || attr == hint_numbers;
}

/// Gives each input that the hints of a node name another name.
inline void rename_hinted(NodeDef& node, const std::function<std::string(const Edge&)>& name_of) {
  const auto found = node.attrs.find(hint_inputs);
  if (found == node.attrs.end()) return;
  if (auto* list = std::get_if<ListDef>(&found->second))
    for (std::string& each : list->strings) each = name_of(edge_of(each));
}

/// The nodes between the inputs of the op and the last node, by number; none for a node without hints. `number_of`
/// finds a node by its name, or returns one that is too large.
inline std::vector<std::size_t> inner_nodes(const std::vector<NodeDef>& nodes, std::size_t last,
                                            const std::function<std::size_t(const std::string&)>& number_of) {
  const NodeDef& node = nodes[last];
  if (!node.attrs.contains(hint_op)) return {};
  std::unordered_set<std::string> seen;
  for (const std::string& each : attr_or<ListDef>(node, hint_inputs, {}).strings) seen.insert(edge_of(each).node);
  std::vector<std::size_t> inner, pending{last};
  while (!pending.empty()) {
    const NodeDef& user = nodes[pending.back()];
    pending.pop_back();
    for (const std::string& input : user.inputs) {
      const std::string from = edge_of(input).node;
      const std::size_t number = number_of(from);
      if (!from.starts_with(node.name + "/") || number >= nodes.size() || !seen.insert(from).second) continue;
      inner.push_back(number);
      pending.push_back(number);
    }
  }
  return inner;
}

}  // namespace tapestry::io::rpc
