#pragma once

#include "graph/plan.hpp"
#include "tapestry/session.hpp"

namespace tapestry::detail {

/// The graph that is to run for a request: specialised, and optimised as the options say.
PlanGraph plan_graph(const GraphState& graph, const Request& request, const SessionOptions& options);

/// The way to it, stage by stage, and the plan.
Explanation explain(const GraphState& graph, const Request& request, const SessionOptions& options);

}  // namespace tapestry::detail
