#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "graph/executable.hpp"
#include "graph/plan.hpp"
#include "graph/rendezvous.hpp"

namespace tapestry::detail {

/// A plan as it runs: one part for each device, side by side, each on a thread of its own.
class Partitioned {
 public:
  /// `replay`: what a device can record, it does.
  explicit Partitioned(Plan plan, bool replay);
  ~Partitioned();
  Partitioned(const Partitioned&) = delete;
  Partitioned& operator=(const Partitioned&) = delete;

  /// Computes the fetches. One run at a time; others wait. When a part fails, its error is thrown when all have ended.
  /// If asked to, measures the steps. Throws DeadlineExceededError when a part has steps left at the deadline, if there
  /// is one.
  Tensors run(const Tensors& feeds, RunTimes* times = nullptr, const Deadline* deadline = nullptr);

  /// What is run, as one graph.
  const Graph& graph() const { return graph_; }
  /// The steps of all parts, and the buffers of their tensors.
  ExecutionPlan description() const;
  /// Whether the Variables are still on the devices that the plan was made for.
  bool is_placed() const;

 private:
  struct Runner;
  class Worker;

  void run_partition(Runner& runner, const Tensors& feeds, const Deadline* deadline, Tensors& results);

  Graph graph_;
  Rendezvous rendezvous_;
  std::vector<std::unique_ptr<Runner>> runners_;
  std::size_t fetches_ = 0;
  std::timed_mutex running_;
  std::mutex failing_;
  std::exception_ptr error_;  ///< the first one of a run
};

}  // namespace tapestry::detail
