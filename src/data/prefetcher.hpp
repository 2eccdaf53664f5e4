#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <variant>

namespace tapestry::data {

/// Makes items on a thread of its own, in order, before they are asked for. At most `ahead` finished items wait. The
/// thread ends with this object, or when making an item throws.
template <class T>
class Prefetcher {
 public:
  /// `make` is called `count` times, always on that thread.
  Prefetcher(std::int64_t count, std::int64_t ahead, std::function<T()> make)
      : make_(std::move(make)),
        room_(static_cast<std::size_t>(ahead)),
        thread_([this, count](const std::stop_token& stop) { run(stop, count); }) {}

  /// Waits for the next item, and throws what making it threw. May be called `count` times, but not after it has
  /// thrown.
  T next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !ready_.empty(); });
    Made made = std::move(ready_.front());
    ready_.pop_front();
    lock.unlock();
    changed_.notify_all();
    if (auto* error = std::get_if<std::exception_ptr>(&made)) std::rethrow_exception(*error);
    return std::get<T>(std::move(made));
  }

 private:
  using Made = std::variant<T, std::exception_ptr>;

  void run(const std::stop_token& stop, std::int64_t count) {
    for (std::int64_t i = 0; i < count && !stop.stop_requested(); ++i) {
      Made made = make();
      const bool failed = std::holds_alternative<std::exception_ptr>(made);
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [&] { return ready_.size() < room_; })) return;
      ready_.push_back(std::move(made));
      lock.unlock();
      changed_.notify_all();
      if (failed) return;
    }
  }

  Made make() {
    try {
      return make_();
    } catch (...) {
      return std::current_exception();
    }
  }

  std::function<T()> make_;
  std::size_t room_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Made> ready_;
  std::jthread thread_;  ///< last: it is stopped and joined before the rest goes
};

}  // namespace tapestry::data
