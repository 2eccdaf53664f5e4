#include "graph/specialize.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "backend/backend.hpp"
#include "graph/flow/flow_ops.hpp"
#include "graph/known_values.hpp"
#include "graph/passes/passes.hpp"
#include "graph/rewrite.hpp"
#include "graph/state_ops.hpp"
#include "graph/training.hpp"
#include "tapestry/detail/locate.hpp"

namespace tapestry::detail {
namespace {

/// The name of the node that stands for a feed.
std::string placeholder_name(const Tensor& feed) {
  const Endpoint end = endpoint_of(feed);
  return &end.node->op() == &placeholder_op ? end.node->name() : join(end.node->name(), "_", end.output, "_fed");
}

class Specializer {
 public:
  Specializer(const GraphState& from, const Request& request) : from_(from), request_(request), rewrite_(from) {}

  PlanGraph run() {
    add_feeds();
    const std::vector<char> needed = needed_nodes(from_, request_);
    require_read(from_, needed);
    mark_values(needed);
    for (std::size_t i = 0; i < needed.size(); ++i)
      if (needed[i]) copy(from_.node(i));
    PlanGraph plan = rewrite_.plan_like({.graph = {},
                                         .feeds = request_.feeds,
                                         .fetches = request_.fetches,
                                         .operations = request_.operations,
                                         .complete = request_.complete});
    for (std::size_t i = 0; i < plan.graph->size(); ++i) plan.devices.push_back(device_of(plan.graph->node(i)));
    return plan;
  }

 private:
  void add_feeds() {
    for (std::size_t i = 0; i < request_.feeds.size(); ++i) {
      const Tensor& feed = request_.feeds[i];
      const Spec& spec = request_.fed[i];
      const Endpoint end = endpoint_of(feed);
      std::vector<Attr> attrs{{"dtype", spec.dtype}, {"shape", spec.shape}};
      if (may_be_absent(feed)) attrs.emplace_back("may_be_absent", true);
      Call call(placeholder_op, {}, Attrs(attrs), end.node->where(), placeholder_name(feed));
      const Node& node = rewrite_.add(std::move(call), {spec}, {.device = end.node->device});
      rewrite_.replace(feed, node.output());
      if (i < request_.values.size() && bool(request_.values[i])) known_.note(node.output(), request_.values[i]);
    }
  }

  /// Marks the nodes from which awaited values are computed.
  void mark_values(const std::vector<char>& needed) {
    gives_value_.resize(needed.size());
    const auto mark = [&](const Tensor& input) { gives_value_[endpoint_of(input).node->index] = 1; };
    for (std::size_t i = needed.size(); i-- > 0;) {
      if (!needed[i]) continue;
      const Node& node = from_.node(i);
      if (const Ints* awaited = awaited_values(node))
        for (const std::int64_t each : *awaited) mark(node.input(each));
      if (!gives_value_[i]) continue;
      for (std::size_t k = 0; k < node.inputs().size(); ++k)
        if (!reads_shape_only(node.op(), k)) mark(node.input(k));
    }
  }

  void copy(const Node& node) {
    const GraphState& to = *rewrite_.graph();
    const std::size_t first = to.size();
    detail::locating(node.type(), node.name(), node.where(), [&] {
      rewrite_.build(node, [&] { return copy_outputs(node, rewrite_.inputs_of(node)); });
      for (std::size_t i = first; i < to.size(); ++i) note(to.node(i), gives_value_[node.index]);
    });
  }

  void note(const Node& node, bool gives_value) {
    if (gives_value) known_.note(node);
    late_.resize(node.index + 1);
    late_[node.index] = awaited_values(node) != nullptr ||
                        std::any_of(node.inputs().begin(), node.inputs().end(),
                                    [&](const Tensor& input) { return is_late(*endpoint_of(input).node); });
  }

  Tensors copy_outputs(const Node& node, const Tensors& inputs) {
    if (&node.op() == &placeholder_op) node.op().forward(backend_of(cpu()), node);  // throws: it is not fed
    // In the stage "requested" some dtypes and ranks are unknown, because the feeds are only declared; later those that
    // depend on values. A gradient defers what it cannot do yet: where a plan is cut, the rest of it must be there.
    if (std::any_of(inputs.begin(), inputs.end(), is_unknown) && &node.op() != &symbolic_gradient_op())
      return copy_of(node, inputs);
    if (const AttrValue* redo = node.attrs().find("redo")) {
      const auto& function = *std::get<Closure>(*redo);
      if (!awaited_values(node)) {
        const OptionsScope scopes = scopes_of(node, node.name() + "/");
        return function(inputs);
      }
      const std::optional<Tensors> complete = is_settled(inputs) ? with_values(node, inputs) : std::nullopt;
      if (!complete) return copy_of(node, inputs);
      const OptionsScope scopes = scopes_of(node, "");
      return function(*complete);
    }
    if (const Tensors values = computed_now(node, inputs); !values.empty()) {
      Tensors constants;
      for (const Tensor& each : values) {
        Call call(const_op, {}, {{"dtype", each.dtype()}, {"value", each}}, node.where(), node.name());
        constants.push_back(rewrite_.add(std::move(call), {each.spec()}, {}).output());
      }
      return constants;
    }
    const bool was_unknown = std::any_of(node.inputs().begin(), node.inputs().end(), is_unknown);
    if (was_unknown) {
      const OptionsScope scopes = scopes_of(node, "");
      const Attrs attrs = is_flow(node.op()) && !is_replayed(node) ? attrs_like(node, inputs) : node.attrs();
      return apply_all(node.op(), with_numbers(inputs), attrs, node.name(), node.where());
    }
    Call call(node.op(), inputs, node.attrs(), node.where(), node.name());
    // An optimizer could not see yet that this gradient is row-sparse.
    if (!inputs.empty() && &endpoint_of(node.inputs().back()).node->op() == &symbolic_gradient_op()) {
      const OptionsScope scopes = scopes_of(node, node.name() + "/");
      if (std::optional<Call> rows = update_of_rows(call)) call = std::move(*rows);
    }
    return rewrite_.add(call, call.op().infer(call), rewrite_.options_like(node)).outputs();
  }

  /// The results of an op whose sizes depend on values, if these are known; empty for any other.
  Tensors computed_now(const Node& node, const Tensors& inputs) const {
    if (!node.op().evaluate || is_flow(node.op())) return {};
    Tensors values;
    for (const Tensor& input : inputs) values.push_back(known_.find_complete(input));
    if (std::any_of(values.begin(), values.end(), [](const Tensor& each) { return !each; })) return {};
    return evaluate(node, values);
  }

  /// The scopes in which the node was made, for the nodes that public ops add in its place.
  OptionsScope scopes_of(const Node& node, std::string names) const {
    NodeOptions options = rewrite_.options_like(node);
    options.scope = std::move(names);
    return OptionsScope(rewrite_.graph(), options);
  }

  Tensors copy_of(const Node& node, const Tensors& inputs) { return rewrite_.copy_of(node, inputs).outputs(); }

  /// Whether all sizes are known, and no input comes from a node that still awaits values.
  bool is_settled(const Tensors& inputs) const {
    return std::all_of(inputs.begin(), inputs.end(), [&](const Tensor& each) {
      return each.shape().is_known() && !is_late(*endpoint_of(each).node);
    });
  }
  bool is_late(const Node& node) const { return node.index < late_.size() && late_[node.index]; }

  /// The inputs, where those that the node awaits are replaced by their values; nothing while some are to be computed.
  std::optional<Tensors> with_values(const Node& node, Tensors inputs) const {
    for (const std::int64_t each : *awaited_values(node)) {
      inputs[each] = known_.find_complete(inputs[each]);
      if (!inputs[each]) return {};
    }
    return inputs;
  }

  /// The inputs, where constants of C++ numbers are replaced by their weak values: they are still to take the dtype of
  /// the others.
  static Tensors with_numbers(Tensors inputs) {
    for (Tensor& input : inputs)
      if (const Tensor value = constant_value(input); bool(value) && value.impl().weak) input = value;
    return inputs;
  }

  const GraphState& from_;
  const Request& request_;
  Rewrite rewrite_;
  std::vector<char> gives_value_;  ///< by the index of a node of the old graph
  std::vector<char> late_;         ///< by that of a node of the new graph: it awaits values, or needs a node that does
  KnownValues known_;              ///< of the new graph
};

}  // namespace

std::vector<char> needed_nodes(const GraphState& graph, const Request& request) {
  std::vector<char> needed(graph.size()), done(graph.size());
  for (const Node* node : request.done) done[node->index] = 1;
  std::vector<Node*> pending;
  const auto visit = [&](Node* node) {
    if (!done[node->index] && !std::exchange(needed[node->index], 1)) pending.push_back(node);
  };
  const auto is_fed = [&](const Tensor& tensor) {
    return std::any_of(request.feeds.begin(), request.feeds.end(),
                       [&](const Tensor& feed) { return feed.id() == tensor.id(); });
  };
  const auto visit_tensor = [&](const Tensor& tensor) {
    if (!is_fed(tensor)) visit(endpoint_of(tensor).node);
  };
  for (const Tensor& fetch : request.fetches) visit_tensor(fetch);
  for (Node* node : request.operations) visit(node);
  while (!pending.empty()) {
    Node* node = pending.back();
    pending.pop_back();
    for (const Tensor& input : node->inputs()) visit_tensor(input);
    // Nobody waits for a placeholder that is fed.
    for (Node* control : node->control_inputs)
      if (&control->op() != &placeholder_op || !is_fed(control->output())) visit(control);
  }
  return needed;
}

void require_read(const GraphState& graph, const std::vector<char>& needed) {
  std::map<std::string_view, std::vector<const Node*>> lacking;
  const Node* other = nullptr;
  for (std::size_t i = 0; i < needed.size(); ++i) {
    const Node& node = graph.node(i);
    const std::string* reason = needed[i] ? why_unread(node) : nullptr;
    if (reason && reason->empty()) lacking[node.type()].push_back(&node);
    if (reason && !reason->empty() && !other) other = &node;
  }
  std::string text;
  for (const auto& [op, nodes] : lacking) {
    text += join(text.empty() ? "Tapestry lacks the op '" : ", the op '", op, "' of node '", nodes[0]->name(), "'");
    if (nodes.size() > 1) text += join(" and of ", nodes.size() - 1, " more");
  }
  if (!text.empty()) throw UnimplementedError(text);
  if (other) throw UnimplementedError(*why_unread(*other));
}

PlanGraph specialize(const GraphState& graph, const Request& request) { return Specializer(graph, request).run(); }

}  // namespace tapestry::detail
