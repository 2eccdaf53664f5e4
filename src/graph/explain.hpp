#pragma once

#include "graph/specialize.hpp"
#include "tapestry/session.hpp"

namespace tapestry::detail {

/// The graph after each stage of planning for a request, and the plan.
Explanation explain(const GraphState& graph, const Request& request, const SessionOptions& options);

}  // namespace tapestry::detail
