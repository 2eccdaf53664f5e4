#include "autodiff/custom_gradient_ops.hpp"

#include <algorithm>

#include "autodiff/with_gradient_to.hpp"
#include "backend/views.hpp"
#include "core/deferred.hpp"
#include "dispatch/define.hpp"
#include "dispatch/recorder.hpp"
#include "ops/batching.hpp"
#include "tapestry/ops.hpp"

namespace tapestry {
namespace detail {
namespace {

const Closure& closure(const Call& call) { return call.attr<Closure>("function"); }

Tensor view_of_value(const Call& call, const Spec&) { return view_of(call.input(0)); }

/// The value of each example. The gradient function runs for each example, too; the gradients of what the examples
/// share are summed. It needs the arguments, whichever op the value came from.
Tensors batch_with_gradient(const BatchedCall& call) {
  const std::vector<bool> has_batch(call.has_batch().begin() + 1, call.has_batch().end());
  auto gradient = [one = closure(call.one()), vmap = call.vmap(), has_batch,
                   where = call.one().where()](const Tensors& all) -> Tensors {
    std::vector<bool> given = has_batch;
    given.push_back(true);
    Tensors gradients = vmap(*one, all, given, where);
    for (std::size_t i = 0; i < gradients.size() && i < has_batch.size(); ++i)
      if (bool(gradients[i]) && !has_batch[i]) gradients[i] = reduce_sum(gradients[i], 0);
    return gradients;
  };
  Tensors inputs{call.all(0)};
  for (std::size_t i = 1; i < call.size(); ++i) inputs.push_back(call.input(i));
  const Attrs attrs{{"function", std::make_shared<const std::function<Tensors(const Tensors&)>>(gradient)}};
  return apply_all(recompute_op, inputs, attrs, {}, call.one().where());
}

/// An op that returns its first input, a value that the user's function has computed. No gradient flows back to that
/// input. The attribute gives the gradients of the other inputs, such as the function's arguments.
Op passing_op(const char* name, Needs needs) {
  return {
      .name = name,
      .attrs = {{"function", AttrKind::function}},
      .infer = same_shape,
      .view = view_of_value,
      .gradient = [](const Call& call, const Tensor& g) -> Tensors {
        Tensors arguments(call.inputs().begin() + 1, call.inputs().end());
        arguments.push_back(g);
        Tensors gradients = (*closure(call))(arguments);
        if (gradients.size() + 1 != call.inputs().size())
          throw InvalidArgumentError(join("Num gradients ", gradients.size(), " generated for op ", call.name(),
                                          " do not match num inputs ", call.inputs().size() - 1));
        gradients.insert(gradients.begin(), Tensor());
        return gradients;
      },
      .needs = needs,
      .shape_inputs = ~1U,
      .batch = batch_with_gradient,
  };
}
}  // namespace

TAPESTRY_OP(custom_gradient_op)(passing_op("CustomGradient", needs_nothing));
TAPESTRY_OP(recompute_op)(passing_op("Recompute", {~1U, 0}));

TAPESTRY_OP(optimization_barrier_op){{
    .name = "OptimizationBarrier",
    .infer = same_shape,
    .view = view_of_value,
    .gradient = [](const Call&, const Tensor& g) -> Tensors {
      return {g, Tensor()};
    },
    .needs = needs_nothing,
    .batch = batch_in_front,
}};

Tensor record_result(const Op& op, const Tensor& value, const Tensors& arguments,
                     std::function<Tensors(const Tensors&)> gradients, Where where) {
  Tensors inputs{detail::computed(value)};
  inputs.append(arguments.begin(), arguments.end());
  const Attrs attrs{{"function", std::make_shared<const std::function<Tensors(const Tensors&)>>(std::move(gradients))}};
  if (std::any_of(inputs.begin(), inputs.end(), [](const Tensor& each) { return each.is_symbolic(); }))
    return apply_all(op, inputs, attrs, {}, where)[0];
  Call call(op, inputs, attrs, where);
  // The result is a new tensor: a tape that saw how the value was computed must not follow its ops back.
  Tensor result = view_of_value(call, value.spec());
  call.mutable_outputs().push_back(result);
  tell_recorders(std::move(call));
  return result;
}

namespace {

const Closure& pass() {
  static const Closure& function = *new Closure(std::make_shared<const std::function<Tensors(const Tensors&)>>(
      [](const Tensors& all) -> Tensors { return {all.back()}; }));
  return function;
}

}  // namespace

Tensor with_gradient_to(const Tensor& value, const Tensor& source, Where where) {
  return apply_all(custom_gradient_op, {value, source}, {{"function", pass()}}, {}, where)[0];
}

bool is_with_gradient_to(const Call& call) { return &call.op() == &ops::custom_gradient && closure(call) == pass(); }

}  // namespace detail

namespace ops {
const Op& custom_gradient = detail::custom_gradient_op;
}  // namespace ops

}  // namespace tapestry
