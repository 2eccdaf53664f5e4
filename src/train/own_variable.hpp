#pragma once

#include <string>

#include "autodiff/variable_cell.hpp"
#include "dispatch/recorder.hpp"
#include "tapestry/variable.hpp"

namespace tapestry::train {

/// A Variable for state that training keeps, such as that of an optimizer. It is in no graph, even if one is open when
/// it is made.
inline Variable own_variable(const std::string& name, const Tensor& value) {
  const ExecuteNow now;
  return Variable(value, {.name = name, .trainable = false});
}

/// A slot: state that is kept for a Variable. "Adam" of "w" is called "w/Adam".
inline Variable slot_of(const Variable& variable, const std::string& name, const Tensor& value) {
  Variable slot = own_variable(variable.name() + "/" + name, value);
  slot.cell()->owner = variable.cell();
  return slot;
}

}  // namespace tapestry::train
