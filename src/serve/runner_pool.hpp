#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "serve/named_tensors.hpp"
#include "tapestry/model.hpp"

namespace tapestry::serve {

/// Runs the signatures of a model for one request after the other.
class Runner {
 public:
  // Each size of a batch has a plan.
  explicit Runner(const Graph& graph) : session_(graph, {.allow_soft_placement = true, .most_plans = 256}) {}

  /// The outputs in the order of their names, for the inputs in the order of theirs. Throws DeadlineExceededError and
  /// CancelledError.
  Tensors run(const std::string& name, const Signature& signature, std::span<const Value> inputs,
              const Deadline& deadline) {
    auto found = callables_.find(name);
    if (found == callables_.end()) {
      std::vector<Tensor> feeds;
      std::vector<Fetch> fetches;
      for (const auto& [key, tensor] : signature.inputs) feeds.push_back(tensor);
      for (const auto& [key, tensor] : signature.outputs) fetches.emplace_back(tensor);
      found = callables_.emplace(name, session_.make_callable(fetches, feeds, Where())).first;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    return found->second.call(
        inputs, {.timeout_in_ms = std::max<std::int64_t>(left.count(), 1), .stop = deadline.gone()}, Where());
  }

 private:
  Session session_;
  std::map<std::string, Session::Callable> callables_;
};

/// Runners for requests that run at the same time. There are more than processors, so that a thread that the system
/// has stopped keeps few others waiting.
class RunnerPool {
 public:
  /// `most`: how many there are at most; 0: twice the processors.
  explicit RunnerPool(Graph graph, std::size_t most = 0)
      : graph_(std::move(graph)),
        most_(most > 0 ? most : 2 * std::max<std::size_t>(std::thread::hardware_concurrency(), 1)) {}

  /// A runner that nobody else uses meanwhile.
  class Lease {
   public:
    Lease(RunnerPool& pool, std::unique_ptr<Runner> runner) : pool_(pool), runner_(std::move(runner)) {}
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() { pool_.give_back(std::move(runner_)); }
    Runner* operator->() const { return runner_.get(); }

   private:
    RunnerPool& pool_;
    std::unique_ptr<Runner> runner_;
  };

  /// Throws DeadlineExceededError when there is none in time, and CancelledError.
  Lease take(const Deadline& deadline) {
    std::unique_lock lock(mutex_);
    if (free_.empty() && made_ < most_) {
      free_.push_back(std::make_unique<Runner>(graph_));
      ++made_;
    }
    while (!changed_.wait_until(lock, deadline.gone(), deadline, [this] { return !free_.empty(); }))
      require_time(deadline);
    std::unique_ptr<Runner> runner = std::move(free_.back());
    free_.pop_back();
    return {*this, std::move(runner)};
  }

 private:
  void give_back(std::unique_ptr<Runner> runner) {
    {
      const std::lock_guard lock(mutex_);
      free_.push_back(std::move(runner));
    }
    changed_.notify_one();
  }

  Graph graph_;
  const std::size_t most_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<std::unique_ptr<Runner>> free_;  ///< the one used last comes first, whose memory is in the caches
  std::size_t made_ = 0;
};

}  // namespace tapestry::serve
