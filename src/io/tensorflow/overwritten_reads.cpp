#include "io/tensorflow/overwritten_reads.hpp"

#include <algorithm>
#include <utility>

#include "graph/state_ops.hpp"
#include "graph/training.hpp"

namespace tapestry::io {
namespace {

using detail::GraphState;
using detail::Node;

class Finder {
 public:
  Finder(const GraphState& graph, const std::vector<char>& kept)
      : consumers_(graph.size()), is_after_(graph.size()), needed_for_(graph.size()) {
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
    for (const Node* change : changes_) {
      before_.push_back(needed_by(*change));
      const std::vector<char> own = needed_by(*change, true);
      for (std::size_t i = 0; i < graph.size(); ++i)
        if (own[i]) needed_for_[i] = needed_for_[i] && needed_for_[i] != step_of(*change) ? &several : step_of(*change);
    }
  }

  std::unordered_set<const Node*> find() const {
    std::unordered_set<const Node*> overwritten;
    for (std::size_t i = 0; i < changes_.size(); ++i) {
      const std::vector<Variable>& changed = *changes_[i]->attr<VariablesRef>("variables");
      for (const Node* read : reads_) {
        const Variable& variable = read->attr<VariablesRef>("variables")->front();
        const bool is_changed =
            std::any_of(changed.begin(), changed.end(), [&](const Variable& each) { return each.is(variable); });
        if (is_changed && before_[i][read->index] && has_late_reader(*read, i)) overwritten.insert(read);
      }
    }
    return overwritten;
  }

 private:
  template <class F>
  static void for_each_needed(const Node& node, F visit) {
    for (const Tensor& input : node.inputs()) visit(*detail::endpoint_of(input).node);
    for (const Node* control : node.control_inputs) visit(*control);
  }

  /// By node, whether this one waits for it; it waits for itself. `alone`: not for what other changes need.
  std::vector<char> needed_by(const Node& node, bool alone = false) const {
    std::vector<char> needed(consumers_.size());
    std::vector<const Node*> pending{&node};
    needed[node.index] = 1;
    while (!pending.empty()) {
      const Node& next = *pending.back();
      pending.pop_back();
      for_each_needed(next, [&](const Node& input) {
        if (alone && changes_variables(input)) return;
        if (!std::exchange(needed[input.index], 1)) pending.push_back(&input);
      });
    }
    return needed;
  }

  /// What a change is a part of: itself, or a step of an optimizer, whose updates wait for all of its gradients.
  static const void* step_of(const Node& change) {
    for (const Tensor& input : change.inputs())
      if (const Node* numbers = detail::endpoint_of(input).node; &numbers->op() == &learning_rate_op) return numbers;
    return &change;
  }

  /// Whether a node for which a change does not wait reads the memory of a value before or after it: it has the value,
  /// or a view of it, as an input. What nothing else waits for runs only where somebody asks for it beside the change.
  bool has_late_reader(const Node& read, std::size_t change) const {
    const void* step = step_of(*changes_[change]);
    std::vector<const Node*> pending{&read};
    while (!pending.empty()) {
      const Node& next = *pending.back();
      pending.pop_back();
      for (const Node* each : consumers_[next.index]) {
        const void* needed_for = needed_for_[each->index];
        if (!before_[change][each->index] && (is_after_[each->index] || (needed_for && needed_for != step)))
          return true;
        if (each->op().view) pending.push_back(each);
      }
    }
    return false;
  }

  std::vector<std::vector<const Node*>> consumers_;  ///< by node
  std::vector<char> is_after_;                       ///< by node, whether it waits for a change
  std::vector<const void*> needed_for_;              ///< by node, the step that needs it, or `several`
  std::vector<const Node*> reads_, changes_;
  std::vector<std::vector<char>> before_;  ///< by change, the nodes for which it waits
  static constexpr char several = 0;
};

}  // namespace

std::unordered_set<const Node*> overwritten_reads(const GraphState& graph, const std::vector<char>& kept) {
  return Finder(graph, kept).find();
}

}  // namespace tapestry::io
