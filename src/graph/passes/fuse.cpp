#include <algorithm>
#include <unordered_map>

#include "backend/backend.hpp"
#include "backend/program.hpp"
#include "graph/passes/passes.hpp"
#include "graph/rewrite.hpp"
#include "graph/state_ops.hpp"
#include "ops/handles.hpp"

namespace tapestry::detail {
namespace {

/// Whether a function may throw, as integer functions do for operands for which they are undefined. Such nodes are not
/// fused, so that the error names the call site of their op.
bool may_throw(const ElementFunction& function, DType dtype) {
  const Binary* f = std::get_if<Binary>(&function);
  return f && is_integer(dtype) && (*f == Binary::floor_mod || *f == Binary::floor_divide || *f == Binary::power);
}

/// Whether a tensor is the result of a large transposition. The kernel of a single op reads such an operand in small
/// tiles, a program by whole rows.
bool is_transposed(const Tensor& tensor) {
  constexpr std::int64_t small = 4096;
  const Node& node = producer_of(tensor);
  if (&node.op() != &ops::transpose || tensor.shape().num_elements() <= small) return false;
  const AttrValue* perm = node.attrs().find("perm");
  return !perm || normalize_axis(std::get<Ints>(*perm).back(), tensor.rank()) != tensor.rank() - 1;
}

/// The groups of nodes that are computed together; most nodes are a group of their own. A node on a path between two
/// members must be a member, too: otherwise the group would have to run both before and after it. So the groups have an
/// order in which each comes after those that it needs.
class Groups {
 public:
  using Members = std::vector<const Node*>;

  explicit Groups(const GraphState& graph)
      : before_(graph.size()), users_(graph.size()), may_join_(graph.size()), seen_(graph.size()) {
    const Node* last = nullptr;
    for (std::size_t i = 0; i < graph.size(); ++i) {
      const Node& node = graph.node(i);
      if (node.op().stateful) before_[i] = std::exchange(last, &node);
      for_each_need(node, [&](const Node& other) { users_[other.index].push_back(&node); });
      group_.push_back(i);
      members_.push_back({&node});
    }
    position_ = late_positions(graph);
    for (std::size_t i = 0; i < graph.size(); ++i)
      if (may_be_fused(graph.node(i))) join(graph.node(i));
  }

  bool are_all_single() const {
    return std::all_of(members_.begin(), members_.end(), [](const Members& each) { return each.size() == 1; });
  }
  std::size_t of(const Node& node) const { return group_[node.index]; }
  /// The members of the node's group in the order of the graph.
  const Members& members(const Node& node) const { return members_[of(node)]; }

  /// Calls `each(other)` for all nodes that a node needs directly. A stateful node also needs the one before it, so
  /// that they keep their order even without an edge.
  template <class F>
  void for_each_need(const Node& node, F each) const {
    for (const Tensor& input : node.inputs()) each(producer_of(input));
    for (const Node* control : node.control_inputs) each(*control);
    if (const Node* before = before_[node.index]) each(*before);
  }

 private:
  /// The positions at first, by node: each node comes as late as it can, but those that need nothing come first. So few
  /// nodes are between a node and its users.
  std::vector<std::size_t> late_positions(const GraphState& graph) const {
    std::vector<std::size_t> steps_to_end(graph.size()), order(graph.size()), positions(graph.size());
    for (std::size_t i = graph.size(); i-- > 0;) {
      for (const Node* user : users_[i]) steps_to_end[i] = std::max(steps_to_end[i], steps_to_end[user->index] + 1);
      if (graph.node(i).inputs().empty() && graph.node(i).control_inputs.empty() && !before_[i])
        steps_to_end[i] = graph.size();
      order[i] = i;
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return steps_to_end[a] > steps_to_end[b]; });
    for (std::size_t i = 0; i < order.size(); ++i) positions[order[i]] = i;
    return positions;
  }

  void join(const Node& node) {
    may_join_[node.index] = 1;
    for (const Tensor& input : node.inputs()) {
      const Node& other = producer_of(input);
      const bool fits = may_join_[other.index] && other.output().shape() == node.output().shape() &&
                        other.output().device() == node.output().device() && other.device == node.device;
      if (fits) merge(of(other), of(node));
    }
  }

  void merge(std::size_t into, std::size_t from) {
    if (into == from) return;
    Members& first = members_[into];
    Members& second = members_[from];
    if (first.size() + second.size() > Program::max_instructions) return;
    Members all;
    std::merge(first.begin(), first.end(), second.begin(), second.end(), std::back_inserter(all),
               [](const Node* a, const Node* b) { return a->index < b->index; });
    if (has_many_operands(all, into, from) || !make_neighbours(into, from)) return;
    for (const Node* node : second) group_[node->index] = into;
    first = std::move(all);
    second.clear();
  }

  /// Whether a program of the nodes of two groups could have too many operands. Each member counts as one, as if no
  /// register were used twice.
  bool has_many_operands(const Members& all, std::size_t one, std::size_t other) const {
    std::vector<std::int64_t> inputs;
    for (const Node* node : all)
      for (const Tensor& input : node->inputs())
        if (const std::size_t group = of(producer_of(input)); group != one && group != other)
          inputs.push_back(input.id());
    std::sort(inputs.begin(), inputs.end());
    inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
    return inputs.size() + all.size() > Program::max_operands;
  }

  /// Changes the order so that the two groups can become one, `into`. Returns false, and changes nothing, if one of
  /// them needs the other through a third group.
  ///
  /// Only groups between the two move. Those that the later one needs come first, then the two, then those that need
  /// the earlier one; together they keep their positions (Pearce and Kelly's algorithm).
  bool make_neighbours(std::size_t into, std::size_t from) {
    const auto [early, late] = position_[into] < position_[from] ? std::pair(into, from) : std::pair(from, into);
    std::vector<std::size_t> order, after;
    if (!find_between(late, early, order)) return false;
    if (order.empty()) {
      position_[into] = position_[early];
      return true;
    }
    if (!find_between(early, late, after)) return false;
    const auto by_position = [&](std::size_t a, std::size_t b) { return position_[a] < position_[b]; };
    std::sort(order.begin(), order.end(), by_position);
    std::sort(after.begin(), after.end(), by_position);
    order.insert(order.end(), {from, into});
    order.insert(order.end(), after.begin(), after.end());
    std::vector<std::size_t> positions;
    positions.reserve(order.size());
    for (const std::size_t group : order) positions.push_back(position_[group]);
    std::sort(positions.begin(), positions.end());
    for (std::size_t i = 0; i < order.size(); ++i) position_[order[i]] = positions[i];
    return true;
  }

  /// Finds the groups between two that `from` needs, directly or not, or, if `from` is the earlier one, that need it.
  /// Returns false if one of them leads to the group `to`. Goes step by step, because where there is such a way, as
  /// from a gradient to the forward pass, there usually is a short one.
  bool find_between(std::size_t from, std::size_t to, std::vector<std::size_t>& found) {
    ++search_;
    const bool backward = position_[to] < position_[from];
    const auto [low, high] = std::minmax(position_[from], position_[to]);
    std::size_t current = from;
    bool has_way = false;
    const auto visit = [&, low = low, high = high](const Node& node) {
      const std::size_t next = of(node);
      has_way = has_way || (next == to && current != from);
      const bool is_between = position_[next] > low && position_[next] < high;
      if (is_between && std::exchange(seen_[next], search_) != search_) found.push_back(next);
    };
    for (std::size_t i = 0;; ++i) {
      for (const Node* node : members_[current])
        if (backward) {
          for_each_need(*node, visit);
        } else {
          for (const Node* user : users_[node->index]) visit(*user);
        }
      if (has_way || i == found.size()) return !has_way;
      current = found[i];
    }
  }

  std::vector<const Node*> before_;    ///< for a stateful node: the previous stateful one
  std::vector<Members> users_;         ///< by node: the nodes that need it directly
  std::vector<char> may_join_;         ///< by node: whether other nodes may join it
  std::vector<std::size_t> group_;     ///< by node
  std::vector<Members> members_;       ///< by group, in the order of the graph
  std::vector<std::size_t> position_;  ///< by group
  std::vector<std::uint32_t> seen_;    ///< by group: the last search that found it
  std::uint32_t search_ = 0;
};

/// Writes the program of a group.
class Writer {
 public:
  Writer(const std::vector<const Node*>& members, const std::vector<char>& used) : members_(members) {
    for (const Node* node : members_) {
      last_use_[node->output().id()] = used[node->index] ? always : members_.size();
      for (const Tensor& input : node->inputs())
        if (!operands_.contains(input.id()) && !last_use_.contains(input.id())) {
          operands_.emplace(input.id(), static_cast<std::uint8_t>(inputs_.size()));
          inputs_.push_back(input);
        }
    }
    for (std::size_t i = 0; i < members_.size(); ++i)
      for (const Tensor& input : members_[i]->inputs())
        if (const auto found = last_use_.find(input.id()); found != last_use_.end() && found->second != always)
          found->second = i;
    program_.inputs = static_cast<int>(inputs_.size());
    for (const Node* node : members_)
      if (is_output(*node)) {
        operands_.emplace(node->output().id(), static_cast<std::uint8_t>(program_.inputs + program_.outputs));
        ++program_.outputs;
      }
    for (std::size_t i = 0; i < members_.size(); ++i) write(i);
  }

  const Tensors& inputs() const { return inputs_; }
  bool is_output(const Node& node) const { return last_use_.at(node.output().id()) == always; }
  ProgramRef program() const { return std::make_shared<const Program>(program_); }

 private:
  static constexpr std::size_t always = ~std::size_t{0};

  void write(std::size_t i) {
    const Node& node = *members_[i];
    const Elementwise function = node.op().forward.elementwise(node);
    Program::Instruction instruction{.function = function.function,
                                     .operands = {},
                                     .result = 0,
                                     .dtype = node.output().dtype(),
                                     .number = function.number};
    for (std::size_t k = 0; k < static_cast<std::size_t>(operands_of(function.function)); ++k)
      instruction.operands[k] = operands_.at(node.input(function.inputs[k]).id());
    for (const Tensor& input : node.inputs()) release(input, i, size_of(node.output().dtype()), true);
    if (!is_output(node)) operands_.emplace(node.output().id(), free_register());
    for (const Tensor& input : node.inputs()) release(input, i, size_of(node.output().dtype()), false);
    instruction.result = operands_.at(node.output().id());
    program_.instructions.push_back(instruction);
  }

  /// Frees the register of an operand that nothing needs after the i-th instruction. Where the elements have the size
  /// of those of the result, this is done before the result gets a register, which may then be the same one, and
  /// otherwise after that.
  void release(const Tensor& input, std::size_t i, std::size_t size, bool before) {
    const auto use = last_use_.find(input.id());
    if (use == last_use_.end() || use->second != i || (size_of(input.dtype()) == size) != before) return;
    const std::uint8_t operand = operands_.at(input.id());
    if (std::find(free_.begin(), free_.end(), operand) == free_.end()) free_.push_back(operand);
  }

  std::uint8_t free_register() {
    if (free_.empty()) return static_cast<std::uint8_t>(program_.inputs + program_.outputs + program_.registers++);
    const std::uint8_t operand = free_.back();
    free_.pop_back();
    return operand;
  }

  const std::vector<const Node*>& members_;
  Tensors inputs_;
  std::unordered_map<std::int64_t, std::size_t> last_use_;   ///< by a result's id: the last instruction that reads it
  std::unordered_map<std::int64_t, std::uint8_t> operands_;  ///< by a tensor's id: its operand number
  std::vector<std::uint8_t> free_;
  Program program_;
};

class Fuser {
 public:
  explicit Fuser(const PlanGraph& plan)
      : plan_(plan), graph_(*plan.graph), groups_(graph_), rewrite_(plan), used_(graph_.size()), done_(graph_.size()) {
    for (const Tensor& fetch : plan.fetches) used_[producer_of(fetch).index] = 1;
    for (const Node* operation : plan.operations) used_[operation->index] = 1;
    for (std::size_t i = 0; i < graph_.size(); ++i)
      for (const Tensor& input : graph_.node(i).inputs())
        if (const Node& from = producer_of(input); groups_.of(from) != groups_.of(graph_.node(i)))
          used_[from.index] = 1;
  }

  /// Keeps the order of the nodes. A group runs at the position of its last member, or earlier if a node there needs
  /// it.
  PlanGraph run() {
    if (groups_.are_all_single()) return plan_;
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      const Node& node = graph_.node(i);
      if (groups_.members(node).back() == &node) add_with_needs(node);
    }
    return rewrite_.plan_like(plan_);
  }

 private:
  void add_with_needs(const Node& last) {
    std::vector<const Node*> pending{&last};
    while (!pending.empty()) {
      const Node& node = *pending.back();
      const std::vector<const Node*>& members = groups_.members(node);
      const std::size_t before = pending.size();
      if (!done_[node.index])
        for (const Node* member : members)
          groups_.for_each_need(*member, [&](const Node& other) {
            if (groups_.of(other) != groups_.of(node) && !done_[other.index]) pending.push_back(&other);
          });
      if (pending.size() > before) continue;
      pending.pop_back();
      if (!done_[node.index]) add(members);
    }
  }

  void add(const std::vector<const Node*>& members) {
    for (const Node* node : members) done_[node->index] = 1;
    if (members.size() == 1) return rewrite_.copy(*members[0]);
    const bool any_used =
        std::any_of(members.begin(), members.end(), [&](const Node* node) { return used_[node->index]; });
    if (!any_used) used_[members.back()->index] = 1;
    const Writer writer(members, used_);
    rewrite_.build(members, [&] { return build(members, writer); });
  }

  Tensors build(const std::vector<const Node*>& members, const Writer& writer) {
    Tensors inputs;
    for (const Tensor& input : writer.inputs()) inputs.push_back(rewrite_.of(input));
    Specs specs;
    for (const Node* node : members)
      if (writer.is_output(*node)) specs.push_back(node->output().spec());
    const Attrs attrs{{"program", writer.program()}, {"shape", members.back()->output().shape()}};
    const Node& fused = rewrite_.add(fused_op(), inputs, attrs, specs, *members.back());
    Tensors outputs;
    std::size_t next = 0;
    for (const Node* node : members) outputs.push_back(writer.is_output(*node) ? fused.output(next++) : Tensor());
    return outputs;
  }

  const PlanGraph& plan_;
  const GraphState& graph_;
  Groups groups_;
  Rewrite rewrite_;
  std::vector<char> used_;  ///< whether the output of a node is needed outside its group
  std::vector<char> done_;
};

}  // namespace

const Op& fused_op() {
  static const Op& op = *new Op{
      .name = "_Fused",
      .infer = program_specs,
      .forward =
          [](Backend& backend, const Call& call) {
            backend.program(*call.attr<ProgramRef>("program"), {call.inputs().begin(), call.inputs().size()},
                            {call.outputs().begin(), call.outputs().size()});
          },
      .gradient = no_gradient,
      .outputs = -1,
  };
  return op;
}

bool may_be_fused(const Node& node) {
  return node.op().forward.is_elementwise() && node.outputs().size() == 1 &&
         !may_throw(node.op().forward.elementwise(node).function, node.input(0).dtype()) &&
         std::none_of(node.inputs().begin(), node.inputs().end(), is_transposed);
}

ProgramRef program_of(const Call& call, Tensors& inputs) {
  if (const ProgramRef* program = call.attrs().find<ProgramRef>("program")) {
    inputs = call.inputs();
    return *program;
  }
  for (const Tensor& input : call.inputs())
    if (std::none_of(inputs.begin(), inputs.end(), [&](const Tensor& other) { return other.is(input); }))
      inputs.push_back(input);
  const Elementwise function = call.op().forward.elementwise(call);
  Program program{.instructions = {}, .inputs = static_cast<int>(inputs.size()), .outputs = 1, .registers = 0};
  Program::Instruction instruction{.function = function.function,
                                   .operands = {},
                                   .result = static_cast<std::uint8_t>(inputs.size()),
                                   .dtype = call.output().dtype(),
                                   .number = function.number};
  for (std::size_t i = 0; i < static_cast<std::size_t>(operands_of(function.function)); ++i) {
    const Tensor& operand = call.input(function.inputs[i]);
    const auto is_operand = [&](const Tensor& input) { return input.is(operand); };
    instruction.operands[i] =
        static_cast<std::uint8_t>(std::find_if(inputs.begin(), inputs.end(), is_operand) - inputs.begin());
  }
  program.instructions.push_back(instruction);
  return std::make_shared<const Program>(std::move(program));
}

Specs program_specs(const Call& call) {
  const Program& program = *call.attr<ProgramRef>("program");
  Specs specs(program.outputs, {DType::unknown, call.attr<Shape>("shape")});
  for (const Program::Instruction& each : program.instructions)
    if (!program.is_register(each.result))
      specs[each.result - static_cast<std::size_t>(program.inputs)].dtype = each.dtype;
  return specs;
}

PlanGraph fuse(const PlanGraph& plan) { return Fuser(plan).run(); }

}  // namespace tapestry::detail
