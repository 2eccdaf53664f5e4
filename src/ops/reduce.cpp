#include "tapestry/ops/reduce.hpp"

#include "ops/batching.hpp"
#include "ops/reduction.hpp"
#include "ops/support.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/math.hpp"

TAPESTRY_OP_FAMILY(reduce)

namespace tapestry {
namespace {

bool keeps_dims(const Call& call) { return attr_or(call, "keep_dims", false); }

Axes axes_of(const Call& call) {
  const Ints* axes = call.attrs().find<Ints>("axis");
  return axes ? Axes(*axes) : Axes();
}

/// The shape of a reduction: without its axes, or with size 1 there.
template <TypeSet allowed>
Specs reduced(const Call& call) {
  const Tensor& x = call.input(0);
  require_type(x, allowed);
  const std::uint32_t axes = axes_mask(call, x.rank());
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) {
    if (!has_axis(axes, i)) shape.push_back(x.shape().sizes()[i]);
    if (has_axis(axes, i) && keeps_dims(call)) shape.push_back(1);
  }
  return {{x.dtype(), shape}};
}

template <ReduceFunction f>
void reduce(Backend& backend, const Call& call) {
  backend.reduce(f, call.input(0), axes_mask(call, call.input(0).rank()), call.output());
}

/// A tensor in the shape of a reduction's result, with size 1 along the reduced axes, so that it broadcasts to the
/// input.
Tensor with_axes(const Call& call, const Tensor& result) {
  const Ints* axes = call.attrs().find<Ints>("axis");
  // A scalar broadcasts as it is.
  if (!axes || keeps_dims(call)) return result;
  // expand_dims, too, counts negative axes from the end of the input's axes. This holds for any rank.
  return expand_dims(result, *axes);
}

template <ReduceFunction f, TypeSet allowed>
Op reduction(const char* name, const Gradient& gradient, Needs needs = needs_nothing,
             Promotion promotion = no_promotion) {
  constexpr bool adds = f == ReduceFunction::sum || f == ReduceFunction::mean || f == ReduceFunction::prod;
  return {
      .name = name,
      .attrs = {{"axis", AttrKind::numbers, optional}, {"keep_dims", AttrKind::flag, optional}},
      .infer = reduced<allowed>,
      .forward = reduce<f>,
      .gradient = gradient,
      .promotion = promotion,
      .needs = needs,
      .precision = adds ? Precision::full : Precision::given,
      .batch = batch_beside_axis,
  };
}

Tensors sum_gradient(const Call& call, const Tensor& g) { return {broadcast_like(with_axes(call, g), call.input(0))}; }

Tensors mean_gradient(const Call& call, const Tensor& g) {
  const Tensor& x = call.input(0);
  return {broadcast_like(with_axes(call, g / size_like(x, call.output())), x)};
}

/// The elements that equal the extreme one share its gradient.
Tensors extreme_gradient(const Call& call, const Tensor& g) {
  const Tensor& x = call.input(0);
  const Tensor extreme = equal(x, with_axes(call, call.output())).cast(x.dtype());
  const Tensor count = reduce_sum(extreme, axes_of(call), {.keep_dims = keeps_dims(call)});
  return {extreme * with_axes(call, g / count)};
}

/// The axes of a reduction in the order in which they lie; as they are given where the rank is not known.
Ints ordered_axes(const Call& call) {
  const Tensor& x = call.input(0);
  const Ints* given = call.attrs().find<Ints>("axis");
  if (given && !x.shape().has_rank()) return *given;
  const std::uint32_t mask = axes_mask(call, x.rank());
  Ints axes;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (has_axis(mask, axis)) axes.push_back(axis);
  return axes;
}

/// The derivative by an element is the product of all others along the axes. Zeros would spoil a division, so it is
/// computed along one axis after the other, from the last to the first, as the product of the factors before the
/// element times that of the factors behind it. The factors of axis i, `products[i]`, are products along the axes
/// before it.
Tensors product_gradient(const Call& call, const Tensor& g) {
  const Ints axes = ordered_axes(call);
  Tensors products{call.input(0)};
  for (const std::int64_t axis : axes) products.push_back(reduce_prod(products.back(), axis, {.keep_dims = true}));
  Tensor gradient = with_axes(call, g);
  for (std::size_t i = axes.size(); i-- > 0;)
    gradient = gradient * (cumprod(products[i], axes[i], {.exclusive = true}) *
                           cumprod(products[i], axes[i], {.exclusive = true, .reverse = true}));
  return {gradient};
}

TAPESTRY_OP(sum_op)(reduction<ReduceFunction::sum, number_types>("Sum", sum_gradient));
TAPESTRY_OP(mean_op)(reduction<ReduceFunction::mean, float_types>("Mean", mean_gradient, needs_nothing, floating_type));
TAPESTRY_OP(prod_op)(reduction<ReduceFunction::prod, number_types>("Prod", product_gradient, needs_inputs));
TAPESTRY_OP(max_op)(reduction<ReduceFunction::max, number_types>("Max", extreme_gradient, Needs{}));
TAPESTRY_OP(min_op)(reduction<ReduceFunction::min, number_types>("Min", extreme_gradient, Needs{}));
TAPESTRY_OP(any_op)(reduction<ReduceFunction::any_true, bool_type>("Any", no_gradient));
TAPESTRY_OP(all_op)(reduction<ReduceFunction::all_true, bool_type>("All", no_gradient));

/// The position of an extreme element along an axis.
template <ArgReduce f>
Op position_op(const char* name) {
  return {
      .name = name,
      .attrs = {{"axis", AttrKind::number}},
      .infer = [](const Call& call) -> Specs {
        Shape shape = call.input(0).shape();
        const int axis = axis_of(call);
        if (shape.sizes()[axis] == 0)
          throw InvalidArgumentError(detail::join("Reduction axis ", axis, " is empty in shape ", shape));
        shape.erase(axis);
        return {{int64, shape}};
      },
      .forward = [](Backend& backend,
                    const Call& call) { backend.arg_reduce(f, call.input(0), axis_of(call), call.output()); },
      .gradient = no_gradient,
      .batch = batch_beside_axis,
  };
}
TAPESTRY_OP(argmax_op)(position_op<ArgReduce::max>("ArgMax"));
TAPESTRY_OP(argmin_op)(position_op<ArgReduce::min>("ArgMin"));

Tensor apply_reduction(const Op& op, const In& x, const Axes& axes, const ReduceOptions& options,
                       std::string_view name) {
  if (!axes.all()) return apply(op, {x}, {{"axis", axes.list()}, {"keep_dims", options.keep_dims}}, name);
  return apply(op, {x}, options.keep_dims ? Attrs{{"keep_dims", true}} : Attrs{}, name);
}

}  // namespace

std::optional<ops::Reduction> ops::reduction_of(const Call& call) {
  const std::pair<const Op*, ReduceFunction> reductions[] = {
      {&sum_op, ReduceFunction::sum},      {&mean_op, ReduceFunction::mean}, {&prod_op, ReduceFunction::prod},
      {&max_op, ReduceFunction::max},      {&min_op, ReduceFunction::min},   {&any_op, ReduceFunction::any_true},
      {&all_op, ReduceFunction::all_true},
  };
  for (const auto& [op, function] : reductions)
    if (&call.op() == op) return Reduction{function, axes_mask(call, call.input(0).rank())};
  return {};
}

Tensor reduce_sum(In x, const Axes& axes, const ReduceOptions& options, std::string_view name) {
  if (is_mask(x)) return reduce_sum(In(x.as(int64), x.where()), axes, options, name);
  return apply_reduction(sum_op, x, axes, options, name);
}
Tensor reduce_mean(In x, const Axes& axes, const ReduceOptions& options, std::string_view name) {
  return apply_reduction(mean_op, x, axes, options, name);
}
Tensor reduce_prod(In x, const Axes& axes, const ReduceOptions& options, std::string_view name) {
  return apply_reduction(prod_op, x, axes, options, name);
}
Tensor reduce_max(In x, const Axes& axes, const ReduceOptions& options, std::string_view name) {
  return apply_reduction(is_mask(x) ? any_op : max_op, x, axes, options, name);
}
Tensor reduce_min(In x, const Axes& axes, const ReduceOptions& options, std::string_view name) {
  return apply_reduction(is_mask(x) ? all_op : min_op, x, axes, options, name);
}
Tensor reduce_any(In x, const Axes& axes, const ReduceOptions& options, std::string_view name) {
  return apply_reduction(any_op, x, axes, options, name);
}
Tensor reduce_all(In x, const Axes& axes, const ReduceOptions& options, std::string_view name) {
  return apply_reduction(all_op, x, axes, options, name);
}

Tensor argmax(In x, std::int64_t axis, std::string_view name) {
  return apply(argmax_op, {x}, {{"axis", axis}}, detail::plain_name(name, detail::Worded::result, x.where()));
}
Tensor argmin(In x, std::int64_t axis, std::string_view name) {
  return apply(argmin_op, {x}, {{"axis", axis}}, detail::plain_name(name, detail::Worded::result, x.where()));
}

Tensor reduce_logsumexp(In x, const Axes& axes, const ReduceOptions& options, std::string_view name) {
  return blaming("reduce_logsumexp", x.where(), [&] {
    const Tensor& values = x;
    if (is_half(values.dtype())) return narrowed(reduce_logsumexp(widened(values), axes, options), values, name);
    const Tensor highest = stop_gradient(reduce_max(as_floats(x), axes, {.keep_dims = true}));
    // An infinite maximum must not be subtracted: inf - inf is NaN.
    const Tensor shift = where(is_finite(highest), highest, 0.0);
    const Tensor sum = reduce_sum(exp(subtract(x, shift)), axes, options);
    return add(log(sum), reshape_like(shift, sum), name);
  });
}

Tensor variance(In x, const Axes& axes, const ReduceOptions& options, std::string_view name) {
  return blaming("variance", x.where(), [&] {
    const Tensor& values = x;
    if (is_half(values.dtype())) return narrowed(variance(widened(values), axes, options), values, name);
    return reduce_mean(squared_difference(x, reduce_mean(x, axes, {.keep_dims = true})), axes, options, name);
  });
}

}  // namespace tapestry
