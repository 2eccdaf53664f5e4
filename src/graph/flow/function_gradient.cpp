#include "graph/flow/function_gradient.hpp"

#include <algorithm>

#include "dispatch/recorder.hpp"
#include "graph/flow/flow_ops.hpp"
#include "graph/passes/passes.hpp"
#include "graph/state_ops.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::detail {

std::size_t find_in(const Tensors& list, const Tensor& wanted) {
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const Tensor& each) { return bool(each) && each.is(wanted); });
  return found == list.end() ? npos : static_cast<std::size_t>(found - list.begin());
}

Tensor no_sum(const Tensor& like) { return negative(zeros_like(like)); }

Node& forward_node(const Call& call) { return producer_of(call.outputs().back()); }

void tell_of_outputs(const Node& node) {
  const Recorders listeners = recorders();
  for (Recorder* each : listeners) each->extend(node);
}

namespace {

thread_local int open_gradients = 0;

}  // namespace

FunctionGradient::FunctionGradient(const GraphFunction& function)
    : function_(function),
      open_(Graph(function.graph)),
      lock_(function.graph->mutex()),
      forward_(function.graph->size()) {
  // The gradient runs in another op, so it does not wait for what the forward pass draws, or for its collectives.
  function.graph->forget_draws();
  ++open_gradients;
}

FunctionGradient::~FunctionGradient() { --open_gradients; }

bool FunctionGradient::is_open() { return open_gradients > 0; }

Tensor FunctionGradient::gradient_like(const Tensor& tensor) {
  Tensor gradient = placeholder(tensor.dtype(), tensor.shape(), "gradient");
  Node& node = producer_of(gradient);
  if (may_be_absent(tensor))
    node.graph->extend(node, {{"dtype", tensor.dtype()}, {"shape", tensor.shape()}, {"may_be_absent", true}}, {});
  return gradient;
}

std::vector<char> FunctionGradient::reached(const Tensors& outputs) const {
  std::vector<char> seen(forward_), inputs(function_.inputs.size());
  std::vector<Tensor> pending(outputs.begin(), outputs.end());
  while (!pending.empty()) {
    const Tensor tensor = pending.back();
    pending.pop_back();
    if (!is_floating(tensor.dtype())) continue;
    if (const std::size_t input = find_in(function_.inputs, tensor); input != npos) {
      inputs[input] = 1;
      continue;
    }
    const Node& node = producer_of(tensor);
    if (!node.op().gradient.flows() || std::exchange(seen[node.index], 1)) continue;
    pending.insert(pending.end(), node.inputs().begin(), node.inputs().end());
  }
  return inputs;
}

std::vector<Tensor> FunctionGradient::of(const Tensors& outputs, const Tensors& gradients,
                                         const std::vector<std::size_t>& wanted) {
  std::vector<Source> sources;
  sources.reserve(wanted.size());
  std::vector<Tensor> stops;
  for (const std::size_t i : wanted) sources.emplace_back(function_.inputs[i]);
  for (const Tensor& each : function_.inputs)
    if (each) stops.push_back(each);
  std::vector<Tensor> found =
      tapestry::gradients(std::vector<Tensor>(outputs), sources,
                          {.output_gradients = std::vector<Tensor>(gradients), .stop_gradients = stops});
  for (const Tensor& each : found)
    if (bool(each) && producer_of(each).attrs().find("redo"))
      throw UnimplementedError(join("The gradient of the function '", function_.name,
                                    "' of a graph needs ranks that are not known when the graph is made; give the "
                                    "placeholders shapes"));
  return found;
}

FunctionGradient::Needs FunctionGradient::needs_of(const Tensors& results,
                                                   const std::function<bool(const Node&)>& recompute) const {
  Needs needs{.inputs = std::vector<char>(function_.inputs.size())};
  std::vector<char> seen(function_.graph->size());
  std::vector<Tensor> pending(results.begin(), results.end());
  while (!pending.empty()) {
    const Tensor tensor = pending.back();
    pending.pop_back();
    const Node& node = producer_of(tensor);
    if (const std::size_t input = find_in(function_.inputs, tensor); input != npos) {
      needs.inputs[input] = 1;
      continue;
    }
    const bool is_free = &node.op() == &const_op || &node.op() == &placeholder_op || &node.op() == &var_handle_op;
    // A forward node must not make what it waits for run a second time, which may change Variables.
    const bool waits = !node.control_inputs.empty();
    if (node.index < forward_ && (waits || (!is_free && !recompute(node)))) {
      if (find_in(needs.residuals, tensor) == npos) needs.residuals.push_back(tensor);
      continue;
    }
    if (std::exchange(seen[node.index], 1)) continue;
    needs.is_stateful |= has_effect(node);
    pending.insert(pending.end(), node.inputs().begin(), node.inputs().end());
  }
  return needs;
}

}  // namespace tapestry::detail
