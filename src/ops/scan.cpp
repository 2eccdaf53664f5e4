#include "ops/batching.hpp"
#include "ops/support.hpp"
#include "tapestry/ops/array.hpp"
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

/// The derivative of a product by an element that is not 0 is the product divided by the element. By an element that is
/// 0 it is the product of the other factors, which is 0 if another one is 0.
Tensor cumprod_gradient(const Call& call, const Tensor& g) {
  const Tensor& x = call.input(0);
  const auto axis = call.attr<std::int64_t>("axis");
  const ScanOptions options = scan_options(call);
  const Tensor is_zero = equal(x, 0.0);
  const Tensor others = where(is_zero, 1.0, x);
  const Tensor only_zero = equal(cumsum(is_zero.cast(int64), axis, options), 1);
  return where(is_zero, sum_back(call, where(only_zero, g * cumprod(others, axis, options), 0.0)),
               sum_back(call, g * call.output()) / others);
}

TAPESTRY_OP(cumsum_op)
(scan_op<Scan::sum>(
    "Cumsum", [](const Call& call, const Tensor& g) -> Tensors { return {sum_back(call, g)}; }, needs_nothing));
TAPESTRY_OP(cumprod_op)
(scan_op<Scan::prod>(
    "Cumprod", [](const Call& call, const Tensor& g) -> Tensors { return {cumprod_gradient(call, g)}; }, Needs{}));

}  // namespace

Tensor cumsum(In x, std::int64_t axis, const ScanOptions& options, std::string_view name) {
  if (is_mask(x)) return cumsum(In(x.as(int64), x.where()), axis, options, name);
  return apply(cumsum_op, {x}, scan_attrs(axis, options), name);
}
Tensor cumprod(In x, std::int64_t axis, const ScanOptions& options, std::string_view name) {
  return apply(cumprod_op, {x}, scan_attrs(axis, options), name);
}

}  // namespace tapestry
