#include "ops/batching.hpp"
#include "ops/handles.hpp"
#include "ops/recurrence.hpp"
#include "ops/support.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/creation.hpp"
#include "tapestry/ops/math.hpp"
#include "tapestry/ops/reduce.hpp"

TAPESTRY_OP_FAMILY(scan)

namespace tapestry {
namespace {

Attrs scan_attrs(std::int64_t axis, const ScanOptions& options) {
  return {{"axis", axis}, {"exclusive", options.exclusive}, {"reverse", options.reverse}};
}
ScanOptions scan_options(const Call& call) { return {call.attr<bool>("exclusive"), call.attr<bool>("reverse")}; }

template <Scan f>
Op scan_op(const char* name, const Gradient& gradient, Needs needs) {
  return {
      .name = name,
      .attrs = {{"axis", AttrKind::number}, {"exclusive", AttrKind::flag}, {"reverse", AttrKind::flag}},
      .infer = [](const Call& call) -> Specs {
        axis_of(call);
        return same_shape_of<number_types>(call);
      },
      .forward =
          [](Backend& backend, const Call& call) {
            const auto [exclusive, reverse] = scan_options(call);
            backend.scan(f, call.input(0), axis_of(call), exclusive, reverse, call.output());
          },
      .gradient = gradient,
      .needs = needs,
      .precision = Precision::full,
      .batch = batch_beside_axis,
  };
}

/// The cumulative sum along the axis of a call, in the opposite direction.
Tensor sum_back(const Call& call, const Tensor& x) {
  const auto [exclusive, reverse] = scan_options(call);
  return cumsum(x, call.attr<std::int64_t>("axis"), {exclusive, !reverse});
}

/// The derivative by an element is the product of the factors before it, times the sum of what flows to the products
/// that have it, each times the other factors behind it.
Tensor cumprod_gradient(const Call& call, const Tensor& g) {
  const Tensor& x = call.input(0);
  const int axis = axis_of(call);
  const auto [exclusive, reverse] = scan_options(call);
  const Tensor flowing = exclusive ? element_before(g, axis, !reverse) : g;
  return cumprod(x, axis, {.exclusive = true, .reverse = reverse}) * recurrence(x, flowing, axis, !reverse, true);
}

TAPESTRY_OP(cumsum_op)
(scan_op<Scan::sum>(
    "Cumsum", [](const Call& call, const Tensor& g) -> Tensors { return {sum_back(call, g)}; }, needs_nothing));
TAPESTRY_OP(cumprod_op)
(scan_op<Scan::prod>(
    "Cumprod", [](const Call& call, const Tensor& g) -> Tensors { return {cumprod_gradient(call, g)}; }, needs_inputs));

}  // namespace

Tensor places_along(const Tensor& x, int axis) {
  return cumsum(ones({x.shape()[axis]}, {.dtype = int32, .device = x.device()})) - 1;
}

Tensor beside_axis(const Tensor& vector, const Tensor& x, int axis) {
  Shape shape{x.shape()[axis]};
  for (int i = axis + 1; i < rank_of(x); ++i) shape.push_back(1);
  return reshape(vector, shape);
}

Tensor is_first_along(const Tensor& x, int axis, bool reverse) {
  const Tensor places = places_along(x, axis);
  return equal(reverse ? flip(places, 0) : places, 0);
}

Tensor element_before(const Tensor& x, int axis, bool reverse) {
  if (x.shape().num_elements() == 0) return x;  // the axis may be very long
  return where(beside_axis(is_first_along(x, axis, reverse), x, axis), 0, roll(x, reverse ? -1 : 1, axis));
}

Tensor recurrence(const Tensor& a, const Tensor& b, int axis, bool reverse, bool late) {
  return apply(ops::linear_recurrence, {a, b}, {{"axis", std::int64_t{axis}}, {"reverse", reverse}, {"late", late}});
}

Tensor cumsum(In x, std::int64_t axis, const ScanOptions& options, std::string_view name) {
  if (is_mask(x)) return cumsum(In(x.as(int64), x.where()), axis, options, name);
  return apply(cumsum_op, {x}, scan_attrs(axis, options), name);
}
Tensor cumprod(In x, std::int64_t axis, const ScanOptions& options, std::string_view name) {
  return apply(cumprod_op, {std::move(x)}, scan_attrs(axis, options), name);
}

}  // namespace tapestry
