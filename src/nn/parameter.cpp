#include "tapestry/nn/parameter.hpp"

#include "autodiff/variable_cell.hpp"
#include "dispatch/recorder.hpp"

namespace tapestry::nn {
namespace {

/// A Variable of its own with the value that the other one has now, whatever records or traces.
Variable copy_of(const Variable& other) {
  const auto& cell = other.cell();
  if (!cell) return other;  // has been moved from
  const ExecuteNow now;
  return Variable(cell->load(), {.name = cell->name, .trainable = cell->trainable});
}

}  // namespace

ModuleVariable::ModuleVariable(const ModuleVariable& other) : Variable(copy_of(other)) {}

ModuleVariable& ModuleVariable::operator=(const ModuleVariable& other) {
  if (this == &other) return *this;
  const bool fits =
      cell() && other.cell() && cell()->spec == other.cell()->spec && cell()->trainable == other.cell()->trainable;
  if (fits) {
    const ExecuteNow now;
    const PauseRecording pause;
    cell()->store(other.cell()->load().to(cell()->device));
  } else {
    Variable::operator=(copy_of(other));
  }
  return *this;
}

Parameter::Parameter(const Init& initial_value, std::string name, Where where)
    : ModuleVariable(initial_value, VariableOptions{.name = std::move(name)}, where) {}

Buffer::Buffer(const Init& initial_value, std::string name, Where where)
    : ModuleVariable(initial_value, VariableOptions{.name = std::move(name), .trainable = false}, where) {}

}  // namespace tapestry::nn
