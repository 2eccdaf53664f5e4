#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "tapestry/error.hpp"

namespace tapestry::detail {

/// The time by which a run must have ended.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  /// `cause`: who asked for the deadline, a literal that ends the message.
  explicit Deadline(std::int64_t milliseconds, std::string_view cause = {})
      : milliseconds_(milliseconds),
        cause_(cause),
        end_(Clock::now() + std::min(std::chrono::milliseconds(milliseconds), longest)) {}

  Clock::time_point end() const { return end_; }
  bool has_passed() const { return Clock::now() >= end_; }
  /// `state`: how far the run has come.
  [[noreturn]] void fail(const std::string& state) const {
    throw DeadlineExceededError(
        join("Timed out waiting for notification: after ", milliseconds_, " ms ", state, cause_));
  }

 private:
  /// A bound, so that `end_` does not overflow the clock.
  static constexpr std::chrono::milliseconds longest = std::chrono::hours(24 * 365);

  std::int64_t milliseconds_;
  std::string_view cause_;
  Clock::time_point end_;
};

/// Locks the mutex; throws DeadlineExceededError if that takes until the deadline.
inline std::unique_lock<std::timed_mutex> locked(std::timed_mutex& mutex, const Deadline* deadline) {
  if (!deadline) return std::unique_lock(mutex);
  std::unique_lock lock(mutex, std::try_to_lock);
  // Clang 14's thread sanitizer knows only locks by the system's clock, which may be set meanwhile.
  while (!lock && !deadline->has_passed())
    static_cast<void>(
        lock.try_lock_until(std::chrono::system_clock::now() + (deadline->end() - Deadline::Clock::now())));
  if (!lock) deadline->fail("an earlier run has not ended");
  return lock;
}

}  // namespace tapestry::detail
