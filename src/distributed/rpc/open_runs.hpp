#pragma once

#include <algorithm>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tapestry/error.hpp"

namespace tapestry::detail {

/// The runs in several parts that the sessions of a server have open over several tasks. Each takes one of the runs
/// that its tasks make at a time, and a client that has gone never ends it. So where there are as many as there may be,
/// one more ends the one that has not been used for longest.
class OpenRuns {
 public:
  /// Ends a run, and returns whether it has ended: not where a part of the run is being made.
  using End = std::function<bool()>;

  explicit OpenRuns(std::size_t most) : most_(most) {}

  void add(std::string handle, End end) {
    while (true) {
      std::vector<Run> others;
      {
        const std::lock_guard lock(mutex_);
        if (runs_.size() < most_) return runs_.push_back({std::move(handle), std::move(end)});
        others = runs_;
      }
      const auto ended = std::find_if(others.begin(), others.end(), [](const Run& each) { return each.end(); });
      if (ended != others.end())
        remove(ended->handle);
      else
        throw ResourceExhaustedError(join("The server makes ", most_,
                                          " partial runs over several tasks, which is the most at a time "
                                          "(ServerOptions::steps_at_once, shared by the tasks)"));
    }
  }
  void note_use(const std::string& handle) {
    const std::lock_guard lock(mutex_);
    if (const auto run = find(handle); run != runs_.end()) std::rotate(run, run + 1, runs_.end());
  }
  void remove(const std::string& handle) {
    const std::lock_guard lock(mutex_);
    if (const auto run = find(handle); run != runs_.end()) runs_.erase(run);
  }

 private:
  struct Run {
    std::string handle;
    End end;
  };
  std::vector<Run>::iterator find(const std::string& handle) {
    return std::find_if(runs_.begin(), runs_.end(), [&](const Run& each) { return each.handle == handle; });
  }

  const std::size_t most_;
  std::mutex mutex_;
  std::vector<Run> runs_;  ///< the one that has not been used for longest first
};

}  // namespace tapestry::detail
