#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "io/tensorflow/graph_def.hpp"

/// The nodes of TensorFlow 1's loops, for what raises them.

namespace tapestry::io {

inline std::string producer_name(const std::string& input) {
  const std::size_t begin = input.starts_with('^') ? 1 : 0;
  return input.substr(begin, input.find(':') - begin);
}

template <class T>
const T* attr_of(const NodeDef& node, std::string_view name) {
  const auto found = node.attrs.find(name);
  return found == node.attrs.end() ? nullptr : std::get_if<T>(&found->second);
}

inline bool is_enter(const NodeDef& node) {
  return (node.op == "Enter" || node.op == "RefEnter") && data_inputs(node) == 1;
}
inline bool is_merge(const NodeDef& node) { return node.op == "Merge" || node.op == "RefMerge"; }
inline bool is_switch(const NodeDef& node) { return node.op == "Switch" || node.op == "RefSwitch"; }
inline bool is_exit(const NodeDef& node) { return node.op == "Exit" || node.op == "RefExit"; }
inline bool is_next(const NodeDef& node) { return node.op == "NextIteration" || node.op == "RefNextIteration"; }
inline bool is_identity(const NodeDef& node) { return node.op == "Identity" && data_inputs(node) == 1; }
inline bool is_push(const NodeDef& node) {
  return (node.op == "StackPushV2" || node.op == "StackPush") && data_inputs(node) == 2;
}
inline bool is_pop(const NodeDef& node) {
  return (node.op == "StackPopV2" || node.op == "StackPop") && data_inputs(node) == 1;
}
/// Whether a node passes on its first input: into or out of a loop, or to a branch.
inline bool passes_on(const NodeDef& node) {
  return is_identity(node) || is_enter(node) || (is_switch(node) && data_inputs(node) == 2);
}

using Index = std::unordered_map<std::string, std::size_t>;

inline Index numbers_by_name(const GraphDef& graph) {
  Index index;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) index.emplace(graph.nodes[i].name, i);
  return index;
}

/// The names of the nodes of a graph, and those that nodes get which are added to it.
class NodeNames {
 public:
  explicit NodeNames(const GraphDef& graph) {
    for (const NodeDef& each : graph.nodes) names_.insert(each.name);
  }

  /// Takes the name, or the first of "name_1", "name_2", ... that is free, and returns it.
  std::string unique(const std::string& name) {
    if (names_.insert(name).second) return name;
    for (std::size_t& last = last_[name];;)
      if (std::string numbered = detail::join(name, "_", ++last); names_.insert(numbered).second) return numbered;
  }

 private:
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, std::size_t> last_;  ///< the last number that was tried
};

/// The numbers of the nodes, each after those of its inputs.
inline std::vector<std::size_t> in_order(const GraphDef& graph, const Index& index) {
  std::vector<std::size_t> order, pending;
  std::vector<char> seen(graph.nodes.size());  // 1: its inputs are pending
  for (std::size_t first = 0; first < seen.size(); ++first) {
    pending.push_back(first);
    while (!pending.empty()) {
      const std::size_t i = pending.back();
      if (seen[i] != 0) {
        pending.pop_back();
        if (std::exchange(seen[i], 2) == 1) order.push_back(i);
        continue;
      }
      seen[i] = 1;
      for (const std::string& each : graph.nodes[i].inputs)
        if (const auto found = index.find(producer_name(each)); found != index.end() && seen[found->second] == 0)
          pending.push_back(found->second);
    }
  }
  return order;
}

/// An input of a node that is an output of another.
struct Use {
  std::size_t node = 0, input = 0;
};
/// By the number of a node: the inputs that are its outputs, without control inputs.
inline std::vector<std::vector<Use>> data_uses(const GraphDef& graph, const Index& index) {
  std::vector<std::vector<Use>> uses(graph.nodes.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    for (std::size_t k = 0; k < data_inputs(graph.nodes[i]); ++k)
      if (const auto found = index.find(producer_name(graph.nodes[i].inputs[k])); found != index.end())
        uses[found->second].push_back({i, k});
  return uses;
}

/// Replaces TensorArrays by lists, whose flows the lists are, and the arrays of their gradients by lists of gradients.
void raise_arrays(GraphDef& graph);

/// Replaces the stacks in which loops keep what their gradients need by lists, which pass through the loops and
/// branches as loop variables.
void raise_stacks(GraphDef& graph);

}  // namespace tapestry::io
