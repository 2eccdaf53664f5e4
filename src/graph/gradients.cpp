#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "autodiff/backward.hpp"
#include "autodiff/with_gradient_to.hpp"
#include "graph/flow/flow_ops.hpp"
#include "graph/graph_state.hpp"
#include "graph/state_ops.hpp"
#include "graph/training.hpp"
#include "ops/sparse.hpp"
#include "tapestry/detail/locate.hpp"
#include "tapestry/ops.hpp"

namespace tapestry {

using detail::endpoint_of;
using detail::GraphState;
using detail::is_unknown;
using detail::Node;

const Op& symbolic_gradient_op() {
  static const Op& op = *new Op{
      .name = "SymbolicGradient",
      .infer = [](const Call& call) -> Specs {
        throw InternalError(detail::join(call.name(), " was not replaced by gradients"));
      },
      .outputs = -1,
  };
  return op;
}

namespace {

/// The nodes that the targets are computed from, in the graph's order.
std::vector<Node*> ancestors(const GraphState& graph, const Tensors& targets) {
  std::vector<char> seen(graph.size());
  std::vector<Node*> pending;
  const auto visit = [&](const Tensor& tensor) {
    Node* node = endpoint_of(tensor).node;
    if (!std::exchange(seen[node->index], 1)) pending.push_back(node);
  };
  for (const Tensor& target : targets) visit(target);
  while (!pending.empty()) {
    Node* node = pending.back();
    pending.pop_back();
    for (const Tensor& input : node->inputs()) visit(input);
  }
  std::vector<Node*> found;
  for (std::size_t i = 0; i < seen.size(); ++i)
    if (seen[i]) found.push_back(&graph.node(i));
  return found;
}

/// Whether the op of a node, or the dtype of its results, is not known yet.
bool has_unknown_types(const Node& node) {
  return detail::awaited_values(node) ||
         std::any_of(node.outputs().begin(), node.outputs().end(),
                     [](const Tensor& output) { return output.dtype() == DType::unknown; });
}
bool has_unknown_ranks(const std::vector<Node*>& nodes) {
  return std::any_of(nodes.begin(), nodes.end(), [](const Node* node) {
    return std::any_of(node->outputs().begin(), node->outputs().end(), is_unknown);
  });
}

/// All values of each Variable in a graph: those that it reads, those that stand for them where gradients shall leave
/// the function that reads them, and those that a function is given.
std::unordered_map<const Variable::Cell*, Tensors> variable_values(const GraphState& graph) {
  std::unordered_map<const Variable::Cell*, Tensors> values;
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    const Node* read = detail::is_with_gradient_to(node) ? endpoint_of(node.input(0)).node : &node;
    if (read && &read->op() == &read_variable_op)
      values[read->attr<VariablesRef>("variables")->front().cell().get()].push_back(node.output());
  }
  if (!graph.captures) return values;
  for (const detail::Captures::Capture& each : graph.captures->list)
    if (each.variable && !each.reads_itself) values[each.variable->cell().get()].push_back(each.inside);
  return values;
}

class GraphGradients {
 public:
  GraphGradients(std::shared_ptr<GraphState> graph, const Tensors& targets, const GradientOptions& options)
      : graph_(std::move(graph)), targets_(targets), options_(options), nodes_(ancestors(*graph_, targets)) {}

  std::vector<Tensor> compute(const std::vector<Source>& sources) {
    std::vector<Tensors> tensors;  // of each source: itself, or all values of a Variable
    auto values = variable_values(*graph_);
    for (const Source& source : sources)
      tensors.push_back(source.cell() ? values[source.cell().get()] : Tensors{inside(source.tensor())});
    std::vector<Tensor> result = compute(tensors);
    for (std::size_t i = 0; i < sources.size(); ++i)
      if (!result[i] && options_.unconnected == Unconnected::zero)
        result[i] = zeros_like(sources[i].cell() ? Variable(sources[i].cell()).value() : sources[i].tensor());
    return result;
  }

 private:
  /// By source, of the sum of the gradients by each of its tensors.
  std::vector<Tensor> compute(const std::vector<Tensors>& sources) {
    mark_late();
    if (!late_.empty()) return in_two_parts(sources);
    return has_unknown_ranks(nodes_) ? walk_or_defer(sources) : walk(sources);
  }

  /// Finds the nodes of unknown types, and those that are computed from their results.
  void mark_late() {
    for (const Node* node : nodes_)
      if (has_unknown_types(*node) || std::any_of(node->inputs().begin(), node->inputs().end(),
                                                  [&](const Tensor& input) { return is_late(input); }))
        late_.insert(node);
  }
  bool is_late(const Tensor& tensor) const { return late_.contains(endpoint_of(tensor).node); }

  /// The tensors that late nodes read from others, and through which gradients reach the sources.
  Tensors border(const std::vector<Tensors>& sources) const {
    std::unordered_set<std::int64_t> reach;
    for (const Tensors& source : sources)
      for (const Tensor& each : source) reach.insert(each.id());
    Tensors found;
    std::unordered_set<std::int64_t> seen;
    for (const Node* node : nodes_) {
      bool reaches = false;
      for (const Tensor& input : node->inputs()) {
        if (!reach.contains(input.id())) continue;
        reaches = true;
        if (late_.contains(node) && !is_late(input) && seen.insert(input.id()).second) found.push_back(input);
      }
      if (!reaches) continue;
      for (const Tensor& output : node->outputs())
        if (output.dtype() == DType::unknown || is_floating(output.dtype())) reach.insert(output.id());
    }
    return found;
  }

  /// Defers the gradients through late nodes only: a plan may be cut before these, at tensors that are computed first,
  /// and no gradient would flow to what such a tensor is computed from.
  std::vector<Tensor> in_two_parts(const std::vector<Tensors>& sources) {
    const Tensors inputs = border(sources);
    const Tensors& seeds = options_.output_gradients.tensors();
    Tensors late_targets, targets;
    std::vector<Tensor> late_seeds, target_seeds;
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      const bool late = is_late(targets_[i]);
      (late ? late_targets : targets).push_back(targets_[i]);
      if (!seeds.empty() || !late)
        (late ? late_seeds : target_seeds).push_back(first_gradient(targets_, seeds, i, "grad_ys"));
    }
    std::vector<Tensors> late_sources;  // each input of the late nodes, then of each source those that are late
    for (const Tensor& input : inputs) late_sources.push_back({input});
    for (const Tensors& source : sources) {
      late_sources.emplace_back();
      for (const Tensor& each : source)
        if (is_late(each)) late_sources.back().push_back(each);
    }
    std::vector<Tensor> stops(inputs.begin(), inputs.end());
    stops.insert(stops.end(), options_.stop_gradients.tensors().begin(), options_.stop_gradients.tensors().end());
    const GradientOptions late_options{.output_gradients = late_seeds, .stop_gradients = stops};
    std::vector<Tensor> found = GraphGradients(graph_, late_targets, late_options).deferred(late_sources);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!found[i]) continue;
      targets.push_back(inputs[i]);
      target_seeds.push_back(found[i]);
    }
    found.erase(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(inputs.size()));
    if (targets.empty()) return found;
    const GradientOptions options{.output_gradients = target_seeds, .stop_gradients = options_.stop_gradients};
    const std::vector<Tensor> rest = GraphGradients(graph_, targets, options).compute(sources);
    for (std::size_t i = 0; i < found.size(); ++i)
      if (rest[i]) found[i] = found[i] ? add_gradients(rest[i], found[i]) : rest[i];
    return found;
  }

  /// What stands in a function for a tensor of its surroundings.
  Tensor inside(const Tensor& source) const {
    const detail::Captures::Capture* known = graph_->captures ? graph_->captures->find(source, nullptr) : nullptr;
    return known ? known->inside : source;
  }

  std::vector<Tensor> walk(const std::vector<Tensors>& sources) {
    SlotTable slots;
    std::vector<Slots> source_slots;
    for (const Tensors& source : sources) {
      source_slots.emplace_back();
      for (const Tensor& each : source) source_slots.back().push_back(slots.insert(each.id()));
    }
    CallList calls;
    for (const Node* node : nodes_) {
      const Op& op = node->overridden ? *node->overridden : node->op();
      if (!op.gradient.flows()) continue;
      Slots inputs, outputs;
      for (const Tensor& input : node->inputs()) inputs.push_back(slots.find(input.id()));
      for (const Tensor& output : node->outputs())
        outputs.push_back(is_floating(output.dtype()) ? slots.insert(output.id()) : SlotTable::none);
      Call call(op, node->inputs(), node->attrs(), node->where(), node->name());
      call.mutable_outputs() = node->outputs();
      calls.emplace_back(std::move(call), std::move(inputs)).outputs = std::move(outputs);
    }
    std::vector<std::int32_t> stops;
    for (const Tensor& stop : options_.stop_gradients.tensors()) stops.push_back(slots.find(stop.id()));
    Backward backward(calls, slots.size(), source_slots, stops);
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      const std::int32_t slot = slots.find(targets_[i].id());
      if (slot == SlotTable::none) continue;
      // Only gradients of branches have such targets, with gradients of their shapes. To compare these would need the
      // target where its branch is not taken.
      const Tensors& seeds = options_.output_gradients.tensors();
      const bool is_like = !seeds.empty() && bool(seeds[i]) && detail::may_be_absent(targets_[i]);
      backward.accumulate(slot, is_like ? seeds[i] : first_gradient(targets_, seeds, i, "grad_ys"));
    }
    backward.run(true);
    std::vector<Tensor> found;
    found.reserve(source_slots.size());
    for (const Slots& each : source_slots) found.push_back(backward.gradient(each));
    return found;
  }

  /// Computes the gradients for tensors of unknown rank, unless a gradient's rule asks for the rank.
  std::vector<Tensor> walk_or_defer(const std::vector<Tensors>& sources) {
    const std::size_t size = graph_->size();
    try {
      return walk(sources);
    } catch (const Error&) {
      graph_->shrink_to(size);
      return deferred(sources);
    }
  }

  /// Adds one node, which is replaced by the gradients once the feeds tell what is unknown now.
  std::vector<Tensor> deferred(const std::vector<Tensors>& sources) {
    Tensors used;
    for (const Tensors& source : sources)
      for (const Tensor& each : source)
        if (is_ancestor(each)) used.push_back(each);
    if (used.empty()) return std::vector<Tensor>(sources.size());
    Tensors inputs = targets_;
    inputs.append(used.begin(), used.end());
    const Tensors& seeds = options_.output_gradients.tensors();
    inputs.append(seeds.begin(), seeds.end());
    for (const Tensor& stop : options_.stop_gradients.tensors())
      if (is_ancestor(stop)) inputs.push_back(stop);
    const std::size_t targets = targets_.size(), count = used.size(), seed_count = seeds.size();
    const auto redo = [targets, count, seed_count](const Tensors& all) -> Tensors {
      const Tensor *first_source = all.begin() + targets, *seed = first_source + count, *stop = seed + seed_count;
      return gradients(std::vector<Tensor>(all.begin(), first_source), std::vector<Source>(first_source, seed),
                       {.output_gradients = std::vector<Tensor>(seed, stop),
                        .unconnected = Unconnected::zero,
                        .stop_gradients = std::vector<Tensor>(stop, all.end())});
    };
    Specs specs;
    for (const Tensor& source : used) specs.push_back(source.spec());
    Closure closure = std::make_shared<const std::function<Tensors(const Tensors&)>>(redo);
    const Node& node = graph_->add_in_scopes(
        Call(symbolic_gradient_op(), inputs, {{"redo", std::move(closure)}}, CallSiteScope::current(), {}), specs);
    std::vector<Tensor> found(sources.size());
    const Tensor* next = node.outputs().begin();
    for (std::size_t i = 0; i < sources.size(); ++i)
      for (const Tensor& each : sources[i])
        if (is_ancestor(each)) found[i] = found[i] ? add_gradients(*next++, found[i]) : *next++;
    return found;
  }

  bool is_ancestor(const Tensor& source) const {
    const Node* node = endpoint_of(source).node;
    return std::any_of(nodes_.begin(), nodes_.end(), [&](const Node* each) { return each == node; });
  }

  std::shared_ptr<GraphState> graph_;
  const Tensors& targets_;
  const GradientOptions& options_;
  std::vector<Node*> nodes_;
  std::unordered_set<const Node*> late_;
};

void check_arguments(const Tensors& targets, const GradientOptions& options) {
  if (targets.empty()) throw InvalidArgumentError("gradients: there is no target");
  for (const Tensor& target : targets)
    if (!target || !endpoint_of(target).node)
      throw FailedPreconditionError(
          "tf.gradients is not supported when eager execution is enabled. Use tf.GradientTape instead.");
  check_seeds(targets, options.output_gradients.tensors());
}

}  // namespace

std::vector<Tensor> gradients(const TensorList& targets, const std::vector<Source>& sources,
                              const GradientOptions& options) {
  const CallSiteScope site(targets.where());
  return detail::locating({}, targets.where(), [&] {
    check_arguments(targets.tensors(), options);
    const std::shared_ptr<GraphState> graph = detail::graph_of(targets.tensors()[0]);
    std::optional<Graph::Scope> open;
    if (open_sink() != graph.get()) open.emplace(Graph(graph));
    const std::lock_guard lock(graph->mutex());
    graph->require_open(targets.where());
    const SinkScope scope("gradients");
    Tensors inside;
    for (const Tensor& target : targets.tensors()) inside.push_back(graph->captured(target, targets.where()));
    std::vector<Tensor> found = GraphGradients(graph, inside, options).compute(sources);
    // All nodes are made before any of them runs, so there is nothing to tell earlier.
    for (std::size_t i = 0; options.when_final && i < found.size(); ++i) options.when_final(i, found[i]);
    return found;
  });
}

}  // namespace tapestry
