#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace tapestry::detail {

/// Threads for tasks that may wait: one for each task that is running. The callers limit how many those are.
class Workers {
 public:
  Workers() = default;
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers() { finish(); }

  /// Throws std::system_error when there is no thread yet and the system gives none; then the task will not run.
  void start(std::function<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
      if (tasks_.size() > idle_) return add_thread();
    }
    wake_.notify_one();  // of a thread that then finds the mutex free
  }

  /// Waits until all tasks have ended; none may be started from now on.
  void finish() {
    {
      const std::lock_guard lock(mutex_);
      finished_ = true;
    }
    wake_.notify_all();
    for (std::thread& each : threads_) each.join();
    threads_.clear();
  }

 private:
  void add_thread() {
    try {
      threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      if (!threads_.empty()) return;  // one of the threads that there are takes the task later
      tasks_.pop_back();
      throw;
    }
  }
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      ++idle_;
      wake_.wait(lock, [&] { return finished_ || !tasks_.empty(); });
      --idle_;
      if (tasks_.empty()) return;
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  std::vector<std::thread> threads_;
  std::size_t idle_ = 0;
  bool finished_ = false;
};

}  // namespace tapestry::detail
