// Ops that pass on a tensor, and branches of TensorFlow 1.

#include <algorithm>
#include <deque>
#include <optional>
#include <unordered_set>
#include <utility>

#include "graph/graph_state.hpp"
#include "graph/state_ops.hpp"
#include "io/tensorflow/foreign_parts.hpp"
#include "io/tensorflow/op_rules.hpp"
#include "ops/handles.hpp"

namespace tapestry::io {
namespace {

using detail::Node;

/// The attribute of the identity that stands for the side of a Switch that is not taken.
constexpr std::string_view not_taken = "not_taken";

/// For a placeholder with a default: another tensor may be fed, so it is read only when the feeds are known.
bool always(const NodeReader&, const Tensors&) { return true; }

Tensors read_identities(const ForeignNode& n) {
  Tensors copies(n.inputs.size());
  for (std::size_t i = n.inputs.size(); i-- > 0;)
    copies[i] = identity(n.in(i), i == 0 ? n.name() : detail::join(n.name(), "/_/", i));
  return copies;
}

Tensors read_default(const ForeignNode& n) { return {identity(n.in(0), n.name())}; }

Tensors read_first(const ForeignNode& n) { return {identity(n.in(0), n.name())}; }

Tensors read_check(const ForeignNode& n) {
  const OpRule& rule = *rule_of("CheckNumerics");
  return make_op(rule, n.node, n.inputs, n.node.direct_attrs(rule), n.where);
}

/// The data is the output that the condition selects: 0 for false, 1 for true.
Tensors read_switch(const ForeignNode& n) {
  const Tensor condition = n.node.constant(1);
  if (condition.dtype() != boolean || condition.size() != 1) n.node.refuse("its condition is no bool");
  const std::size_t taken = condition.item<bool>() ? 1 : 0;
  Tensors outputs(2);
  outputs[1 - taken] = add_op(ops::identity, {n.in(0)}, {{not_taken, true}}, n.name() + "/_/not_taken", n.where)[0];
  outputs[taken] = identity(n.in(0), n.name());
  return outputs;
}

/// Walks back from a tensor, one node at a time, until it meets a side of a Switch that is not taken.
class Walk {
 public:
  explicit Walk(const Tensor& from) { visit(detail::producer_of(from)); }

  bool is_at_end() const { return pending_.empty(); }
  /// Whether the next node is such a side.
  bool step() {
    const Node& node = *pending_.front();
    pending_.pop_front();
    if (node.attrs().find(not_taken)) return true;
    for (const Tensor& each : node.inputs()) visit(detail::producer_of(each));
    // A node that has no data inputs, or reads a Variable, is in a branch if it waits for a node of that branch.
    // Control inputs of other nodes tell nothing, as they may stand for nodes that were left out; nor does one from the
    // Switch.
    if (!node.inputs().empty() && &node.op() != &read_variable_op) return false;
    for (const Node* each : node.control_inputs)
      if (!each->attrs().find(not_taken)) visit(*each);
    return false;
  }

 private:
  void visit(const Node& node) {
    if (seen_.insert(&node).second) pending_.push_back(&node);
  }
  std::deque<const Node*> pending_;
  std::unordered_set<const Node*> seen_;
};

/// The only one of the tensors that does not depend on a side that is not taken; nothing if there is no such tensor.
/// All walk in step, as the sides that are not taken are mostly near, and everything before the branch is shared.
std::optional<std::size_t> taken_branch(const Tensors& inputs) {
  std::vector<Walk> walks(inputs.begin(), inputs.end());
  std::vector<std::size_t> left(inputs.size());
  for (std::size_t i = 0; i < left.size(); ++i) left[i] = i;
  bool moves = true;
  while (left.size() > 1 && std::exchange(moves, false))
    for (std::size_t i = 0; i < left.size() && left.size() > 1;) {
      Walk& walk = walks[left[i]];
      moves = moves || !walk.is_at_end();
      const bool out = !walk.is_at_end() && walk.step();
      if (out) left.erase(left.begin() + static_cast<std::ptrdiff_t>(i));
      if (!out) ++i;
    }
  return left.size() == 1 ? std::optional(left[0]) : std::nullopt;
}

bool lacks_branch(const NodeReader&, const Tensors& inputs) { return !taken_branch(inputs); }

Tensors read_merge(const ForeignNode& n) {
  const std::optional<std::size_t> taken = taken_branch(n.inputs);
  if (!taken) lack(n, "condition, which must follow from constants");
  const Tensor index = detail::make_scalar(static_cast<double>(*taken), int32);
  const Tensor index_node = constant_node(index, n.name() + "/_/value_index", n.where);
  return {identity(n.in(*taken), n.name()), index_node};
}

}  // namespace

ForeignOps foreign_control() {
  return {
      {.name = "CheckNumericsV2", .inputs = 1, .read = read_check},
      {.name = "DebugGradientIdentity", .inputs = 1, .read = read_first},
      {.name = "DeepCopy", .inputs = 1, .read = read_first},
      {.name = "GuaranteeConst", .inputs = 1, .read = read_first},
      {.name = "IdentityN", .inputs = -1, .read = read_identities},
      {.name = "Merge",
       .inputs = -1,
       .lacks_sizes = lacks_branch,
       .outputs = {like(0), typed(int32)},
       .read = read_merge},
      {.name = "PlaceholderWithDefault", .inputs = 1, .lacks_sizes = always, .read = read_default},
      {.name = "Print", .inputs = -1, .read = read_first},
      {.name = "RefIdentity", .inputs = 1, .read = read_first},
      {.name = "RefMerge",
       .inputs = -1,
       .lacks_sizes = lacks_branch,
       .outputs = {like(0), typed(int32)},
       .read = read_merge},
      {.name = "RefSwitch", .inputs = 2, .values = {1}, .outputs = {like(0), like(0)}, .read = read_switch},
      {.name = "Round", .inputs = 1, .applies = is_of_integers, .read = read_first},
      {.name = "Snapshot", .inputs = 1, .read = read_first},
      {.name = "Switch", .inputs = 2, .values = {1}, .outputs = {like(0), like(0)}, .read = read_switch},
  };
}

}  // namespace tapestry::io
