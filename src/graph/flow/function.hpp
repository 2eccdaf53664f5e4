#pragma once

#include <string>
#include <vector>

#include "graph/graph_state.hpp"
#include "graph/specialize.hpp"

namespace tapestry::detail {

/// A function of a graph, such as a branch or the body of a loop. It is a graph of its own, from whose tensors `inputs`
/// the tensors `outputs` are computed. The gradient of a function is another function on the same graph, so its inputs
/// may be any tensors of the graph: what is behind them does not run.
struct GraphFunction {
  std::string name;
  std::shared_ptr<GraphState> graph;
  Tensors inputs;                   ///< an empty handle for an input that the function ignores
  Tensors outputs;                  ///< an empty handle for an output that this function, unlike others, does not give
  std::vector<Node*> operations{};  ///< to be run for their effect
};

/// The specs of a function's outputs as it was traced; of one that it does not give, the dtype is `unknown`.
Specs traced_outputs(const GraphFunction& function);
/// The specs of a function's outputs for inputs of these specs; sizes may be unknown. An output that the function does
/// not give has the dtype `unknown`. Throws what the ops' inference throws.
TAPESTRY_API Specs infer_function(const GraphFunction& function, const Specs& inputs);
/// The function for inputs of these specs, in a graph of its own, where gradients find what was not known when the
/// function was traced. Throws the same.
GraphFunction function_like(const GraphFunction& function, const Specs& inputs);
/// `infer_function` for a function that may not run: one that cannot run with these inputs is refused when it does, and
/// until then its outputs have the specs with which it was traced.
Specs infer_if_run(const GraphFunction& function, const Specs& inputs);
/// Whether an error tells that a function cannot run with its inputs.
bool is_misfit(const Error& error);

/// What runs for a function whose inputs have these specs. The feeds are the inputs that the function needs, and the
/// fetches its outputs, without the empty ones.
TAPESTRY_API Request request_for(const GraphFunction& function, const Specs& inputs);

/// Whether the outputs depend on each input.
std::vector<char> used_inputs(const GraphFunction& function);

/// The nodes of a function in an order in which they could run.
struct FunctionNodes {
  std::vector<const Node*> running;  ///< for the outputs and the operations
  std::vector<const Node*> given;    ///< stand for inputs only, and do not run
};
FunctionNodes nodes_of(const GraphFunction& function);

}  // namespace tapestry::detail
