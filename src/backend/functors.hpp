#pragma once

// The scalar mathematics of the elementwise families, written once for g++, clang, nvcc and NVRTC. A new function is
// one line here; every backend builds its kernels from these lists. `x`, `a`, `b`, `c` are the operands and `p` is the
// op's number (the slope of leaky_relu); `T` is the element type. Each backend has its own functions in `math::`. On
// the CPU, the bits of an element do not depend on its position in the array.
//
// T may also be a type that writes down what is done with it (backend/cpu/vector_value.hpp). So a choice between two
// values is math::select(condition, a, b) instead of ?:, and conditions are combined by & and |.

#include <cstdint>

namespace tapestry {

/// For formulas and compositions.
inline constexpr double pi = 3.14159265358979323846;

/// X(name, formula), for float types only. The derivatives are in src/ops.
#define TAPESTRY_UNARY_FLOAT(X)                                                                                   \
  X(reciprocal, T(1) / x)                                                                                         \
  X(sqrt, math::sqrt(x))                                                                                          \
  X(rsqrt, T(1) / math::sqrt(x))                                                                                  \
  X(exp, math::exp(x))                                                                                            \
  X(expm1, math::expm1(x))                                                                                        \
  X(log, math::log(x))                                                                                            \
  X(log1p, math::log1p(x))                                                                                        \
  X(sin, math::sin(x))                                                                                            \
  X(cos, math::cos(x))                                                                                            \
  X(tan, math::tan(x))                                                                                            \
  X(asin, math::asin(x))                                                                                          \
  X(acos, math::acos(x))                                                                                          \
  X(atan, math::atan(x))                                                                                          \
  X(sinh, math::sinh(x))                                                                                          \
  X(cosh, math::cosh(x))                                                                                          \
  X(tanh, math::tanh(x))                                                                                          \
  X(atanh, T(0.5) * (math::log1p(x) - math::log1p(-x)))                                                           \
  X(acosh, T(2) * math::log1p(math::sqrt(x / 2 - T(.5)) + (x / 2 - T(.5)) / (T(1) + math::sqrt(x / 2 + T(.5)))))  \
  X(sinc, math::select(x == T(0), T(1), math::sin(T(pi) * (x - 2 * math::round_half_even(x / 2))) / (T(pi) * x))) \
  X(erf, math::erf(x))                                                                                            \
  X(sigmoid, math::sigmoid(x))                                                                                    \
  X(softplus, math::softplus(x))                                                                                  \
  X(elu, math::select(x > T(0), x, math::expm1(x)))                                                               \
  X(leaky_relu, math::select(x > T(0), x, x * T(p)))                                                              \
  X(gelu, T(0.5) * x * (T(1) + math::erf(x * T(0.70710678118654752440))))                                         \
  X(gelu_tanh, T(0.5) * x * (T(1) + math::tanh(T(0.79788456080286535588) * (x + T(0.044715) * x * x * x))))       \
  X(silu, x* math::sigmoid(x))                                                                                    \
  X(floor, math::floor(x))                                                                                        \
  X(ceil, math::ceil(x))                                                                                          \
  X(round, math::round_half_even(x))

/// All types but bool.
#define TAPESTRY_UNARY_NUMBER(X)                                          \
  X(negative, static_cast<T>(-x))                                         \
  X(abs, math::abs(x))                                                    \
  X(sign, math::select(x > T(0), T(1), math::select(x < T(0), T(-1), x))) \
  X(square, static_cast<T>(x * x))                                        \
  X(relu, math::select(x <= T(0), T(0), x))

/// Float types to bool.
#define TAPESTRY_UNARY_PREDICATE(X) \
  X(is_nan, x != x)                 \
  X(is_finite, x - x == T(0))

/// bool to bool.
#define TAPESTRY_UNARY_LOGICAL(X) X(logical_not, !x)

/// All types but bool.
#define TAPESTRY_BINARY_NUMBER(X)                          \
  X(add, static_cast<T>(a + b))                            \
  X(subtract, static_cast<T>(a - b))                       \
  X(multiply, static_cast<T>(a * b))                       \
  X(maximum, math::select((a > b) | (a != a), a, b))       \
  X(minimum, math::select((a < b) | (a != a), a, b))       \
  X(squared_difference, static_cast<T>((a - b) * (a - b))) \
  X(floor_mod, math::floor_mod(a, b))                      \
  X(floor_divide, math::floor_divide(a, b))                \
  X(power, math::power(a, b))                              \
  X(relu_grad, math::select(b > T(0), a, T(0)))

/// Float types only. A `_grad` function takes the incoming gradient as `a` and the function's output as `b`;
/// softplus_grad, leaky_relu_grad and gelu_grad take the function's input instead. TensorFlow's SigmoidGrad and
/// TanhGrad, and our ops of these names, take the two in the other order.
#define TAPESTRY_BINARY_FLOAT(X)                                               \
  X(divide, a / b)                                                             \
  X(divide_no_nan, math::select(b == T(0), T(0), a / b))                       \
  X(atan2, math::atan2(a, b))                                                  \
  X(xlogy, math::select(a == T(0), T(0), a * math::log(b)))                    \
  X(sigmoid_grad, a* b*(T(1) - b))                                             \
  X(tanh_grad, a*(T(1) - b * b))                                               \
  X(softplus_grad, a* math::sigmoid(b))                                        \
  X(elu_grad, math::select(b > T(0), a, a * (b + T(1))))                       \
  X(leaky_relu_grad, math::select(b > T(0), a, a * T(p)))                      \
  X(gelu_grad, a*(T(0.5) * (T(1) + math::erf(b * T(0.70710678118654752440))) + \
                  b * T(0.39894228040143267794) * math::exp(T(-0.5) * b * b)))

/// All types to bool. A NaN is unequal to everything.
#define TAPESTRY_BINARY_COMPARE(X) \
  X(equal, a == b)                 \
  X(not_equal, a != b)             \
  X(less, a < b)                   \
  X(less_equal, a <= b)            \
  X(greater, a > b)                \
  X(greater_equal, a >= b)

/// bool to bool.
#define TAPESTRY_BINARY_LOGICAL(X) \
  X(logical_and, a& b)             \
  X(logical_or, a | b)

/// clip: NaN stays NaN, and where b > c the result is b, as in TensorFlow. select: `a` is bool, `b` and `c` are of any
/// type.
#define TAPESTRY_TERNARY_NUMBER(X) X(clip, math::select(a < b, b, math::select(a > c, math::select(c < b, b, c), a)))
#define TAPESTRY_TERNARY_SELECT(X) X(select, math::select(a, b, c))

#define TAPESTRY_NAME(name, formula) name,
enum class Unary : std::uint8_t {
  TAPESTRY_UNARY_FLOAT(TAPESTRY_NAME) TAPESTRY_UNARY_NUMBER(TAPESTRY_NAME) TAPESTRY_UNARY_PREDICATE(TAPESTRY_NAME)
      TAPESTRY_UNARY_LOGICAL(TAPESTRY_NAME)
};
enum class Binary : std::uint8_t {
  TAPESTRY_BINARY_NUMBER(TAPESTRY_NAME) TAPESTRY_BINARY_FLOAT(TAPESTRY_NAME) TAPESTRY_BINARY_COMPARE(TAPESTRY_NAME)
      TAPESTRY_BINARY_LOGICAL(TAPESTRY_NAME)
};
enum class Ternary : std::uint8_t { TAPESTRY_TERNARY_NUMBER(TAPESTRY_NAME) TAPESTRY_TERNARY_SELECT(TAPESTRY_NAME) };
#undef TAPESTRY_NAME

/// X(name, number of slots, statements): the optimizers' updates of one element, from variable `v`, gradient `g`, slots
/// `s` and `t`, and numbers `p`. Each writes v and its slots. `wd` is PyTorch's weight decay, which adds wd v to the
/// gradient. Values that are the same for all elements are numbers, computed in double: 1 - 0.999f, for one, is 13
/// millionths off. Each formula is the one in the optimizer's docstring in tapestry/train/optimizers.hpp.
#define TAPESTRY_UPDATES(X)                                                                                            \
  /* p = {lr, wd} */                                                                                                   \
  X(gradient_descent, 0, v -= p[0] * (g + p[1] * v))                                                                   \
  /* p = {lr, momentum, wd}; s: momentum */                                                                            \
  X(momentum, 1, s = p[1] * s + (g + p[2] * v); v -= p[0] * s)                                                         \
  X(nesterov, 1, const T d = g + p[2] * v; s = p[1] * s + d; v -= p[0] * (d + p[1] * s))                               \
  /* p = {lr / (1 - beta1^step), beta1, 1 - beta1, beta2, 1 - beta2, 1 / (1 - beta2^step), epsilon, wd};               \
     s, t: means of the gradient and of its square */                                                                  \
  X(adam, 2, const T d = g + p[7] * v; s = p[1] * s + p[2] * d; t = p[3] * t + p[4] * d * d;                           \
    v -= p[0] * s / (math::sqrt(t * p[5]) + p[6]))                                                                     \
  /* the same, with p[7] = lr * wd: the decay does not go through the gradient */                                      \
  X(adamw, 2, v -= p[7] * v; s = p[1] * s + p[2] * g; t = p[3] * t + p[4] * g * g;                                     \
    v -= p[0] * s / (math::sqrt(t * p[5]) + p[6]))                                                                     \
  /* p = {lr, decay, 1 - decay, momentum, epsilon, wd}; s: mean of the gradient's square, t: momentum */               \
  X(rmsprop, 2, const T d = g + p[5] * v; s = p[1] * s + p[2] * d * d; t = p[3] * t + p[0] * d / math::sqrt(s + p[4]); \
    v -= t)                                                                                                            \
  /* p = {lr, epsilon, wd}; s: sum of the gradient's squares */                                                        \
  X(adagrad, 1, const T d = g + p[2] * v; s += d * d; v -= p[0] * d / (math::sqrt(s) + p[1]))

}  // namespace tapestry
