#pragma once

#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "graph/deadline.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry::detail {

/// What a part meets that waits for one that has failed.
struct RendezvousAborted final : std::exception {};

/// Where the parts of a plan that run on several devices meet: one sends a tensor under a key, another waits for it.
class Rendezvous {
 public:
  /// Forgets what was sent in an earlier run.
  void reset();
  void send(std::string_view key, const Tensor& tensor);
  /// Waits until the tensor has been sent. Throws RendezvousAborted when it will not be, and DeadlineExceededError when
  /// it has not been by the deadline, if there is one.
  Tensor receive(std::string_view key, const Deadline* deadline = nullptr);
  /// A part has failed: whoever waits need not wait any longer.
  void abort();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Tensor, std::less<>> sent_;  ///< keys stay from run to run
  bool aborted_ = false;
};

}  // namespace tapestry::detail
