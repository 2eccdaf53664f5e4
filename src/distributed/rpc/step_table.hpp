#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "tapestry/tensor.hpp"

namespace tapestry::detail {

/// The tensors that the steps of a task send, until they are asked for. Who comes first, the sender or the receiver,
/// makes the step known.
class StepTable {
 public:
  /// Gets the tensor, or an error; called once, on any thread.
  using Arrival = std::function<void(Tensor, std::exception_ptr)>;

  /// Throws the error of the step, if it has failed. Calls who waits for the tensor.
  void send(std::int64_t step, const std::string& key, const Tensor& value);
  /// Takes a tensor as soon as it is there. The error is that of the step as soon as it has failed, CancelledError when
  /// a stop is requested, and ResourceExhaustedError for too many waits.
  void receive(std::int64_t step, const std::string& key, const std::stop_token& stop, Arrival arrival);
  /// The same, but waits for the tensor and throws the error.
  Tensor receive(std::int64_t step, const std::string& key, const std::stop_token& stop);
  /// Ends all waits of a step with an error, those to come, too.
  void abort(std::int64_t step, const std::exception_ptr& error);
  /// Forgets a step that has ended; who still waits for one of its tensors gets AbortedError.
  void remove(std::int64_t step);
  /// Does both for all steps.
  void clear(const std::exception_ptr& error);

 private:
  struct Wait {
    Arrival arrival{};
    std::optional<std::stop_callback<std::function<void()>>> leave{};
  };
  struct Step {
    std::map<std::string, Tensor, std::less<>> sent{};
    std::multimap<std::string, std::shared_ptr<Wait>> waiting{};
    std::exception_ptr error{};
  };
  /// What is to be called when the lock is released.
  struct Ended {
    ~Ended() {
      for (const Arrival& each : arrivals) each(Tensor(), error);
    }
    std::vector<Arrival> arrivals{};
    std::exception_ptr error{};
  };
  Step& at(std::int64_t step, Ended& given_up);
  void end_waits(Step& step, Ended& ended);
  void leave(std::int64_t step, const std::shared_ptr<Wait>& wait);

  std::mutex mutex_;
  std::map<std::int64_t, Step> steps_;
  std::size_t waits_ = 0;
  std::deque<std::int64_t> order_;  ///< in which the steps became known
};

}  // namespace tapestry::detail
