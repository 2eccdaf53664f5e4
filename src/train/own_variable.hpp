#pragma once

#include <string>

#include "dispatch/recorder.hpp"
#include "tapestry/variable.hpp"

namespace tapestry::train {

/// A Variable for state that training keeps, such as that of an optimizer. It is in no graph, even if one is open when
/// it is made.
inline Variable own_variable(const std::string& name, const Tensor& value) {
  const ExecuteNow now;
  return Variable(value, {.name = name, .trainable = false});
}

}  // namespace tapestry::train
