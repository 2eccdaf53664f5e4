#include "ops/handles.hpp"
#include "ops/support.hpp"
#include "tapestry/ops/math.hpp"

TAPESTRY_OP_FAMILY(math_binary)

namespace tapestry {
namespace {

/// One of the two gradients of an op y = f(a, b); the backward walk sums it to the shape of its input.
using PartialRule = Tensor (*)(const Tensor& a, const Tensor& b, const Tensor& y, Tensor&& g);

template <Binary f, TypeSet allowed>
Op binary_op(const char* name, Promotion promotion, Needs needs, Precision precision, PartialRule rule_a,
             PartialRule rule_b) {
  return {
      .name = name,
      .infer = broadcast_of<allowed>,
      .forward = binary<f>,
      .gradient = [rule_a, rule_b](const Call& call, Tensor g) -> Tensors {
        const auto partial = [&](PartialRule rule, Tensor&& arrived) {
          return rule(call.input(0), call.input(1), call.output(), std::move(arrived));
        };
        // The last rule may compute in the memory of g.
        return wanted(
            call, [&] { return partial(rule_a, call.wants_gradient(1) ? Tensor(g) : std::move(g)); },
            [&] { return partial(rule_b, std::move(g)); });
      },
      .promotion = promotion,
      .needs = needs,
      .precision = precision,
      .broadcasts = true,
  };
}

/// The derivative of a^b with respect to a. It is 0 where b is 0, also at a = 0, where b * a^(b - 1) would be 0 * inf.
Tensor power_slope(const Tensor& a, const Tensor& b) {
  const Tensor constant = equal(b, 0.0), exponent = where(constant, 1.0, b - 1.0);
  return b * where(constant, divide_no_nan(1.0, a), power(a, exponent));
}

/// log(a) where a is positive and 0 elsewhere.
Tensor log_of_positive(const Tensor& a) { return log(where(greater(a, 0.0), a, 1.0)); }

}  // namespace

/// One line per op: its function, its name in functors.hpp, TensorFlow's name, what the gradient reads, and the
/// gradients of a and b from a, b, y and g. This macro is for ops on all numbers:
#define TAPESTRY_NUMBER_BINARY(function, functor, name_in_tensorflow, reads, gradient_a, gradient_b)          \
  TAPESTRY_BINARY(function, functor, name_in_tensorflow, number_types, common_type, reads, given, gradient_a, \
                  gradient_b)
/// This one is for ops on floats, to which everything else is promoted:
#define TAPESTRY_FLOAT_BINARY(function, functor, name_in_tensorflow, reads, gradient_a, gradient_b)            \
  TAPESTRY_BINARY(function, functor, name_in_tensorflow, float_types, floating_type, reads, given, gradient_a, \
                  gradient_b)

#define TAPESTRY_BINARY(function, functor, name_in_tensorflow, allowed, promotion, reads, precision, gradient_a, \
                        gradient_b)                                                                              \
  namespace {                                                                                                    \
  TAPESTRY_OP(function##_op)                                                                                     \
  (binary_op<Binary::functor, allowed>(name_in_tensorflow, promotion, reads, Precision::precision,               \
                                       TAPESTRY_PARTIAL(gradient_a), TAPESTRY_PARTIAL(gradient_b)));             \
  }                                                                                                              \
  Tensor function(In a, In b, std::string_view name) {                                                           \
    return apply(function##_op, {std::move(a), std::move(b)}, {}, name);                                         \
  }

#define TAPESTRY_PARTIAL(expression)                                                                       \
  []([[maybe_unused]] const Tensor& a, [[maybe_unused]] const Tensor& b, [[maybe_unused]] const Tensor& y, \
     [[maybe_unused]] Tensor&& g) -> Tensor { return expression; }

// clang-format off
TAPESTRY_NUMBER_BINARY(add,      add,      "AddV2", needs_nothing, g, g)
TAPESTRY_NUMBER_BINARY(subtract, subtract, "Sub",   needs_nothing, g, -std::move(g))
TAPESTRY_NUMBER_BINARY(multiply, multiply, "Mul",   needs_inputs,  std::move(g) * b, std::move(g) * a)
TAPESTRY_NUMBER_BINARY(mod,     floor_mod, "FloorMod", needs_inputs, g, -(g * floor_divide(a, b)))
TAPESTRY_BINARY(power, power, "Pow", number_types, common_type, (Needs{3, 1}), full, g * power_slope(a, b), g * y * log_of_positive(a))
TAPESTRY_NUMBER_BINARY(maximum,  maximum,  "Maximum", needs_inputs, where(greater_equal(a, b), g, 0.0), where(greater_equal(a, b), 0.0, g))
TAPESTRY_NUMBER_BINARY(minimum,  minimum,  "Minimum", needs_inputs, where(less_equal(a, b), g, 0.0), where(less_equal(a, b), 0.0, g))
TAPESTRY_BINARY(squared_difference, squared_difference, "SquaredDifference", number_types, common_type, needs_inputs, full, 2.0 * g * (a - b), 2.0 * g * (b - a))

TAPESTRY_FLOAT_BINARY(divide, divide,  "RealDiv", (Needs{2, 1}), std::move(g) / b, -(std::move(g) * y / b))
TAPESTRY_FLOAT_BINARY(divide_no_nan, divide_no_nan, "DivNoNan", (Needs{2, 1}), divide_no_nan(g, b), -divide_no_nan(g * y, b))
TAPESTRY_FLOAT_BINARY(atan2,  atan2,   "Atan2", needs_inputs, g * b / (square(a) + square(b)), -(g * a / (square(a) + square(b))))
TAPESTRY_FLOAT_BINARY(xlogy,  xlogy,   "Xlogy", needs_inputs, g * xlogy(not_equal(a, 0.0).cast(a.dtype()), b), g * where(equal(a, 0.0), 0.0, a / b))
// clang-format on

namespace {

TAPESTRY_OP(floor_divide_op){{
    .name = "FloorDiv",
    .infer = broadcast_of<number_types>,
    .forward = binary<Binary::floor_divide>,
    .gradient = no_gradient,
    .promotion = common_type,
    .broadcasts = true,
}};

}  // namespace

Tensor floor_divide(In a, In b, std::string_view name) {
  return apply(floor_divide_op, {std::move(a), std::move(b)}, {}, name);
}

namespace ops {
const Op &add = add_op, &subtract = subtract_op, &multiply = multiply_op, &divide = divide_op;
}  // namespace ops

}  // namespace tapestry
