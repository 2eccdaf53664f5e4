#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tapestry::detail {

/// Watches threads that take turns to wait for events and handle some of them by themselves: a thread that is found at
/// the same task twice, a millisecond apart, is relieved, so that its events do not wait for long. While the tasks are
/// short, that costs a look each millisecond, where it would cost each of them the waking of another thread.
class Relief {
 public:
  /// `take_over` has another thread wait for events in place of one that is relieved.
  explicit Relief(std::function<void()> take_over) : take_over_(std::move(take_over)) {}
  Relief(const Relief&) = delete;
  Relief& operator=(const Relief&) = delete;
  ~Relief() { stop(); }

  /// Begins the watching.
  void start() {
    watch_ = std::thread([this] { look(); });
  }
  /// Ends it. No thread has a task any more.
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      is_stopped_ = true;
    }
    wake_.notify_all();
    if (watch_.joinable()) watch_.join();
  }

  /// A thread, while it waits for events and handles them.
  class Turn {
   public:
    explicit Turn(Relief& relief) : relief_(relief) {
      const std::lock_guard lock(relief_.mutex_);
      relief_.turns_.push_back(this);
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() {
      const std::lock_guard lock(relief_.mutex_);
      std::erase(relief_.turns_, this);
    }

    /// The thread begins a task.
    void begin() {
      task_ = ++tasks_;
      if (!relief_.is_watching_) relief_.wake();
    }
    /// The task has ended. Returns whether the thread still has to wait for events: false where it was relieved.
    bool end() { return task_.exchange(none) != relieved; }

   private:
    friend class Relief;
    static constexpr std::int64_t none = 0, relieved = -1;

    Relief& relief_;
    std::int64_t tasks_ = 0;              ///< so many have begun
    std::atomic<std::int64_t> task_ = 0;  ///< the number of the one that runs, `none` or `relieved`
    std::int64_t seen_ = 0;               ///< what it was at the last look
  };

 private:
  void wake() {
    {
      const std::lock_guard lock(mutex_);
      is_watching_ = true;
    }
    wake_.notify_all();
  }

  void look() {
    constexpr int most_idle = 20;  // looks at threads without tasks, until the next task wakes this one
    int idle = 0;
    std::unique_lock lock(mutex_);
    while (!is_stopped_) {
      wake_.wait_for(lock, std::chrono::milliseconds(1), [this] { return is_stopped_; });
      idle = relieve() ? 0 : idle + 1;
      if (idle < most_idle) continue;
      is_watching_ = false;
      // The thread of a task that has begun before may have seen that this one watches.
      if (has_task()) is_watching_ = true;
      wake_.wait(lock, [this] { return is_stopped_ || is_watching_; });
      idle = 0;
    }
  }
  /// Relieves the threads that have the task which they had at the last look. Whether any other had a task.
  bool relieve() {
    bool found = false;
    for (Turn* each : turns_) {
      std::int64_t task = each->task_;
      found |= task > 0;
      if (task > 0 && task == each->seen_ && each->task_.compare_exchange_strong(task, Turn::relieved)) take_over_();
      each->seen_ = task;
    }
    return found;
  }
  bool has_task() const {
    return std::any_of(turns_.begin(), turns_.end(), [](const Turn* each) { return each->task_ > 0; });
  }

  const std::function<void()> take_over_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Turn*> turns_;
  std::thread watch_;
  std::atomic<bool> is_watching_ = false;
  bool is_stopped_ = false;
};

}  // namespace tapestry::detail
