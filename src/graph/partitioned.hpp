#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "graph/executable.hpp"
#include "graph/plan.hpp"
#include "graph/rendezvous.hpp"

namespace tapestry::detail {

/// Runs the partitions of a plan side by side: the first on the caller's thread, each other on a thread of its own.
class Partitioned {
 public:
  explicit Partitioned(Plan plan);
  ~Partitioned();
  Partitioned(const Partitioned&) = delete;
  Partitioned& operator=(const Partitioned&) = delete;

  /// Computes the fetches. Concurrent calls run one after the other. When a partition fails, its error is thrown after
  /// all have ended. Measures the steps if `times` is given. Throws DeadlineExceededError when a partition has steps
  /// left at the deadline, if there is one.
  Tensors run(const Tensors& feeds, RunTimes* times = nullptr, const Deadline* deadline = nullptr);

  /// The only partition; nullptr if there are several.
  Executable* only() const;

  /// The graph that runs, before it was partitioned.
  const Graph& graph() const { return graph_; }
  /// The steps of all partitions, and the memory of their tensors.
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
  std::exception_ptr error_;  ///< the first error of a run
};

/// Adds the steps and the memory of a plan to those of a plan that runs before it, or beside it.
void append(ExecutionPlan& whole, ExecutionPlan plan);

}  // namespace tapestry::detail
