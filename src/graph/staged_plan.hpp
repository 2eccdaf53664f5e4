#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "graph/partitioned.hpp"

namespace tapestry::detail {

class StagedPlan;

/// The plans of a request for the sizes with which it has been run.
class SizedPlans {
 public:
  /// The plan for sizes, which `key` tells. It is kept, up to `options.most_plans` of them. `may_come_once`: whether
  /// each run may have other sizes. Then a small request is planned without passes, and with them when its sizes come
  /// again: they take longer than they save in one run. The graph's mutex must be locked.
  std::shared_ptr<StagedPlan> plan_for(const std::vector<std::int64_t>& key, const GraphState& graph,
                                       const SessionOptions& options, bool may_come_once,
                                       const std::function<Request()>& request);
  bool empty() const { return plans_.empty(); }

 private:
  std::map<std::vector<std::int64_t>, std::shared_ptr<StagedPlan>> plans_{};
};

/// What runs for a request. Where the size of a tensor depends on values, and an op other than a branch or a loop reads
/// the tensor, the request is cut: a first plan computes the tensor, and the plan for the rest is made once the size is
/// known. It is kept for later runs in which the sizes are the same. The same happens where a node of a file awaits a
/// value (see `awaited_values`); then the rest is kept for runs in which the value is the same.
class StagedPlan {
 public:
  /// Makes the plan, or the first of several. `is_quick`: for one run, without the passes. The graph's mutex must be
  /// locked.
  StagedPlan(const GraphState& graph, const Request& request, const SessionOptions& options, bool is_quick = false);

  /// Computes the fetches; see Partitioned::run.
  Tensors run(const Tensors& feeds, RunTimes* times = nullptr, const Deadline* deadline = nullptr);

  /// The plan's only partition; nullptr if there are several, or if the plan is cut.
  Executable* only() const { return specialized_ ? nullptr : first_->only(); }

  /// The graph of the first plan.
  const Graph& graph() const { return first_->graph(); }
  /// The steps of the first plan, and of those that followed it in the last run.
  ExecutionPlan description() const;
  /// Whether the Variables are still on the devices that the first plan was made for.
  bool is_placed() const { return first_->is_placed(); }
  bool is_quick() const { return is_quick_; }

 private:
  std::shared_ptr<StagedPlan> rest_for(const Tensors& values);

  SessionOptions options_;
  bool is_quick_;
  std::shared_ptr<GraphState> specialized_;  ///< the graph that is cut, with the shapes that are fed; empty for no cut
  std::unique_ptr<Partitioned> first_;
  Request rest_{};                      ///< after the cut: without the specs of what is fed
  std::vector<std::size_t> open_{};     ///< the tensors at which the request was cut, among the feeds of the rest
  std::vector<std::size_t> awaited_{};  ///< those of them whose values are awaited
  std::vector<std::ptrdiff_t>
      fetched_early_;  ///< by fetch of the request: its number among the feeds of the rest, or -1
  mutable std::mutex mutex_;
  std::shared_ptr<StagedPlan> last_;  ///< the rest of the last run
  SizedPlans rests_{};                ///< by the specs and awaited values
};

/// A request for which one plan can be made, and its graph.
struct PlannedPart {
  std::shared_ptr<const GraphState> graph;  ///< empty for the graph of the whole request
  Request request;
};
/// The request itself, or if it must be cut, the part before the cut.
PlannedPart first_part(const GraphState& graph, const Request& request);

/// Adds to `part.fetches` the tensors that the part of a request computes and the rest needs, and to `part.done` the
/// nodes that it runs. Throws InvalidArgumentError for a placeholder that the part needs and that is not fed.
void add_carried_fetches(const GraphState& graph, Request& part, const Request& promised);

}  // namespace tapestry::detail
