#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <string>

#include "tapestry/error.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry::serve {

/// When a request has to be answered.
using Deadline = std::chrono::steady_clock::time_point;

/// The tensors of a request or of an answer, by the names of the signature.
using NamedTensors = std::map<std::string, Tensor>;

/// The time that a request has left, at least 1 ms. Throws DeadlineExceededError when there is none.
inline std::chrono::milliseconds time_left(Deadline deadline) {
  const auto left = deadline - std::chrono::steady_clock::now();
  if (left <= left.zero()) throw DeadlineExceededError("Timed out before the request was answered");
  return std::max(std::chrono::duration_cast<std::chrono::milliseconds>(left), std::chrono::milliseconds(1));
}

}  // namespace tapestry::serve
