#include <algorithm>
#include <map>

#include "graph/passes/passes.hpp"
#include "graph/rewrite.hpp"
#include "graph/state_ops.hpp"

namespace tapestry::detail {
namespace {

/// In nanoseconds. Work that takes less time is done before another thread has woken up for it.
constexpr double worth_a_thread = 10000;

/// A new order of the nodes. Nodes that would each keep one core busy are delayed, so that several of them come
/// together, until a node that is not delayed needs one of them, or a node has an effect.
class Schedule {
 public:
  struct Entry {
    const Node* node;
    int group;
  };

  explicit Schedule(const PlanGraph& plan) : plan_(plan), levels_(plan.graph->size()) {
    for (std::size_t i = 0; i < plan.graph->size(); ++i) visit(plan.graph->node(i));
    append_waiting();
  }

  const std::vector<Entry>& entries() const { return entries_; }
  bool has_groups() const { return groups_ > 0; }

 private:
  /// Delayed nodes that can run when those of all earlier levels have run.
  struct Level {
    std::map<std::pair<int, int>, std::vector<const Node*>> busy;  ///< by device
    std::vector<const Node*> others;                               ///< small nodes that need results of this level
  };

  void visit(const Node& node) {
    std::size_t level = 0;
    for (const Tensor& input : node.inputs()) level = std::max(level, levels_[endpoint_of(input).node->index]);
    for (const Node* control : node.control_inputs) level = std::max(level, levels_[control->index]);
    const Op& op = node.op();
    if (has_effect(node)) {
      append_waiting();
    } else if (op.busy && op.busy(node) >= worth_a_thread) {
      const Device device = plan_.device_of(node);
      level_at(++level).busy[{device.kind(), device.index()}].push_back(&node);
      levels_[node.index] = level;
      return;
    } else if (level > 0 && is_small(node)) {
      level_at(level).others.push_back(&node);
      levels_[node.index] = level;
      return;
    } else if (level > 0) {
      append_waiting();
    }
    entries_.push_back({&node, 0});
  }

  /// Whether delaying a node costs little memory, although its inputs then live longer.
  static bool is_small(const Node& node) {
    const auto has_few_elements = [](const Tensor& tensor) { return tensor.shape().num_elements() <= 16384; };
    return node.op().view || (std::all_of(node.inputs().begin(), node.inputs().end(), has_few_elements) &&
                              std::all_of(node.outputs().begin(), node.outputs().end(), has_few_elements));
  }

  Level& level_at(std::size_t number) {
    if (waiting_.size() < number) waiting_.resize(number);
    return waiting_[number - 1];
  }

  void append_waiting() {
    for (const Level& level : waiting_) {
      for (const auto& [device, nodes] : level.busy) {
        const int group = nodes.size() > 1 ? ++groups_ : 0;
        for (const Node* node : nodes) append(*node, group);
      }
      for (const Node* node : level.others) append(*node, 0);
    }
    waiting_.clear();
  }

  void append(const Node& node, int group) {
    entries_.push_back({&node, group});
    levels_[node.index] = 0;
  }

  const PlanGraph& plan_;
  std::vector<std::size_t> levels_;  ///< by node: the level in which it is delayed, from 1 on; 0 if it is not
  std::vector<Level> waiting_;
  std::vector<Entry> entries_;
  int groups_ = 0;
};

}  // namespace

PlanGraph parallel(const PlanGraph& plan) {
  const Schedule schedule(plan);
  if (!schedule.has_groups()) return plan;
  Rewrite rewrite(plan);
  std::vector<int> groups;
  for (const auto& [node, group] : schedule.entries()) {
    rewrite.copy(*node);
    groups.push_back(group);
  }
  PlanGraph result = rewrite.plan_like(plan);
  result.groups = std::move(groups);
  return result;
}

}  // namespace tapestry::detail
