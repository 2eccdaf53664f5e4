#include "tapestry/train/optimizer.hpp"

#include <cmath>

#include "autodiff/variable_cell.hpp"
#include "backend/backend.hpp"
#include "dispatch/recorder.hpp"
#include "tapestry/ops/creation.hpp"
#include "train/arguments.hpp"

namespace tapestry::train {
namespace {

constexpr std::string_view eager_loss =
    "`loss` passed to Optimizer.compute_gradients should be a function when eager execution is enabled.";

/// "['w', 'b']"
std::string names_of(const GradientsAndVariables& gradients) {
  std::string list;
  for (const auto& [gradient, variable] : gradients)
    list += detail::join(list.empty() ? "'" : ", '", variable.name(), "'");
  return "[" + list + "]";
}

bool all_empty(const GradientsAndVariables& gradients) {
  return std::none_of(gradients.begin(), gradients.end(), [](const auto& pair) { return bool{pair.first}; });
}

void check_gradient(const Tensor& gradient, const Variable& variable, Where where) {
  if (gradient.is_symbolic())
    throw FailedPreconditionError(
        detail::join("The gradient of variable '", variable.name(), "' is symbolic: it has no value"), where);
  if (!is_floating(variable.dtype()))
    throw InvalidArgumentError(detail::join("Variable '", variable.name(), "' is ", to_string(variable.dtype()),
                                            variable.shape(), "; an optimizer updates float32 and float64 only"),
                               where);
  if (gradient.dtype() == variable.dtype() && gradient.shape() == variable.shape() &&
      gradient.device() == variable.device())
    return;
  throw InvalidArgumentError(
      detail::join("The gradient of variable '", variable.name(), "' is ", to_string(gradient.dtype()),
                   gradient.shape(), " on ", to_string(gradient.device()), "; the variable is ",
                   to_string(variable.dtype()), variable.shape(), " on ", to_string(variable.device())),
      where);
}

void check_global_step(const Variable& step, Where where) {
  if (step.shape().rank() != 0 || step.dtype() == boolean)
    throw InvalidArgumentError(detail::join("global_step must be a scalar of a number type; variable '", step.name(),
                                            "' is ", to_string(step.dtype()), step.shape()),
                               where);
}

/// Opens the cells' values for writing, each inside the other, so that none is read until `change` has run.
void modify_all(std::span<const Variable> variables, Tensors& opened, const std::function<void()>& change) {
  if (variables.empty()) return change();
  variables.front().cell()->modify([&](const Tensor& value) {
    opened.push_back(value);
    modify_all(variables.subspan(1), opened, change);
  });
}

}  // namespace

Optimizer::Optimizer(std::string name, Update formula, LearningRate learning_rate, std::vector<Slot> slots)
    : name_(std::move(name)),
      formula_(formula),
      learning_rate_(std::move(learning_rate)),
      slots_(std::move(slots)),
      iterations_(std::int64_t{0}, {.name = name_ + "/iterations", .trainable = false}) {}

Optimizer::~Optimizer() = default;

std::int64_t Optimizer::iterations() const { return iterations_.cell()->load().item<std::int64_t>(); }

Optimizer::Evaluation Optimizer::evaluate(const Loss& loss, const std::vector<Variable>* variables, Where where) {
  if (variables && variables->empty()) throw InvalidArgumentError("No variables to optimize.", where);
  GradientTape tape({.watch_accessed_variables = !variables});
  if (variables) tape.watch(*variables, where);
  const Tensor value = loss();
  if (!value) throw InvalidArgumentError("The loss function returned an empty Tensor", where);
  const std::vector<Variable> sources = variables ? *variables : tape.watched_variables();
  if (sources.empty()) throw InvalidArgumentError("No variables to optimize.", where);
  std::vector<Tensor> gradients = tape.gradient(TensorList(value, where), sources);
  Evaluation result{.loss = value, .gradients = {}};
  for (std::size_t i = 0; i < sources.size(); ++i) result.gradients.emplace_back(std::move(gradients[i]), sources[i]);
  return result;
}

GradientsAndVariables Optimizer::compute_gradients(const Loss& loss, Where where) {
  return evaluate(loss, nullptr, where).gradients;
}

GradientsAndVariables Optimizer::compute_gradients(const Loss& loss, const std::vector<Variable>& variables,
                                                   Where where) {
  return evaluate(loss, &variables, where).gradients;
}

GradientsAndVariables Optimizer::compute_gradients(const Tensor&, const std::vector<Variable>&, Where where) {
  throw InvalidArgumentError(std::string(eager_loss), where);
}

Tensor Optimizer::minimize(const Tensor&, const std::vector<Variable>&, const ApplyOptions&, Where where) {
  throw InvalidArgumentError(std::string(eager_loss), where);
}

Tensor Optimizer::minimize(const Loss& loss, const ApplyOptions& options, Where where) {
  return minimize_all(loss, nullptr, options, where);
}

Tensor Optimizer::minimize(const Loss& loss, const std::vector<Variable>& variables, const ApplyOptions& options,
                           Where where) {
  return minimize_all(loss, &variables, options, where);
}

Tensor Optimizer::minimize_all(const Loss& loss, const std::vector<Variable>* variables, const ApplyOptions& options,
                               Where where) {
  const Evaluation found = evaluate(loss, variables, where);
  if (all_empty(found.gradients))
    throw InvalidArgumentError(
        detail::join("No gradients provided for any variable, check your graph for ops that do not support gradients, "
                     "between variables ",
                     names_of(found.gradients), " and loss ", to_string(found.loss.dtype()), found.loss.shape(), "."),
        where);
  apply_gradients(found.gradients, options, where);
  return found.loss;
}

void Optimizer::apply_gradients(const TensorList& gradients, const std::vector<Variable>& variables,
                                const ApplyOptions& options, Where where) {
  const Tensors& list = gradients.tensors();
  if (list.size() != variables.size())
    throw InvalidArgumentError(
        detail::join("There are ", list.size(), " gradients and ", variables.size(), " variables"), where);
  GradientsAndVariables pairs;
  pairs.reserve(variables.size());
  for (std::size_t i = 0; i < variables.size(); ++i) pairs.emplace_back(list[i], variables[i]);
  apply_gradients(pairs, options, where);
}

void Optimizer::apply_gradients(const GradientsAndVariables& gradients, const ApplyOptions& options, Where where) {
  if (gradients.empty()) throw InvalidArgumentError("No variables provided.", where);
  if (all_empty(gradients))
    throw InvalidArgumentError(detail::join("No gradients provided for any variable: ", names_of(gradients), "."),
                               where);
  for (const auto& [gradient, variable] : gradients)
    if (gradient) check_gradient(gradient, variable, where);
  if (options.global_step) check_global_step(*options.global_step, where);
  const double rate = learning_rate();
  require_not_negative(rate, "learning_rate", where);

  // All checks are done; gradients and slots are made ready before the first Variable changes.
  const PauseRecording pause;
  const CallSiteScope site(where);
  const std::int64_t step = iterations() + 1;
  const Numbers p = numbers(rate, step);
  struct Job {
    Tensor gradient;
    SmallVector<Variable, 3> variables;  ///< the one to update, and its slots
  };
  std::vector<Job> jobs;
  jobs.reserve(gradients.size());
  for (const auto& [gradient, variable] : gradients) {
    if (!gradient) continue;
    Job& job = jobs.emplace_back(Job{gradient.contiguous(), {variable}});
    const std::vector<Variable>& slots = slots_of(variable);
    job.variables.append(slots.begin(), slots.end());
  }
  for (const Job& job : jobs) {
    Tensors opened;
    modify_all(job.variables, opened, [&] {
      const std::span<const Tensor> slots(opened.begin() + 1, opened.end());
      backend_of(job.gradient.device()).update(formula_, std::span<const double>(p), job.gradient, slots, opened[0]);
    });
  }
  iterations_.assign(step);
  if (options.global_step) {
    Variable global_step = *options.global_step;
    global_step.assign_add(1);
  }
}

const std::vector<Variable>& Optimizer::slots_of(const Variable& variable) {
  if (const auto found = state_of_.find(variable.cell().get()); found != state_of_.end())
    return states_[found->second].slots;
  State state{variable, {}};
  for (const Slot& slot : slots_) {
    // TensorFlow's names: "w/Adam", "w/Adam_1".
    const std::string number = state.slots.empty() ? "" : "_" + std::to_string(state.slots.size());
    state.slots.emplace_back(
        full(variable.shape(), slot.initial_value, {.dtype = variable.dtype(), .device = variable.device()}),
        VariableOptions{.name = detail::join(variable.name(), "/", name_, number), .trainable = false});
  }
  states_.push_back(std::move(state));
  state_of_.emplace(variable.cell().get(), states_.size() - 1);
  return states_.back().slots;
}

Variable Optimizer::get_slot(const Variable& variable, std::string_view slot, Where where) const {
  const auto found = state_of_.find(variable.cell().get());
  for (std::size_t i = 0; found != state_of_.end() && i < slots_.size(); ++i)
    if (slots_[i].name == slot) return states_[found->second].slots[i];
  throw NotFoundError(detail::join(name_, " has no slot named '", slot, "' for variable '", variable.name(), "'"),
                      where);
}

std::vector<std::string> Optimizer::get_slot_names() const {
  std::vector<std::string> names;
  for (const Slot& slot : slots_) names.push_back(slot.name);
  return names;
}

std::vector<Variable> Optimizer::variables() const {
  std::vector<Variable> list{iterations_};
  for (const State& state : states_) list.insert(list.end(), state.slots.begin(), state.slots.end());
  return list;
}

}  // namespace tapestry::train
