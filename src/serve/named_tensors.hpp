#pragma once

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

/// Throws DeadlineExceededError when a request has no time left.
inline void require_time(Deadline deadline) {
  if (std::chrono::steady_clock::now() >= deadline)
    throw DeadlineExceededError("Timed out before the request was answered");
}

}  // namespace tapestry::serve
