#include "ops/support.hpp"
#include "tapestry/ops/math.hpp"

TAPESTRY_OP_FAMILY(compare)

namespace tapestry {
namespace {

/// A relation of two tensors. Its result is bool, and no gradient flows back.
template <Binary f, TypeSet allowed>
Op relation(const char* name) {
  return {
      .name = name,
      .infer = broadcast_of<allowed, boolean>,
      .forward = binary<f>,
      .gradient = no_gradient,
      .promotion = allowed == bool_type ? no_promotion : common_type,
      .broadcasts = true,
  };
}

TAPESTRY_OP(equal_op)(relation<Binary::equal, all_types>("Equal"));
TAPESTRY_OP(not_equal_op)(relation<Binary::not_equal, all_types>("NotEqual"));
TAPESTRY_OP(less_op)(relation<Binary::less, number_types>("Less"));
TAPESTRY_OP(less_equal_op)(relation<Binary::less_equal, number_types>("LessEqual"));
TAPESTRY_OP(greater_op)(relation<Binary::greater, number_types>("Greater"));
TAPESTRY_OP(greater_equal_op)(relation<Binary::greater_equal, number_types>("GreaterEqual"));
TAPESTRY_OP(logical_and_op)(relation<Binary::logical_and, bool_type>("LogicalAnd"));
TAPESTRY_OP(logical_or_op)(relation<Binary::logical_or, bool_type>("LogicalOr"));

TAPESTRY_OP(where_op){{
    .name = "SelectV2",
    .infer = [](const Call& call) -> Specs {
      require_type(call.input(0), bool_type, "condition");
      return {{call.input(1).dtype(), broadcast_inputs(call)}};
    },
    .forward = ternary<Ternary::select>,
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      const Tensor& condition = call.input(0);
      return wanted(
          call, [&] { return Tensor(); }, [&] { return where(condition, g, 0.0); },
          [&] { return where(condition, 0.0, g); });
    },
    .promotion = {Promotion::Kind::common, 1},
    .needs = {1, 0},
    .broadcasts = true,
}};

TAPESTRY_OP(clip_op){{
    .name = "ClipByValue",
    .infer = broadcast_of<number_types>,
    .forward = ternary<Ternary::clip>,
    .composition = [](const Call& call) -> Tensors {
      const Tensor &x = call.input(0), &low = call.input(1), &high = call.input(2);
      return {where(less(x, low), low, where(greater(x, high), maximum(low, high), x))};
    },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      const Tensor &x = call.input(0), &low = call.input(1), &high = call.input(2);
      const auto is_low = [&] { return logical_or(less(x, low), logical_and(greater(x, high), less(high, low))); };
      return wanted(
          call, [&] { return where(logical_or(less(x, low), greater(x, high)), 0.0, g); },
          [&] { return where(is_low(), g, 0.0); },
          [&] { return where(logical_and(greater(x, high), greater_equal(high, low)), g, 0.0); });
    },
    .promotion = common_type,
    .needs = needs_inputs,
    .broadcasts = true,
}};

}  // namespace

namespace ops {
const Op &equal = equal_op, &where = where_op;
}  // namespace ops

Tensor equal(In a, In b, std::string_view name) { return apply(equal_op, {std::move(a), std::move(b)}, {}, name); }
Tensor not_equal(In a, In b, std::string_view name) {
  return apply(not_equal_op, {std::move(a), std::move(b)}, {}, name);
}
Tensor less(In a, In b, std::string_view name) { return apply(less_op, {std::move(a), std::move(b)}, {}, name); }
Tensor less_equal(In a, In b, std::string_view name) {
  return apply(less_equal_op, {std::move(a), std::move(b)}, {}, name);
}
Tensor greater(In a, In b, std::string_view name) { return apply(greater_op, {std::move(a), std::move(b)}, {}, name); }
Tensor greater_equal(In a, In b, std::string_view name) {
  return apply(greater_equal_op, {std::move(a), std::move(b)}, {}, name);
}
Tensor logical_and(In a, In b, std::string_view name) {
  return apply(logical_and_op, {std::move(a), std::move(b)}, {}, name);
}
Tensor logical_or(In a, In b, std::string_view name) {
  return apply(logical_or_op, {std::move(a), std::move(b)}, {}, name);
}
Tensor logical_xor(In a, In b, std::string_view name) {
  return blaming("LogicalXor", a.where(), [&] {
    require_type(a, bool_type);
    require_type(b, bool_type);
    return apply(not_equal_op, {a, b}, {}, name);
  });
}
Tensor where(In condition, In a, In b, std::string_view name) {
  return apply(where_op, {std::move(condition), std::move(a), std::move(b)}, {}, name);
}
Tensor clip(In x, In low, In high, std::string_view name) {
  return apply(clip_op, {std::move(x), std::move(low), std::move(high)}, {}, name);
}

}  // namespace tapestry
