#pragma once

#include "graph/specialize.hpp"
#include "tapestry/session.hpp"

namespace tapestry::detail {

/// The way to what runs for a request, stage by stage, and the plan.
Explanation explain(const GraphState& graph, const Request& request, const SessionOptions& options);

}  // namespace tapestry::detail
