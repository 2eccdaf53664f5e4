#include "io/tensorflow/raise_frames.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "io/tensorflow/flow.hpp"
#include "io/tensorflow/frames.hpp"

namespace tapestry::io {
namespace {

// ---- Loops ------------------------------------------------------------------------------------------------------------

/// The loops that frames have become.
struct Raised {
  std::vector<NodeDef> loops{};
  MovedNodes moved{};  ///< by the name of a node of a frame: the loop that it is in
};

/// One frame, whose nodes have no frame in them.
class Frame {
 public:
  Frame(GraphDef& graph, const Index& index, Raised& raised, std::string name, std::set<std::size_t> members)
      : graph_(graph), index_(index), raised_(raised), name_(std::move(name)), members_(std::move(members)) {}

  /// Replaces the frame by a While of this name, or by one without functions if it is no loop that can be read.
  void replace(const std::string& loop_name) {
    try {
      raise(loop_name);
    } catch (const UnimplementedError& error) {
      leave_unread(loop_name, error.message());
    }
  }

 private:
  void raise(const std::string& loop_name) {
    find_parts();
    NodeDef loop{.name = loop_name, .op = "While"};
    std::set<std::string> controls;
    Flow flow{.is_loop = true};
    FunctionBody body{.name = name_ + "/body"};
    const std::unordered_set<const NodeDef*> needed = needed_nodes();
    for (const std::size_t i : members_) {
      const NodeDef& node = graph_.nodes[i];
      if (is_enter(node)) {
        for (std::size_t k = 1; k < node.inputs.size(); ++k) controls.insert(node.inputs[k]);
      } else if (!is_part(node)) {
        body.graph.nodes.push_back(inside(node));
        if (has_effect(node) && needed.contains(&node)) body.operations.push_back(node.name);
      }
    }
    const auto add_variable = [&](const std::string& argument, const NodeDef& enter, const std::string& next) {
      body.inputs.push_back(argument);
      body.outputs.push_back(next);
      body.graph.nodes.push_back({.name = argument, .op = std::string(argument_op)});
      loop.inputs.push_back(enter.inputs[0]);
    };
    std::map<std::string, std::size_t> numbers;  // of the loop variables, by their Merge
    for (const Variable& each : variables_) {
      numbers.emplace(each.merge->name, numbers.size());
      add_variable(each.merge->name, *each.enter, tensor_inside(each.next->inputs[0]));
    }
    for (const NodeDef* each : invariants_) {
      if (const NodeDef* variable = changed_variable_of(*each))
        body.graph.nodes.push_back(
            {.name = each->name, .op = "Identity", .inputs = {variable->name}, .attrs = each->attrs});
      else
        add_variable(each->name, *each, each->name);
    }
    loop.inputs.insert(loop.inputs.end(), controls.begin(), controls.end());
    FunctionBody condition = body;
    condition.name = name_ + "/cond";
    condition.outputs = {tensor_inside(condition_->inputs[0])};
    condition.operations.clear();
    flow.functions = {std::move(body), std::move(condition)};
    loop.flow = std::make_shared<const Flow>(std::move(flow));
    put(std::move(loop), numbers);
  }

  void leave_unread(const std::string& loop_name, const std::string& reason) {
    NodeDef loop{.name = loop_name, .op = "While", .attrs = {{std::string(hint_unread), reason}}};
    std::set<std::string> controls;
    std::size_t exits = 0;
    for (const std::size_t i : members_) {
      NodeDef& node = graph_.nodes[i];
      if (is_exit(node)) {
        node.op = "Identity";
        node.inputs = {detail::join(loop.name, ":", exits++)};
        continue;
      }
      if (is_enter(node)) {
        loop.inputs.push_back(node.inputs[0]);
        controls.insert(node.inputs.begin() + 1, node.inputs.end());
      }
      raised_.moved.emplace(node.name, loop.name);
    }
    loop.inputs.insert(loop.inputs.end(), controls.begin(), controls.end());
    raised_.loops.push_back(std::move(loop));
  }

  struct Variable {
    const NodeDef *merge, *enter, *next;
  };

  [[noreturn]] void refuse(const std::string& problem) const {
    throw UnimplementedError(detail::join("The frame '", name_, "' is no loop that Tapestry can read: ", problem));
  }

  const NodeDef* member(const std::string& input) const {
    const auto found = index_.find(producer_name(input));
    return found != index_.end() && members_.contains(found->second) ? &graph_.nodes[found->second] : nullptr;
  }

  void find_parts() {
    std::set<std::string> merged;
    for (const std::size_t i : members_) {
      const NodeDef& node = graph_.nodes[i];
      if (node.op == "LoopCond") {
        if (condition_ || data_inputs(node) != 1) refuse("it has several conditions");
        condition_ = &node;
      }
      if (!is_merge(node)) continue;
      if (data_inputs(node) != 2) refuse(detail::join("'", node.name, "' has not two inputs"));
      const NodeDef *enter = member(node.inputs[0]), *next = member(node.inputs[1]);
      if (enter && next && is_next(*enter) && is_enter(*next)) std::swap(enter, next);
      // Another Merge ends a branch in the body.
      if (!enter || !next || !is_enter(*enter) || !is_next(*next)) continue;
      if (data_inputs(*next) != 1) refuse(detail::join("'", next->name, "' has no input"));
      variables_.push_back({&node, enter, next});
      merged.insert(enter->name);
    }
    if (!condition_) refuse("it has no condition");
    for (const std::size_t i : members_) {
      const NodeDef& node = graph_.nodes[i];
      if (is_enter(node) && !merged.contains(node.name)) invariants_.push_back(&node);
      if (is_switch(node) && data_inputs(node) == 2 && member(node.inputs[1]) == condition_) {
        const NodeDef* merge = member(node.inputs[0]);
        if (!merge || !is_variable(*merge)) refuse(detail::join("'", node.name, "' passes on no loop variable"));
        switches_.emplace(node.name, merge->name);
      }
    }
  }

  /// What the condition and the next iteration need: TensorFlow runs nothing else of a frame.
  std::unordered_set<const NodeDef*> needed_nodes() const {
    std::vector<const NodeDef*> pending{condition_};
    for (const Variable& each : variables_) pending.push_back(each.next);
    std::unordered_set<const NodeDef*> needed(pending.begin(), pending.end());
    while (!pending.empty()) {
      const NodeDef* node = pending.back();
      pending.pop_back();
      for (const std::string& input : node->inputs)
        if (const NodeDef* each = member(input); each && needed.insert(each).second) pending.push_back(each);
    }
    return needed;
  }

  /// The node outside of all frames that an Enter takes into this one; nullptr if there is none.
  const NodeDef* entering(const NodeDef& enter) const {
    const NodeDef* node = &enter;
    for (std::size_t steps = 0; node && is_enter(*node) && steps <= graph_.nodes.size(); ++steps) {
      const auto found = node->inputs.empty() ? index_.end() : index_.find(producer_name(node->inputs[0]));
      node = found == index_.end() ? nullptr : &graph_.nodes[found->second];
    }
    return node;
  }
  /// The Enter of a reference Variable that the loop may change, if what this Enter takes in is a read of it outside.
  /// In TensorFlow, such a read is the Variable's memory: each iteration has the value of then.
  const NodeDef* changed_variable_of(const NodeDef& enter) const {
    const NodeDef* read = enter.op == "RefEnter" ? nullptr : entering(enter);
    if (!read || read->op != "Identity" || read->inputs.empty()) return nullptr;
    const auto found = index_.find(producer_name(read->inputs[0]));
    if (found == index_.end()) return nullptr;
    for (const NodeDef* each : invariants_)
      if (each->op == "RefEnter" && entering(*each) == &graph_.nodes[found->second]) return each;
    return nullptr;
  }

  /// The Switch of the loop whose first output a tensor is a copy of; nullptr for another tensor. Only an Exit uses it.
  const NodeDef* switch_left_by(const std::string& input) const {
    std::string tensor = input;
    for (std::size_t steps = 0; steps <= members_.size(); ++steps) {  // there may be a cycle
      const NodeDef* node = member(tensor);
      if (!node) return nullptr;
      if (switches_.contains(node->name)) return tensor.ends_with(":1") ? nullptr : node;
      if (!is_identity(*node)) return nullptr;
      tensor = node->inputs[0];
    }
    return nullptr;
  }

  bool is_variable(const NodeDef& merge) const {
    return std::any_of(variables_.begin(), variables_.end(),
                       [&](const Variable& each) { return each.merge == &merge; });
  }
  bool is_part(const NodeDef& node) const {
    return is_enter(node) || is_next(node) || is_exit(node) || &node == condition_ || switches_.contains(node.name) ||
           (is_merge(node) && is_variable(node)) || (node.op == "Identity" && switch_left_by(node.name));
  }

  /// Whether a node is there as soon as an iteration begins. TensorFlow lets the constants in a loop wait for such a
  /// copy of the first loop variable, which may be a list that our loop does not have.
  bool is_start(const NodeDef& node) const {
    return node.op == "Identity" && node.inputs.size() == 1 && switches_.contains(producer_name(node.inputs[0]));
  }

  /// A tensor of the frame as the functions have it.
  std::string tensor_inside(const std::string& input) const {
    const auto loop_switch = switches_.find(producer_name(input));
    if (loop_switch != switches_.end()) {
      if (!input.ends_with(":1")) refuse(detail::join("'", input, "' is used in the loop, after whose end it exists"));
      return loop_switch->second;
    }
    const NodeDef* node = member(input);
    if (!node) refuse(detail::join("'", input, "' comes from another frame"));
    const bool is_given = is_enter(*node) || (is_merge(*node) && is_variable(*node));
    if ((is_given && without_zero(input) != node->name) || (is_part(*node) && !is_given))
      refuse(detail::join("'", input, "' is used in the loop"));
    return input;
  }

  NodeDef inside(const NodeDef& node) const {
    NodeDef copy = node;
    copy.inputs.clear();
    for (const std::string& each : node.inputs) {
      if (!each.starts_with('^')) {
        copy.inputs.push_back(tensor_inside(each));
      } else if (const NodeDef* control = member(each); control && !is_part(*control) && !is_start(*control)) {
        copy.inputs.push_back(each);
      }
    }
    return copy;
  }

  void put(NodeDef loop, const std::map<std::string, std::size_t>& numbers) {
    for (const std::size_t i : members_) {
      NodeDef& node = graph_.nodes[i];
      if (!is_exit(node)) {
        raised_.moved.emplace(node.name, loop.name);
        if (is_enter(node)) raised_.moved.emplace(node.name + ":0", node.inputs[0]);
        continue;
      }
      const NodeDef* from = data_inputs(node) == 1 ? switch_left_by(node.inputs[0]) : nullptr;
      if (!from) refuse(detail::join("'", node.name, "' leaves no loop variable"));
      raised_.moved.emplace(from->name + ":0", node.name);
      node.inputs = {detail::join(loop.name, ":", numbers.at(switches_.at(from->name)))};
    }
    // Exits become Identities only now, because the other nodes of the frame refer to them.
    for (const std::size_t i : members_)
      if (is_exit(graph_.nodes[i])) graph_.nodes[i].op = "Identity";
    raised_.loops.push_back(std::move(loop));
  }

  GraphDef& graph_;
  const Index& index_;
  Raised& raised_;
  std::string name_;
  std::set<std::size_t> members_;  ///< the numbers of its nodes
  std::vector<Variable> variables_;
  std::vector<const NodeDef*> invariants_;
  const NodeDef* condition_ = nullptr;
  std::map<std::string, std::string> switches_;  ///< by name: the Merge whose value it passes on
};

/// By node: those that take an output of it, or wait for it.
std::vector<std::vector<std::size_t>> users_of_nodes(const GraphDef& graph, const Index& index) {
  std::vector<std::vector<std::size_t>> users(graph.nodes.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    for (const std::string& input : graph.nodes[i].inputs)
      if (const auto found = index.find(producer_name(input)); found != index.end()) users[found->second].push_back(i);
  return users;
}

/// Which nodes nothing comes into but constants.
std::vector<char> constant_nodes(const GraphDef& graph, const std::vector<std::vector<std::size_t>>& users) {
  std::vector<char> is_constant(graph.nodes.size(), 1);
  std::vector<std::size_t> pending;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i)
    if (is_enter(graph.nodes[i]) || (graph.nodes[i].inputs.empty() && graph.nodes[i].op != "Const"))
      pending.push_back(i);
  for (const std::size_t i : pending) is_constant[i] = 0;
  while (!pending.empty()) {
    const std::size_t i = pending.back();
    pending.pop_back();
    for (const std::size_t user : users[i])
      if (std::exchange(is_constant[user], 0)) pending.push_back(user);
  }
  return is_constant;
}

/// The nodes that each frame reaches, without those after its Exits, by the frame's name; and the constants from which
/// they compute without an Enter, as functions that are called in a loop have them.
std::map<std::string, std::set<std::size_t>> members_of_frames(const GraphDef& graph, const Index& index) {
  const std::vector<std::vector<std::size_t>> users = users_of_nodes(graph, index);
  const std::vector<char> is_constant = constant_nodes(graph, users);
  std::map<std::string, std::set<std::size_t>> frames;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (const auto* name = is_enter(graph.nodes[i]) ? attr_of<std::string>(graph.nodes[i], "frame_name") : nullptr)
      frames[*name].insert(i);
  }
  for (auto& [name, members] : frames) {
    std::vector<std::size_t> pending(members.begin(), members.end());
    while (!pending.empty()) {
      const std::size_t i = pending.back();
      pending.pop_back();
      if (is_exit(graph.nodes[i])) continue;
      for (const std::size_t user : users[i])
        if (members.insert(user).second) pending.push_back(user);
    }
    pending.assign(members.begin(), members.end());
    while (!pending.empty()) {
      const NodeDef& node = graph.nodes[pending.back()];
      pending.pop_back();
      for (std::size_t k = 0; !is_enter(node) && k < data_inputs(node); ++k)
        if (const auto found = index.find(producer_name(node.inputs[k]));
            found != index.end() && is_constant[found->second] && members.insert(found->second).second)
          pending.push_back(found->second);
    }
  }
  return frames;
}

/// Whether a frame has the Enters of no other.
bool is_innermost(const GraphDef& graph, const std::string& frame, const std::set<std::size_t>& members) {
  return std::none_of(members.begin(), members.end(), [&](std::size_t i) {
    const NodeDef& node = graph.nodes[i];
    const auto* name = is_enter(node) ? attr_of<std::string>(node, "frame_name") : nullptr;
    return name && *name != frame;
  });
}

/// Puts the loops in the place of the nodes of their frames.
void take_in(GraphDef& graph, Raised raised) {
  std::erase_if(graph.nodes, [&](const NodeDef& each) { return raised.moved.contains(each.name); });
  for (NodeDef& node : graph.nodes)
    for (std::string& input : node.inputs) {
      const auto found = raised.moved.find(producer_name(input));
      if (found == raised.moved.end()) continue;
      if (!input.starts_with('^'))
        throw UnimplementedError(
            detail::join("Node '", node.name, "' uses '", input, "' outside of its loop, '", found->second, "'"));
      input = "^" + found->second;
    }
  std::move(raised.loops.begin(), raised.loops.end(), std::back_inserter(graph.nodes));
}

}  // namespace

void raise_frames(GraphDef& graph) {
  const auto any = [&](auto is_it) { return std::any_of(graph.nodes.begin(), graph.nodes.end(), is_it); };
  if (any([](const NodeDef& each) { return each.op == "TensorArrayV3"; })) raise_arrays(graph);
  if (!any(is_enter)) return;
  auto moved = std::make_shared<MovedNodes>();
  raise_stacks(graph);
  for (;;) {
    const Index index = numbers_by_name(graph);
    const auto frames = members_of_frames(graph, index);
    if (frames.empty()) break;
    Raised raised;
    NodeNames names(graph);
    for (const auto& [frame, members] : frames) {
      if (!is_innermost(graph, frame, members)) continue;
      std::string name = frame.substr(0, frame.rfind('/'));
      if (name.empty()) name = "while";
      name = names.unique(name);
      Frame(graph, index, raised, frame, members).replace(name);
    }
    if (raised.loops.empty())
      throw UnimplementedError(detail::join("The frame '", frames.begin()->first, "' is in another that is in it"));
    moved->insert(raised.moved.begin(), raised.moved.end());
    take_in(graph, std::move(raised));
  }
  graph.moved = std::move(moved);
}

}  // namespace tapestry::io
