#pragma once

#include "graph/passes/passes.hpp"
#include "graph/specialize.hpp"
#include "tapestry/session.hpp"

namespace tapestry::detail {

/// What runs for a request.
struct Plan {
  Graph graph;                   ///< after the passes
  std::vector<Partition> parts;  ///< of it, one for each device
};

/// Sees the graph after each stage of planning, whose names stand at `Explanation::stages`.
using SeeStage = std::function<void(std::string_view stage, const PlanGraph& plan)>;

/// The way from a graph to what runs: specialize, place, the passes that the options leave on, partition. Nothing on it
/// is recorded, and nothing of it becomes part of a graph that is open. Throws what those throw.
Plan make_plan(const GraphState& graph, const Request& request, const SessionOptions& options,
               const SeeStage& see = {});

}  // namespace tapestry::detail
