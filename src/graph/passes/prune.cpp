#include <algorithm>

#include "graph/passes/passes.hpp"
#include "graph/rewrite.hpp"

namespace tapestry::detail {

PlanGraph prune(const PlanGraph& plan) {
  const GraphState& graph = *plan.graph;
  std::vector<char> needed(graph.size());
  const auto need = [&](const Node* node) { needed[node->index] = 1; };
  for (const Tensor& feed : plan.feeds) need(endpoint_of(feed).node);
  for (const Tensor& fetch : plan.fetches) need(endpoint_of(fetch).node);
  for (const Node* operation : plan.operations) need(operation);
  // A node comes after all that it needs. A node with an effect was needed when the plan was made, and stays even if
  // nothing needs its value any more.
  for (std::size_t i = graph.size(); i-- > 0;) {
    const Node& node = graph.node(i);
    if (has_effect(node)) need(&node);
    if (!needed[i]) continue;
    for (const Tensor& input : node.inputs()) need(endpoint_of(input).node);
    for (const Node* control : node.control_inputs) need(control);
  }
  if (std::find(needed.begin(), needed.end(), 0) == needed.end()) return plan;
  Rewrite rewrite(plan);
  for (std::size_t i = 0; i < graph.size(); ++i)
    if (needed[i]) rewrite.copy(graph.node(i));
  return rewrite.plan_like(plan);
}

}  // namespace tapestry::detail
