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

/// Thrown in a partition that waits for a tensor when another one has failed.
struct RendezvousAborted final : std::exception {};

/// Exchanges tensors between the partitions of a plan: one sends a tensor under a key, another waits for it.
class Rendezvous {
 public:
  /// Prepares for a new run: forgets the tensors and the failure of the last one.
  void reset();
  void send(std::string_view key, const Tensor& tensor);
  /// Waits until the tensor has been sent. Throws RendezvousAborted after `abort`, and DeadlineExceededError if the
  /// tensor has not been sent by the deadline, if there is one.
  Tensor receive(std::string_view key, const Deadline* deadline = nullptr);
  /// Ends all waits, because a partition has failed.
  void abort();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Tensor, std::less<>> sent_;  ///< keys stay from run to run
  bool aborted_ = false;
};

}  // namespace tapestry::detail
