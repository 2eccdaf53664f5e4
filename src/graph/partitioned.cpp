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

struct Partitioned::Part {
  Part(Partition&& partition, bool replay, Rendezvous& rendezvous)
      : feeds(std::move(partition.feeds)),
        fetches(std::move(partition.fetches)),
        executable(partition.plan, replay, &rendezvous) {}

  std::vector<std::size_t> feeds, fetches;
  Executable executable;
  std::unique_ptr<Worker> worker{};  ///< absent for the part that the caller's thread runs
  std::optional<RunTimes> times{};   ///< of a run that is measured
};

namespace {

Tensors chosen(const Tensors& values, const std::vector<std::size_t>& which) {
  Tensors list;
  for (const std::size_t i : which) list.push_back(values[i]);
  return list;
}

}  // namespace

Partitioned::Partitioned(Plan plan, bool replay) : graph_(plan.graph) {
  for (Partition& each : plan.parts) {
    parts_.push_back(std::make_unique<Part>(std::move(each), replay, rendezvous_));
    fetches_ += parts_.back()->fetches.size();
    if (parts_.size() > 1) parts_.back()->worker = std::make_unique<Worker>();
  }
}

Partitioned::~Partitioned() = default;

Tensors Partitioned::run(const Tensors& feeds, RunTimes* times, const Deadline* deadline) {
  if (parts_.size() == 1) return parts_[0]->executable.run(feeds, times, deadline);
  const std::unique_lock lock = locked(running_, deadline);
  rendezvous_.reset();
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    Part& part = *parts_[i];
    part.times.reset();
    if (times) part.times.emplace(times->begin, static_cast<int>(i));
  }
  Tensors results(fetches_);
  for (const std::unique_ptr<Part>& part : parts_)
    if (part->worker) part->worker->start([&] { run_part(*part, feeds, deadline, results); });
  run_part(*parts_[0], feeds, deadline, results);
  for (const std::unique_ptr<Part>& part : parts_)
    if (part->worker) part->worker->wait();
  if (const std::exception_ptr error = std::exchange(error_, nullptr)) std::rethrow_exception(error);
  if (times)
    for (const std::unique_ptr<Part>& part : parts_)
      times->steps.insert(times->steps.end(), part->times->steps.begin(), part->times->steps.end());
  return results;
}

ExecutionPlan Partitioned::description() const {
  ExecutionPlan whole;
  for (const std::unique_ptr<Part>& part : parts_) {
    ExecutionPlan plan = part->executable.description();
    for (ExecutionPlan::Place& place : plan.places) {
      place.first_step += whole.steps.size();
      place.last_step += whole.steps.size();
    }
    const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    append(whole.steps, plan.steps);
    append(whole.places, plan.places);
    append(whole.arenas, plan.arenas);
  }
  return whole;
}

bool Partitioned::is_placed() const {
  return std::all_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->executable.is_placed(); });
}

void Partitioned::run_part(Part& part, const Tensors& feeds, const Deadline* deadline, Tensors& results) {
  try {
    const Tensors values =
        part.executable.run(chosen(feeds, part.feeds), part.times ? &*part.times : nullptr, deadline);
    for (std::size_t i = 0; i < values.size(); ++i) results[part.fetches[i]] = values[i];
  } catch (...) {
    {
      const std::lock_guard lock(failing_);
      if (!error_) error_ = std::current_exception();
    }
    rendezvous_.abort();
  }
}

}  // namespace tapestry::detail
