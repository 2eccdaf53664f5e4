#include "graph/partitioned.hpp"

#include <condition_variable>
#include <functional>
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
  Part(Partition&& partition, const Tensors& values, Rendezvous& rendezvous)
      : feeds(std::move(partition.feeds)),
        fetches(std::move(partition.fetches)),
        executable(std::move(partition.plan), values, &rendezvous) {}

  std::vector<std::size_t> feeds, fetches;
  Executable executable;
  std::unique_ptr<Worker> worker{};  ///< absent for the part that the caller's thread runs
};

namespace {

Tensors chosen(const Tensors& values, const std::vector<std::size_t>& which) {
  Tensors list;
  for (const std::size_t i : which) list.push_back(values[i]);
  return list;
}

}  // namespace

Partitioned::Partitioned(std::vector<Partition> partitions, const Tensors& feeds) {
  for (Partition& each : partitions) {
    const Tensors values = chosen(feeds, each.feeds);
    parts_.push_back(std::make_unique<Part>(std::move(each), values, rendezvous_));
    fetches_ += parts_.back()->fetches.size();
    if (parts_.size() > 1) parts_.back()->worker = std::make_unique<Worker>();
  }
}

Partitioned::~Partitioned() = default;

Tensors Partitioned::run(const Tensors& feeds) {
  if (parts_.size() == 1) return parts_[0]->executable.run(feeds);
  const std::lock_guard lock(running_);
  rendezvous_.reset();
  Tensors results(fetches_);
  for (const std::unique_ptr<Part>& part : parts_)
    if (part->worker) part->worker->start([&] { run_part(*part, feeds, results); });
  run_part(*parts_[0], feeds, results);
  for (const std::unique_ptr<Part>& part : parts_)
    if (part->worker) part->worker->wait();
  if (const std::exception_ptr error = std::exchange(error_, nullptr)) std::rethrow_exception(error);
  return results;
}

void Partitioned::run_part(Part& part, const Tensors& feeds, Tensors& results) {
  try {
    const Tensors values = part.executable.run(chosen(feeds, part.feeds));
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
