#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "tapestry/detail/config.hpp"

namespace tapestry::detail {

/// A switch of an object of the user's that decides which ops run, such as the training mode of a module. A trace notes
/// the flags that it reads: `function` traces anew when they have changed. A copy is another flag with the same value.
/// Moving hands the flag over, so that traces go on watching it.
class TAPESTRY_API Flag {
 public:
  explicit Flag(bool on) : on_(std::make_shared<std::atomic<std::uint64_t>>(on)) {}
  Flag(const Flag& other) : Flag(other.on_ && *other.on_) {}
  Flag(Flag&&) noexcept = default;
  /// Assigning sets the value.
  Flag& operator=(const Flag& other) {
    if (this != &other) set(other.on_ && *other.on_);
    return *this;
  }
  ~Flag() = default;

  /// The value; false for a flag that was moved from.
  bool read() const;
  void set(bool on);

 private:
  std::shared_ptr<std::atomic<std::uint64_t>> on_;
};

/// Counts what happens to an object of the user's, as a switch that never goes back: a trace that has noted the number
/// is out of date after the next time.
class TAPESTRY_API Count {
 public:
  /// Lets the trace that is made now, if there is one, note the number.
  void note() const;
  void add();

 private:
  std::shared_ptr<std::atomic<std::uint64_t>> number_ = std::make_shared<std::atomic<std::uint64_t>>(0);
};

}  // namespace tapestry::detail
