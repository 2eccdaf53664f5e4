#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>

#include "tapestry/tensor.hpp"

namespace tapestry::detail {

/// The tensors that the steps of a task send, until they are asked for. Who comes first, the sender or the receiver,
/// makes the step known.
class StepTable {
 public:
  /// Throws the error of the step, if it has failed.
  void send(std::int64_t step, const std::string& key, const Tensor& value);
  /// Waits for a tensor, and takes it. Throws the error of the step as soon as it has failed, CancelledError when a
  /// stop is requested, and ResourceExhaustedError for too many waits.
  Tensor receive(std::int64_t step, const std::string& key, const std::stop_token& stop);
  /// Ends all waits of a step with an error, those to come, too.
  void abort(std::int64_t step, const std::exception_ptr& error);
  /// Forgets a step that has ended; who still waits for one of its tensors gets AbortedError.
  void remove(std::int64_t step);
  /// Does both for all steps.
  void clear(const std::exception_ptr& error);

 private:
  struct Step {
    std::map<std::string, Tensor, std::less<>> sent{};
    std::exception_ptr error{};
    std::size_t waiting = 0;
  };
  std::shared_ptr<Step> at(std::int64_t step);

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::int64_t, std::shared_ptr<Step>> steps_;
  std::size_t waits_ = 0;
  std::deque<std::int64_t> order_;  ///< in which the steps became known
};

}  // namespace tapestry::detail
