#include "backend/cpu/threads.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sched.h>

#include "tapestry/device.hpp"
#include "tapestry/error.hpp"

namespace tapestry {
namespace host {
namespace {

/// The number of polls before a thread goes to sleep: some 10 µs, about what a futex needs to put it to sleep and wake
/// it up again. Longer spinning takes processors from other programs, and from the thread that is waited for.
constexpr int spins = 256;

void relax() {
#ifdef __x86_64__
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

/// Waits until `value` is no longer `old`, and returns the new value.
int wait_while(const std::atomic<int>& value, int old) {
  for (int i = 0; i < spins; ++i) {
    if (const int now = value.load(std::memory_order_acquire); now != old) return now;
    relax();
  }
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

int processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(CPU_COUNT(&set), 1);
  return std::max(static_cast<int>(std::thread::hardware_concurrency()), 1);
}

std::atomic<int>& wanted_threads() {
  static std::atomic<int> count{processors()};
  return count;
}

constinit thread_local bool inside_task __attribute__((tls_model("initial-exec"))) = false;

/// One parallel loop: tasks [0, count), divided into as many equal shares as there are threads. A thread runs its own
/// share first, so that a chain of ops finds its data in the same core's cache, and then helps with the others.
class Job {
 public:
  Job(std::int64_t count, int shares, FunctionRef<void(std::int64_t)> task,
      std::vector<std::atomic<std::int64_t>>& next)
      : count_(count), shares_(shares), task_(task), next_(next) {
    for (int i = 0; i < shares; ++i) next_at(i).store(begin(i), std::memory_order_relaxed);
  }

  int shares() const { return shares_; }

  void work(int own) noexcept {
    for (int i = 0; i < shares_; ++i) {
      const int share = (own + i) % shares_;
      const std::int64_t end = begin(share + 1);
      for (std::int64_t at; (at = next_at(share).fetch_add(1, std::memory_order_relaxed)) < end;) run(at);
    }
  }

  /// Throws the exception of the first task that has thrown one, as a plain loop would. Call it when all threads have
  /// left.
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  static constexpr std::size_t line = 64 / sizeof(std::int64_t);

  std::int64_t begin(int share) const {
    return count_ / shares_ * share + std::min<std::int64_t>(count_ % shares_, share);
  }
  std::atomic<std::int64_t>& next_at(int share) { return next_[share * line]; }

  void run(std::int64_t i) noexcept {
    try {
      task_(i);
    } catch (...) {
      const std::lock_guard lock(error_mutex_);
      if (!error_ || i < error_task_) {
        error_ = std::current_exception();
        error_task_ = i;
      }
    }
  }

  std::int64_t count_;
  int shares_;
  FunctionRef<void(std::int64_t)> task_;
  std::vector<std::atomic<std::int64_t>>& next_;  ///< the next task of each share, one per cache line
  std::mutex error_mutex_;
  std::exception_ptr error_;
  std::int64_t error_task_ = 0;
};

/// The threads other than the caller's. They wait for `generation_` to change, and then enter the current job through
/// its gate. The caller works too, and closes the gate when no task is left. So a thread that wakes up late delays
/// nobody.
class Pool {
 public:
  /// Runs the tasks, or returns false when another thread has the pool.
  bool run(std::int64_t count, int threads, FunctionRef<void(std::int64_t)> task) {
    const std::unique_lock owner(mutex_, std::try_to_lock);
    if (!owner) return false;
    resize(threads);
    Job job(count, static_cast<int>(std::min<std::int64_t>(count, threads)), task, next_);
    job_ = &job;
    gate_.store(open, std::memory_order_release);
    generation_.fetch_add(1);
    generation_.notify_all();
    inside_task = true;
    job.work(0);
    inside_task = false;
    for (int inside = gate_.fetch_sub(open) - open; inside != 0;) inside = wait_while(gate_, inside);
    job.rethrow();
    return true;
  }

 private:
  static constexpr int open = 1, visitor = 2;  // gate_: bit 0 is `open`, the others count the workers inside

  void resize(int threads) {
    if (static_cast<int>(workers_.size()) + 1 == threads) return;
    stop_.store(true, std::memory_order_relaxed);
    generation_.fetch_add(1);
    generation_.notify_all();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
    stop_.store(false, std::memory_order_relaxed);
    next_ = std::vector<std::atomic<std::int64_t>>(static_cast<std::size_t>(threads) * 64 / sizeof(std::int64_t));
    const int seen = generation_.load();
    try {
      for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i, seen] { serve(i, seen); });
    } catch (const std::system_error& error) {
      throw ResourceExhaustedError(
          detail::join("Thread ", workers_.size() + 1, " of ", threads, " cannot be started: ", error.what()));
    }
  }

  void serve(int number, int seen) {
    inside_task = true;
    for (;;) {
      seen = wait_while(generation_, seen);
      if (stop_.load(std::memory_order_relaxed)) return;
      if (!enter()) continue;
      if (number < job_->shares()) job_->work(number);
      if (gate_.fetch_sub(visitor) == visitor) gate_.notify_one();
    }
  }

  bool enter() {
    int gate = gate_.load(std::memory_order_relaxed);
    while (gate & open)
      if (gate_.compare_exchange_weak(gate, gate + visitor, std::memory_order_acquire)) return true;
    return false;
  }

  std::mutex mutex_;  ///< held by the thread that has the pool
  std::vector<std::thread> workers_;
  std::vector<std::atomic<std::int64_t>> next_;
  Job* job_ = nullptr;  ///< valid while the gate is open or a worker is inside
  std::atomic<bool> stop_{false};
  alignas(64) std::atomic<int> generation_{0};
  alignas(64) std::atomic<int> gate_{0};
};

/// Never destroyed, because at the end of the program the threads sleep on it. A child of fork() has only the thread
/// that called it, and maybe a locked mutex, so it gets a pool of its own.
Pool*& pool() {
  static Pool* instance = [] {
    pthread_atfork(nullptr, nullptr, [] { pool() = new Pool; });
    return new Pool;
  }();
  return instance;
}

}  // namespace

void parallel_tasks(std::int64_t count, FunctionRef<void(std::int64_t)> task) {
  const int threads = num_threads();
  if (count > 1 && threads > 1 && !inside_task && pool()->run(count, threads, task)) return;
  for (std::int64_t i = 0; i < count; ++i) task(i);
}

}  // namespace host

void set_num_threads(int count, Where where) {
  constexpr int most = 4096;  // beyond all machines: a number that no system starts would fail in a later op
  if (count < 1 || count > most)
    throw InvalidArgumentError(detail::join("The number of threads must be from 1 to ", most, ", but is ", count),
                               where);
  host::wanted_threads().store(count, std::memory_order_relaxed);  // the pool follows at its next use
}

int num_threads() { return host::wanted_threads().load(std::memory_order_relaxed); }

}  // namespace tapestry
