#include "io/tensorflow/raise_conditions.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/make_tensor.hpp"
#include "io/tensorflow/conditions.hpp"
#include "io/tensorflow/file_graph.hpp"
#include "io/tensorflow/flow.hpp"
#include "io/tensorflow/frames.hpp"
#include "io/tensorflow/nodes.hpp"
#include "io/tensorflow/updates.hpp"

namespace tapestry::io {
namespace {

using Edge = Conditions::Edge;
using Context = Conditions::Context;

/// A part of a condition: what runs before a Merge of it, or between two of its Merges. What comes after a Merge may
/// be in the same condition again, as gradients are; that becomes another node.
struct Stage {
  std::size_t number = 0;
  std::map<std::int64_t, std::vector<std::size_t>> nodes{};  ///< by side
  std::vector<std::size_t> merges{};
  std::map<std::string, std::int64_t> exports{};  ///< tensors in a branch that later stages use: their side

  std::size_t first() const { return merges.empty() ? nodes.begin()->second[0] : merges[0]; }
};

/// A condition that is being raised: its nodes, and the numbers of the stages of all nodes from its first to its last.
struct Condition {
  std::size_t predicate;
  std::unordered_set<std::size_t> members;
  std::size_t begin;                ///< the position of the first member
  std::vector<std::size_t> stages;  ///< by position behind `begin`; those before have 0
};

/// Nodes that belong together, each group known by one of them.
class Groups {
 public:
  explicit Groups(const std::vector<std::size_t>& nodes) {
    for (const std::size_t i : nodes) parents_.emplace(i, i);
  }
  std::size_t of(std::size_t node) {
    while (parents_.at(node) != node) node = parents_[node] = parents_.at(parents_[node]);
    return node;
  }
  /// Joins the groups of two nodes, unless one of these is not among the nodes.
  void join(std::size_t a, std::size_t b) {
    if (parents_.contains(a) && parents_.contains(b)) parents_[of(a)] = of(b);
  }

 private:
  std::unordered_map<std::size_t, std::size_t> parents_;
};

/// What a stage takes from the graph around.
struct Surroundings {
  std::vector<std::string> arguments{}, waits{};
  std::map<std::string, NodeDef> constants{};  ///< of other stages, that a branch uses
};

/// Raises the conditions of a graph whose loops are While nodes already.
class ConditionRaiser {
 public:
  /// `function`: the function that the graph is the body of, whose outputs may come from a branch; nullptr for the
  /// graph of a file.
  ConditionRaiser(GraphDef& graph, FunctionBody* function) : graph_(graph), function_(function), found_(graph) {}

  /// Raises the innermost conditions. Returns how deep they were; 0 if there were none.
  std::size_t raise() {
    if (!found_.find()) return 0;
    removed_.assign(graph_.nodes.size(), 0);
    added_.clear();
    names_.emplace(graph_);
    std::size_t depth = 0;
    for (const std::size_t i : found_.order())
      depth = std::max(depth, found_.context(i).size() + (found_.predicate_of_merge(i) ? 1 : 0));
    if (depth == 0) {
      for (std::size_t i = 0; i < graph_.nodes.size(); ++i) removed_[i] = found_.predicate_of_switch(i) ? 1 : 0;
      rebuild();
      return 0;
    }
    std::map<std::pair<std::size_t, Context>, std::vector<std::size_t>> conditions;  // and what is in their branches
    for (const std::size_t i : found_.order()) {
      Context around = found_.context(i);
      if (around.size() == depth) {
        const std::size_t predicate = around.back().first;
        around.pop_back();
        conditions[{predicate, around}].push_back(i);
      } else if (const auto predicate = found_.predicate_of_merge(i); predicate && around.size() + 1 == depth) {
        conditions[{*predicate, around}].push_back(i);
      }
    }
    for (const auto& [condition, members] : conditions) raise_condition(condition.first, members);
    rebuild();
    return depth;
  }

  /// The nodes that were raised.
  MovedNodes moved() {
    passing_.insert(moved_.begin(), moved_.end());
    return std::move(passing_);
  }

 private:
  const NodeDef& def(std::size_t i) const { return graph_.nodes[i]; }
  std::string tensor_of(const Edge& edge) const {
    return edge.output == 0 ? def(edge.node).name : detail::join(def(edge.node).name, ":", edge.output);
  }
  /// Each stage that uses a constant has it.
  bool is_constant(const Edge& edge) const { return def(edge.node).op == "Const"; }

  // ---- What a condition consists of ---------------------------------------------------------------------------------

  std::size_t stage_of(const Condition& condition, std::size_t node) const {
    const std::size_t position = found_.position(node);
    return position < condition.begin ? 0 : condition.stages[position - condition.begin];
  }
  bool is_merged(const Condition& condition, std::size_t node) const {
    return found_.predicate_of_merge(node) == condition.predicate && condition.members.contains(node);
  }
  /// Whether a tensor is in a branch.
  bool is_inside(const Condition& condition, const Edge& edge) const {
    return condition.members.contains(edge.node) && !found_.predicate_of_merge(edge.node) &&
           !found_.predicate_of_switch(edge.node);
  }
  /// A Switch of the condition may be given a tensor that is in a branch itself; that tensor, or else the Switch's.
  const Edge& used_by_branch(const Condition& condition, const Edge& edge) const {
    if (found_.predicate_of_switch(edge.node) != condition.predicate) return edge;
    const Edge& given = found_.inputs(edge.node)[0];
    return is_inside(condition, given) ? given : edge;
  }
  /// What the function returns, if it is in a branch.
  std::optional<Edge> output_inside(const Condition& condition, const std::string& output) const {
    if (output.empty()) return {};
    const Edge edge = found_.edge_of(output);
    if (edge.node >= graph_.nodes.size() || !is_inside(condition, edge)) return {};
    return edge;
  }

  void raise_condition(std::size_t predicate, const std::vector<std::size_t>& members) {
    const auto by_position = [&](std::size_t a, std::size_t b) { return found_.position(a) < found_.position(b); };
    const auto [first, last] = std::minmax_element(members.begin(), members.end(), by_position);
    const std::size_t begin = found_.position(*first), end = found_.position(*last) + 1;
    Condition condition{predicate, {members.begin(), members.end()}, begin, std::vector<std::size_t>(end - begin)};
    std::map<std::size_t, Stage> stages = find_stages(condition);
    const auto for_outputs_inside = [&](auto&& use) {
      for (std::size_t k = 0; function_ && k < function_->outputs.size(); ++k)
        if (const auto inner = output_inside(condition, function_->outputs[k])) use(function_->outputs[k], *inner);
    };
    for_outputs_inside([&](const std::string&, const Edge& inner) { add_export(condition, stages, inner); });
    exported_.clear();
    for (auto& [number, stage] : stages)
      for (const Stage& part : parts_of(condition, stage)) raise_stage(condition, part);
    for_outputs_inside([&](std::string& output, const Edge& inner) { output = exported_.at(tensor_of(inner)); });
  }

  std::map<std::size_t, Stage> find_stages(Condition& condition) const {
    std::map<std::size_t, Stage> stages;
    const std::unordered_set<std::size_t> changes = changes_apart(condition);
    for (std::size_t k = 0; k < condition.stages.size(); ++k) {
      const std::size_t i = found_.order()[condition.begin + k];
      std::size_t& number = condition.stages[k];
      for (const Edge& each : found_.inputs(i))
        number = std::max(number, stage_of(condition, each.node) + (is_merged(condition, each.node) ? 1 : 0));
      if (changes.contains(i)) ++number;
      if (!condition.members.contains(i)) continue;
      Stage& stage = stages[number];
      stage.number = number;
      if (is_merged(condition, i))
        stage.merges.push_back(i);
      else
        stage.nodes[found_.context(i).back().second].push_back(i);
      for (const Edge& each : found_.inputs(i)) {
        const Edge& used = used_by_branch(condition, each);
        if (is_inside(condition, used) && !each.is_control && stage_of(condition, used.node) < number &&
            !is_constant(used))
          add_export(condition, stages, used);
      }
    }
    return stages;
  }

  /// Whether nodes wait for the node only because it is in their branch.
  bool is_pivot(const Condition& condition, std::size_t node) const {
    const std::vector<Edge>& inputs = found_.inputs(node);
    return is_identity(def(node)) && inputs.size() == 1 &&
           found_.predicate_of_switch(inputs[0].node) == condition.predicate;
  }
  /// Calls `use` for the nodes of a condition that a node needs in its branch.
  template <class Use>
  void for_needed(const Condition& condition, std::size_t i, const Use& use) const {
    for (const Edge& each : found_.inputs(i)) {
      const std::size_t needed = used_by_branch(condition, each).node;
      if (condition.members.contains(needed) && !(each.is_control && is_pivot(condition, needed))) use(needed);
    }
  }

  /// The nodes that change Variables, and which some Merge does not need that has something in common with them: to
  /// fetch what such a Merge gives must not change the Variables, so that these nodes are in a stage of their own.
  std::unordered_set<std::size_t> changes_apart(const Condition& condition) const {
    std::vector<std::size_t> members, merges, changes;
    for (std::size_t k = 0; k < condition.stages.size(); ++k) {
      const std::size_t i = found_.order()[condition.begin + k];
      if (!condition.members.contains(i)) continue;
      members.push_back(i);
      if (is_merged(condition, i)) merges.push_back(i);
      if (changes_variables(def(i))) changes.push_back(i);
    }
    std::unordered_set<std::size_t> apart;
    if (changes.empty()) return apart;
    Groups groups(members);
    for (const std::size_t i : members) for_needed(condition, i, [&](std::size_t needed) { groups.join(needed, i); });
    std::vector<std::size_t> number(merges.size());               // of a Merge in its group
    std::unordered_map<std::size_t, std::size_t> count_in_group;  // of Merges
    std::size_t most = 0;
    for (std::size_t k = 0; k < merges.size(); ++k) {
      number[k] = count_in_group[groups.of(merges[k])]++;
      most = std::max(most, number[k] + 1);
    }
    constexpr std::size_t bits = 64;
    for (std::size_t first = 0; first < most; first += bits) {  // as many Merges of each group at once
      std::vector<std::uint64_t> needed_by(condition.stages.size());
      const auto mask_of = [&](std::size_t i) -> std::uint64_t& {
        return needed_by[found_.position(i) - condition.begin];
      };
      for (std::size_t k = 0; k < merges.size(); ++k)
        if (number[k] >= first && number[k] - first < bits)
          mask_of(merges[k]) |= std::uint64_t{1} << (number[k] - first);
      for (auto i = members.rbegin(); i != members.rend(); ++i)
        for_needed(condition, *i, [&](std::size_t needed) { mask_of(needed) |= mask_of(*i); });
      for (const std::size_t i : changes) {
        const std::size_t count = std::max(count_in_group[groups.of(i)], first) - first;
        const std::uint64_t all = count < bits ? (std::uint64_t{1} << count) - 1 : ~std::uint64_t{0};
        if (mask_of(i) != all) apart.insert(i);
      }
    }
    return apart;
  }

  void add_export(const Condition& condition, std::map<std::size_t, Stage>& stages, const Edge& edge) const {
    const std::int64_t side = found_.context(edge.node).back().second;
    stages[stage_of(condition, edge.node)].exports.emplace(tensor_of(edge), side);
  }

  /// The conditions that a program has made of one predicate are raised together, unless they change Variables: a run
  /// that needs one of them must not do what another one does. Nodes of a stage belong together if one uses the other.
  std::vector<Stage> parts_of(const Condition& condition, const Stage& stage) const {
    std::vector<std::size_t> all = stage.merges;
    for (const auto& [side, nodes] : stage.nodes) all.insert(all.end(), nodes.begin(), nodes.end());
    Groups groups(all);
    for (const std::size_t i : all) for_needed(condition, i, [&](std::size_t needed) { groups.join(needed, i); });
    std::unordered_set<std::size_t> changing;  // groups
    for (const std::size_t i : all)
      if (changes_variables(def(i))) changing.insert(groups.of(i));
    if (changing.empty()) return {stage};
    std::map<std::size_t, Stage> parts;  // by group; the others together
    constexpr std::size_t others = SIZE_MAX;
    const auto part_of = [&](std::size_t i) -> Stage& {
      const std::size_t group = groups.of(i);
      Stage& part = parts[changing.contains(group) ? group : others];
      part.number = stage.number;
      return part;
    };
    for (const auto& [side, nodes] : stage.nodes)
      for (const std::size_t i : nodes) part_of(i).nodes[side].push_back(i);
    for (const std::size_t i : stage.merges) part_of(i).merges.push_back(i);
    for (const auto& [tensor, side] : stage.exports) part_of(found_.edge_of(tensor).node).exports.emplace(tensor, side);
    std::vector<Stage> found;
    found.reserve(parts.size());
    for (auto& [group, part] : parts) found.push_back(std::move(part));
    return found;
  }
  static bool changes_variables(const NodeDef& node) {
    return has_effect(node) ||
           (node.flow && std::any_of(node.flow->functions.begin(), node.flow->functions.end(),
                                     [](const FunctionBody& each) { return !each.operations.empty(); }));
  }

  // ---- Raising a stage ----------------------------------------------------------------------------------------------

  struct Selector {
    std::string tensor;
    bool is_case;
    std::int64_t sides;
  };
  static constexpr std::int64_t most_sides = 1 << 12;

  Selector selector_of(std::size_t predicate, const Stage& stage) const {
    const auto found = found_.switch_of(predicate);
    if (!found) refuse_condition(def(stage.first()), "it has no Switch");
    const NodeDef& node = def(*found);
    if (!is_case_switch(node)) return {node.inputs[1], false, 2};
    const auto attr = node.attrs.find("num_outs");
    const auto* count = attr == node.attrs.end() ? nullptr : std::get_if<std::int64_t>(&attr->second);
    if (!count || *count < 1 || *count > most_sides) refuse_condition(node, "its number of branches is not known");
    return {node.inputs[1], true, *count};
  }

  void raise_stage(const Condition& condition, const Stage& stage) {
    const auto [selector, is_case, sides] = selector_of(condition.predicate, stage);
    NodeDef node{.name = unique_name(stage), .op = is_case ? "Case" : "If"};
    Surroundings around;
    Flow flow{.is_raised = true};
    for (std::int64_t side = 0; side < sides; ++side) {
      flow.functions.push_back(branch(condition, stage, side, node.name, around));
      flow.functions.back().name = is_case     ? detail::join(node.name, "/branch_", side)
                                   : side == 1 ? node.name + "/then"
                                               : node.name + "/else";
    }
    if (!is_case) std::swap(flow.functions[0], flow.functions[1]);
    for (FunctionBody& each : flow.functions)
      for (std::size_t k = 0; k < around.arguments.size(); ++k) {
        each.inputs.push_back(argument_name(node.name, k));
        each.graph.nodes.push_back({.name = each.inputs.back(), .op = std::string(argument_op)});
      }
    name_outputs(condition, stage, node.name, sides);
    const bool has_operations = std::any_of(flow.functions.begin(), flow.functions.end(),
                                            [](const FunctionBody& each) { return !each.operations.empty(); });
    if (stage.merges.empty() && stage.exports.empty() && !has_operations && !may_be_fetched(stage)) {
      for (const auto& [side, nodes] : stage.nodes)
        for (const std::size_t i : nodes) moved_.erase(def(i).name);
      return;
    }
    node.inputs = {selector};
    node.inputs.insert(node.inputs.end(), around.arguments.begin(), around.arguments.end());
    std::sort(around.waits.begin(), around.waits.end());
    around.waits.erase(std::unique(around.waits.begin(), around.waits.end()), around.waits.end());
    std::erase(around.waits, "^" + node.name);
    node.inputs.insert(node.inputs.end(), around.waits.begin(), around.waits.end());
    if (function_)
      for (std::string& each : function_->operations)
        if (const auto to = moved_.find(each); to != moved_.end()) each = to->second;
    node.flow = std::make_shared<const Flow>(std::move(flow));
    added_.push_back(std::move(node));
  }

  /// What a stage runs on a side; `name`: of the node that the stage becomes.
  FunctionBody branch(const Condition& condition, const Stage& stage, std::int64_t side, const std::string& name,
                      Surroundings& around) {
    FunctionBody body;
    const auto inside = [&](const Edge& edge) { return tensor_inside(condition, stage, edge, side, name, around); };
    const auto found = stage.nodes.find(side);
    for (std::size_t k = 0; found != stage.nodes.end() && k < found->second.size(); ++k) {
      const std::size_t i = found->second[k];
      NodeDef copy = def(i);
      copy.inputs.clear();
      for (const Edge& each : found_.inputs(i)) {
        if (!each.is_control)
          copy.inputs.push_back(inside(each));
        else if (is_pivot(condition, each.node))
          continue;
        else if (is_inside(condition, each) && stage_of(condition, each.node) == stage.number)
          copy.inputs.push_back("^" + def(each.node).name);
        else if (!found_.predicate_of_switch(each.node))
          around.waits.push_back("^" + moved_name(each.node));
      }
      if (has_effect(copy)) body.operations.push_back(copy.name);
      body.graph.nodes.push_back(std::move(copy));
      moved_.insert_or_assign(def(i).name, name);
      removed_[i] = 1;
    }
    for (const std::size_t i : stage.merges)
      body.outputs.push_back(inside(found_.inputs(i)[found_.input_taken(i, side, condition.predicate)]));
    for (const std::size_t i : stage.merges)
      if (found_.gives_number(i))
        body.outputs.push_back(add_number(body.graph, def(i).name, found_.input_taken(i, side, condition.predicate)));
    for (const auto& [tensor, own] : stage.exports) body.outputs.push_back(own == side ? tensor : "");
    for (auto& [constant, copy] : std::exchange(around.constants, {})) body.graph.nodes.push_back(std::move(copy));
    return body;
  }

  static std::string argument_name(const std::string& node, std::size_t number) {
    return detail::join(node, "/_/argument_", number);
  }

  /// The tensor that a branch of a stage uses instead of one of the graph.
  std::string tensor_inside(const Condition& condition, const Stage& stage, const Edge& edge, std::int64_t side,
                            const std::string& name, Surroundings& around) const {
    const auto argument = [&](const std::string& tensor) {
      const auto found = std::find(around.arguments.begin(), around.arguments.end(), tensor);
      const auto number = static_cast<std::size_t>(found - around.arguments.begin());
      if (found == around.arguments.end()) around.arguments.push_back(tensor);
      return argument_name(name, number);
    };
    const bool is_given = found_.predicate_of_switch(edge.node) == condition.predicate;
    if (is_given && found_.side_of(edge) != side)
      refuse_condition(def(edge.node), "a branch uses what the other one is given");
    const Edge& used = used_by_branch(condition, edge);
    if (!is_inside(condition, used)) return argument(is_given ? def(edge.node).inputs[0] : tensor_of(edge));
    if (stage_of(condition, used.node) == stage.number) return tensor_of(used);
    if (!is_constant(used)) return argument(exported_.at(tensor_of(used)));
    NodeDef copy = def(used.node);
    copy.inputs.clear();
    return around.constants.emplace(copy.name, copy).first->first;
  }

  /// The outputs of a condition's node are those of its Merges, the numbers that these give, and what later stages use.
  void name_outputs(const Condition& condition, const Stage& stage, const std::string& name, std::int64_t sides) {
    std::size_t output = stage.merges.size();
    for (std::size_t k = 0; k < stage.merges.size(); ++k) {
      const std::size_t number = found_.gives_number(stage.merges[k]) ? output++ : 0;
      replace_merge(stage.merges[k], name, k, number);
      if (number > 0) continue;
      ListDef taken;
      for (std::int64_t side = 0; side < sides; ++side)
        taken.ints.push_back(static_cast<std::int64_t>(found_.input_taken(stage.merges[k], side, condition.predicate)));
      added_.back().attrs.emplace(value_index, std::move(taken));
    }
    for (const auto& [tensor, side] : stage.exports) exported_[tensor] = detail::join(name, ":", output++);
  }

  /// Whether a stage that gives nothing computes something that a program may ask for. Where the reader has made lists
  /// of what loops in branches keep, such stages only decide what becomes of the lists.
  bool may_be_fetched(const Stage& stage) const {
    return !has_lists_ && std::any_of(stage.nodes.begin(), stage.nodes.end(), [&](const auto& side) {
      return std::any_of(side.second.begin(), side.second.end(), [&](std::size_t i) {
        return !found_.predicate_of_switch(i) && def(i).op != "Const" && def(i).op != "Identity" && def(i).op != "NoOp";
      });
    });
  }

  /// The name of the node that a node has become part of.
  std::string moved_name(std::size_t i) const {
    const auto found = moved_.find(def(i).name);
    return found == moved_.end() ? def(i).name : found->second;
  }

  static std::string add_number(GraphDef& branch, const std::string& merge, std::size_t number) {
    NodeDef constant{.name = merge + "/_/value_index", .op = "Const"};
    constant.attrs = {{"dtype", code_of(int32)},
                      {"value", TensorDef{code_of(int32), detail::make_scalar(static_cast<int>(number), int32)}}};
    branch.nodes.push_back(constant);
    return constant.name;
  }

  /// `number`: the output that is the number of the input that the Merge has taken; 0 if nothing uses it.
  void replace_merge(std::size_t i, const std::string& condition, std::size_t output, std::size_t number) {
    NodeDef copy{.name = def(i).name, .op = "Identity", .device = def(i).device};
    copy.inputs = {output == 0 ? condition : detail::join(condition, ":", output)};
    if (number > 0) {
      copy.op = "IdentityN";
      copy.inputs.push_back(detail::join(condition, ":", number));
    } else if (const auto type = def(i).attrs.find("T"); type != def(i).attrs.end()) {
      copy.attrs.emplace("T", type->second);
    }
    removed_[i] = 1;
    added_.push_back(std::move(copy));
  }

  std::string unique_name(const Stage& stage) {
    const std::string& inner = def(stage.first()).name;
    std::string name = inner.substr(0, inner.rfind('/'));
    if (name == inner) name = "cond";
    return names_->unique(name);
  }

  void rebuild() {
    std::vector<NodeDef> nodes;
    std::unordered_set<std::string> gone;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (removed_[i] && !moved_.contains(def(i).name) && !found_.predicate_of_merge(i)) {
        gone.insert("^" + def(i).name);
        passing_.emplace(def(i).name, "");
      }
      if (!removed_[i]) nodes.push_back(std::move(graph_.nodes[i]));
    }
    std::move(added_.begin(), added_.end(), std::back_inserter(nodes));
    for (NodeDef& each : nodes) {
      std::erase_if(each.inputs, [&](const std::string& input) { return gone.contains(input); });
      for (std::string& input : each.inputs)
        if (input.starts_with('^'))
          if (const auto found = moved_.find(input.substr(1)); found != moved_.end()) input = "^" + found->second;
    }
    graph_.nodes = std::move(nodes);
  }

  GraphDef& graph_;
  FunctionBody* function_;
  const bool has_lists_ = std::any_of(graph_.nodes.begin(), graph_.nodes.end(), [](const NodeDef& each) {
    return each.name.find("/_/list") != std::string::npos;
  });
  Conditions found_;
  std::vector<char> removed_;  ///< by node
  std::vector<NodeDef> added_;
  std::optional<NodeNames> names_;
  std::map<std::string, std::string> exported_;  ///< by the tensor of a branch: the output that it is
  MovedNodes moved_;                             ///< by the name of a node of a branch: that of the condition
  MovedNodes passing_;                           ///< Switches that are gone
};

/// Whether a Switch passes on a Variable, also by TensorFlow 1's reference.
bool passes_on_variable(const NodeDef& passing, const Nodes& nodes) {
  const NodeDef* node = &passing;
  for (int steps = 0; node && steps < 100; ++steps) {
    if (!is_switch_of_condition(*node) && !is_enter(*node)) return gives_reference(node->op) || is_variable(*node);
    if (node->inputs.empty() || node->op == "RefSwitch") return true;
    node = nodes.endpoint(node->inputs[0]).first;
  }
  return false;
}

/// Gives what a Switch passes on to a branch a node in the branch, so that it has a name there. Returns these by the
/// outputs of the Switches.
MovedNodes name_switched(GraphDef& graph) {
  std::unordered_map<std::string, std::size_t> switches;
  {
    const Nodes nodes(graph);
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      const auto* type = attr_of<TypeCode>(graph.nodes[i], "T");
      if (is_switch_of_condition(graph.nodes[i]) && type && dtype_of(*type) != DType::unknown &&
          *type != resource_type && *type != variant_type && !passes_on_variable(graph.nodes[i], nodes))
        switches.emplace(graph.nodes[i].name, i);
    }
  }
  NodeNames names(graph);
  MovedNodes named;
  std::vector<NodeDef> added;
  const auto name_of = [&](const NodeDef& passing, const std::string& tensor) -> const std::string& {
    std::string& name = named[tensor];
    if (!name.empty()) return name;
    name = names.unique(passing.name + "/_/switched");
    NodeDef copy{.name = name, .op = "Identity", .device = passing.device, .inputs = {without_zero(tensor)}};
    copy.attrs.emplace("T", passing.attrs.at("T"));
    added.push_back(std::move(copy));
    return name;
  };
  std::unordered_map<std::string, int> users;
  const auto for_inputs = [&](auto f) {
    for (NodeDef& node : graph.nodes)
      for (std::string& input : node.inputs)
        if (!input.starts_with('^') && switches.contains(producer_name(input)))
          f(node, input, input.find(':') == std::string::npos ? input + ":0" : input);
  };
  for_inputs([&](const NodeDef&, const std::string&, const std::string& tensor) { ++users[tensor]; });
  for_inputs([&](const NodeDef& node, std::string& input, const std::string& tensor) {
    if (is_merge(node)) return;
    // An identity is a name already.
    if (is_identity(node) && users[tensor] == 1)
      named.emplace(tensor, node.name);
    else
      input = name_of(graph.nodes[switches.at(producer_name(input))], tensor);
  });
  for (const auto& [name, i] : switches) {
    if (!is_case_switch(graph.nodes[i]))
      for (const char* side : {":0", ":1"}) name_of(graph.nodes[i], name + side);
  }
  std::move(added.begin(), added.end(), std::back_inserter(graph.nodes));
  return named;
}

/// Whether all inputs of the nodes exist.
bool is_whole(const GraphDef& graph) {
  std::unordered_set<std::string_view> names;
  for (const NodeDef& each : graph.nodes) names.insert(each.name);
  return std::all_of(graph.nodes.begin(), graph.nodes.end(), [&](const NodeDef& node) {
    return std::all_of(node.inputs.begin(), node.inputs.end(), [&](std::string_view input) {
      input.remove_prefix(input.starts_with('^') ? 1 : 0);
      return names.contains(input.substr(0, input.rfind(':')));
    });
  });
}

constexpr std::size_t most_without_progress = 16;

void raise_conditions(GraphDef& graph, FunctionBody* body) {
  for (NodeDef& each : graph.nodes) {
    if (!each.flow) continue;
    Flow flow = *each.flow;
    for (FunctionBody& function : flow.functions) raise_conditions(function.graph, &function);
    each.flow = std::make_shared<const Flow>(std::move(flow));
  }
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), is_switch_of_condition)) return;
  // Switches and Merges that do not form conditions stay as they are, and are refused when a run needs them.
  const FunctionBody before = body ? *body : FunctionBody{.graph = graph};
  bool is_raised = false;
  try {
    MovedNodes named = body ? MovedNodes() : name_switched(graph);
    ConditionRaiser raiser(graph, body);
    std::size_t last = SIZE_MAX, without_progress = 0;
    while (const std::size_t depth = raiser.raise()) {
      // What is left is less deep, except in a graph that no program makes.
      if (depth >= last && ++without_progress > most_without_progress)
        throw UnimplementedError("Its conditions are in each other");
      last = depth;
    }
    is_raised = is_whole(graph) || !is_whole(before.graph);
    MovedNodes moved = raiser.moved();
    moved.merge(named);
    if (graph.moved) moved.insert(graph.moved->begin(), graph.moved->end());
    if (!moved.empty()) graph.moved = std::make_shared<const MovedNodes>(std::move(moved));
  } catch (const UnimplementedError&) {
  }
  if (is_raised) return;
  graph = before.graph;
  if (body) *body = before;
}

}  // namespace

void raise_conditions(GraphDef& graph) { raise_conditions(graph, nullptr); }

}  // namespace tapestry::io
