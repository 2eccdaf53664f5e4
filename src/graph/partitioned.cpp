#include "graph/partitioned.hpp"

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <optional>
#include <thread>

namespace tapestry::detail {

/// A thread that does one job after another and sleeps between them.
class Partitioned::Worker {
 public:
  Worker() : thread_([this] { work(); }) {}
  ~Worker() {
    set([this] { stopped_ = true; });
    thread_.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// The job must not throw, and must have ended before the next one starts.
  void start(std::function<void()> job) {
    set([&] { job_ = std::move(job); });
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !job_; });
  }

 private:
  template <class Change>
  void set(Change change) {
    {
      const std::lock_guard lock(mutex_);
      change();
    }
    changed_.notify_all();
  }

  void work() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return job_ || stopped_; });
      if (stopped_) return;
      lock.unlock();
      job_();
      set([this] { job_ = nullptr; });
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> job_;
  bool stopped_ = false;
  std::thread thread_;  ///< the last member: it uses the others
};

struct Partitioned::Runner {
  Runner(Partition&& partition, const SessionOptions& options, Rendezvous& rendezvous)
      : feeds(std::move(partition.feeds)),
        fetches(std::move(partition.fetches)),
        executable(partition.plan, options, &rendezvous) {}

  std::vector<std::size_t> feeds, fetches;
  Executable executable;
  std::unique_ptr<Worker> worker{};  ///< absent for the partition that the caller's thread runs
  std::optional<RunTimes> times{};   ///< set in a run that is measured
};

namespace {

Tensors chosen(const Tensors& values, const std::vector<std::size_t>& which) {
  Tensors list;
  for (const std::size_t i : which) list.push_back(values[i]);
  return list;
}

}  // namespace

Partitioned::Partitioned(Plan plan) : graph_(plan.graph) {
  for (Partition& each : plan.partitions) {
    runners_.push_back(std::make_unique<Runner>(std::move(each), plan.options, rendezvous_));
    fetches_ += runners_.back()->fetches.size();
    if (runners_.size() > 1) runners_.back()->worker = std::make_unique<Worker>();
  }
}

Partitioned::~Partitioned() = default;

Executable* Partitioned::only() const { return runners_.size() == 1 ? &runners_[0]->executable : nullptr; }

Tensors Partitioned::run(const Tensors& feeds, RunTimes* times, const Deadline* deadline) {
  if (runners_.size() == 1) return runners_[0]->executable.run(feeds, times, deadline);
  const std::unique_lock lock = locked(running_, deadline);
  rendezvous_.reset();
  for (std::size_t i = 0; i < runners_.size(); ++i) {
    Runner& runner = *runners_[i];
    runner.times.reset();
    if (times) runner.times.emplace(times->begin, static_cast<int>(i));
  }
  Tensors results(fetches_);
  for (const std::unique_ptr<Runner>& runner : runners_)
    if (runner->worker) runner->worker->start([&] { run_partition(*runner, feeds, deadline, results); });
  run_partition(*runners_[0], feeds, deadline, results);
  for (const std::unique_ptr<Runner>& runner : runners_)
    if (runner->worker) runner->worker->wait();
  if (const std::exception_ptr error = std::exchange(error_, nullptr)) std::rethrow_exception(error);
  if (times)
    for (const std::unique_ptr<Runner>& runner : runners_) {
      const auto add = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
      add(times->steps, runner->times->steps);
      add(times->functions, runner->times->functions);
    }
  return results;
}

void append(ExecutionPlan& whole, ExecutionPlan plan) {
  for (ExecutionPlan::Buffer& buffer : plan.buffers) {
    buffer.first_step += whole.steps.size();
    buffer.last_step += whole.steps.size();
  }
  const auto add = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  add(whole.steps, plan.steps);
  add(whole.buffers, plan.buffers);
  add(whole.arenas, plan.arenas);
}

ExecutionPlan Partitioned::description() const {
  ExecutionPlan whole;
  for (const std::unique_ptr<Runner>& runner : runners_) append(whole, runner->executable.description());
  return whole;
}

bool Partitioned::is_placed() const {
  return std::all_of(runners_.begin(), runners_.end(),
                     [](const auto& runner) { return runner->executable.is_placed(); });
}

void Partitioned::run_partition(Runner& runner, const Tensors& feeds, const Deadline* deadline, Tensors& results) {
  try {
    const Tensors values =
        runner.executable.run(chosen(feeds, runner.feeds), runner.times ? &*runner.times : nullptr, deadline);
    for (std::size_t i = 0; i < values.size(); ++i) results[runner.fetches[i]] = values[i];
  } catch (...) {
    {
      const std::lock_guard lock(failing_);
      if (!error_) error_ = std::current_exception();
    }
    rendezvous_.abort();
  }
}

}  // namespace tapestry::detail
