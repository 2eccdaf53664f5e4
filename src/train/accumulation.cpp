#include "tapestry/train/accumulation.hpp"

#include <algorithm>

#include "autodiff/variable_cell.hpp"
#include "dispatch/recorder.hpp"
#include "tapestry/ops.hpp"
#include "train/arguments.hpp"
#include "train/loss_gradients.hpp"
#include "train/own_variable.hpp"

namespace tapestry::train {

using detail::join;

namespace {

void check_sum(const std::string& key, const Tensor& value, const Variable& variable, Where where) {
  if (bool(value) && value.dtype() == variable.dtype() && value.shape() == variable.shape()) return;
  throw InvalidArgumentError(join("'", key, "' in the state of a GradientAccumulation does not fit the variable '",
                                  variable.name(), "', ", to_string(variable.dtype()), variable.shape()),
                             where);
}

}  // namespace

GradientAccumulation::GradientAccumulation(std::int64_t batches, Where where)
    : batches_(batches), pending_(own_variable("pending", tensor(std::int64_t{0}))) {
  require(batches >= 1, "batches", batches, ">= 1", where);
}

Variable& GradientAccumulation::sum_of(const Variable& variable, Where where) {
  for (Sum& each : sums_)
    if (each.variable.is(variable)) return each.sum;
  std::string key = variable.name();
  for (int number = 2; std::any_of(sums_.begin(), sums_.end(), [&](const Sum& each) { return each.key == key; });)
    key = join(variable.name(), "#", number++);
  const ExecuteNow now;
  Tensor first = zeros(variable.shape(), {variable.dtype(), variable.device()});
  if (const auto found = waiting_.find(key); found != waiting_.end()) {
    check_sum(key, found->second, variable, where);
    first = found->second.to(variable.device());
    waiting_.erase(found);
  }
  return sums_.emplace_back(Sum{variable, key, slot_of(variable, "sum", first)}).sum;
}

void GradientAccumulation::apply_gradients(Optimizer& optimizer, const TensorList& gradients,
                                           const std::vector<Variable>& variables, const ApplyOptions& options,
                                           Where where) {
  add(optimizer, gradients, variables, options, {}, where);
}

void GradientAccumulation::add(Optimizer& optimizer, const TensorList& gradients,
                               const std::vector<Variable>& variables, const ApplyOptions& options,
                               const Change& change, Where where) {
  const CallSiteScope site(where);
  const Tensors& list = gradients.tensors();
  if (list.size() != variables.size())
    throw InvalidArgumentError(join("There are ", list.size(), " gradients and ", variables.size(), " variables"),
                               where);
  if (std::none_of(list.begin(), list.end(), [](const Tensor& each) { return bool{each}; }))
    throw InvalidArgumentError("No gradients provided for any variable.", where);
  for (std::size_t i = 0; i < list.size(); ++i)
    if (bool(list[i]) && (list[i].dtype() != variables[i].dtype() || !can_be(list[i].shape(), variables[i].shape())))
      throw InvalidArgumentError(
          join("The gradient of variable '", variables[i].name(), "' is ", to_string(list[i].dtype()), list[i].shape(),
               "; the variable is ", to_string(variables[i].dtype()), variables[i].shape()),
          where);
  std::vector<Variable> sums;
  for (const Variable& each : variables) sums.push_back(sum_of(each, where));
  if (sums.size() != sums_.size())
    throw InvalidArgumentError(join("The gradients of ", sums_.size(), " Variables are being summed up, and this call ",
                                    "names ", sums.size(), " of them"),
                               where);

  // This selects values and does not branch on them, because in a graph they are not known.
  const Tensor count = pending_ + 1, is_last = equal(count, batches_);
  std::vector<Tensor> totals, means;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Tensor before = sums[i];
    totals.push_back(list[i] ? before + list[i] : before);
    means.push_back(totals.back() / static_cast<double>(batches_));
  }
  ApplyOptions conditional = options;
  conditional.only_if = options.only_if ? logical_and(is_last, options.only_if) : is_last;
  if (change) means = change(is_last, means);
  optimizer.apply_gradients({means, where}, variables, conditional, where);
  for (std::size_t i = 0; i < list.size(); ++i) sums[i].assign(tapestry::where(is_last, 0, totals[i]));
  pending_.assign(tapestry::where(is_last, 0, count));
}

Tensor GradientAccumulation::minimize(Optimizer& optimizer, const Optimizer::Loss& loss,
                                      const std::vector<Variable>& variables, const ApplyOptions& options,
                                      Where where) {
  Tensor value;
  const auto noted = [&] { return value = loss(); };
  const auto [gradients, of] = loss_gradients(optimizer, noted, variables, where);
  apply_gradients(optimizer, {gradients, where}, of, options, where);
  return value;
}

std::int64_t GradientAccumulation::pending() const { return pending_.cell()->load().item<std::int64_t>(); }

StateDict GradientAccumulation::state_dict() const {
  StateDict state = waiting_;
  for (const Sum& each : sums_) state[each.key] = each.sum.cell()->load();
  state["pending"] = pending_.cell()->load();
  return state;
}

void GradientAccumulation::load_state_dict(const StateDict& state, Where where) {
  const ExecuteNow now;
  StateDict rest = state;
  const auto count = rest.extract("pending");
  if (!count || !count.mapped() || count.mapped().dtype() != int64 || count.mapped().rank() != 0)
    throw InvalidArgumentError("The state of a GradientAccumulation needs a number 'pending' (int64)", where);
  const auto number = count.mapped().item<std::int64_t>();
  if (number < 0 || number >= batches_)
    throw InvalidArgumentError(join("'pending' in the state of a GradientAccumulation of ", batches_, " is ", number),
                               where);
  std::vector<std::pair<Variable, Tensor>> values;
  for (const Sum& each : sums_) {
    const auto found = rest.extract(each.key);
    if (found) check_sum(each.key, found.mapped(), each.variable, where);
    values.emplace_back(each.sum, found ? found.mapped().to(each.sum.device()).contiguous()
                                        : zeros(each.sum.shape(), {each.sum.dtype(), each.sum.device()}));
  }
  for (const auto& [variable, value] : values) variable.cell()->store(value);
  pending_.cell()->store(count.mapped().to(cpu()));
  waiting_ = std::move(rest);
}

}  // namespace tapestry::train
