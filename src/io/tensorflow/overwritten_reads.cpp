#include "io/tensorflow/overwritten_reads.hpp"

#include <algorithm>
#include <utility>

#include "graph/state_ops.hpp"

namespace tapestry::io {
namespace {

using detail::GraphState;
using detail::Node;

class Finder {
 public:
  Finder(const GraphState& graph, const std::vector<char>& kept) : consumers_(graph.size()), is_after_(graph.size()) {
    for (std::size_t i = 0; i < graph.size(); ++i) {
      const Node& node = graph.node(i);
      if (!kept[i]) continue;
      for (const Tensor& input : node.inputs()) consumers_[detail::endpoint_of(input).node->index].push_back(&node);
      if (&node.op() == &read_variable_op) reads_.push_back(&node);
      if (changes_variables(node)) changes_.push_back(&node);
      // Each node comes after those that it needs.
      for_each_needed(node, [&](const Node& needed) {
        if (is_after_[needed.index] || changes_variables(needed)) is_after_[i] = 1;
      });
    }
  }

  std::unordered_set<const Node*> find() const {
    std::unordered_set<const Node*> overwritten;
    for (const Node* change : changes_) {
      const std::vector<Variable>& changed = *change->attr<VariablesRef>("variables");
      const std::vector<char> before = needed_by(*change);
      for (const Node* read : reads_) {
        const Variable& variable = read->attr<VariablesRef>("variables")->front();
        const bool is_changed =
            std::any_of(changed.begin(), changed.end(), [&](const Variable& each) { return each.is(variable); });
        if (is_changed && before[read->index] && has_reader_after(*read, before)) overwritten.insert(read);
      }
    }
    return overwritten;
  }

 private:
  static bool changes_variables(const Node& node) {
    return node.op().stateful && &node.op() != &read_variable_op && node.inputs().size() > 1 &&
           node.attrs().find<VariablesRef>("variables") != nullptr;
  }
  template <class F>
  static void for_each_needed(const Node& node, F visit) {
    for (const Tensor& input : node.inputs()) visit(*detail::endpoint_of(input).node);
    for (const Node* control : node.control_inputs) visit(*control);
  }

  /// By node, whether this one waits for it; it waits for itself.
  std::vector<char> needed_by(const Node& node) const {
    std::vector<char> needed(consumers_.size());
    std::vector<const Node*> pending{&node};
    needed[node.index] = 1;
    while (!pending.empty()) {
      const Node& next = *pending.back();
      pending.pop_back();
      for_each_needed(next, [&](const Node& input) {
        if (!std::exchange(needed[input.index], 1)) pending.push_back(&input);
      });
    }
    return needed;
  }

  /// Whether a node that waits for a change reads the memory of a value: it has the value, or a view of it, as an
  /// input. `before`: the nodes for which the change waits.
  bool has_reader_after(const Node& read, const std::vector<char>& before) const {
    std::vector<const Node*> pending{&read};
    while (!pending.empty()) {
      const Node& next = *pending.back();
      pending.pop_back();
      for (const Node* each : consumers_[next.index]) {
        if (!before[each->index] && is_after_[each->index]) return true;
        if (each->op().view) pending.push_back(each);
      }
    }
    return false;
  }

  std::vector<std::vector<const Node*>> consumers_;  ///< by node
  std::vector<char> is_after_;                       ///< by node, whether it waits for a change
  std::vector<const Node*> reads_, changes_;
};

}  // namespace

std::unordered_set<const Node*> overwritten_reads(const GraphState& graph, const std::vector<char>& kept) {
  return Finder(graph, kept).find();
}

}  // namespace tapestry::io
