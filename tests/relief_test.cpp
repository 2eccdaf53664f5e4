#include "distributed/rpc/relief.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "distributed/rpc/workers.hpp"

using namespace tapestry::detail;

namespace {

/// One thread at a time takes tasks from a list. A task ends at once, or when so many tasks behind it have been taken,
/// which then takes another thread.
class Turns {
 public:
  explicit Turns(std::vector<std::size_t> waits_for) : waits_for_(std::move(waits_for)) {
    relief_.start();
    have_another_wait();
  }
  ~Turns() { workers_.finish(); }
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  /// Waits until all tasks are done. How many threads could have waited for the next task at the same time.
  int end() {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return done_ == waits_for_.size(); });
    }
    relief_.stop();
    workers_.finish();
    return most_waiting_;
  }

 private:
  void have_another_wait() {
    workers_.start([this] { work(); });
  }
  void work() {
    Relief::Turn turn(relief_);
    std::unique_lock lock(mutex_);
    most_waiting_ = std::max(most_waiting_, ++waiting_);
    while (next_ < waits_for_.size()) {
      const std::size_t due = std::min(waits_for_.size(), next_ + 1 + waits_for_[next_]);
      ++next_;
      lock.unlock();
      turn.begin();
      lock.lock();
      changed_.notify_all();
      changed_.wait(lock, [&] { return next_ >= due; });
      ++done_;
      changed_.notify_all();
      if (!turn.end()) return;
    }
    --waiting_;
  }

  const std::vector<std::size_t> waits_for_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t next_ = 0, done_ = 0;
  int waiting_ = 0, most_waiting_ = 0;
  Relief relief_{[this] {
    {
      const std::lock_guard lock(mutex_);
      --waiting_;  // the thread that is relieved
    }
    have_another_wait();
  }};
  Workers workers_;
};

}  // namespace

TEST_CASE("a thread at a task for long is relieved by one other, and then waits for no further tasks") {
  for (unsigned seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    std::vector<std::size_t> tasks(2000);
    for (std::size_t& each : tasks) each = random() % 100 == 0 ? 1 + random() % 20 : 0;
    tasks.front() = 3;
    CHECK(Turns(tasks).end() == 1);
  }
}

TEST_CASE("what watches sleeps while there are no tasks, and wakes up") {
  std::atomic<int> taken = 0;
  Relief relief([&] { ++taken; });
  relief.start();
  {
    Relief::Turn turn(relief);
    for (int i = 0; i < 3; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      turn.begin();
      CHECK(turn.end());
      turn.begin();
      while (taken == i) std::this_thread::yield();
      CHECK_FALSE(turn.end());
    }
  }
  relief.stop();
  CHECK(taken == 3);
}
