#include "graph/flow/function.hpp"

#include "dispatch/recorder.hpp"

namespace tapestry::detail {

std::vector<char> used_inputs(const GraphFunction& function) {
  const std::vector<char> needed = needed_nodes(*function.graph, request_for(function, {}));
  std::vector<char> used(function.inputs.size());
  const auto use = [&](const Tensor& tensor) {
    for (std::size_t i = 0; i < used.size(); ++i)
      if (bool(function.inputs[i]) && function.inputs[i].is(tensor)) used[i] = 1;
  };
  for (const Tensor& output : function.outputs)
    if (output) use(output);
  for (std::size_t i = 0; i < needed.size(); ++i)
    if (needed[i])
      for (const Tensor& input : function.graph->node(i).inputs()) use(input);
  return used;
}

FunctionNodes nodes_of(const GraphFunction& function) {
  const std::lock_guard lock(function.graph->mutex());
  const std::vector<char> needed = needed_nodes(*function.graph, request_for(function, {}));
  FunctionNodes nodes;
  std::vector<char> is_given(needed.size());
  for (const Tensor& input : function.inputs)
    if (input) is_given[producer_of(input).index] = 1;
  for (std::size_t i = 0; i < needed.size(); ++i) {
    if (needed[i])
      nodes.running.push_back(&function.graph->node(i));
    else if (is_given[i])
      nodes.given.push_back(&function.graph->node(i));
  }
  return nodes;
}

Request request_for(const GraphFunction& function, const Specs& inputs) {
  Request request{.fetches = {}, .operations = function.operations, .feeds = {}, .fed = {}};
  for (const Tensor& output : function.outputs)
    if (output) request.fetches.push_back(output);
  for (std::size_t i = 0; i < function.inputs.size(); ++i) {
    if (!function.inputs[i]) continue;
    request.feeds.push_back(function.inputs[i]);
    if (!inputs.empty()) request.fed.push_back(inputs[i]);
  }
  return request;
}

Specs traced_outputs(const GraphFunction& function) {
  Specs specs(function.outputs.size(), Spec{DType::unknown, {}});
  for (std::size_t i = 0; i < specs.size(); ++i)
    if (function.outputs[i]) specs[i] = function.outputs[i].spec();
  return specs;
}

Specs infer_function(const GraphFunction& function, const Specs& inputs) {
  Specs specs = traced_outputs(function);
  bool as_traced = true;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    as_traced = as_traced && (!function.inputs[i] || function.inputs[i].spec() == inputs[i]);
  if (as_traced) return specs;
  const PauseRecording pause;
  const ExecuteNow now;
  const std::lock_guard lock(function.graph->mutex());
  const PlanGraph plan = specialize(*function.graph, request_for(function, inputs));
  for (std::size_t i = 0, next = 0; i < specs.size(); ++i)
    if (function.outputs[i]) specs[i] = plan.fetches[next++].spec();
  return specs;
}

GraphFunction function_like(const GraphFunction& function, const Specs& inputs) {
  const PauseRecording pause;
  const ExecuteNow now;
  const std::lock_guard lock(function.graph->mutex());
  const PlanGraph plan = specialize(*function.graph, request_for(function, inputs));
  GraphFunction result = function;
  result.graph = plan.graph;
  result.operations = plan.operations;
  std::size_t next = 0;
  for (Tensor& each : result.inputs)
    if (each) each = plan.feeds[next++];
  next = 0;
  for (Tensor& each : result.outputs)
    if (each) each = plan.fetches[next++];
  return result;
}

bool is_misfit(const Error& error) {
  const Code code = error.code();
  return code == Code::invalid_argument || code == Code::out_of_range || code == Code::failed_precondition ||
         code == Code::unimplemented;
}

Specs infer_if_run(const GraphFunction& function, const Specs& inputs) {
  try {
    return infer_function(function, inputs);
  } catch (const Error& error) {
    if (!is_misfit(error)) throw;
    return traced_outputs(function);
  }
}

}  // namespace tapestry::detail
