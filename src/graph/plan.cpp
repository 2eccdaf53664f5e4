#include "graph/plan.hpp"

namespace tapestry::detail {
namespace {

/// The request with the dtypes and shapes that the graph declares for the feeds, instead of those that are fed.
Request as_declared(Request request) {
  for (std::size_t i = 0; i < request.feeds.size(); ++i) request.fed[i] = request.feeds[i].spec();
  return request;
}

}  // namespace

Plan make_plan(const GraphState& graph, const Request& request, const SessionOptions& options, const SeeStage& see) {
  const PauseRecording pause;
  const ExecuteNow now;
  if (see) see("requested", specialize(graph, as_declared(request)));
  PlanGraph plan = specialize(graph, request);
  if (see) see("specialized", plan);
  const bool soft = options.allow_soft_placement || graph.file != nullptr;
  plan = place(plan, {.soft = soft, .log = options.log_device_placement});
  if (see) see("place", plan);
  if (options.optimize) plan = optimize(std::move(plan), options.disabled_passes, see);
  std::vector<Partition> partitions = partition(plan);
  for (std::size_t i = 0; see && partitions.size() > 1 && i < partitions.size(); ++i)
    see(join("partition-", i), partitions[i].plan);
  return {Graph(plan.graph), std::move(partitions), options};
}

}  // namespace tapestry::detail
