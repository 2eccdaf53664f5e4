// Running combinations along an axis. They are in this part because an axis whose size only a run knows takes a loop.

#include "core/make_tensor.hpp"
#include "ops/batching.hpp"
#include "ops/handles.hpp"
#include "ops/recurrence.hpp"
#include "ops/support.hpp"
#include "tapestry/control_flow.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/creation.hpp"
#include "tapestry/ops/math.hpp"
#include "tapestry/ops/numeric.hpp"

TAPESTRY_OP_FAMILY(running)

namespace tapestry {
namespace {

using List = std::vector<Tensor>;

/// Each element of tensors of one shape is combined with the one 1, 2, 4, ... places before it.
template <class F>
List running(const List& values, int axis, F combine) {
  if (values[0].shape().num_elements() == 0) return values;  // the axis may be very long
  const Dimension size = values[0].shape()[axis];
  const Tensor places = places_along(values[0], axis);
  const auto combined = [&](const Tensor& step, const List& now) {
    const Tensor from = maximum(places - step, 0);
    const Tensor has_one = beside_axis(greater_equal(places, step), now[0], axis);
    List before;
    for (const Tensor& each : now) before.push_back(gather(each, from, axis));
    List next = combine(now, before);
    for (std::size_t i = 0; i < now.size(); ++i) next[i] = where(has_one, next[i], now[i]);
    return next;
  };
  List now = values;
  if (size.is_known()) {
    const TensorOptions like_places{.dtype = int32, .device = places.device()};
    for (std::int64_t step = 1; step < size; step *= 2) now = combined(full({}, step, like_places), now);
    return now;
  }
  const Tensor count = tapestry::size(values[0], axis);
  now.push_back(tensor(1));  // the step
  now = while_loop([&](const List& list) { return less(list.back(), count); },
                   [&](const List& list) {
                     List next = combined(list.back(), List(list.begin(), list.end() - 1));
                     next.push_back(list.back() * 2);
                     return next;
                   },
                   now);
  now.pop_back();
  return now;
}

template <class F>
Tensor running(std::string_view op, const In& x, std::int64_t axis, std::string_view name, F combine) {
  return blaming(op, x.where(), [&] {
    const auto of_lists = [&](const List& now, const List& before) { return List{combine(now[0], before[0])}; };
    return named(running({x}, normalize_axis(axis, rank_of(x)), of_lists)[0], name);
  });
}

}  // namespace

Tensor cummax(In x, std::int64_t axis, std::string_view name) {
  return running("cummax", x, axis, name, [](const Tensor& a, const Tensor& b) { return maximum(a, b); });
}
Tensor cummin(In x, std::int64_t axis, std::string_view name) {
  return running("cummin", x, axis, name, [](const Tensor& a, const Tensor& b) { return minimum(a, b); });
}
Tensor cumulative_logsumexp(In x, std::int64_t axis, std::string_view name) {
  return blaming("cumulative_logsumexp", x.where(), [&] {
    return running("cumulative_logsumexp", as_floats(x), axis, name,
                   [](const Tensor& a, const Tensor& b) { return logaddexp(a, b); });
  });
}

// ---- Linear recurrences ------------------------------------------------------------------------------------------------

namespace {

/// A type in which halves are computed.
template <class T>
using Computed = std::conditional_t<std::is_same_v<T, float16_t> || std::is_same_v<T, bfloat16_t>, float, T>;

template <class T>
void recur(const Call& call) {
  const Tensor& y = call.output();
  if (y.size() == 0) return;  // the other axes may be very long
  const bool reverse = call.attr<bool>("reverse"), late = call.attr<bool>("late");
  const int axis = normalize_axis(call.attr<std::int64_t>("axis"), y.rank());
  const std::int64_t outer = size_between(y.shape(), 0, axis), size = y.shape().sizes()[axis],
                     inner = size_between(y.shape(), axis + 1, y.rank());
  const auto *a = static_cast<const T*>(call.input(0).impl().data),
             *b = static_cast<const T*>(call.input(1).impl().data);
  T* const to = call.output_data<T>();
  std::vector<Computed<T>> last(static_cast<std::size_t>(inner));
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t row = (o * size + (reverse ? size - 1 - i : i)) * inner;
      const std::int64_t factors = !late ? row : reverse ? row + inner : row - inner;
      for (std::int64_t k = 0; k < inner; ++k) {
        const auto added = static_cast<Computed<T>>(b[row + k]);
        last[k] = i == 0 ? added : static_cast<Computed<T>>(a[factors + k]) * last[k] + added;
        to[row + k] = static_cast<T>(last[k]);
      }
    }
}

Tensors recurrence_gradient(const Call& call, const Tensor& g) {
  const Tensor &a = call.input(0), &y = call.output();
  const bool reverse = call.attr<bool>("reverse"), late = call.attr<bool>("late");
  const int axis = normalize_axis(call.attr<std::int64_t>("axis"), rank_of(y));
  const Tensor of_b = recurrence(a, g, axis, !reverse, !late);
  return wanted(
      call, [&] { return late ? element_before(of_b, axis, !reverse) * y : of_b * element_before(y, axis, reverse); },
      [&] { return of_b; });
}

Tensors compose_recurrence(const Call& call) {
  const bool reverse = call.attr<bool>("reverse");
  const int axis = normalize_axis(call.attr<std::int64_t>("axis"), rank_of(call.input(0)));
  Tensor a = call.input(0), b = call.input(1);
  if (call.attr<bool>("late")) a = element_before(a, axis, reverse);
  if (reverse) a = flip(a, axis), b = flip(b, axis);
  const Tensor y = running({a, b}, axis, [](const List& now, const List& before) {
    return List{now[0] * before[0], now[0] * before[1] + now[1]};
  })[1];
  return {reverse ? flip(y, axis) : y};
}

TAPESTRY_OP(linear_recurrence_op){{
    .name = "LinearRecurrence",
    .attrs = {{"axis", AttrKind::number}, {"reverse", AttrKind::flag}, {"late", AttrKind::flag}},
    .infer = [](const Call& call) -> Specs {
      require_type(call.input(0), float_types);
      require_same_shape(call.input(0).shape(), call.input(1).shape());
      normalize_axis(call.attr<std::int64_t>("axis"), rank_of(call.input(1)));
      return {call.input(1).spec()};
    },
    .cpu =
        [](const Call& call) {
          detail::visit_dtype(call.output().dtype(), [&]<class T>() {
            if constexpr (!std::is_integral_v<T>) recur<T>(call);
          });
        },
    .composition = compose_recurrence,
    .gradient = recurrence_gradient,
    .promotion = common_type,
    .needs = Needs{1, 1},
    .precision = Precision::full,
    .batch = batch_beside_axis,
}};

}  // namespace

const Op& ops::linear_recurrence = linear_recurrence_op;

}  // namespace tapestry
