#pragma once

#include <string>

#include "dispatch/recorder.hpp"
#include "tapestry/variable.hpp"

namespace tapestry::train {

/// What an optimizer remembers: a Variable of no graph, even when it is made while one is open.
inline Variable own_variable(const std::string& name, const Tensor& value) {
  const ExecuteNow now;
  return Variable(value, {.name = name, .trainable = false});
}

}  // namespace tapestry::train
