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

/// The op of a fused group. Only plans have it, so it is not in the registry.
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

/// The groups of nodes that are computed together. A node on a path between two members must be a member, too:
/// otherwise the group would have to run both before and after it. So the graph of groups and lone nodes has no cycle.
class Groups {
 public:
  static constexpr std::int32_t alone = -1;

  explicit Groups(const GraphState& graph) : group_(graph.size(), alone), seen_(graph.size()), before_(graph.size()) {
    const Node* last = nullptr;
    for (std::size_t i = 0; i < graph.size(); ++i)
      if (graph.node(i).op().stateful) before_[i] = std::exchange(last, &graph.node(i));
    for (std::size_t i = 0; i < graph.size(); ++i)
      if (may_be_fused(graph.node(i))) join(graph.node(i));
  }

  std::int32_t of(const Node& node) const { return group_[node.index]; }
  /// The members of the node's group in the order of the graph; for a lone node, the node itself.
  std::vector<const Node*> members(const Node& node) const {
    return of(node) == alone ? std::vector{&node} : members_[of(node)];
  }

  /// Calls `each(other)` for all nodes that a node needs directly. A stateful node also needs the one before it, so
  /// that they keep their order even without an edge.
  template <class F>
  void for_each_need(const Node& node, F each) const {
    for (const Tensor& input : node.inputs()) each(producer_of(input));
    for (const Node* control : node.control_inputs) each(*control);
    if (const Node* before = before_[node.index]) each(*before);
  }

 private:
  using Members = std::vector<const Node*>;

  void join(const Node& node) {
    group_[node.index] = static_cast<std::int32_t>(members_.size());
    members_.push_back({&node});
    for (const Tensor& input : node.inputs()) {
      const Node& other = producer_of(input);
      const bool fits = of(other) != alone && other.output().shape() == node.output().shape() &&
                        other.output().device() == node.output().device() && other.device == node.device;
      if (fits) merge(of(other), of(node));
    }
  }

  void merge(std::int32_t into, std::int32_t from) {
    if (into == from) return;
    Members& first = members_[into];
    Members& second = members_[from];
    Members all;
    std::merge(first.begin(), first.end(), second.begin(), second.end(), std::back_inserter(all),
               [](const Node* a, const Node* b) { return a->index < b->index; });
    const auto inside = [&](const Node& node) { return of(node) == into || of(node) == from; };
    if (is_too_large(all, inside) || has_way_outside(all, inside)) return;
    for (const Node* node : second) group_[node->index] = into;
    first = std::move(all);
    second.clear();
  }

  /// Whether a program of these nodes could exceed its limits. Each member counts as one operand, as if no register
  /// were used twice.
  static bool is_too_large(const Members& all, const auto& inside) {
    if (all.size() > Program::max_instructions) return true;
    std::vector<std::int64_t> inputs;
    for (const Node* node : all)
      for (const Tensor& input : node->inputs())
        if (!inside(producer_of(input))) inputs.push_back(input.id());
    std::sort(inputs.begin(), inputs.end());
    inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
    return inputs.size() + all.size() > Program::max_operands;
  }

  /// Whether one of the nodes depends on another through a node that is not among them.
  bool has_way_outside(const Members& all, const auto& inside) {
    ++search_;
    Members pending;
    bool found = false;
    const auto visit = [&](const Node& node) {
      if (std::exchange(seen_[node.index], search_) != search_) pending.push_back(&node);
    };
    const auto visit_unit = [&](const Node& node) {
      if (of(node) == alone) return visit(node);
      for (const Node* member : members_[of(node)]) visit(*member);
    };
    for (const Node* node : all)
      for_each_need(*node, [&](const Node& other) {
        if (!inside(other)) visit_unit(other);
      });
    while (!pending.empty() && !found) {
      const Node& node = *pending.back();
      pending.pop_back();
      if (node.index < all.front()->index) continue;  // needs only earlier nodes
      for_each_need(node, [&](const Node& other) {
        found = found || inside(other);
        visit_unit(other);
      });
    }
    return found;
  }

  std::vector<std::int32_t> group_;
  std::vector<Members> members_;  ///< in the order of the graph
  std::vector<std::uint32_t> seen_;
  std::uint32_t search_ = 0;
  std::vector<const Node*> before_;  ///< for a stateful node: the previous stateful one
};

/// Writes the program of a group.
class Writer {
 public:
  Writer(const std::vector<const Node*>& members, const std::vector<char>& used) : members_(members) {
    for (const Node* node : members_) {
      last_use_[node->output().id()] = used[node->index] ? always : members_.size();
      for (const Tensor& input : node->inputs())
        if (!places_.contains(input.id()) && !last_use_.contains(input.id())) {
          places_.emplace(input.id(), static_cast<std::uint8_t>(inputs_.size()));
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
        places_.emplace(node->output().id(), static_cast<std::uint8_t>(program_.inputs + program_.outputs));
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
      instruction.operands[k] = places_.at(node.input(function.inputs[k]).id());
    for (const Tensor& input : node.inputs()) release(input, i, size_of(node.output().dtype()), true);
    if (!is_output(node)) places_.emplace(node.output().id(), free_register());
    for (const Tensor& input : node.inputs()) release(input, i, size_of(node.output().dtype()), false);
    instruction.result = places_.at(node.output().id());
    program_.instructions.push_back(instruction);
  }

  /// Frees the register of an operand that nothing needs after the i-th instruction. Where the elements have the size
  /// of those of the result, this is done before the result gets a register, which may then be the same one, and
  /// otherwise after that.
  void release(const Tensor& input, std::size_t i, std::size_t size, bool before) {
    const auto use = last_use_.find(input.id());
    if (use == last_use_.end() || use->second != i || (size_of(input.dtype()) == size) != before) return;
    const std::uint8_t place = places_.at(input.id());
    if (std::find(free_.begin(), free_.end(), place) == free_.end()) free_.push_back(place);
  }

  std::uint8_t free_register() {
    if (free_.empty()) return static_cast<std::uint8_t>(program_.inputs + program_.outputs + program_.registers++);
    const std::uint8_t place = free_.back();
    free_.pop_back();
    return place;
  }

  const std::vector<const Node*>& members_;
  Tensors inputs_;
  std::unordered_map<std::int64_t, std::size_t> last_use_;  ///< by a result's id: the last instruction that reads it
  std::unordered_map<std::int64_t, std::uint8_t> places_;   ///< by a tensor's id: its operand number
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
        if (const Node& from = producer_of(input);
            groups_.of(from) == Groups::alone || groups_.of(from) != groups_.of(graph_.node(i)))
          used_[from.index] = 1;
  }

  /// Keeps the order of the nodes. A group runs at the position of its last member, or earlier if a node there needs
  /// it.
  PlanGraph run() {
    for (std::size_t i = 0; i < graph_.size(); ++i) {
      const Node& node = graph_.node(i);
      if (groups_.members(node).back() == &node) place_with_needs(node);
    }
    return rewrite_.plan_like(plan_);
  }

 private:
  void place_with_needs(const Node& last) {
    std::vector<const Node*> pending{&last};
    while (!pending.empty()) {
      const Node& node = *pending.back();
      const std::vector<const Node*> members = groups_.members(node);
      const std::size_t before = pending.size();
      if (!done_[node.index])
        for (const Node* member : members)
          groups_.for_each_need(*member, [&](const Node& other) {
            const bool inside = groups_.of(other) != Groups::alone && groups_.of(other) == groups_.of(node);
            if (!inside && !done_[other.index]) pending.push_back(&other);
          });
      if (pending.size() > before) continue;
      pending.pop_back();
      if (!done_[node.index]) place(members);
    }
  }

  void place(const std::vector<const Node*>& members) {
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

bool may_be_fused(const Node& node) {
  return node.op().forward.is_elementwise() && node.outputs().size() == 1 &&
         !may_throw(node.op().forward.elementwise(node).function, node.input(0).dtype()) &&
         std::none_of(node.inputs().begin(), node.inputs().end(), is_transposed);
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
