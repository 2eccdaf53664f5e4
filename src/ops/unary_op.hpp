#pragma once

#include "ops/support.hpp"

namespace tapestry {

/// The gradient of an op of one input, from its input, its output and the gradient that arrives.
using ChainRule = Tensor (*)(const Tensor& x, const Tensor& y, Tensor&& g);
/// The function as a composition of public ops.
using UnaryComposition = Tensor (*)(const Tensor& x);

/// An elementwise op of one input.
template <Unary f, TypeSet allowed>
Op unary_op(const char* name, Promotion promotion, Needs needs, Precision precision, ChainRule rule,
            UnaryComposition composition = nullptr) {
  std::function<Tensors(const Call&)> composed;
  if (composition) composed = [composition](const Call& call) -> Tensors { return {composition(call.input(0))}; };
  return {
      .name = name,
      .infer = same_shape_of<allowed>,
      .forward = unary<f>,
      .composition = std::move(composed),
      .gradient = [rule](const Call& call, Tensor g) -> Tensors {
        return {rule(call.input(0), call.output(), std::move(g))};
      },
      .promotion = promotion,
      .needs = needs,
      .precision = precision,
  };
}

/// One line per op: its function (also its name in functors.hpp), TensorFlow's name, what the gradient reads, the
/// gradient from x, y and g, and, where TensorFlow has no such op, its composition from x. This macro is for ops on
/// floats, to which everything else is promoted:
#define TAPESTRY_FLOAT_UNARY(function, name_in_tensorflow, reads, ...) \
  TAPESTRY_UNARY(function, name_in_tensorflow, float_types, floating_type, reads, given, __VA_ARGS__)
/// This one is for ops on floats that leave the range of float16 easily, or lose much there:
#define TAPESTRY_FULL_UNARY(function, name_in_tensorflow, reads, ...) \
  TAPESTRY_UNARY(function, name_in_tensorflow, float_types, floating_type, reads, full, __VA_ARGS__)
/// This one is for ops on all numbers:
#define TAPESTRY_NUMBER_UNARY(function, name_in_tensorflow, reads, ...) \
  TAPESTRY_UNARY(function, name_in_tensorflow, number_types, no_promotion, reads, given, __VA_ARGS__)

#define TAPESTRY_UNARY(function, name_in_tensorflow, allowed, promotion, reads, precision, gradient, ...)      \
  namespace {                                                                                                  \
  TAPESTRY_OP(function##_op)                                                                                   \
  (unary_op<Unary::function, allowed>(name_in_tensorflow, promotion, reads, Precision::precision,              \
                                      []([[maybe_unused]] const Tensor& x, [[maybe_unused]] const Tensor& y,   \
                                         Tensor&& g) -> Tensor {                                               \
                                        return gradient;                                                       \
                                      } __VA_OPT__(, [](const Tensor& x) -> Tensor { return __VA_ARGS__; }))); \
  }                                                                                                            \
  Tensor function(In x, std::string_view name) { return apply(function##_op, {std::move(x)}, {}, name); }

}  // namespace tapestry
