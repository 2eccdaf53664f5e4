#include "tapestry/train/loss_scale.hpp"

#include <cmath>

#include "autodiff/variable_cell.hpp"
#include "dispatch/recorder.hpp"
#include "ops/sparse.hpp"
#include "tapestry/ops.hpp"
#include "train/arguments.hpp"
#include "train/loss_gradients.hpp"
#include "train/own_variable.hpp"

namespace tapestry::train {
namespace {

/// Whether all elements of the gradients are finite: a bool scalar, on the CPU unless it is symbolic. Empty Tensors are
/// left out.
Tensor all_finite(const Tensors& gradients) {
  Tensor finite;
  for (const Tensor& each : gradients) {
    if (!each) continue;
    const Tensor part = reduce_all(is_finite(elements_of(each)));
    finite = finite ? logical_and(finite, part) : part;
  }
  return bool(finite) && !finite.is_symbolic() ? finite.to(cpu()) : finite;
}

/// The tensor of a state under that name. Throws InvalidArgumentError unless it is a scalar of that dtype.
const Tensor& scalar_of(const StateDict& state, const char* name, DType dtype, Where where) {
  const auto found = state.find(name);
  if (found == state.end() || !found->second || found->second.dtype() != dtype || found->second.rank() != 0)
    throw InvalidArgumentError(
        detail::join("The state of a loss scale needs '", name, "', a scalar of ", to_string(dtype)), where);
  return found->second;
}

}  // namespace

LossScale::LossScale(const LossScaleOptions& options, Where where)
    : growth_steps_(options.growth_steps),
      scale_(own_variable("loss_scale", tensor(static_cast<float>(options.initial_scale)))),
      good_steps_(own_variable("good_steps", tensor(std::int64_t{0}))) {
  require(options.initial_scale >= 1 && std::isfinite(static_cast<float>(options.initial_scale)), "initial_scale",
          options.initial_scale, "a finite number >= 1", where);
  require(options.growth_steps >= 1, "growth_steps", options.growth_steps, ">= 1", where);
}

Tensor LossScale::scale(In loss) const {
  const CallSiteScope site(loss.where());
  // A Variable beside a symbolic tensor is read in that tensor's graph.
  return loss->is_symbolic() ? multiply(loss, scale_) : multiply(loss, scale_.value().to(loss->device()));
}

std::vector<Tensor> LossScale::unscale(const InList& gradients) const {
  const CallSiteScope site(gradients.where());
  std::vector<Tensor> unscaled;
  const auto divided = [&](const Tensor& each) {
    const Tensor quotient = each.is_symbolic() ? divide(each, scale_) : divide(each, scale_.value().to(each.device()));
    return quotient.cast(each.dtype());
  };
  for (const Tensor& each : gradients.tensors()) unscaled.push_back(each ? map_rows(each, divided) : each);
  return unscaled;
}

Operation LossScale::apply_gradients(const AnyOptimizer& optimizer, const TensorList& gradients,
                                     const std::vector<Variable>& variables, const ApplyOptions& options, Where where) {
  return step(optimizer, gradients, variables, options, {}, where);
}

/// Makes a step if all gradients are finite, and adapts the scale, in the last of several batches if there are such.
Operation LossScale::step(const AnyOptimizer& optimizer, const TensorList& gradients,
                          const std::vector<Variable>& variables, const ApplyOptions& options, const Tensor& is_last,
                          Where where) {
  const CallSiteScope site(where);
  const Tensor finite = all_finite(gradients.tensors());
  ApplyOptions conditional = options;
  if (finite) conditional.only_if = options.only_if ? logical_and(finite, options.only_if) : finite;
  const Operation made = optimizer.apply_gradients(gradients, variables, conditional, where);
  return adapt(finite, is_last, made, where);
}

/// Sets the scale and the count of good steps. It selects values and does not branch on them, because in a graph they
/// are not known.
Operation LossScale::adapt(const Tensor& finite, const Tensor& is_last, const Operation& after, Where where) {
  std::optional<Graph::Scope> graph;
  if (after && !open_sink()) graph.emplace(after.graph());
  std::optional<ControlScope> order;
  if (after) order.emplace(ControlInputs{after});
  const Tensor scale = scale_, good = good_steps_, steps = good + 1, doubled = scale * 2.0;
  const Tensor enough = greater_equal(steps, growth_steps_);
  const Tensor grown = tapestry::where(logical_and(enough, is_finite(doubled)), doubled, scale);
  const auto if_last = [&](const Tensor& next, const Tensor& before) {
    return is_last ? tapestry::where(is_last, next, before) : next;
  };
  const Tensor next = if_last(tapestry::where(finite, grown, maximum(scale * 0.5, 1.0)), scale);
  const Tensor count = if_last(tapestry::where(logical_and(finite, logical_not(enough)), steps, 0), good);
  const Tensor assigned = scale_.assign(next), counted = good_steps_.assign(count);
  return after ? group({after, assigned.op(), counted.op()}, {}, where) : Operation();
}

/// The gradients of a loss, which is `value` afterwards, and their Variables.
std::pair<std::vector<Tensor>, std::vector<Variable>> LossScale::gradients_of(const AnyOptimizer& optimizer,
                                                                              const Optimizer::Loss& loss,
                                                                              const std::vector<Variable>& variables,
                                                                              Tensor& value, Where where) const {
  const auto scaled = [&] {
    value = loss();
    return value ? scale({value, where}) : value;
  };
  auto [gradients, of] = loss_gradients(optimizer, scaled, variables, where);
  return {unscale({gradients, where}), of};
}

Tensor LossScale::minimize(const AnyOptimizer& optimizer, const Optimizer::Loss& loss,
                           const std::vector<Variable>& variables, const ApplyOptions& options, Where where) {
  Tensor value;
  const auto [gradients, of] = gradients_of(optimizer, loss, variables, value, where);
  apply_gradients(optimizer, {gradients, where}, of, options, where);
  return value;
}

Tensor LossScale::minimize(GradientAccumulation& accumulation, const AnyOptimizer& optimizer,
                           const Optimizer::Loss& loss, const std::vector<Variable>& variables,
                           const ApplyOptions& options, Where where) {
  Tensor value;
  const auto pairs = gradients_of(optimizer, loss, variables, value, where);
  const auto made = [&](const Tensor& is_last, const std::vector<Tensor>& means, const ApplyOptions& conditional) {
    step(optimizer, {means, where}, pairs.second, conditional, is_last, where);
  };
  accumulation.add({pairs.first, where}, pairs.second, options, made, where);
  return value;
}

double LossScale::value() const { return scale_.cell()->load().item<double>(); }

StateDict LossScale::state_dict() const {
  return {{"good_steps", good_steps_.cell()->load()}, {"scale", scale_.cell()->load()}};
}

void LossScale::load_state_dict(const StateDict& state, Where where) {
  const ExecuteNow now;
  const Tensor scale = scalar_of(state, "scale", float32, where), steps = scalar_of(state, "good_steps", int64, where);
  const auto number = scale.item<double>();
  require(number >= 1 && std::isfinite(number), "'scale' in the state of a loss scale", number, "a finite number >= 1",
          where);
  require(steps.item<std::int64_t>() >= 0, "'good_steps' in the state of a loss scale", steps.item<std::int64_t>(),
          ">= 0", where);
  scale_.cell()->store(scale.to(cpu()));
  good_steps_.cell()->store(steps.to(cpu()));
}

}  // namespace tapestry::train
