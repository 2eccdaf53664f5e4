#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "dispatch/recorder.hpp"

namespace tapestry {

/// Recorders that other threads gave up while a thread's list, or one that a scope of the thread restores, may still
/// have them. They stay until the thread ends.
class AbandonedRecorders {
 public:
  void add(std::unique_ptr<Recorder> recorder) {
    const std::lock_guard lock(mutex_);
    list_.push_back(std::move(recorder));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Recorder>> list_;
};

/// Those of this thread, which expire with its list of recorders.
std::weak_ptr<AbandonedRecorders> abandoned_recorders();

}  // namespace tapestry
