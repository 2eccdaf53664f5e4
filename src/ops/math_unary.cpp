#include <numbers>

#include "ops/unary_op.hpp"
#include "tapestry/ops/creation.hpp"
#include "tapestry/ops/math.hpp"

TAPESTRY_OP_FAMILY(math_unary)

namespace tapestry {

using std::numbers::inv_sqrtpi;

// clang-format off
TAPESTRY_NUMBER_UNARY(negative, "Neg",   needs_nothing, -std::move(g))
TAPESTRY_NUMBER_UNARY(abs,      "Abs",   needs_inputs,  std::move(g) * sign(x))
TAPESTRY_NUMBER_UNARY(sign,     "Sign",  needs_nothing, zeros_like(g))
TAPESTRY_UNARY(square, "Square", number_types, no_promotion, needs_inputs, full, std::move(g) * (2.0 * x))

TAPESTRY_FULL_UNARY(reciprocal, "Reciprocal", needs_outputs, -(g * square(y)))
TAPESTRY_FLOAT_UNARY(sqrt,  "Sqrt",  needs_outputs, 0.5 * std::move(g) / y)
TAPESTRY_FULL_UNARY(rsqrt, "Rsqrt", needs_outputs, -0.5 * g * (y * square(y)))
TAPESTRY_FULL_UNARY(exp,   "Exp",   needs_outputs, std::move(g) * y)
TAPESTRY_FULL_UNARY(expm1, "Expm1", needs_inputs,  g * exp(x))
TAPESTRY_FULL_UNARY(log,   "Log",   needs_inputs,  std::move(g) / x)
TAPESTRY_FULL_UNARY(log1p, "Log1p", needs_inputs,  g / (1.0 + x))
TAPESTRY_FLOAT_UNARY(sin,   "Sin",   needs_inputs,  g * cos(x))
TAPESTRY_FLOAT_UNARY(cos,   "Cos",   needs_inputs,  -(g * sin(x)))
TAPESTRY_FULL_UNARY(tan,   "Tan",   needs_outputs, g * (1.0 + square(y)))
TAPESTRY_FULL_UNARY(asin,  "Asin",  needs_inputs,  g * rsqrt(1.0 - square(x)))
TAPESTRY_FULL_UNARY(acos,  "Acos",  needs_inputs,  -(g * rsqrt(1.0 - square(x))))
TAPESTRY_FLOAT_UNARY(atan,  "Atan",  needs_inputs,  g / (1.0 + square(x)))
TAPESTRY_FULL_UNARY(sinh,  "Sinh",  needs_inputs,  g * cosh(x))
TAPESTRY_FULL_UNARY(cosh,  "Cosh",  needs_inputs,  g * sinh(x))
TAPESTRY_FULL_UNARY(atanh, "Atanh", needs_inputs,  g / (1.0 - square(x)))
TAPESTRY_FULL_UNARY(acosh, "Acosh", needs_inputs,  g * rsqrt(x - 1.0) * rsqrt(x + 1.0))
TAPESTRY_FULL_UNARY(sinc, "Sinc", Needs{}, g * where(less(abs(x), 0.005), x * (square(x) * (pi * pi * pi * pi / 30) - pi * pi / 3), divide_no_nan(cos(pi * x) - y, x)), where(less(abs(x), 0.005), 1.0 - square(x) * (pi * pi / 6 - square(x) * (pi * pi * pi * pi / 120)), divide_no_nan(sin(pi * x), pi * x)))
TAPESTRY_FLOAT_UNARY(erf,   "Erf",   needs_inputs,  2.0 * inv_sqrtpi * g * exp(-square(x)))
// clang-format on

namespace {

/// An op of one input that is constant almost everywhere: nothing flows back.
template <Unary f, TypeSet allowed, DType result>
Op step_op(const char* name, Promotion promotion) {
  return {
      .name = name,
      .infer = [](const Call& call) -> Specs {
        require_type(call.input(0), allowed);
        return {{result == DType::unknown ? call.input(0).dtype() : result, call.input(0).shape()}};
      },
      .forward = unary<f>,
      .gradient = no_gradient,
      .promotion = promotion,
  };
}

TAPESTRY_OP(floor_op)(step_op<Unary::floor, float_types, DType::unknown>("Floor", floating_type));
TAPESTRY_OP(ceil_op)(step_op<Unary::ceil, float_types, DType::unknown>("Ceil", floating_type));
TAPESTRY_OP(round_op)(step_op<Unary::round, float_types, DType::unknown>("Rint", floating_type));
TAPESTRY_OP(is_nan_op)(step_op<Unary::is_nan, float_types, boolean>("IsNan", floating_type));
TAPESTRY_OP(is_finite_op)(step_op<Unary::is_finite, float_types, boolean>("IsFinite", floating_type));
TAPESTRY_OP(logical_not_op)(step_op<Unary::logical_not, bool_type, boolean>("LogicalNot", no_promotion));

}  // namespace

Tensor floor(In x, std::string_view name) { return apply(floor_op, {std::move(x)}, {}, name); }
Tensor ceil(In x, std::string_view name) { return apply(ceil_op, {std::move(x)}, {}, name); }
Tensor round(In x, std::string_view name) { return apply(round_op, {std::move(x)}, {}, name); }
Tensor is_nan(In x, std::string_view name) { return apply(is_nan_op, {std::move(x)}, {}, name); }
Tensor is_finite(In x, std::string_view name) { return apply(is_finite_op, {std::move(x)}, {}, name); }
Tensor logical_not(In x, std::string_view name) { return apply(logical_not_op, {std::move(x)}, {}, name); }

}  // namespace tapestry
