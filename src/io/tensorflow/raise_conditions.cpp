#include "io/tensorflow/raise_conditions.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/make_tensor.hpp"
#include "io/tensorflow/flow.hpp"

namespace tapestry::io {
namespace {

bool is_case_switch(const NodeDef& node) { return node.op == "_SwitchN"; }
bool is_switch_of_condition(const NodeDef& node) {
  return node.op == "Switch" || node.op == "RefSwitch" || is_case_switch(node);
}
bool is_merge_of_condition(const NodeDef& node) { return node.op == "Merge" || node.op == "RefMerge"; }

/// An input of a node.
struct Edge {
  std::size_t node = 0;
  std::int64_t output = 0;
  bool is_control = false;
};

/// The conditions that a node is in, from the outermost to the innermost: each the number of its predicate and the
/// side.
using Context = std::vector<std::pair<std::size_t, std::int64_t>>;

/// Raises the conditions of a graph whose loops are While nodes already.
class ConditionRaiser {
 public:
  /// `function`: the function that the graph is the body of, whose outputs may come from a branch; nullptr for the
  /// graph of a file.
  ConditionRaiser(GraphDef& graph, FunctionBody* function) : graph_(graph), function_(function) {}

  /// Raises the innermost conditions. Returns how deep they were; 0 if there were none.
  std::size_t raise() {
    if (!find_edges() || !find_switches()) return 0;
    for (const std::size_t i : order_) find_context(i);
    std::size_t depth = 0;
    for (const std::size_t i : order_) depth = std::max(depth, contexts_[i].size() + (predicate_of_merge_[i] ? 1 : 0));
    if (depth == 0) {
      for (std::size_t i = 0; i < graph_.nodes.size(); ++i) removed_[i] = predicate_of_switch_[i] ? 1 : 0;
      rebuild();
      return 0;
    }
    std::map<std::pair<std::size_t, Context>, std::vector<std::size_t>> conditions;  // and what is in their branches
    for (const std::size_t i : order_) {
      Context around = contexts_[i];
      if (around.size() == depth) {
        const std::size_t predicate = around.back().first;
        around.pop_back();
        conditions[{predicate, around}].push_back(i);
      } else if (predicate_of_merge_[i] && around.size() + 1 == depth) {
        conditions[{*predicate_of_merge_[i], around}].push_back(i);
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
  [[noreturn]] static void refuse(const NodeDef& node, std::string_view problem) {
    throw UnimplementedError(detail::join("Node '", node.name, "' (op: '", node.op,
                                          "') belongs to no condition that Tapestry can read: ", problem));
  }
  const NodeDef& def(std::size_t i) const { return graph_.nodes[i]; }

  // ---- What the graph has -----------------------------------------------------------------------------------------

  Edge edge_of(const std::string& input) const {
    const bool control = input.starts_with('^');
    const std::string_view name = std::string_view(input).substr(control ? 1 : 0);
    const std::size_t colon = name.rfind(':');
    const auto found = numbers_.find(name.substr(0, colon));
    if (found == numbers_.end()) return {.node = numbers_.size()};
    const std::int64_t output = colon == std::string_view::npos ? 0 : std::atoll(name.data() + colon + 1);
    return {found->second, output, control};
  }

  /// Returns false for a graph that has cycles or inputs that do not exist, which its reader refuses.
  bool find_edges() {
    const std::size_t size = graph_.nodes.size();
    numbers_.clear();
    for (std::size_t i = 0; i < size; ++i) numbers_.emplace(def(i).name, i);
    edges_.assign(size, {});
    for (std::size_t i = 0; i < size; ++i)
      for (const std::string& input : def(i).inputs) {
        edges_[i].push_back(edge_of(input));
        if (edges_[i].back().node >= size) return false;
      }
    switches_.clear();
    gives_number_.assign(size, 0);
    side_of_second_.clear();
    contexts_.assign(size, {});
    predicate_of_switch_.assign(size, {});
    predicate_of_merge_.assign(size, {});
    removed_.assign(size, 0);
    added_.clear();
    names_.clear();
    for (const NodeDef& each : graph_.nodes) names_.insert(each.name);
    return sort();
  }

  /// Depth first, so that what is in one condition stands together. Returns false for a graph with a cycle.
  bool sort() {
    const std::size_t size = graph_.nodes.size();
    std::vector<char> is_open(size), is_done(size);
    std::vector<std::pair<std::size_t, std::size_t>> path;  // nodes, and how many of their inputs are done
    order_.clear();
    positions_.assign(size, 0);
    for (std::size_t root = 0; root < size; ++root) {
      if (!is_done[root]) path.emplace_back(root, 0);
      while (!path.empty()) {
        auto& [i, next] = path.back();
        is_open[i] = 1;
        if (next == edges_[i].size()) {
          is_open[i] = 0;
          is_done[i] = 1;
          positions_[i] = order_.size();
          order_.push_back(i);
          path.pop_back();
          continue;
        }
        const std::size_t input = edges_[i][next++].node;
        if (is_open[input]) return false;
        if (!is_done[input]) path.emplace_back(input, 0);
      }
    }
    return true;
  }

  /// Whether a condition passes on a Variable, so that operations that change it may be in a branch. They must run only
  /// if it is taken.
  bool passes_variables() const {
    return std::any_of(graph_.nodes.begin(), graph_.nodes.end(), [](const NodeDef& each) {
      const auto type = each.attrs.find("T");
      const auto* code = type == each.attrs.end() ? nullptr : std::get_if<TypeCode>(&type->second);
      return each.op == "RefSwitch" || (each.op == "Switch" && code && *code == resource_type);
    });
  }

  /// Finds the Switches whose predicates do not follow from constants. Unless conditions pass on Variables, a
  /// placeholder with a default is one, as the value that is fed instead is known before the graph runs.
  bool find_switches() {
    std::vector<char> depends(graph_.nodes.size());
    const bool passes = passes_variables();
    for (const std::size_t i : order_) {
      const std::string& op = def(i).op;
      if (op == "Shape" || op == "ShapeN" || op == "Rank" || op == "Size") continue;
      bool has_inputs = false;
      for (const Edge& each : edges_[i]) {
        if (each.is_control) continue;
        has_inputs = true;
        if (depends[each.node]) depends[i] = 1;
      }
      if ((!has_inputs && op != "Const") || (passes && op == "PlaceholderWithDefault")) depends[i] = 1;
    }
    bool any = false;
    for (const std::size_t i : order_) {
      if (!is_switch_of_condition(def(i)) || edges_[i].size() < 2) continue;
      if (edges_[i][0].is_control || edges_[i][1].is_control) continue;
      if (!depends[edges_[i][1].node]) continue;
      predicate_of_switch_[i] = number_of_predicate(edges_[i][1]);
      switches_.insert_or_assign(*predicate_of_switch_[i], i);
      any = true;
    }
    return any;
  }

  std::size_t number_of_predicate(Edge edge) {
    while (def(edge.node).op == "Identity" && !edges_[edge.node].empty() && !edges_[edge.node][0].is_control)
      edge = edges_[edge.node][0];
    const std::string tensor = detail::join(def(edge.node).name, ":", edge.output);
    return predicates_.emplace(tensor, predicates_.size()).first->second;
  }

  Context context_of(const Edge& edge) const {
    Context context = contexts_[edge.node];
    if (predicate_of_switch_[edge.node] && !edge.is_control)
      context.emplace_back(*predicate_of_switch_[edge.node], side_of(edge));
    return context;
  }
  /// The side that an output of a Switch is on.
  std::int64_t side_of(const Edge& edge) const {
    const auto found = side_of_second_.find(edge.node);
    if (found == side_of_second_.end()) return edge.output;
    return edge.output == 1 ? found->second : 1 - found->second;
  }

  static void unite(Context& all, const Context& more) {
    for (const auto& each : more)
      if (std::find(all.begin(), all.end(), each) == all.end()) all.push_back(each);
  }

  void find_context(std::size_t i) {
    if (predicate_of_switch_[i]) follow_branch_number(i);
    std::vector<Context> of_data;
    for (const Edge& each : edges_[i]) {
      if (is_merge_of_condition(def(i)) && each.is_control) continue;
      of_data.push_back(context_of(each));
    }
    for (const Edge& each : edges_[i])
      if (is_merge_of_condition(def(each.node)) && each.output == 1 && !each.is_control) gives_number_[each.node] = 1;
    Context& context = contexts_[i];
    for (const Context& each : of_data) unite(context, each);
    if (!is_merge_of_condition(def(i))) return;
    if (const auto predicate = predicate_between(of_data)) {
      predicate_of_merge_[i] = predicate;
      std::erase_if(context, [&](const auto& each) { return each.first == *predicate; });
    }
  }

  /// TensorFlow's gradient of a Merge is on the side that the Merge has taken: Switch(gradient, Merge:1 == k). Such a
  /// Switch is one of the Merge's own condition.
  void follow_branch_number(std::size_t i) {
    const std::size_t test = edges_[i][1].node;
    if (def(test).op != "Equal" || data_inputs(def(test)) != 2) return;
    const Edge &number = edges_[test][0], &wanted = edges_[test][1];
    const auto predicate = predicate_of_merge_[number.node];
    if (!predicate || number.output != 1 || data_inputs(def(number.node)) != 2) return;
    const auto value = def(wanted.node).attrs.find("value");
    const auto* constant = value == def(wanted.node).attrs.end() ? nullptr : std::get_if<TensorDef>(&value->second);
    if (!constant || !constant->value || constant->value.dtype() != int32 || constant->value.size() != 1) return;
    const auto k = constant->value.item<std::int64_t>();
    if (k != 0 && k != 1) return;
    const auto side_taken_from = [&](std::int64_t input) -> std::optional<std::int64_t> {
      for (const auto& each : context_of(edges_[number.node][static_cast<std::size_t>(input)]))
        if (each.first == *predicate) return each.second;
      return {};
    };
    const auto own = side_taken_from(k), other = side_taken_from(1 - k);
    const std::int64_t side = own ? *own : 1 - *other;
    if (side != 0 && side != 1) return;
    predicate_of_switch_[i] = predicate;
    side_of_second_[i] = side;
  }

  /// The innermost condition that has the tensors on different sides; one of them may be in no branch of it.
  static std::optional<std::size_t> predicate_between(const std::vector<Context>& contexts) {
    std::optional<std::size_t> found;
    for (const Context& context : contexts)
      for (const auto& each : context) {
        const bool is_shared = std::all_of(contexts.begin(), contexts.end(), [&](const Context& other) {
          return std::find(other.begin(), other.end(), each) != other.end();
        });
        if (!is_shared) found = each.first;
      }
    return found;
  }

  // ---- Raising ----------------------------------------------------------------------------------------------------

  /// A part of a condition: what runs before a Merge of it, or between two of its Merges. What comes after a Merge may
  /// be in the same condition again, as gradients are; that becomes another node.
  struct Stage {
    std::map<std::int64_t, std::vector<std::size_t>> nodes{};  ///< by side
    std::vector<std::size_t> merges{};
    std::map<std::string, std::int64_t> exports{};  ///< tensors in a branch that later stages use: their side
  };

  /// The numbers of the stages of the nodes between the first and the last one of a condition. Those before are 0.
  struct StageNumbers {
    std::size_t begin;
    std::vector<std::size_t> list;
    const std::vector<std::size_t>& positions;

    std::size_t of(std::size_t node) const { return positions[node] < begin ? 0 : list[positions[node] - begin]; }
  };

  void raise_condition(std::size_t predicate, const std::vector<std::size_t>& members) {
    std::unordered_set<std::size_t> is_member(members.begin(), members.end());
    const auto by_position = [&](std::size_t a, std::size_t b) { return positions_[a] < positions_[b]; };
    const std::size_t begin = positions_[*std::min_element(members.begin(), members.end(), by_position)];
    const std::size_t end = positions_[*std::max_element(members.begin(), members.end(), by_position)] + 1;
    StageNumbers numbers{begin, std::vector<std::size_t>(end - begin), positions_};
    std::map<std::size_t, Stage> stages;
    for (std::size_t position = begin; position < end; ++position) {
      const std::size_t i = order_[position];
      std::size_t& number = numbers.list[position - begin];
      for (const Edge& each : edges_[i])
        number = std::max(number, numbers.of(each.node) + (is_merged(each.node, predicate, is_member) ? 1 : 0));
      if (!is_member.contains(i)) continue;
      Stage& stage = stages[number];
      if (is_merged(i, predicate, is_member))
        stage.merges.push_back(i);
      else
        stage.nodes[contexts_[i].back().second].push_back(i);
      for (const Edge& each : edges_[i]) {
        const Edge& used = used_by_branch(each, predicate, is_member);
        if (is_inside(used, is_member) && !each.is_control && numbers.of(used.node) < number && !is_constant(used))
          stages[numbers.of(used.node)].exports.emplace(tensor_of(used), contexts_[used.node].back().second);
      }
    }
    for (std::size_t k = 0; function_ && k < function_->outputs.size(); ++k)
      if (const auto inner = output_inside(k, is_member))
        stages[numbers.of(inner->node)].exports.emplace(tensor_of(*inner), contexts_[inner->node].back().second);
    exported_.clear();
    for (auto& [number, stage] : stages) raise_stage(predicate, stage, number, numbers, is_member);
    for (std::size_t k = 0; function_ && k < function_->outputs.size(); ++k)
      if (const auto inner = output_inside(k, is_member)) function_->outputs[k] = exported_.at(tensor_of(*inner));
  }
  /// What the function returns, if it is in a branch.
  std::optional<Edge> output_inside(std::size_t output, const std::unordered_set<std::size_t>& is_member) const {
    const std::string& name = function_->outputs[output];
    const Edge edge = name.empty() ? Edge{.node = graph_.nodes.size()} : edge_of(name);
    if (edge.node >= graph_.nodes.size() || !is_inside(edge, is_member)) return {};
    return edge;
  }
  bool is_merged(std::size_t i, std::size_t predicate, const std::unordered_set<std::size_t>& is_member) const {
    return predicate_of_merge_[i] == predicate && is_member.contains(i);
  }
  /// Whether a tensor is in a branch.
  bool is_inside(const Edge& edge, const std::unordered_set<std::size_t>& is_member) const {
    return is_member.contains(edge.node) && !predicate_of_merge_[edge.node] && !predicate_of_switch_[edge.node];
  }
  /// A Switch of the condition may be given a tensor that is in a branch itself; that tensor, or else the Switch's.
  const Edge& used_by_branch(const Edge& edge, std::size_t predicate,
                             const std::unordered_set<std::size_t>& is_member) const {
    if (predicate_of_switch_[edge.node] != predicate) return edge;
    const Edge& given = edges_[edge.node][0];
    return is_inside(given, is_member) ? given : edge;
  }
  /// Each stage that uses a constant has it.
  bool is_constant(const Edge& edge) const { return def(edge.node).op == "Const"; }
  std::string tensor_of(const Edge& edge) const {
    return edge.output == 0 ? def(edge.node).name : detail::join(def(edge.node).name, ":", edge.output);
  }

  void raise_stage(std::size_t predicate, const Stage& stage, std::size_t number, const StageNumbers& numbers,
                   const std::unordered_set<std::size_t>& is_member) {
    const auto [selector, is_case, sides] = selector_of(predicate, stage);
    NodeDef node{.name = unique_name(stage), .op = is_case ? "Case" : "If"};
    std::vector<std::string> arguments;  // tensors around the condition
    std::vector<std::string> waits;
    const auto argument = [&](const std::string& tensor) {
      const auto found = std::find(arguments.begin(), arguments.end(), tensor);
      const std::string name = detail::join(node.name, "/_/argument_", found - arguments.begin());
      if (found == arguments.end()) arguments.push_back(tensor);
      return name;
    };
    std::map<std::string, NodeDef> constants;  // of other stages, that a branch uses
    const auto before = [&](const Edge& edge) {
      if (numbers.of(edge.node) == number) return tensor_of(edge);
      if (!is_constant(edge)) return argument(exported_.at(tensor_of(edge)));
      NodeDef copy = def(edge.node);
      copy.inputs.clear();
      constants.emplace(copy.name, copy);
      return copy.name;
    };
    const auto inside = [&](const Edge& edge, std::int64_t side) {
      const bool is_given = predicate_of_switch_[edge.node] == predicate;
      if (is_given && side_of(edge) != side) refuse(def(edge.node), "a branch uses what the other one is given");
      const Edge& used = used_by_branch(edge, predicate, is_member);
      if (is_inside(used, is_member)) return before(used);
      return argument(is_given ? def(edge.node).inputs[0] : tensor_of(edge));
    };
    Flow flow{.is_raised = true};
    for (std::int64_t side = 0; side < sides; ++side) {
      FunctionBody body{.name = detail::join(node.name,
                                             is_case     ? "/branch_"
                                             : side == 1 ? "/then"
                                                         : "/else",
                                             is_case ? std::to_string(side) : "")};
      const auto found = stage.nodes.find(side);
      for (std::size_t k = 0; found != stage.nodes.end() && k < found->second.size(); ++k) {
        const std::size_t i = found->second[k];
        NodeDef copy = def(i);
        copy.inputs.clear();
        for (const Edge& each : edges_[i]) {
          if (!each.is_control) {
            copy.inputs.push_back(inside(each, side));
          } else if (is_inside(each, is_member) && numbers.of(each.node) == number) {
            copy.inputs.push_back("^" + def(each.node).name);
          } else if (!predicate_of_switch_[each.node]) {
            waits.push_back("^" + moved_name(each.node));
          }
        }
        if (has_effect(copy)) body.operations.push_back(copy.name);
        body.graph.nodes.push_back(std::move(copy));
        moved_.insert_or_assign(def(i).name, node.name);
        removed_[i] = 1;
      }
      for (const std::size_t i : stage.merges)
        body.outputs.push_back(inside(edges_[i][input_taken(i, side, predicate)], side));
      for (const std::size_t i : stage.merges)
        if (gives_number_[i])
          body.outputs.push_back(add_number(body.graph, def(i).name, input_taken(i, side, predicate)));
      for (const auto& [tensor, own] : stage.exports) body.outputs.push_back(own == side ? tensor : "");
      for (auto& [name, constant] : std::exchange(constants, {})) body.graph.nodes.push_back(std::move(constant));
      flow.functions.push_back(std::move(body));
    }
    if (!is_case) std::swap(flow.functions[0], flow.functions[1]);
    for (FunctionBody& each : flow.functions)
      for (std::size_t k = 0; k < arguments.size(); ++k) {
        each.inputs.push_back(detail::join(node.name, "/_/argument_", k));
        each.graph.nodes.push_back({.name = each.inputs.back(), .op = std::string(argument_op)});
      }
    std::size_t output = stage.merges.size();
    for (std::size_t k = 0; k < stage.merges.size(); ++k) {
      const std::size_t taken = gives_number_[stage.merges[k]] ? output++ : 0;
      replace_merge(stage.merges[k], node.name, k, taken);
    }
    for (const auto& [tensor, own] : stage.exports) exported_[tensor] = detail::join(node.name, ":", output++);
    const bool has_operations = std::any_of(flow.functions.begin(), flow.functions.end(),
                                            [](const FunctionBody& each) { return !each.operations.empty(); });
    if (stage.merges.empty() && stage.exports.empty() && !has_operations && !may_be_fetched(stage)) {
      for (const auto& [side, nodes] : stage.nodes)
        for (const std::size_t i : nodes) moved_.erase(def(i).name);
      return;
    }
    node.inputs = {selector};
    node.inputs.insert(node.inputs.end(), arguments.begin(), arguments.end());
    std::sort(waits.begin(), waits.end());
    waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
    std::erase(waits, "^" + node.name);
    node.inputs.insert(node.inputs.end(), waits.begin(), waits.end());
    if (function_)
      for (std::string& each : function_->operations)
        if (const auto to = moved_.find(each); to != moved_.end()) each = to->second;
    node.flow = std::make_shared<const Flow>(std::move(flow));
    added_.push_back(std::move(node));
  }

  /// Whether a stage that gives nothing computes something that a program may ask for. Where the reader has made lists
  /// of what loops in branches keep, such stages only decide what becomes of the lists.
  bool may_be_fetched(const Stage& stage) const {
    return !has_lists_ && std::any_of(stage.nodes.begin(), stage.nodes.end(), [&](const auto& side) {
      return std::any_of(side.second.begin(), side.second.end(), [&](std::size_t i) {
        return !predicate_of_switch_[i] && def(i).op != "Const" && def(i).op != "Identity" && def(i).op != "NoOp";
      });
    });
  }

  /// The name of the node that a node has become part of.
  std::string moved_name(std::size_t i) const {
    const auto found = moved_.find(def(i).name);
    return found == moved_.end() ? def(i).name : found->second;
  }

  struct Selector {
    std::string tensor;
    bool is_case;
    std::int64_t sides;
  };
  Selector selector_of(std::size_t predicate, const Stage& stage) const {
    if (const auto found = switches_.find(predicate); found != switches_.end()) {
      const NodeDef& node = def(found->second);
      if (!is_case_switch(node)) return {node.inputs[1], false, 2};
      const auto attr = node.attrs.find("num_outs");
      const auto* count = attr == node.attrs.end() ? nullptr : std::get_if<std::int64_t>(&attr->second);
      if (!count || *count < 1 || *count > most_sides) refuse(node, "its number of branches is not known");
      return {node.inputs[1], true, *count};
    }
    refuse(def(stage.merges.empty() ? stage.nodes.begin()->second[0] : stage.merges[0]), "it has no Switch");
  }
  static constexpr std::int64_t most_sides = 1 << 12;

  /// The number of the input that a Merge takes from a side.
  std::size_t input_taken(std::size_t merge, std::int64_t side, std::size_t predicate) const {
    std::optional<std::size_t> own, outside;
    for (std::size_t k = 0; k < data_inputs(def(merge)); ++k) {
      const Context context = context_of(edges_[merge][k]);
      const auto found =
          std::find_if(context.begin(), context.end(), [&](const auto& entry) { return entry.first == predicate; });
      if (found == context.end()) outside = k;
      if (found != context.end() && found->second == side) {
        if (own) refuse(def(merge), "it takes two tensors of one side");
        own = k;
      }
    }
    if (!own && !outside) refuse(def(merge), "it takes no tensor of one of the sides");
    return own ? *own : *outside;
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
    const std::string& inner = def(stage.merges.empty() ? stage.nodes.begin()->second[0] : stage.merges[0]).name;
    std::string name = inner.substr(0, inner.rfind('/'));
    if (name == inner) name = "cond";
    while (!names_.insert(name).second) name += "_";
    return name;
  }

  void rebuild() {
    std::vector<NodeDef> nodes;
    std::unordered_map<std::string, char> gone;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (removed_[i] && !moved_.contains(def(i).name) && !predicate_of_merge_[i]) {
        gone.emplace("^" + def(i).name, 1);
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
  std::unordered_map<std::string_view, std::size_t> numbers_;  ///< of the nodes, by name
  std::vector<std::vector<Edge>> edges_;                       ///< by node, as are the following
  std::vector<std::size_t> order_;                             ///< the nodes, each after its inputs
  std::vector<std::size_t> positions_;                         ///< in this order
  std::vector<Context> contexts_;
  std::vector<std::optional<std::size_t>> predicate_of_switch_, predicate_of_merge_;
  std::unordered_map<std::size_t, std::size_t> switches_;         ///< by predicate: one of its Switches
  std::unordered_map<std::size_t, std::int64_t> side_of_second_;  ///< by Switch that follows a Merge: of its output 1
  std::vector<char> gives_number_;                                ///< by node: a Merge whose second output is used
  std::vector<char> removed_;
  std::vector<NodeDef> added_;
  std::unordered_set<std::string> names_;
  std::map<std::string, std::size_t> predicates_;
  std::map<std::string, std::string> exported_;  ///< by the tensor of a branch: the output that it is
  MovedNodes moved_;                             ///< by the name of a node of a branch: that of the condition
  MovedNodes passing_;                           ///< Switches that are gone
};

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
