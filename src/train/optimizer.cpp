#include "tapestry/train/optimizer.hpp"

#include <algorithm>
#include <cmath>

#include "autodiff/row_update.hpp"
#include "backend/backend.hpp"
#include "dispatch/recorder.hpp"
#include "graph/training.hpp"
#include "ops/checked_like.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/creation.hpp"
#include "tapestry/ops/math.hpp"
#include "train/arguments.hpp"
#include "train/own_variable.hpp"
#include "train/ready_step.hpp"

namespace tapestry::train {
namespace {

void require_symbolic(const Tensor& loss, Where where) {
  if (!loss || !loss.is_symbolic())
    throw InvalidArgumentError(
        "`loss` passed to Optimizer.compute_gradients should be a function when eager execution is enabled.", where);
}

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
  if (!is_floating(variable.dtype()))
    throw InvalidArgumentError(detail::join("Variable '", variable.name(), "' is ", to_string(variable.dtype()),
                                            variable.shape(), "; an optimizer updates float types only"),
                               where);
  // The device of a symbolic gradient is chosen later, when the graph is placed.
  const bool is_there = gradient.is_symbolic() || gradient.device() == variable.device();
  if (gradient.dtype() == variable.dtype() && agree(gradient.shape(), variable.shape()) && is_there) return;
  throw InvalidArgumentError(
      detail::join("The gradient of variable '", variable.name(), "' is ", to_string(gradient.dtype()),
                   gradient.shape(), " on ", to_string(gradient.device()), "; the variable is ",
                   to_string(variable.dtype()), variable.shape(), " on ", to_string(variable.device())),
      where);
}

[[noreturn]] void throw_no_gradients(const GradientsAndVariables& pairs, const Tensor& loss, Where where) {
  throw InvalidArgumentError(
      detail::join("No gradients provided for any variable, check your graph for ops that do not support gradients, "
                   "between variables ",
                   names_of(pairs), " and loss ", to_string(loss.dtype()), loss.shape(), "."),
      where);
}

void check_global_step(const Variable& step, Where where) {
  if (step.shape().rank() != 0 || step.dtype() == boolean)
    throw InvalidArgumentError(detail::join("global_step must be a scalar of a number type; variable '", step.name(),
                                            "' is ", to_string(step.dtype()), step.shape()),
                               where);
}

void check_condition(const Tensor& condition, Where where) {
  if (condition.dtype() != boolean || condition.rank() != 0)
    throw InvalidArgumentError(
        detail::join("only_if must be a bool scalar, but is ", to_string(condition.dtype()), condition.shape()), where);
}

void check_slot_names(const std::vector<std::string>& names, Where where) {
  for (auto name = names.begin(); name != names.end(); ++name)
    if (name->empty() || name->find('.') != std::string::npos || std::find(names.begin(), name, *name) != name)
      throw InvalidArgumentError(
          detail::join("The slots of an optimizer need names, each its own and without dots; one is '", *name, "'"),
          where);
}

}  // namespace

Optimizer::Optimizer(std::string name, const LearningRate& learning_rate, std::vector<Slot> slots, Where where)
    : name_(std::move(name)),
      rule_(std::make_shared<Rule>(Rule{learning_rate,
                                        [](double rate, std::int64_t step) -> Numbers {
                                          return {rate, static_cast<double>(step)};
                                        }})),
      slots_(std::move(slots)),
      iterations_(own_variable(name_ + "/iterations", tensor(std::int64_t{0}))) {
  check_slot_names(get_slot_names(), where);
}

Tensors Optimizer::updated(const Tensor&, const Tensor&, const Tensors&, const Step&) const {
  throw UnimplementedError(detail::join(
      "The optimizer ", name_, " does not say what a step makes of a Variable: ", "its class must override `updated`"));
}

/// What `updated` gives. Throws InvalidArgumentError for a wrong number of tensors, or one that does not fit the
/// Variable.
Tensors Optimizer::checked_update(const Variable& variable, const Tensor& value, const Tensor& gradient,
                                  const Tensors& slots, const Step& step, Where where) const {
  Tensors next = updated(value, gradient, slots, step);
  if (next.size() != 1 + slots_.size())
    throw InvalidArgumentError(detail::join("`updated` of the optimizer ", name_, " gives ", next.size(),
                                            " tensors; a value and ", slots_.size(), " slots are wanted"),
                               where);
  for (std::size_t i = 0; i < next.size(); ++i)
    if (!next[i] || next[i].dtype() != variable.dtype() || !agree(next[i].shape(), variable.shape()))
      throw InvalidArgumentError(
          detail::join("`updated` of the optimizer ", name_, " gives as ",
                       i == 0 ? "value" : "slot '" + slots_[i - 1].name + "'", " of variable '", variable.name(), "' ",
                       next[i] ? to_string(next[i].dtype()) + to_string(next[i].shape()) : "nothing", ", not ",
                       to_string(variable.dtype()), variable.shape()),
          where);
  return next;
}

Optimizer::Optimizer(std::string name, Update formula, const LearningRate& learning_rate, std::vector<Slot> slots,
                     NumbersOf numbers)
    : name_(std::move(name)),
      formula_(formula),
      rule_(std::make_shared<Rule>(Rule{learning_rate, std::move(numbers)})),
      slots_(std::move(slots)),
      iterations_(own_variable(name_ + "/iterations", tensor(std::int64_t{0}))) {}

Optimizer::~Optimizer() = default;

std::int64_t Optimizer::iterations() const { return iterations_.cell()->load().item<std::int64_t>(); }

/// The graph of the condition or of the gradients, or the open graph; nullptr if all have values and no graph is open.
std::shared_ptr<detail::GraphState> Optimizer::graph_for(const GradientsAndVariables& gradients,
                                                         const Tensor& condition) {
  if (bool(condition) && condition.is_symbolic()) return detail::graph_of(condition);
  for (const auto& [gradient, variable] : gradients)
    if (bool(gradient) && gradient.is_symbolic()) return detail::graph_of(gradient);
  return open_sink() ? default_graph().state() : nullptr;
}

Optimizer::Evaluation Optimizer::evaluate(const Loss& loss, const std::vector<Variable>* variables, Where where,
                                          const std::function<void(std::size_t, const Tensor&)>& when_final) {
  if (variables && variables->empty()) throw InvalidArgumentError("No variables to optimize.", where);
  GradientTape tape({.watch_accessed_variables = !variables});
  if (variables) tape.watch(*variables, where);
  const Tensor value = loss();
  if (!value) throw InvalidArgumentError("The loss function returned an empty Tensor", where);
  const std::vector<Variable> sources = variables ? *variables : tape.watched_variables();
  if (sources.empty()) throw InvalidArgumentError("No variables to optimize.", where);
  std::vector<Tensor> gradients = tape.gradient(TensorList(value, where), sources, {.when_final = when_final});
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

GradientsAndVariables Optimizer::compute_gradients(const Tensor& loss, const std::vector<Variable>& variables,
                                                   Where where) {
  require_symbolic(loss, where);
  std::vector<Variable> sources = variables;
  if (sources.empty())
    for (const Variable& each : loss.op().graph().variables())
      if (each.trainable() && is_floating(each.dtype())) sources.push_back(each);
  if (sources.empty()) throw InvalidArgumentError("No variables to optimize.", where);
  std::vector<Tensor> found = gradients(TensorList(loss, where), sources);
  GradientsAndVariables pairs;
  for (std::size_t i = 0; i < sources.size(); ++i) pairs.emplace_back(std::move(found[i]), sources[i]);
  return pairs;
}

Operation Optimizer::minimize(const Tensor& loss, const std::vector<Variable>& variables, const ApplyOptions& options,
                              Where where) {
  const GradientsAndVariables pairs = compute_gradients(loss, variables, where);
  if (all_empty(pairs)) throw_no_gradients(pairs, loss, where);
  return apply_gradients(pairs, options, where);
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
  if (all_empty(found.gradients)) throw_no_gradients(found.gradients, found.loss, where);
  apply_gradients(found.gradients, options, where);
  return found.loss;
}

Operation Optimizer::apply_gradients(const TensorList& gradients, const std::vector<Variable>& variables,
                                     const ApplyOptions& options, Where where) {
  const Tensors& list = gradients.tensors();
  if (list.size() != variables.size())
    throw InvalidArgumentError(
        detail::join("There are ", list.size(), " gradients and ", variables.size(), " variables"), where);
  GradientsAndVariables pairs;
  pairs.reserve(variables.size());
  for (std::size_t i = 0; i < variables.size(); ++i) pairs.emplace_back(list[i], variables[i]);
  return apply_gradients(pairs, options, where);
}

Operation Optimizer::apply_gradients(const GradientsAndVariables& gradients, const ApplyOptions& options, Where where) {
  check_step(gradients, options, where);
  if (const std::shared_ptr<detail::GraphState> graph = graph_for(gradients, options.only_if))
    return add_to_graph(*graph, gradients, options, where);
  if (const std::optional<Ready> ready = make_ready(gradients, options, where)) make_step(*ready);
  return {};
}

void Optimizer::check_step(const GradientsAndVariables& gradients, const ApplyOptions& options, Where where) {
  if (gradients.empty()) throw InvalidArgumentError("No variables provided.", where);
  if (all_empty(gradients))
    throw InvalidArgumentError(detail::join("No gradients provided for any variable: ", names_of(gradients), "."),
                               where);
  for (const auto& [gradient, variable] : gradients)
    if (gradient) check_gradient(gradient, variable, where);
  if (options.global_step) check_global_step(*options.global_step, where);
  if (options.only_if) check_condition(options.only_if, where);
}

/// Computes what a checked step needs; nothing if its condition is false.
std::optional<Optimizer::Ready> Optimizer::make_ready(const GradientsAndVariables& gradients,
                                                      const ApplyOptions& options, Where where) {
  const double rate = learning_rate();
  require_not_negative(rate, "learning_rate", where);
  if (bool(options.only_if) && !options.only_if.item<bool>(where)) return {};
  const ExecuteNow now;
  const PauseRecording pause;
  const CallSiteScope site(where);
  const std::int64_t step = iterations() + 1;
  Ready ready{.step = step,
              .numbers = tensor(rule_->numbers(rate, step)),
              .jobs = {},
              .rows = {},
              .values = {},
              .global_step = options.global_step,
              .where = where};
  std::vector<Job>& jobs = ready.jobs;
  std::vector<std::optional<IndexedSlices>>& rows = ready.rows;
  jobs.reserve(gradients.size());
  for (const auto& [gradient, variable] : gradients) {
    if (!gradient) continue;
    rows.push_back(formula_ ? indexed_slices(gradient, where) : std::nullopt);
    if (rows.back())
      // Named anew, because clang 14 cannot capture a part of a structured binding.
      rows.back() =
          blaming("apply_gradients", where, [&, &table = variable] { return summed_rows(*rows.back(), table); });
    Job& job = jobs.emplace_back(Job{gradient.contiguous(), {variable}});
    const std::vector<Variable>& slots = slots_of(variable, where);
    job.variables.append(slots.begin(), slots.end());
  }
  if (!formula_) ready.values = composed_values(jobs, rate, step, where);
  return ready;
}

void Optimizer::make_step(const Ready& ready) {
  const ExecuteNow now;
  const PauseRecording pause;
  const CallSiteScope site(ready.where);
  if (formula_) {
    for (std::size_t i = 0; i < ready.jobs.size(); ++i) {
      const Job& job = ready.jobs[i];
      ready.rows[i] ? update_rows_in_place(*formula_, ready.numbers, *ready.rows[i], job.variables)
                    : update_in_place(*formula_, ready.numbers, job.gradient, job.variables);
    }
  }
  for (const auto& [variable, value] : ready.values) variable.cell()->store(value.to(variable.device()).contiguous());
  iterations_.assign(ready.step);
  if (ready.global_step) ready.global_step->assign_add(1);
}

/// The values of updates that are composed of ops, to be stored in this order.
std::vector<std::pair<Variable, Tensor>> Optimizer::composed_values(const std::vector<Job>& jobs, double rate,
                                                                    std::int64_t step, Where where) const {
  // The second update of a Variable that comes twice starts from the result of the first.
  std::unordered_map<const Variable::Cell*, Tensor> values;
  std::vector<std::pair<Variable, Tensor>> in_order;
  for (const Job& job : jobs) {
    Tensors before;
    for (const Variable& each : job.variables) {
      const auto changed = values.find(each.cell().get());
      before.push_back(changed == values.end() ? each.cell()->load() : changed->second);
    }
    const Tensor value = before[0];
    const auto number = [&](double x) { return full({}, x, {value.dtype(), value.device()}); };
    const Step now{number(rate), number(static_cast<double>(step))};
    const Tensors next =
        checked_update(job.variables[0], value, job.gradient, Tensors(before.begin() + 1, before.end()), now, where);
    for (std::size_t i = 0; i < next.size(); ++i) {
      values[job.variables[i].cell().get()] = next[i];
      in_order.emplace_back(job.variables[i], next[i]);
    }
  }
  return in_order;
}

Operation Optimizer::add_to_graph(detail::GraphState& graph, const GradientsAndVariables& gradients,
                                  const ApplyOptions& options, Where where) {
  // The function does not capture the optimizer, which may be destroyed before the graph.
  const auto numbers = [rule = rule_, where](const Tensors& steps) -> Tensors {
    const auto before = steps[0].item<std::int64_t>();
    const double rate = steps.size() > 1 ? steps[1].item<double>() : rule->learning_rate(before);
    require_not_negative(rate, "learning_rate", where);
    return {tensor(rule->numbers(rate, before + 1))};
  };
  detail::TrainingStep step{.name = name_,
                            .formula = formula_,
                            .numbers = std::make_shared<const std::function<Tensors(const Tensors&)>>(numbers),
                            .rate = {},
                            .iterations = iterations_,
                            .composed = {},
                            .jobs = {},
                            .global_step = options.global_step,
                            .only_if = options.only_if,
                            .where = where};
  if (rule_->learning_rate.has_formula() && !rule_->learning_rate.is_number()) {
    const auto rate = [rule = rule_](const Tensors& steps) -> Tensors {
      return {rule->learning_rate.formula(steps[0])};
    };
    step.rate = std::make_shared<const std::function<Tensors(const Tensors&)>>(rate);
  }
  for (const auto& [gradient, variable] : gradients) {
    if (!gradient) continue;
    std::vector<Variable> variables{variable};
    const std::vector<Variable>& slots = slots_of(variable, where);
    variables.insert(variables.end(), slots.begin(), slots.end());
    step.jobs.push_back({gradient, std::move(variables)});
  }
  if (!formula_)
    step.composed = [&](const detail::TrainingStep::Job& job, const Tensor& symbolic_numbers, const Tensor& only_if) {
      return add_composed(job.gradient, job.variables, symbolic_numbers, only_if, where);
    };
  return detail::add_training_step(graph, step);
}

/// Adds an update that is composed of ops to a graph. Everything is read before anything is assigned.
Operation Optimizer::add_composed(const Tensor& gradient, const std::vector<Variable>& variables, const Tensor& numbers,
                                  const Tensor& only_if, Where where) const {
  const Graph::Scope scope(numbers.op().graph());
  const CallSiteScope site(where);
  const PauseRecording pause;
  Tensors now;
  for (const Variable& each : variables) now.push_back(each.value());
  const DType dtype = variables[0].dtype();
  const Step step{numbers(0).cast(dtype), numbers(1).cast(dtype)};
  Tensors next = checked_update(variables[0], now[0], checked_like(gradient, now[0]),
                                Tensors(now.begin() + 1, now.end()), step, where);
  std::vector<Operation> before;
  for (std::size_t i = 0; i < next.size(); ++i) {
    if (only_if) next[i] = tapestry::where(only_if, next[i], now[i]);
    for (const Tensor& each : {now[i], next[i]})
      if (each.is_symbolic()) before.push_back(each.op());
  }
  const ControlScope after{ControlInputs(before)};
  std::vector<Operation> assigned;
  for (std::size_t i = 0; i < next.size(); ++i) assigned.push_back(variables[i].assign({next[i], where}).op());
  return group(assigned, {}, where);
}

const std::vector<Variable>& Optimizer::slots_of(const Variable& variable, Where where) {
  if (const auto found = state_of_.find(variable.cell().get()); found != state_of_.end()) {
    const std::vector<Variable>& slots = states_[found->second].slots;
    for (const Variable& slot : slots) slot.cell()->move_to(variable.device());  // the Variable may have been moved
    return slots;
  }
  State state{variable, new_key(variable.name()), {}};
  const std::string waiting_key = key_in(waiting_, state.key, variable, states_.size());
  const ExecuteNow now;
  for (const Slot& slot : slots_) {
    // TensorFlow's names: "w/Adam", "w/Adam_1".
    const std::string number = state.slots.empty() ? "" : "_" + std::to_string(state.slots.size());
    state.slots.push_back(slot_of(variable, name_ + number, first_value(state, waiting_key, slot, where)));
  }
  for (const Slot& slot : slots_) waiting_.erase(waiting_key + "." + slot.name);
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
