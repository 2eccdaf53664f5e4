#pragma once

#include <chrono>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "tapestry/error.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry::serve {

/// When a request has to be answered.
using Deadline = std::chrono::steady_clock::time_point;

/// Tensors by their names.
using NamedTensors = std::map<std::string, Tensor>;

/// What tensors cannot hold: an array of texts, or of any bytes, in row-major order.
struct Texts {
  std::vector<std::int64_t> sizes{};
  std::vector<std::string> elements{};
};

/// The values of a request or of an answer, by the names of the signature.
using NamedValues = std::map<std::string, std::variant<Tensor, Texts>>;

/// Throws DeadlineExceededError when a request has no time left.
inline void require_time(Deadline deadline) {
  if (std::chrono::steady_clock::now() >= deadline)
    throw DeadlineExceededError("Timed out before the request was answered");
}

}  // namespace tapestry::serve
