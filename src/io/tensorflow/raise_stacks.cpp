/// A loop of TensorFlow 1 keeps what its gradient needs in stacks. A stack is a resource: a loop or branch around a
/// push or a pop takes only its handle, and returns nothing. Here a list replaces each stack, so they also return the
/// list.

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "core/make_tensor.hpp"
#include "io/tensorflow/frames.hpp"

namespace tapestry::io {

namespace {

class StackRaiser {
 public:
  explicit StackRaiser(GraphDef& graph)
      : graph_(graph), index_(numbers_by_name(graph)), uses_(data_uses(graph, index_)) {}

  void run() {
    std::vector<Stack> stacks;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
      if (node(i).op == "StackV2" || node(i).op == "Stack")
        if (const auto stack = stack_of(i)) stacks.push_back(*stack);
    if (stacks.empty()) return;
    find_conditions();
    for (const Stack& each : stacks)
      if (each.is_used()) use_popped_values(each);
    for (const Stack& each : stacks) {
      // A push also gives what it pushes.
      for (const Use& use : uses_[each.push->end]) node(use.node).inputs[use.input] = node(each.push->end).inputs[1];
      raise(each);
    }
    std::erase_if(graph_.nodes, [&](const NodeDef& each) { return removed_.contains(each.name); });
    for (NodeDef& each : graph_.nodes)
      std::erase_if(each.inputs, [&](const std::string& input) {
        return input.starts_with('^') && removed_.contains(producer_name(input));
      });
    std::move(added_.begin(), added_.end(), std::back_inserter(graph_.nodes));
  }

 private:
  /// The way of a stack's handle to the node that pushes or pops.
  struct Way {
    std::vector<std::size_t> links{};  ///< Enter, Switch and Identity
    std::size_t end = 0;

    /// The number of the first link that only Switches follow.
    std::size_t begin_of_branches = 0;
  };
  struct Stack {
    std::size_t node = 0;
    std::vector<std::size_t> links{};   ///< what both ways have in common: branches around the loop and its gradient
    std::optional<Way> push{}, pop{};   ///< only a gradient that is used pops
    std::vector<std::size_t> unused{};  ///< copies of what is popped, if nothing else uses it

    bool is_used() const { return pop && unused.empty(); }
  };

  NodeDef& node(std::size_t i) { return graph_.nodes[i]; }
  const NodeDef& node(std::size_t i) const { return graph_.nodes[i]; }
  static std::string output(const NodeDef& node, int number) {
    return number == 0 ? node.name : detail::join(node.name, ":", number);
  }

  // ---- What the graph has -----------------------------------------------------------------------------------------

  /// More than loops and branches are in each other.
  static constexpr std::size_t most_links = 100;

  std::optional<Way> way_from(std::size_t i) const {
    Way way;
    while (way.links.size() < most_links) {
      if (is_push(node(i)) || is_pop(node(i))) {
        way.end = i;
        return way;
      }
      if (!passes_on(node(i)) || uses_[i].size() != 1 || uses_[i][0].input != 0) return {};
      way.links.push_back(i);
      if (is_enter(node(i))) way.begin_of_branches = way.links.size();
      i = uses_[i][0].node;
    }
    return {};
  }

  /// Nothing for a stack that is used in another way than by loops and their gradients.
  std::optional<Stack> stack_of(std::size_t i) const {
    Stack stack{.node = i};
    while (uses_[i].size() == 1 && passes_on(node(uses_[i][0].node)) && !is_enter(node(uses_[i][0].node)) &&
           uses_[i][0].input == 0 && stack.links.size() < most_links) {
      i = uses_[i][0].node;
      stack.links.push_back(i);
    }
    for (const Use& each : uses_[i]) {
      auto way = way_from(each.node);
      if (!way || each.input != 0) return {};
      std::optional<Way>& place = is_push(node(way->end)) ? stack.push : stack.pop;
      if (place) return {};
      place = std::move(way);
    }
    if (!stack.push) return {};
    if (stack.pop) find_unused(stack.pop->end, stack.unused);
    return stack;
  }

  /// Finds the copies of a tensor in a frame, where nothing else uses it. Otherwise there are none.
  void find_unused(std::size_t i, std::vector<std::size_t>& copies) const {
    copies.push_back(i);
    for (std::size_t k = 0; k < copies.size(); ++k)
      for (const Use& each : uses_[copies[k]]) {
        if (!is_identity(node(each.node)) && !is_enter(node(each.node))) return copies.clear();
        copies.push_back(each.node);
      }
  }

  /// Finds the conditions of the loops, by the names of their frames.
  void find_conditions() {
    for (const NodeDef& each : graph_.nodes) {
      if (!is_switch(each) || data_inputs(each) != 2) continue;
      if (const std::string* frame = frame_begun_by(each.inputs[0])) conditions_.emplace(*frame, each.inputs[1]);
    }
  }
  /// The frame whose loop variable a Merge is; nullptr for any other tensor.
  const std::string* frame_begun_by(const std::string& tensor) const {
    const NodeDef* merge = producer(tensor);
    for (std::size_t k = 0; merge && is_merge(*merge) && k < data_inputs(*merge); ++k)
      if (const NodeDef* enter = producer(merge->inputs[k]); enter && is_enter(*enter))
        if (const auto* frame = attr_of<std::string>(*enter, "frame_name")) return frame;
    return nullptr;
  }
  const NodeDef* producer(const std::string& tensor) const {
    const auto found = index_.find(producer_name(tensor));
    return found == index_.end() ? nullptr : &node(found->second);
  }

  /// The output of a Switch that the next link uses.
  int side_of(const Way& way, std::size_t link) const {
    return side_used_by(link + 1 < way.links.size() ? way.links[link + 1] : way.end);
  }
  int side_used_by(std::size_t user) const { return node(user).inputs[0].ends_with(":1") ? 1 : 0; }

  /// Whether a link leads to a branch, and not to one that the stack is in as a whole.
  bool is_branch(const NodeDef& link) const {
    return is_switch(link) && data_inputs(link) == 2 &&
           std::find(around_.begin(), around_.end(), predicate_of(link)) == around_.end();
  }
  const NodeDef* predicate_of(const NodeDef& branch) const {
    const NodeDef* found = producer(branch.inputs[1]);
    for (std::size_t steps = 0; found && passes_on(*found) && !is_switch(*found) && steps < graph_.nodes.size();
         ++steps)
      found = producer(found->inputs[0]);
    return found;
  }
  void find_branches_around(const Stack& stack) {
    around_.clear();
    for (const std::size_t each : stack.links)
      if (is_switch(node(each))) around_.push_back(predicate_of(node(each)));
  }

  // ---- Raising ----------------------------------------------------------------------------------------------------

  /// Lets those who use what is popped use what the list gives: its last element, which a branch is given if it pops.
  void use_popped_values(const Stack& stack) {
    find_branches_around(stack);
    const Way& way = *stack.pop;
    std::string value = node(way.end).name + ":1";
    for (std::size_t k = way.begin_of_branches; k < way.links.size(); ++k)
      if (is_branch(node(way.links[k]))) value = output(node(way.links[k]), side_of(way, k));
    for (const Use& each : uses_[way.end]) node(each.node).inputs[each.input] = value;
  }

  void raise(const Stack& stack) {
    if (!stack.is_used()) {
      remove(stack.node);
      for (const auto* way : {&stack.push, &stack.pop})
        if (*way) {
          for (const std::size_t each : (*way)->links) remove(each);
          remove((*way)->end);
        }
      for (const std::size_t each : stack.links) remove(each);
      for (const std::size_t each : stack.unused) remove(each);
      return;
    }
    NodeDef& list = node(stack.node);
    const auto* type = attr_of<TypeCode>(list, "elem_type");
    type_ = type ? *type : TypeCode();
    list.op = "EmptyTensorList";
    list.attrs = {{"element_dtype", type_}};
    const std::string any = any_shape(list.name, list.inputs.empty() ? "" : list.inputs[0]);
    std::erase_if(list.inputs, [](const std::string& input) { return !input.starts_with('^'); });
    list.inputs.insert(list.inputs.begin(), 2, any);
    find_branches_around(stack);
    pops_in_branch_ = std::any_of(stack.pop->links.begin() + static_cast<std::ptrdiff_t>(stack.pop->begin_of_branches),
                                  stack.pop->links.end(), [&](std::size_t each) { return is_branch(node(each)); });
    std::string given = list.name;
    for (std::size_t k = 0; k < stack.links.size(); ++k) {
      NodeDef& link = node(stack.links[k]);
      link.attrs.erase("T");
      link.inputs[0] = given;
      const Way& way = *stack.push;
      const std::size_t user = k + 1 < stack.links.size() ? stack.links[k + 1]
                               : way.links.empty()        ? way.end
                                                          : way.links[0];
      given = output(link, is_switch(link) ? side_used_by(user) : 0);
    }
    pass(*stack.pop, 0, pass(*stack.push, 0, given));
  }
  void remove(std::size_t i) { removed_.insert(node(i).name); }

  /// Lets a list pass the links of a way from the k-th on, and come back. Returns the list that comes back.
  std::string pass(const Way& way, std::size_t k, const std::string& list) {
    if (k == way.links.size()) return is_push(node(way.end)) ? push(way, k, list) : pop(way, k, list);
    NodeDef& link = node(way.links[k]);
    if (is_switch(link) && k >= way.begin_of_branches)
      return is_push(node(way.end)) ? push(way, k, list) : pop(way, k, list);
    link.attrs.erase("T");
    link.inputs[0] = list;
    if (is_enter(link)) return pass_loop(way, k, list);
    if (!is_switch(link)) return pass(way, k + 1, link.name);
    const int side = side_of(way, k);
    if (!is_branch(link)) return pass(way, k + 1, output(link, side));
    const std::string other = output(link, 1 - side);
    return add("Merge", link.name + "/_/list", {other, pass(way, k + 1, output(link, side))});
  }

  std::string pass_loop(const Way& way, std::size_t k, const std::string& list) {
    const NodeDef enter = node(way.links[k]);
    const auto* frame = attr_of<std::string>(enter, "frame_name");
    const auto condition = frame ? conditions_.find(*frame) : conditions_.end();
    if (condition == conditions_.end())
      throw UnimplementedError(detail::join("Node '", enter.name, "' (op: '", enter.op, "') enters no loop"));
    const auto named = [&](std::string_view part) { return detail::join(enter.name, "/_/", part); };
    if (is_pop(node(way.end)) && counted_.insert(*frame).second) add_counter(enter, list, condition->second);
    add("Merge", named("merge"), {enter.name, named("next")});
    add("Switch", named("switch"), {named("merge"), condition->second});
    add("NextIteration", named("next"), {pass(way, k + 1, named("switch:1"))});
    return add("Exit", named("exit"), {named("switch")});
  }

  /// Counts the iterations of a loop that takes elements from the end of lists. `list` is around the loop.
  void add_counter(const NodeDef& enter, const std::string& list, const std::string& condition) {
    const auto named = [&](std::string_view part) { return detail::join(enter.name, "/_/counter/", part); };
    add_number(named("zero"), 0, add("Identity", named("beside"), {list}));  // in the branch that a Switch leads to
    add("Enter", named("enter"), {named("zero")});
    added_.back().attrs = {{"frame_name", enter.attrs.at("frame_name")}, {"T", code_of(int32)}};
    add("Merge", named("merge"), {named("enter"), named("next")});
    add("Switch", named("switch"), {named("merge"), condition});
    add_number(named("one"), 1, named("switch"));
    add("AddV2", named("add"), {named("switch:1"), named("one")});
    added_.back().attrs = {{"T", code_of(int32)}};
    add("NextIteration", named("next"), {named("add")});
  }

  /// Branches that push become branches that give the element, which is absent in the others.
  std::string push(const Way& way, std::size_t branches, const std::string& list) {
    NodeDef& end = node(way.end);
    std::string value = end.inputs[1];
    if (pops_in_branch_) value = given_by_its_branch(way, value, end.name);
    for (std::size_t k = way.links.size(); k-- > branches;) {
      const NodeDef& link = node(way.links[k]);
      remove(way.links[k]);
      if (is_branch(link)) value = given_by_branch(link, side_of(way, k), value, end.name);
    }
    become(end, "TensorListPushBack", {list, value});
    return end.name;
  }
  /// A value of one side of a branch; absent on the other.
  std::string given_by_branch(const NodeDef& branch, int side, const std::string& value, const std::string& push) {
    const std::string prefix = push + "/_/" + branch.name + "/";
    add("Switch", prefix + "switch", {branch.inputs[1], branch.inputs[1]});
    add("Identity", prefix + "own", {detail::join(prefix, "switch:", side)});
    add("Identity", prefix + "other", {detail::join(prefix, "switch:", 1 - side)});
    add("OptionalFromValue", prefix + "value", {value, detail::join("^", prefix, "own")});
    add("OptionalNone", prefix + "none", {detail::join("^", prefix, "other")});
    return add("Merge", prefix + "merge", {prefix + "value", prefix + "none"});
  }
  /// The same for a value that is pushed outside of the innermost branch in which it is computed, so that the push does
  /// not run unless that branch is taken: the shape of a gradient that is zero there.
  std::string given_by_its_branch(const Way& way, const std::string& value, const std::string& push) {
    std::vector<const NodeDef*> passed;  // the predicates of the branches that the stack's handle passes
    for (const std::size_t each : way.links)
      if (is_branch(node(each))) passed.push_back(predicate_of(node(each)));
    std::string tensor = value;
    for (std::size_t steps = 0; steps < graph_.nodes.size(); ++steps) {
      const NodeDef* found = producer(tensor);
      if (!found || data_inputs(*found) == 0 || is_merge(*found) || is_enter(*found)) break;
      if (is_branch(*found) && !frame_begun_by(found->inputs[0]) &&
          std::find(passed.begin(), passed.end(), predicate_of(*found)) == passed.end())
        return given_by_branch(*found, tensor.ends_with(":1") ? 1 : 0, value, push);
      tensor = found->inputs[0];
    }
    return value;
  }

  /// The last element is given to the branches that pop.
  std::string pop(const Way& way, std::size_t branches, const std::string& list) {
    NodeDef& end = node(way.end);
    std::string value = end.name + ":1";
    for (std::size_t k = branches; k < way.links.size(); ++k) {
      NodeDef& link = node(way.links[k]);
      if (!is_branch(link)) {
        remove(way.links[k]);
        continue;
      }
      link.attrs.erase("T");
      link.inputs[0] = value;
      value = output(link, side_of(way, k));
    }
    become(end, "TensorListPopBack", {list, any_shape(end.name, list)});
    return end.name;
  }

  /// Removes control inputs, too: the list determines the order.
  void become(NodeDef& end, std::string op, std::vector<std::string> inputs) const {
    end.op = std::move(op);
    end.inputs = std::move(inputs);
    end.attrs = {{"element_dtype", type_}};
  }

  std::string add(std::string op, std::string name, std::vector<std::string> inputs) {
    added_.push_back({.name = name, .op = std::move(op), .inputs = std::move(inputs)});
    return name;
  }
  /// The constant of a shape of which nothing is known.
  std::string any_shape(const std::string& name, const std::string& beside) {
    return add_number(name + "/_/element_shape", -1, beside);
  }
  /// A constant in the frame and the branch in which the tensor `beside` is.
  std::string add_number(std::string name, int number, const std::string& beside) {
    NodeDef constant{.name = name, .op = "Const"};
    if (!beside.empty()) constant.inputs = {"^" + producer_name(beside)};
    constant.attrs = {{"dtype", code_of(int32)},
                      {"value", TensorDef{code_of(int32), detail::make_scalar(number, int32)}}};
    added_.push_back(std::move(constant));
    return name;
  }

  GraphDef& graph_;
  Index index_;
  std::vector<std::vector<Use>> uses_;
  std::unordered_map<std::string, std::string> conditions_;  ///< by frame
  // Of the stack that is raised: the type of its elements, whether branches pop it, and the predicates of those around.
  TypeCode type_{};
  bool pops_in_branch_ = false;
  std::vector<const NodeDef*> around_;
  std::vector<NodeDef> added_;
  std::unordered_set<std::string> removed_, counted_;  ///< nodes, and frames
};

/// The gradient of a loop that is in a branch is a loop in that branch, too. But TensorFlow lets each of its iterations
/// decide whether it pops: the predicate of the branch enters the loop. Here the branch is around the loop, so that the
/// list need not pass the loop where the branch is not taken.
class BranchMover {
 public:
  explicit BranchMover(GraphDef& graph)
      : graph_(graph), index_(numbers_by_name(graph)), uses_(data_uses(graph, index_)) {}

  void run() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i)
      if (is_switch(node(i)) && data_inputs(node(i)) == 2)
        while (move_out(i)) {
        }
  }

 private:
  NodeDef& node(std::size_t i) { return graph_.nodes[i]; }
  std::size_t producer(const std::string& tensor) const {
    const auto found = index_.find(producer_name(tensor));
    return found == index_.end() ? graph_.nodes.size() : found->second;
  }

  /// Whether the Switch, which passes on a stack that enters a loop, has been moved out of the loop.
  bool move_out(std::size_t i) {
    const std::size_t enter = producer(node(i).inputs[0]), predicate = producer(node(i).inputs[1]);
    if (!enters_same_loop(enter, predicate) || uses_[enter].size() != 1 || uses_[i].empty() || !is_stack(enter))
      return false;
    const std::string output = node(uses_[i][0].node).inputs[uses_[i][0].input];
    for (const Use& each : uses_[i])
      if (node(each.node).inputs[each.input] != output) return false;
    node(i).inputs = {node(enter).inputs[0], node(predicate).inputs[0]};  // its control inputs are in the loop
    node(enter).inputs[0] = output;
    for (const Use& each : uses_[i]) node(each.node).inputs[each.input] = node(enter).name;
    uses_[enter] = std::exchange(uses_[i], {{enter, 0}});
    return true;
  }
  bool enters_same_loop(std::size_t a, std::size_t b) const {
    const auto frame_of = [&](std::size_t i) -> const std::string* {
      const bool enters = i < graph_.nodes.size() && is_enter(graph_.nodes[i]);
      return enters ? attr_of<std::string>(graph_.nodes[i], "frame_name") : nullptr;
    };
    const std::string *first = frame_of(a), *second = frame_of(b);
    return first && second && *first == *second;
  }
  /// Whether a tensor is the handle of a stack.
  bool is_stack(std::size_t i) const {
    for (std::size_t steps = 0; i < graph_.nodes.size() && steps < graph_.nodes.size(); ++steps) {
      const NodeDef& found = graph_.nodes[i];
      if (found.op == "StackV2" || found.op == "Stack") return true;
      if (!passes_on(found)) return false;
      i = producer(found.inputs[0]);
    }
    return false;
  }

  GraphDef& graph_;
  const Index index_;
  std::vector<std::vector<Use>> uses_;
};

}  // namespace

void raise_stacks(GraphDef& graph) {
  BranchMover(graph).run();
  StackRaiser(graph).run();
}

}  // namespace tapestry::io
