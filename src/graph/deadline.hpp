#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include "tapestry/error.hpp"

namespace tapestry::detail {

/// A part of a run that runs steps of its own, such as a loop.
class RunPart {
 public:
  virtual ~RunPart() = default;
  /// How far it has come: "'loop' has done 3 iterations".
  virtual std::string progress() const = 0;
};

/// The time by which a run must have ended, unless it is cancelled or its session is closed before.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  /// `cause`: who asked for the deadline, a literal that ends the message. The largest number of milliseconds is no
  /// limit. `closing`: tells that the session was closed.
  explicit Deadline(std::int64_t milliseconds, std::string_view cause = {}, std::stop_token stop = {},
                    std::stop_token closing = {})
      : milliseconds_(milliseconds),
        cause_(cause),
        stop_(std::move(stop)),
        closing_(std::move(closing)),
        end_(milliseconds == INT64_MAX ? Clock::time_point::max()
                                       : Clock::now() + std::min(std::chrono::milliseconds(milliseconds), longest)) {}
  /// The deadline of a run in a part of it. Its errors tell how far this part has come, too. Both must outlive it.
  Deadline(const Deadline& outer, const RunPart& part)
      : milliseconds_(outer.milliseconds_), end_(outer.end_), run_(&outer.run()), outer_(&outer), part_(&part) {}

  Clock::time_point end() const { return end_; }
  bool has_passed() const {
    if (run().stop_.stop_requested() || run().closing_.stop_requested()) return true;
    return milliseconds_ < INT64_MAX && Clock::now() >= end_;
  }
  /// When a thread that waits should look again whether it has passed.
  Clock::time_point next_look() const {
    constexpr std::chrono::milliseconds interval(20);
    const bool may_stop = run().stop_.stop_possible() || run().closing_.stop_possible();
    return may_stop ? std::min(end_, Clock::now() + interval) : end_;
  }
  /// `state`: how far the run has come, in the part whose deadline this is; empty if only the part can tell.
  [[noreturn]] void fail(std::string state = {}) const {
    for (const Deadline* each = this; each->outer_; each = each->outer_)
      state = each->part_->progress() + (state.empty() ? "" : ", in it " + state);
    if (run().stop_.stop_requested()) throw CancelledError(join("The run was cancelled: ", state));
    if (run().closing_.stop_requested()) throw CancelledError(join("The session was closed: ", state));
    throw DeadlineExceededError(
        join("Timed out waiting for notification: after ", milliseconds_, " ms ", state, run().cause_));
  }

 private:
  const Deadline& run() const { return run_ ? *run_ : *this; }

  /// A bound, so that `end_` does not overflow the clock.
  static constexpr std::chrono::milliseconds longest = std::chrono::hours(24 * 365);

  std::int64_t milliseconds_;
  std::string_view cause_;
  std::stop_token stop_, closing_;
  Clock::time_point end_;
  const Deadline* run_ = nullptr;  ///< that of the whole run; null if this is it
  const Deadline* outer_ = nullptr;
  const RunPart* part_ = nullptr;
};

/// Locks the mutex; throws DeadlineExceededError if that takes until the deadline.
inline std::unique_lock<std::timed_mutex> locked(std::timed_mutex& mutex, const Deadline* deadline) {
  if (!deadline) return std::unique_lock(mutex);
  std::unique_lock lock(mutex, std::try_to_lock);
  // Clang 14's thread sanitizer knows only locks by the system's clock, which may be set meanwhile.
  while (!lock && !deadline->has_passed())
    static_cast<void>(
        lock.try_lock_until(std::chrono::system_clock::now() + (deadline->next_look() - Deadline::Clock::now())));
  if (!lock) deadline->fail("an earlier run has not ended");
  return lock;
}

}  // namespace tapestry::detail
