#include "tapestry/train/accumulation.hpp"

#include <algorithm>

#include "autodiff/variable_cell.hpp"
#include "backend/backend.hpp"
#include "dispatch/recorder.hpp"
#include "ops/checked_like.hpp"
#include "ops/sparse.hpp"
#include "tapestry/ops.hpp"
#include "train/arguments.hpp"
#include "train/loss_gradients.hpp"
#include "train/own_variable.hpp"

namespace tapestry::train {

using detail::join;

namespace {

Specs added_rows(const Call& call) {
  Shape rows = call.input(1).shape();
  rows.set(0, -1);
  return {{call.input(0).dtype(), {-1}}, {call.input(1).dtype(), rows}};
}

Tensors run_closure(const Call& call) { return (*call.attr<Closure>("run"))(call.inputs()); }

// Plans run these ops as part of a step. They change what the closure keeps, in the program's order. They are never
// destroyed, as the registered ones outlive a program's static objects.

/// Adds the rows of a batch: see GradientAccumulation::Rows::run.
const Op& accumulate_rows_op = *new Op{
    .name = "AccumulateRows",
    .attrs = {{"run", AttrKind::function}},
    .infer = added_rows,
    .evaluate = run_closure,
    .gradient = no_gradient,
    .outputs = 2,
    .stateful = true,
};
/// Keeps them, or forgets all after the last batch.
const Op& keep_rows_op = *new Op{
    .name = "KeepRows",
    .attrs = {{"run", AttrKind::function}},
    .infer = [](const Call&) -> Specs { return {}; },
    .forward = [](Backend&, const Call& call) { run_closure(call); },
    .gradient = no_gradient,
    .outputs = 0,
    .stateful = true,
};

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

/// The rows of row-sparse gradients since the last step.
struct GradientAccumulation::Rows {
  std::vector<IndexedSlices> parts;
  IndexedSlices added;  ///< by the present batch

  /// The inputs of `accumulate_rows_op`: the rows of a batch and whether it is the last one, or only that, when the
  /// step has been made. Returns all rows, or none if the batch is not the last one.
  Tensors run(const Tensors& inputs) {
    const PauseRecording pause;
    const ExecuteNow now;
    const bool is_last = inputs.back().item<bool>();
    if (inputs.size() == 1) {
      is_last ? parts.clear() : parts.push_back(added);
      return {};
    }
    // A plan uses the memory of its inputs again.
    added = {copy_of(inputs[0]), copy_of(inputs[1])};
    if (!is_last) return {added.indices(range(0)), added.values(range(0))};
    std::vector<Tensor> indices, values;
    for (const IndexedSlices& each : parts) {
      indices.push_back(each.indices);
      values.push_back(each.values);
    }
    indices.push_back(added.indices);
    values.push_back(added.values);
    return {concat(indices), concat(values)};
  }

  static Tensor copy_of(const Tensor& x) { return backend_of(x.device()).contiguous_copy(x); }

  /// The sum of all rows.
  Tensor sum(const Variable& variable) const {
    Tensor all = zeros(variable.shape(), {variable.dtype(), variable.device()});
    for (const IndexedSlices& each : parts) all = all + to_tensor(each, all);
    return all;
  }
  void set_sum(const Tensor& sum) {
    Ints axes;
    for (int axis = 1; axis < sum.rank(); ++axis) axes.push_back(axis);
    const Tensor is_used = reduce_any(not_equal(sum, 0.0), axes);
    const Tensor indices = reshape(nonzero(is_used), {-1}).to(sum.device());
    parts = {{indices, gather(sum, indices)}};
  }
};

GradientAccumulation::Sum& GradientAccumulation::sum_of(const Variable& variable, bool is_sparse, Where where) {
  for (Sum& each : sums_)
    if (each.variable.is(variable)) return each;
  std::string key = variable.name();
  for (int number = 2; std::any_of(sums_.begin(), sums_.end(), [&](const Sum& each) { return each.key == key; });)
    key = join(variable.name(), "#", number++);
  const ExecuteNow now;
  Tensor first;
  if (const auto found = waiting_.find(key); found != waiting_.end()) {
    check_sum(key, found->second, variable, where);
    first = found->second.to(variable.device());
    waiting_.erase(found);
  }
  Sum& sum = sums_.emplace_back(Sum{variable, key, {}, {}, {}});
  if (is_sparse) {
    sum.rows = std::make_shared<Rows>();
    sum.run = std::make_shared<const std::function<Tensors(const Tensors&)>>(
        [rows = sum.rows](const Tensors& inputs) { return rows->run(inputs); });
    if (first) sum.rows->set_sum(first);
  } else {
    if (!first) first = zeros(variable.shape(), {variable.dtype(), variable.device()});
    sum.sum = slot_of(variable, "sum", first);
  }
  return sum;
}

/// The sum with the gradient, which may be empty. That of rows is complete in the last batch only.
Tensor GradientAccumulation::total_of(Sum& sum, const Tensor& gradient, const Tensor& is_last) {
  if (sum.sum) {
    const Tensor before = *sum.sum;
    return gradient ? before + checked_like(gradient, before) : before;
  }
  const Variable& variable = sum.variable;
  Shape none = variable.shape();
  none.set(0, 0);
  IndexedSlices added{zeros({0}, {int64, variable.device()}), zeros(none, {variable.dtype(), variable.device()})};
  if (gradient) {
    const std::optional<IndexedSlices> rows = indexed_slices(gradient);
    const std::int64_t count = variable.shape().sizes()[0];
    added = rows ? *rows
                 : IndexedSlices{arange(count, {.dtype = int64}).to(variable.device()),
                                 checked_like(gradient, variable.shape())};
  }
  added.indices = added.indices.cast(int64);
  const Tensors all = apply_all(accumulate_rows_op, {added.indices, added.values, is_last}, {{"run", sum.run}}, {},
                                CallSiteScope::current());
  return to_tensor({all[0], all[1]}, gradient ? gradient : variable.cell()->load());
}

/// Keeps the sum for the next batch, after the step.
void GradientAccumulation::finish(Sum& sum, const Tensor& total, const Tensor& is_last) {
  if (sum.sum) {
    sum.sum->assign(tapestry::where(is_last, 0, total));
    return;
  }
  apply_all(keep_rows_op, {is_last}, {{"run", sum.run}}, {}, CallSiteScope::current());
}

void GradientAccumulation::apply_gradients(const AnyOptimizer& optimizer, const TensorList& gradients,
                                           const std::vector<Variable>& variables, const ApplyOptions& options,
                                           Where where) {
  const auto step = [&](const Tensor&, const std::vector<Tensor>& means, const ApplyOptions& conditional) {
    optimizer.apply_gradients({means, where}, variables, conditional, where);
  };
  add(gradients, variables, options, step, where);
}

void GradientAccumulation::add(const TensorList& gradients, const std::vector<Variable>& variables,
                               const ApplyOptions& options, const Step& step, Where where) {
  const CallSiteScope site(where);
  const Tensors& list = gradients.tensors();
  if (list.size() != variables.size())
    throw InvalidArgumentError(join("There are ", list.size(), " gradients and ", variables.size(), " variables"),
                               where);
  if (std::none_of(list.begin(), list.end(), [](const Tensor& each) { return bool{each}; }))
    throw InvalidArgumentError("No gradients provided for any variable.", where);
  for (std::size_t i = 0; i < list.size(); ++i)
    if (bool(list[i]) && (list[i].dtype() != variables[i].dtype() || !agree(list[i].shape(), variables[i].shape())))
      throw InvalidArgumentError(
          join("The gradient of variable '", variables[i].name(), "' is ", to_string(list[i].dtype()), list[i].shape(),
               "; the variable is ", to_string(variables[i].dtype()), variables[i].shape()),
          where);
  for (std::size_t i = 0; i < list.size(); ++i)
    sum_of(variables[i], bool(list[i]) && indexed_slices(list[i], where).has_value(), where);
  if (list.size() != sums_.size())
    throw InvalidArgumentError(join("The gradients of ", sums_.size(), " Variables are being summed up, and this call ",
                                    "names ", list.size(), " of them"),
                               where);

  // This selects values and does not branch on them, because in a graph they are not known.
  const Tensor count = pending_ + 1, is_last = equal(count, batches_);
  std::vector<Tensor> totals, means;
  for (std::size_t i = 0; i < list.size(); ++i) {
    totals.push_back(total_of(sum_of(variables[i], false, where), list[i], is_last));
    means.push_back(map_rows(totals.back(), [&](const Tensor& each) { return each / static_cast<double>(batches_); }));
  }
  ApplyOptions conditional = options;
  conditional.only_if = options.only_if ? logical_and(is_last, options.only_if) : is_last;
  step(is_last, means, conditional);
  for (std::size_t i = 0; i < list.size(); ++i) finish(sum_of(variables[i], false, where), totals[i], is_last);
  pending_.assign(tapestry::where(is_last, 0, count));
}

Tensor GradientAccumulation::minimize(const AnyOptimizer& optimizer, const Optimizer::Loss& loss,
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
  const ExecuteNow now;
  const PauseRecording pause;
  for (const Sum& each : sums_) state[each.key] = each.sum ? each.sum->cell()->load() : each.rows->sum(each.variable);
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
  const PauseRecording pause;
  std::vector<Tensor> values;
  for (const Sum& each : sums_) {
    const Variable& of = each.variable;
    const auto found = rest.extract(each.key);
    if (found) check_sum(each.key, found.mapped(), of, where);
    values.push_back(found ? found.mapped().to(of.device()).contiguous()
                           : zeros(of.shape(), {of.dtype(), of.device()}));
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    sums_[i].sum ? sums_[i].sum->cell()->store(values[i]) : sums_[i].rows->set_sum(values[i]);
  pending_.cell()->store(count.mapped().to(cpu()));
  waiting_ = std::move(rest);
}

}  // namespace tapestry::train
