#pragma once

#include "graph/passes/passes.hpp"
#include "graph/specialize.hpp"
#include "tapestry/session.hpp"

namespace tapestry::detail {

/// What runs for a request.
struct Plan {
  Graph graph;                        ///< after the passes
  std::vector<Partition> partitions;  ///< of the graph, one for each device
  SessionOptions options;             ///< that the functions in the graph are planned with, too
};

/// Is called with the graph after each stage of planning. `Explanation::stages` lists the names of the stages.
using SeeStage = std::function<void(std::string_view stage, const PlanGraph& plan)>;

/// Makes the plan for a request: specialize, place, the passes that the options do not disable, partition. Nothing of
/// this is recorded or added to an open graph. Throws what these stages throw.
Plan make_plan(const GraphState& graph, const Request& request, const SessionOptions& options,
               const SeeStage& see = {});

}  // namespace tapestry::detail
