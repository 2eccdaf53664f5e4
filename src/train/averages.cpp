#include "tapestry/train/averages.hpp"

#include <algorithm>

#include "autodiff/variable_cell.hpp"
#include "dispatch/recorder.hpp"
#include "graph/training.hpp"
#include "tapestry/ops.hpp"
#include "train/arguments.hpp"
#include "train/own_variable.hpp"

namespace tapestry::train {

using detail::join;

ExponentialMovingAverage::ExponentialMovingAverage(double decay, const std::vector<Variable>& variables, Where where)
    : decay_(decay) {
  require_fraction(decay, "decay", where);
  if (variables.empty()) throw InvalidArgumentError("There are no Variables to average", where);
  for (const Variable& each : variables) {
    if (!is_floating(each.dtype()))
      throw InvalidArgumentError(join("Variable '", each.name(), "' is ", to_string(each.dtype()), each.shape(),
                                      "; only float types are averaged"),
                                 where);
    std::string key = each.name();
    const auto is_taken = [&](const Average& other) { return other.key == key; };
    for (int number = 2; std::any_of(averages_.begin(), averages_.end(), is_taken); ++number)
      key = join(each.name(), "#", number);
    averages_.push_back({each, slot_of(each, "average", each.cell()->load()), key});
  }
}

void ExponentialMovingAverage::update(Where where) {
  const CallSiteScope site(where);
  const PauseRecording pause;
  for (Average& each : averages_) {
    const Tensor value = each.variable, average = each.average;
    each.average.assign(average + (1 - decay_) * (value - average));
  }
}

Tensor ExponentialMovingAverage::average(const Variable& variable, Where where) const {
  for (const Average& each : averages_)
    if (each.variable.is(variable)) return each.average;
  throw NotFoundError(join("Variable '", variable.name(), "' is not averaged"), where);
}

void ExponentialMovingAverage::exchange(Where where) {
  const CallSiteScope site(where);
  const PauseRecording pause;
  for (Average& each : averages_) {
    if (detail::is_traced()) {
      const Tensor value = each.variable, average = each.average;
      each.variable.assign(average);
      each.average.assign(value);
      continue;
    }
    const Tensor value = each.variable.cell()->load();
    each.variable.cell()->store(each.average.cell()->load().to(each.variable.device()));
    each.average.cell()->store(value);
  }
}

StateDict ExponentialMovingAverage::state_dict() const {
  StateDict state;
  for (const Average& each : averages_) state.emplace(each.key, each.average.cell()->load());
  return state;
}

void ExponentialMovingAverage::load_state_dict(const StateDict& state, Where where) {
  const ExecuteNow now;
  std::string problems;
  StateDict rest = state;
  std::vector<Tensor> values;
  for (const Average& each : averages_) {
    const auto found = rest.extract(each.key);
    if (!found || !found.mapped() || found.mapped().dtype() != each.average.dtype() ||
        found.mapped().shape() != each.average.shape()) {
      problems += join("\n  '", each.key, "' must be ", to_string(each.average.dtype()), each.average.shape());
    } else {
      values.push_back(found.mapped().to(each.average.device()).contiguous());
    }
  }
  for (const auto& [name, value] : rest) problems += join("\n  '", name, "' is not averaged");
  if (!problems.empty()) throw InvalidArgumentError("The state does not fit the averages:" + problems, where);
  for (std::size_t i = 0; i < values.size(); ++i) averages_[i].average.cell()->store(values[i]);
}

}  // namespace tapestry::train
