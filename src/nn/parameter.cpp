#include "tapestry/nn/parameter.hpp"

#include <optional>

#include "autodiff/variable_cell.hpp"
#include "dispatch/recorder.hpp"
#include "nn/layer_call.hpp"
#include "nn/names.hpp"

namespace tapestry::nn {
namespace {

/// A new Variable with the current value of the other one, even while a tape records or a graph is open.
Variable copy_of(const Variable& other) {
  const auto& cell = other.cell();
  if (!cell) return other;  // has been moved from
  const ExecuteNow now;
  Variable copy(cell->load(), {.name = cell->given_name, .trainable = other.trainable()});
  copy.cell()->path_names = cell->path_names;
  note_cell(copy.cell());
  return copy;
}

/// The cell of a Variable that asks its module for its name. The module is not there yet, so an open graph gets the
/// Variable, and a name for it, at its first read. Only a Variable whose initial value the graph has to compute is
/// declared at once.
std::shared_ptr<Variable::Cell> cell_of(const Init& initial_value, const VariableOptions& options, Where where) {
  std::optional<ExecuteNow> now;
  if (open_sink() && !initial_value.is_empty_tensor() && !initial_value.tensor({}, where).is_symbolic()) now.emplace();
  const Variable made(initial_value, options, where);
  static constexpr PathNames names{update_names, LayerCall::node_name};
  made.cell()->path_names = &names;
  note_cell(made.cell());
  return made.cell();
}

}  // namespace

ModuleVariable::ModuleVariable(const ModuleVariable& other) : Variable(copy_of(other)) {}

ModuleVariable& ModuleVariable::operator=(const ModuleVariable& other) {
  if (this == &other) return *this;
  const bool fits = cell() && other.cell() && cell()->spec == other.cell()->spec && trainable() == other.trainable();
  if (fits) {
    const ExecuteNow now;
    const PauseRecording pause;
    cell()->store(other.cell()->load().to(cell()->device));
  } else {
    *this = ModuleVariable(other);
  }
  return *this;
}

ModuleVariable& ModuleVariable::operator=(ModuleVariable&& other) noexcept {
  if (this == &other) return *this;
  if (cell() && cell() != other.cell()) cell()->replaced.add();
  Variable::operator=(std::move(other));
  return *this;
}

Parameter::Parameter(const Init& initial_value, std::string name, Where where)
    : ModuleVariable(cell_of(initial_value, {.name = std::move(name)}, where)) {
  if (!is_floating(dtype()))
    throw InvalidArgumentError(detail::join("Parameter '", cell()->given_name, "' is ", to_string(dtype()), shape(),
                                            ", but only float types are trained: write 1.0 for 1, or take a Buffer"),
                               where);
}

Buffer::Buffer(const Init& initial_value, std::string name, Where where)
    : ModuleVariable(cell_of(initial_value, {.name = std::move(name), .trainable = false}, where)) {}

}  // namespace tapestry::nn
