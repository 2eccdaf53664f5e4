#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "distributed/collectives.hpp"

namespace tapestry::detail {

/// A thread that reduces buckets one after the other, while its rank computes. It has a communicator of its own, so
/// that its collectives do not mix with those of the rank.
class Background {
 public:
  explicit Background(CommunicatorRef own);
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  /// Begins to reduce a bucket. The result is kept in the slot until `wait`; what a run that failed has left there is
  /// dropped.
  void start(std::int64_t slot, Exchange exchange);
  /// The reduced bucket. Throws what the reduction has thrown.
  Tensor wait(std::int64_t slot);

 private:
  struct Job {
    std::int64_t slot;
    Exchange exchange;
    bool done = false;
    std::exception_ptr error{};
  };
  /// What the thread uses. It may outlive this object if a call of MPI never returns.
  struct State {
    CommunicatorRef own;
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::shared_ptr<Job>> queue;  ///< the first is the one that is going on
    bool stop = false;
  };
  static void work(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;
  std::vector<std::shared_ptr<Job>> kept_;  ///< those whose results are to be taken
  std::thread thread_;
};

}  // namespace tapestry::detail
