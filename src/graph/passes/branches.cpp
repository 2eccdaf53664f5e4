#include <algorithm>
#include <mutex>
#include <optional>

#include "core/make_tensor.hpp"
#include "dispatch/recorder.hpp"
#include "graph/flow/flow_ops.hpp"
#include "graph/passes/passes.hpp"
#include "graph/rewrite.hpp"
#include "ops/handles.hpp"

namespace tapestry::detail {
namespace {

constexpr std::int64_t most_branch_elements = 16;
constexpr std::size_t most_branch_nodes = 32;

bool is_few_elements(const Tensor& tensor) {
  return tensor.shape().is_known() && tensor.shape().num_elements() <= most_branch_elements;
}

/// The branches of a node as they run for its inputs, if each consists of a few functions of few elements, which cannot
/// fail. Nothing then tells whether they ran.
std::optional<std::vector<PlanGraph>> small_branches(const Node& node);

bool is_simple(const PlanGraph& branch) {
  const GraphState& graph = *branch.graph;
  if (graph.size() > most_branch_nodes) return false;
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    const auto& outputs = node.outputs();
    const bool is_feed = std::any_of(branch.feeds.begin(), branch.feeds.end(),
                                     [&](const Tensor& feed) { return endpoint_of(feed).node == &node; });
    if (is_feed) continue;
    if (!node.device.empty() || !node.colocation.empty() ||
        !std::all_of(outputs.begin(), outputs.end(), is_few_elements))
      return false;
    const bool is_constant = outputs.size() == 1 && bool(constant_value(outputs[0]));
    if (is_flow(node.op()) ? !small_branches(node) : !is_constant && !may_be_fused(node)) return false;
  }
  return true;
}

std::optional<PlanGraph> small_branch(const Node& node, const GraphFunction& function) {
  Specs specs;
  for (std::size_t i = 1; i < node.inputs().size(); ++i) specs.push_back(node.input(i).spec());
  for (const Tensor& output : function.outputs)
    if (!output) return {};
  try {
    const PauseRecording pause;
    const ExecuteNow now;
    const std::lock_guard lock(function.graph->mutex());
    PlanGraph branch = fold(specialize(*function.graph, request_for(function, specs)));
    for (std::size_t i = 0; i < branch.fetches.size(); ++i)
      if (branch.fetches[i].spec() != node.output(i).spec()) return {};
    if (!is_simple(branch)) return {};
    return branch;
  } catch (const Error& error) {
    if (!is_misfit(error)) throw;
    return {};
  }
}

std::optional<std::vector<PlanGraph>> small_branches(const Node& node) {
  const Op& op = node.op();
  if (!is_flow(op) || is_while(op) || op.stateful) return {};
  const Tensor& selector = node.input(0);
  const bool is_selector = is_if(op) ? selector.dtype() == boolean : is_integer(selector.dtype());
  if (!is_selector || selector.shape() != Shape{}) return {};
  if (!std::all_of(node.outputs().begin(), node.outputs().end(), is_few_elements) ||
      std::any_of(node.inputs().begin(), node.inputs().end(), may_be_absent))
    return {};
  std::vector<PlanGraph> branches;
  for (const GraphFunction& function : functions_of(node)) {
    if (!function.operations.empty()) return {};
    std::optional<PlanGraph> branch = small_branch(node, function);
    if (!branch) return {};
    branches.push_back(std::move(*branch));
  }
  return branches;
}

class Inliner {
 public:
  explicit Inliner(const PlanGraph& plan) : plan_(plan), rewrite_(plan) {}

  PlanGraph run() {
    for (std::size_t i = 0; i < plan_.graph->size(); ++i) {
      const Node& node = plan_.graph->node(i);
      const Tensors inputs = rewrite_.inputs_of(node);
      std::optional<std::vector<PlanGraph>> branches;
      if (plan_.device_of(node).is_cpu()) branches = small_branches(node);
      rewrite_.build(node, [&]() -> Tensors {
        if (!branches) return rewrite_.copy_of(node, inputs).outputs();
        around_ = &node;
        return chosen(node, *branches, inputs, node.name());
      });
    }
    return rewrite_.plan_like(plan_);
  }

 private:
  /// The outputs of all branches, of which each element is chosen.
  Tensors chosen(const Node& node, const std::vector<PlanGraph>& branches, const Tensors& inputs,
                 const std::string& name) {
    const std::vector<GraphFunction>& functions = functions_of(node);
    std::vector<Tensors> results;
    for (std::size_t i = 0; i < branches.size(); ++i)
      results.push_back(inlined(functions[i], branches[i], inputs, name + "/" + functions[i].name));
    Tensors outputs = results.back();
    for (std::size_t i = branches.size() - 1; i-- > 0;) {
      const Tensor condition = is_if(node.op()) ? inputs[0] : is_number(inputs[0], i, name);
      for (std::size_t k = 0; k < outputs.size(); ++k)
        if (!outputs[k].is(results[i][k]))
          outputs[k] = add(ops::where, {condition, results[i][k], outputs[k]}, {}, outputs[k].spec(), name);
    }
    return outputs;
  }

  Tensor is_number(const Tensor& selector, std::size_t number, const std::string& name) {
    const Tensor value = make_tensor(selector.dtype(), {}, cpu());
    backend_of(cpu()).fill(static_cast<double>(number), value);
    return add(ops::equal, {selector, rewrite_.constant(value, *around_, name)}, {}, {boolean, {}}, name);
  }

  Tensors inlined(const GraphFunction& function, const PlanGraph& branch, const Tensors& inputs,
                  const std::string& name) {
    std::vector<Tensors> made(branch.graph->size());
    const auto of = [&](const Tensor& old) {
      const auto [node, output] = endpoint_of(old);
      return made[node->index][static_cast<std::size_t>(output)];
    };
    for (std::size_t i = 0, next = 0; i < function.inputs.size(); ++i)
      if (function.inputs[i]) made[endpoint_of(branch.feeds[next++]).node->index] = {inputs[i + 1]};
    for (std::size_t i = 0; i < branch.graph->size(); ++i) {
      if (!made[i].empty()) continue;
      const Node& node = branch.graph->node(i);
      const std::string own_name = name + "/" + node.name();
      Tensors operands;
      for (const Tensor& input : node.inputs()) operands.push_back(of(input));
      if (is_flow(node.op()))
        made[i] = chosen(node, *small_branches(node), operands, own_name);
      else if (const Tensor value = constant_value(node.output(0)))
        made[i] = {rewrite_.constant(value, *around_, own_name)};
      else
        made[i] = {add(node.op(), operands, node.attrs(), node.output().spec(), own_name)};
    }
    Tensors outputs;
    for (const Tensor& fetch : branch.fetches) outputs.push_back(of(fetch));
    return outputs;
  }

  Tensor add(const Op& op, const Tensors& inputs, const Attrs& attrs, const Spec& spec, const std::string& name) {
    return rewrite_.add(Call(op, inputs, attrs, around_->where(), name), {spec}, rewrite_.options_like(*around_))
        .output();
  }

  const PlanGraph& plan_;
  Rewrite rewrite_;
  const Node* around_ = nullptr;  ///< the node of the plan that is being replaced
};

}  // namespace

PlanGraph branches(const PlanGraph& plan) {
  if (!plan.complete) return plan;
  const GraphState& graph = *plan.graph;
  for (std::size_t i = 0; i < graph.size(); ++i)
    if (plan.device_of(graph.node(i)).is_cpu() && small_branches(graph.node(i))) return Inliner(plan).run();
  return plan;
}

}  // namespace tapestry::detail
