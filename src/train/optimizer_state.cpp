#include <algorithm>
#include <limits>

#include "autodiff/variable_cell.hpp"
#include "dispatch/recorder.hpp"
#include "tapestry/ops/creation.hpp"
#include "tapestry/train/optimizer.hpp"

namespace tapestry::train {
namespace {

constexpr const char* iterations_key = "iterations";

/// The value on the device of a Variable, with contiguous elements.
Tensor value_for(const Variable& variable, const Tensor& value) { return value.to(variable.device()).contiguous(); }

void check_fits(const std::string& key, const Tensor& value, const Variable& variable, Where where) {
  if (value.dtype() == variable.dtype() && value.shape() == variable.shape()) return;
  throw InvalidArgumentError(
      detail::join("'", key, "' in the state of an optimizer is ", value.dtype(), value.shape(), "; the variable '",
                   variable.name(), "' is ", variable.dtype(), variable.shape()),
      where);
}

}  // namespace

std::string Optimizer::new_key(const std::string& name) const {
  std::string key = name;
  const auto is_taken = [&](const State& state) { return state.key == key; };
  for (int number = 2; std::any_of(states_.begin(), states_.end(), is_taken); ++number)
    key = detail::join(name, '#', number);
  return key;
}

/// The name under which a state has the slots of a Variable. This is its key, or, in states of older versions, the name
/// that it was given, with its number among the Variables of that name. `before` is the number of Variables that this
/// optimizer updated before it.
std::string Optimizer::key_in(const StateDict& state, const std::string& key, const Variable& variable,
                              std::size_t before) const {
  if (slots_.empty() || state.contains(key + "." + slots_[0].name)) return key;
  for (const auto& [name, value] : state)
    if (name.find('.') != name.rfind('.')) return key;  // it has paths, so it is not of an older version
  const std::string& given = variable.cell()->given_name;
  const auto same = std::count_if(states_.begin(), states_.begin() + before,
                                  [&](const State& each) { return each.variable.cell()->given_name == given; });
  return same == 0 ? given : detail::join(given, '#', same + 1);
}

Tensor Optimizer::first_value(const State& state, const std::string& waiting_key, const Slot& slot, Where where) const {
  const Variable& variable = state.variable;
  const std::string key = waiting_key + "." + slot.name;
  const auto found = waiting_.find(key);
  if (found == waiting_.end())
    return full(variable.shape(), slot.initial_value, {.dtype = variable.dtype(), .device = variable.device()});
  check_fits(key, found->second, variable, where);
  return value_for(variable, found->second);
}

StateDict Optimizer::state_dict() const {
  StateDict all = waiting_;
  all[iterations_key] = iterations_.cell()->load();
  for (const State& state : states_)
    for (std::size_t i = 0; i < slots_.size(); ++i)
      all[state.key + "." + slots_[i].name] = state.slots[i].cell()->load();
  return all;
}

void Optimizer::check_state(const StateDict& state, Where where) const {
  const auto steps = state.find(iterations_key);
  if (steps == state.end() || !steps->second || steps->second.dtype() != int64 || steps->second.rank() != 0)
    throw InvalidArgumentError("The state of an optimizer needs the number of its steps, 'iterations' (int64)", where);
  if (const auto count = steps->second.item<std::int64_t>();
      count < 0 || count == std::numeric_limits<std::int64_t>::max())
    throw InvalidArgumentError(detail::join("The number of steps of an optimizer cannot be ", count), where);
  for (const auto& [key, value] : state) {
    const std::size_t dot = key.rfind('.');
    const std::string slot_name = dot == std::string::npos ? "" : key.substr(dot + 1);
    const bool known = std::any_of(slots_.begin(), slots_.end(), [&](const Slot& s) { return s.name == slot_name; });
    if (key != iterations_key && (!known || !value))
      throw InvalidArgumentError(detail::join("'", key, "' is no state of the optimizer ", name_), where);
    // No optimizer has only some of a Variable's slots.
    for (const Slot& slot : slots_)
      if (known && !state.contains(key.substr(0, dot + 1) + slot.name))
        throw InvalidArgumentError(detail::join("The state of the optimizer ", name_, " has '", key, "' but no '",
                                                key.substr(0, dot + 1) + slot.name, "'"),
                                   where);
  }
}

void Optimizer::load_state_dict(const StateDict& state, Where where) {
  const ExecuteNow now;
  const PauseRecording pause;
  check_state(state, where);
  // All values are made ready before the first Variable changes.
  StateDict rest = state;
  std::vector<std::pair<Variable, Tensor>> values{{iterations_, value_for(iterations_, rest[iterations_key])}};
  rest.erase(iterations_key);
  for (std::size_t k = 0; k < states_.size(); ++k) {
    const State& each = states_[k];
    const std::string key = key_in(state, each.key, each.variable, k);
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      const Variable& slot = each.slots[i];
      const auto found = rest.find(key + "." + slots_[i].name);
      if (found == rest.end()) {
        values.emplace_back(slot, full(slot.shape(), slots_[i].initial_value, {slot.dtype(), slot.device()}));
      } else {
        check_fits(found->first, found->second, each.variable, where);
        values.emplace_back(slot, value_for(slot, found->second));
        rest.erase(found);
      }
    }
  }
  for (const auto& [variable, value] : values) variable.cell()->store(value);
  waiting_ = std::move(rest);
}

}  // namespace tapestry::train
