#include "autodiff/backward.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include "autodiff/with_gradient_to.hpp"
#include "backend/backend.hpp"
#include "core/deferred.hpp"
#include "core/make_tensor.hpp"
#include "dispatch/declaration.hpp"
#include "dispatch/recorder.hpp"
#include "ops/checked_like.hpp"
#include "ops/sparse.hpp"
#include "tapestry/autocast.hpp"
#include "tapestry/detail/locate.hpp"
#include "tapestry/ops.hpp"
#include "tapestry/tape.hpp"

namespace tapestry {
namespace {

/// Fits the gradient of an input to the input's shape. Where the op broadcasts, a gradient of another shape is summed
/// to that of the input; elsewhere another shape is a mistake of the op.
/// `is_shared`: whether the tensor is also the gradient of another input or of an output, and a tape records the walk.
Tensor fit(const Call& call, std::size_t index, Tensor gradient, bool is_shared) {
  const Tensor& input = call.input(index);
  if (gradient.dtype() != input.dtype() && gradient.dtype() != DType::unknown && input.dtype() != DType::unknown)
    throw InvalidArgumentError(detail::join(
        "Incompatible types between op input and calculated input gradient. Forward operation: ", call.name(),
        ". Input index: ", index, ". Original input type: ", to_string(input.dtype()),
        ".  Calculated input gradient type: ", to_string(gradient.dtype())));
  if (gradient.shape() == input.shape() && gradient.shape().is_known())
    // Where sizes are unknown, a tape that records the walk sees `sum_like` here. It sees an op here, too, so that it
    // adds up gradients in the same order.
    return is_shared && call.op().broadcasts ? identity(gradient) : gradient;
  if (call.op().broadcasts) return sum_like(gradient, input);
  if (agree(gradient.shape(), input.shape()))
    return has_own_gradient(call.op()) ? gradient : checked_like(gradient, input);
  throw InvalidArgumentError(detail::join(
      "Incompatible shapes between op input and calculated input gradient. Forward operation: ", call.name(),
      ". Input index: ", index, ". Original input shape: ", input.shape(),
      ".  Calculated input gradient shape: ", gradient.shape()));
}

}  // namespace

namespace {

Tensors gradient_of_call(const Call& call, Tensors&& arrived) {
  const Op& op = call.op();
  try {
    return op.gradient ? op.gradient(call, std::move(arrived)) : gradient_of_composition(call, arrived, op.composition);
  } catch (const NoValueError& error) {
    const Needs needs = needs_of(op);
    const auto blame = [&](const Tensors& kept, std::uint32_t needed, std::string_view what) {
      for (std::size_t i = 0; i < kept.size(); ++i)
        if (bool(kept[i]) && kept[i].id() == error.tensor && (needed >> std::min<std::size_t>(i, 31) & 1) == 0)
          throw FailedPreconditionError(detail::join("The gradient reads ", what, i, ", which `needs` leaves out"));
    };
    blame(call.inputs(), needs.inputs, "input ");
    blame(call.outputs(), needs.outputs, "output ");
    throw;
  }
}

}  // namespace

Tensors gradient_of_composition(const Call& call, const Tensors& arrived, const Composition& composition) {
  GradientTape tape({.watch_accessed_variables = false});
  Tensors inputs;
  std::vector<Tensor> sources;
  for (const Tensor& input : call.inputs()) {
    inputs.push_back(identity(input));  // the same tensor may be given twice
    if (!is_floating(input.dtype())) continue;
    tape.watch(inputs.back());
    sources.push_back(inputs.back());
  }
  const Composing inside(call);
  const Tensors results = compose(composition, call, inputs);
  std::vector<Tensor> targets, seeds;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!arrived[i]) continue;
    targets.push_back(results[i]);
    seeds.push_back(arrived[i]);
  }
  const std::vector<Tensor> found = tape.gradient(targets, sources, {.output_gradients = seeds});
  Tensors gradients;
  auto next = found.begin();
  for (const Tensor& input : call.inputs()) gradients.push_back(is_floating(input.dtype()) ? *next++ : Tensor());
  return gradients;
}

void check_seeds(const Tensors& targets, const Tensors& seeds) {
  if (!seeds.empty() && seeds.size() != targets.size())
    throw InvalidArgumentError(
        detail::join("There are ", targets.size(), " targets and ", seeds.size(), " output gradients"));
  for (std::size_t i = 0; i < seeds.size(); ++i) {
    if (!seeds[i]) continue;
    const Spec &seed = seeds[i].spec(), &target = targets[i].spec();
    const bool alike = seed.dtype == target.dtype || seed.dtype == DType::unknown || target.dtype == DType::unknown;
    if (!alike || !agree(seed.shape, target.shape))
      throw InvalidArgumentError(detail::join("The output gradient ", to_string(seed.dtype), seed.shape,
                                              " does not fit the target ", to_string(target.dtype), target.shape));
  }
}

Tensor first_gradient(const Tensors& targets, const Tensors& seeds, std::size_t i, std::string_view name) {
  return !seeds.empty() && bool(seeds[i]) ? checked_like(seeds[i], targets[i]) : ones_like(targets[i], name);
}

Backward::Backward(CallList& calls, std::int32_t slots, const std::vector<Slots>& sources,
                   const std::vector<std::int32_t>& stops)
    : calls_(calls), count_(calls.size()), gradients_(slots), live_(slots), is_source_(slots) {
  for (const Slots& source : sources)
    for (const std::int32_t slot : source)
      if (slot >= 0) live_[slot] = is_source_[slot] = 1;
  if (!stops.empty()) is_stop_.resize(slots);
  for (const std::int32_t stop : stops)
    if (stop >= 0) is_stop_[stop] = 1;
  join_values(sources);
  for (std::size_t i = 0; i < count_; ++i) {
    const RecordedCall& record = calls_[i];
    if (std::none_of(record.inputs.begin(), record.inputs.end(), [&](std::int32_t slot) { return is_live(slot); }))
      continue;
    for (const std::int32_t output : record.outputs)
      if (output >= 0 && !is_stop(output)) live_[output] = 1;
    if (detail::is_with_gradient_to(record.call)) join_to_source(record);
  }
}

/// The gradients of all values of a Variable are added up in the order of the walk, as those of one tensor are: a loop
/// in a graph does not know which value an iteration reads. A value that is a source itself has its own sum.
void Backward::join_values(const std::vector<Slots>& sources) {
  const auto is_alone = [&](std::int32_t slot) {
    return std::any_of(sources.begin(), sources.end(),
                       [&](const Slots& source) { return source.size() == 1 && source[0] == slot; });
  };
  for (const Slots& source : sources)
    if (source.size() > 1 && std::none_of(source.begin(), source.end(), is_alone))
      for (const std::int32_t slot : source) join(slot, source[0]);
}

/// What uses the value of `with_gradient_to` adds to the gradient of its source, unless the value is a source itself.
void Backward::join_to_source(const RecordedCall& record) {
  const std::int32_t value = record.outputs[0], source = record.inputs[1];
  if (is_live(source) && !is_source_[value] && !is_stop(value)) join(value, sum_of(source));
}

void Backward::join(std::int32_t slot, std::int32_t other) {
  if (joined_.empty()) {
    joined_.resize(gradients_.size());
    std::iota(joined_.begin(), joined_.end(), 0);
  }
  joined_[slot] = other;
}

Tensor Backward::gradient(const Slots& source) const {
  if (source.size() > 1 && sum_of(source[0]) == sum_of(source[1])) return gradients_[sum_of(source[0])];
  Tensor sum;
  for (std::size_t i = source.size(); i-- > 0;)
    if (source[i] >= 0 && bool(gradients_[source[i]]))
      sum = sum ? add_gradients(sum, gradients_[source[i]]) : gradients_[source[i]];
  return sum;
}

void Backward::accumulate(std::int32_t slot, Tensor gradient) {
  Tensor& sum = gradients_[sum_of(slot)];
  if (!sum) {
    sum = std::move(gradient);
  } else if (recorders().empty() && detail::is_private(sum) && !gradient.is_symbolic() &&
             !detail::is_deferred(gradient) && sum.spec() == gradient.spec() && sum.device() == gradient.device()) {
    // This adds in place, without another memory block.
    backend_of(sum.device()).binary(Binary::add, sum, gradient, 0, sum);
  } else {
    sum = add_gradients(sum, gradient);
  }
}

void Backward::run(bool consume, const std::function<void(std::size_t)>& passed) {
  for (std::size_t i = count_; i-- > 0;) {
    pass(calls_[i]);
    if (consume) calls_.pop_back();
    if (passed) passed(i);
  }
}

std::vector<std::size_t> Backward::first_readers() const {
  std::vector<std::size_t> first(gradients_.size(), SIZE_MAX);
  for (std::size_t i = count_; i-- > 0;)
    for (const std::int32_t slot : calls_[i].inputs)
      if (slot >= 0) first[slot] = i;
  return first;
}

void Backward::pass(RecordedCall& record) {
  Call& call = record.call;
  if (!joined_.empty() && record.outputs[0] >= 0 && joined_[record.outputs[0]] != record.outputs[0]) return;
  if (std::none_of(record.inputs.begin(), record.inputs.end(), [&](std::int32_t slot) { return is_live(slot); }))
    return;
  Tensors arrived;
  bool any = false;
  for (const std::int32_t output : record.outputs) {
    if (!is_live(output) || is_stop(output)) {
      arrived.emplace_back();
      continue;
    }
    Tensor& gradient = gradients_[output];
    any |= static_cast<bool>(gradient);
    // No earlier call can add to the gradient of this output, so it is kept only for a source.
    if (is_source_[output]) {
      arrived.push_back(gradient);
    } else {
      arrived.push_back(std::move(gradient));
    }
  }
  if (!any) return;

  const CallSiteScope blame(call.where());
  const Op& op = call.op();
  detail::locating(op.name, call.where(), [&] {
    if (!op.gradient && !op.composition)
      throw LookupError(
          detail::join("No gradient defined for operation '", call.name(), "' (op type: ", call.type(), ")"));
    std::uint32_t unwanted = 0;
    for (std::size_t i = 0; i < record.inputs.size() && i < 32; ++i)
      if (!is_live(record.inputs[i])) unwanted |= 1U << i;
    call.set_unwanted_gradients(unwanted);
    const Autocast off(float32);  // the forward pass has chosen the types
    std::optional<SinkScope> scope;
    if (open_sink()) scope.emplace(call.name() + "_grad");
    if (op.gradient_sums) {
      Tensors sums(record.inputs.size());
      // Of inputs that share a sum, the last one gets it.
      for (std::size_t i = sums.size(); i-- > 0;)
        if (is_live(record.inputs[i])) sums[i] = std::move(gradients_[sum_of(record.inputs[i])]);
      arrived.append(sums.begin(), sums.end());
    }
    Tensors gradients = gradient_of_call(call, std::move(arrived));
    if (gradients.size() != record.inputs.size())
      throw InvalidArgumentError(detail::join("Num gradients ", gradients.size(), " generated for op ", call.name(),
                                              " do not match num inputs ", record.inputs.size()));
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i] || !is_live(record.inputs[i])) continue;
      const auto is_same = [&](const Tensor& other) { return bool(other) && other.is(gradients[i]); };
      const bool is_shared =
          is_recorded() && (std::any_of(gradients.begin() + i + 1, gradients.end(), is_same) ||
                            std::any_of(record.outputs.begin(), record.outputs.end(), [&](std::int32_t output) {
                              return output >= 0 && is_same(gradients_[output]);
                            }));
      accumulate(record.inputs[i], fit(call, i, std::move(gradients[i]), is_shared));
    }
  });
}

}  // namespace tapestry
