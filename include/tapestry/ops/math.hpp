#pragma once

#include "tapestry/ops/arguments.hpp"

namespace tapestry {

/// @addtogroup math
/// Elementwise mathematics. Functions of several tensors broadcast as in NumPy, and promote their arguments to one
/// dtype as PyTorch's result_type does; a C++ number takes the dtype of the tensors beside it. The functions throw
/// InvalidArgumentError for shapes that do not broadcast, and for dtypes that they do not support.
///
/// Arithmetic and `relu` are for any dtype but bool. The other functions convert integers and bools to float32.
/// @{

// ---- Arithmetic: any dtype but bool -------------------------------------------------------------------------------

/// a + b
TAPESTRY_API Tensor add(In a, In b, std::string_view name = {});
/// a - b
TAPESTRY_API Tensor subtract(In a, In b, std::string_view name = {});
/// a * b, element by element; products of matrices are `matmul`.
TAPESTRY_API Tensor multiply(In a, In b, std::string_view name = {});
/// a / b in floats: integers become float32, as in PyTorch and Python 3.
TAPESTRY_API Tensor divide(In a, In b, std::string_view name = {});
/// a / b where b is not 0, and 0 where b is 0. Integers become float32.
TAPESTRY_API Tensor divide_no_nan(In a, In b, std::string_view name = {});
/// The largest integer not above a / b, in the dtype of the arguments: -7 // 2 is -4. Of floats it is, as in
/// TensorFlow, the floor of the rounded quotient: 1.0 // 0.1 is 10, where Python, NumPy and PyTorch give 9.
TAPESTRY_API Tensor floor_divide(In a, In b, std::string_view name = {});
/// The remainder of a / b that has the sign of b, exact for floats, too: TensorFlow's floormod, Python's %.
TAPESTRY_API Tensor mod(In a, In b, std::string_view name = {});
/// a to the power of b. The gradient with respect to b is 0 where a is not positive, but NaN where the power is
/// infinite there.
TAPESTRY_API Tensor power(In a, In b, std::string_view name = {});
/// The larger of a and b; NaN if either is NaN. Where they are equal, the gradient goes to a.
TAPESTRY_API Tensor maximum(In a, In b, std::string_view name = {});
/// The smaller of a and b; NaN if either is NaN. Where they are equal, the gradient goes to a.
TAPESTRY_API Tensor minimum(In a, In b, std::string_view name = {});
/// (a - b) squared.
TAPESTRY_API Tensor squared_difference(In a, In b, std::string_view name = {});
/// The angle of the point (x, y), in (-pi, pi].
TAPESTRY_API Tensor atan2(In y, In x, std::string_view name = {});
/// a * log(b), and 0 where a is 0, for any b.
TAPESTRY_API Tensor xlogy(In a, In b, std::string_view name = {});

/// -x
TAPESTRY_API Tensor negative(In x, std::string_view name = {});
/// The absolute value. Its gradient at 0 is 0.
TAPESTRY_API Tensor abs(In x, std::string_view name = {});
/// The sign: -1, 0 or 1; NaN stays NaN.
TAPESTRY_API Tensor sign(In x, std::string_view name = {});
/// x * x
TAPESTRY_API Tensor square(In x, std::string_view name = {});
/// x limited to [low, high]; NaN stays NaN. The gradient passes where x is in the closed interval. Where low > high,
/// the result is low, as in TensorFlow.
TAPESTRY_API Tensor clip(In x, In low, In high, std::string_view name = {});

// Operators are templates, so that built-in operators come first, such as those for the sizes of a shape: of two
// equally good candidates, overload resolution takes the one that is not a template.

/// `add`, `subtract`, `multiply`, `divide` and `negative`.
/// @{
template <int = 0>
Tensor operator+(In a, In b) {
  return add(std::move(a), std::move(b));
}
template <int = 0>
Tensor operator-(In a, In b) {
  return subtract(std::move(a), std::move(b));
}
template <int = 0>
Tensor operator*(In a, In b) {
  return multiply(std::move(a), std::move(b));
}
template <int = 0>
Tensor operator/(In a, In b) {
  return divide(std::move(a), std::move(b));
}
template <int = 0>
Tensor operator-(In x) {
  return negative(std::move(x));
}
/// @}
/// Assign a new tensor to the handle. The tensor to which it referred does not change.
/// @{
inline Tensor& operator+=(Tensor& a, In b) { return a = add(In(a, b.where()), b); }
inline Tensor& operator-=(Tensor& a, In b) { return a = subtract(In(a, b.where()), b); }
inline Tensor& operator*=(Tensor& a, In b) { return a = multiply(In(a, b.where()), b); }
inline Tensor& operator/=(Tensor& a, In b) { return a = divide(In(a, b.where()), b); }
/// @}

// ---- Functions of floats: integers and bools become float32 -------------------------------------------------------

/// 1 / x
TAPESTRY_API Tensor reciprocal(In x, std::string_view name = {});
/// The square root; NaN below 0.
TAPESTRY_API Tensor sqrt(In x, std::string_view name = {});
/// 1 / sqrt(x)
TAPESTRY_API Tensor rsqrt(In x, std::string_view name = {});
/// e to the power of x; infinite where that does not fit the dtype.
TAPESTRY_API Tensor exp(In x, std::string_view name = {});
/// exp(x) - 1, accurate near 0.
TAPESTRY_API Tensor expm1(In x, std::string_view name = {});
/// The natural logarithm; -inf at 0, NaN below.
TAPESTRY_API Tensor log(In x, std::string_view name = {});
/// log(1 + x), accurate near 0.
TAPESTRY_API Tensor log1p(In x, std::string_view name = {});
/// The trigonometric functions of angles in radians.
/// @{
TAPESTRY_API Tensor sin(In x, std::string_view name = {});
TAPESTRY_API Tensor cos(In x, std::string_view name = {});
TAPESTRY_API Tensor tan(In x, std::string_view name = {});
/// @}
/// The inverse of sin, in [-pi/2, pi/2]; NaN outside [-1, 1].
TAPESTRY_API Tensor asin(In x, std::string_view name = {});
/// The inverse of cos, in [0, pi]; NaN outside [-1, 1].
TAPESTRY_API Tensor acos(In x, std::string_view name = {});
/// The inverse of tan, in [-pi/2, pi/2].
TAPESTRY_API Tensor atan(In x, std::string_view name = {});
/// (exp(x) - exp(-x)) / 2
TAPESTRY_API Tensor sinh(In x, std::string_view name = {});
/// (exp(x) + exp(-x)) / 2
TAPESTRY_API Tensor cosh(In x, std::string_view name = {});
/// sinh(x) / cosh(x), in [-1, 1].
TAPESTRY_API Tensor tanh(In x, std::string_view name = {});
/// The inverse of tanh; infinite at -1 and 1, NaN beyond.
TAPESTRY_API Tensor atanh(In x, std::string_view name = {});
/// The inverse of cosh for x >= 1, NaN below.
TAPESTRY_API Tensor acosh(In x, std::string_view name = {});
/// sin(pi x) / (pi x), and 1 at 0.
TAPESTRY_API Tensor sinc(In x, std::string_view name = {});
/// The error function.
TAPESTRY_API Tensor erf(In x, std::string_view name = {});
/// The largest integer not above x, as a float. No gradient passes.
TAPESTRY_API Tensor floor(In x, std::string_view name = {});
/// The smallest integer not below x, as a float. No gradient passes.
TAPESTRY_API Tensor ceil(In x, std::string_view name = {});
/// The nearest integer, as a float; halves are rounded to the even one. No gradient passes.
TAPESTRY_API Tensor round(In x, std::string_view name = {});
/// Whether an element is NaN, or whether it is neither NaN nor infinite.
/// @{
TAPESTRY_API Tensor is_nan(In x, std::string_view name = {});
TAPESTRY_API Tensor is_finite(In x, std::string_view name = {});
/// @}

// ---- Activations --------------------------------------------------------------------------------------------------

/// max(x, 0); NaN stays NaN. The gradient at 0 is 0. Any dtype but bool.
TAPESTRY_API Tensor relu(In x, std::string_view name = {});
/// x where it is positive, alpha * x elsewhere.
TAPESTRY_API Tensor leaky_relu(In x, double alpha = 0.2, std::string_view name = {});
/// The same with a slope of 0.2 and a name.
inline Tensor leaky_relu(In x, const NodeName auto& name) { return leaky_relu(x, 0.2, name); }
/// x where it is positive, exp(x) - 1 elsewhere.
TAPESTRY_API Tensor elu(In x, std::string_view name = {});
/// x * Phi(x), where Phi is the distribution function of the normal distribution. With `approximate` it is the form
/// with tanh of Hendrycks and Gimpel 2016.
TAPESTRY_API Tensor gelu(In x, bool approximate = false, std::string_view name = {});
/// The exact form with a name.
inline Tensor gelu(In x, const NodeName auto& name) {
  return gelu(x, false, detail::plain_name(name, detail::Worded::form, x.where()));
}
/// x * sigmoid(x), also known as swish.
TAPESTRY_API Tensor silu(In x, std::string_view name = {});
/// 1 / (1 + exp(-x)), without overflow.
TAPESTRY_API Tensor sigmoid(In x, std::string_view name = {});
/// log(1 + exp(x)), without overflow.
TAPESTRY_API Tensor softplus(In x, std::string_view name = {});

// ---- Comparison and logic: bool results ---------------------------------------------------------------------------

/// a == b, a != b, for any dtype. A NaN is unequal to everything, including itself.
/// @{
TAPESTRY_API Tensor equal(In a, In b, std::string_view name = {});
TAPESTRY_API Tensor not_equal(In a, In b, std::string_view name = {});
/// @}
/// a < b, a <= b, a > b, a >= b; false where either is NaN. Any dtype but bool.
/// @{
TAPESTRY_API Tensor less(In a, In b, std::string_view name = {});
TAPESTRY_API Tensor less_equal(In a, In b, std::string_view name = {});
TAPESTRY_API Tensor greater(In a, In b, std::string_view name = {});
TAPESTRY_API Tensor greater_equal(In a, In b, std::string_view name = {});
/// @}
/// a and b, a or b, either a or b, not x. Bools only.
/// @{
TAPESTRY_API Tensor logical_and(In a, In b, std::string_view name = {});
TAPESTRY_API Tensor logical_or(In a, In b, std::string_view name = {});
TAPESTRY_API Tensor logical_xor(In a, In b, std::string_view name = {});
TAPESTRY_API Tensor logical_not(In x, std::string_view name = {});
/// @}
/// a where the condition (a bool tensor) is true, b elsewhere. All three broadcast. Elements that are not selected get
/// no gradient, but a NaN in the gradient of the function that computed them still spreads. Avoid it by making the
/// argument of that function safe, as in `where(positive, log(where(positive, x, 1)), 0)`.
TAPESTRY_API Tensor where(In condition, In a, In b, std::string_view name = {});
/// Does not compile: a C++ bool is not a mask. Use `condition ? a : b`.
Tensor where(std::same_as<bool> auto condition, In a, In b,
             std::string_view name = {}) = delete;  // use condition ? a : b

/// `less`, `less_equal`, `greater` and `greater_equal`, elementwise.
/// @{
template <int = 0>
Tensor operator<(In a, In b) {
  return less(a, b);
}
template <int = 0>
Tensor operator<=(In a, In b) {
  return less_equal(a, b);
}
template <int = 0>
Tensor operator>(In a, In b) {
  return greater(a, b);
}
template <int = 0>
Tensor operator>=(In a, In b) {
  return greater_equal(a, b);
}
/// @}
/// `logical_and`, `logical_or`, `logical_xor` and `logical_not`, elementwise on masks. In C++, `&`, `|` and `^` bind
/// weaker than `==`, but stronger than `&&`: `(x > 0) & (x < 1)` needs its parentheses.
/// @{
template <int = 0>
Tensor operator&(In a, In b) {
  return logical_and(a, b);
}
template <int = 0>
Tensor operator|(In a, In b) {
  return logical_or(a, b);
}
template <int = 0>
Tensor operator^(In a, In b) {
  return logical_xor(a, b);
}
template <int = 0>
Tensor operator~(In x) {
  return logical_not(x);
}
inline Tensor& operator&=(Tensor& a, In b) { return a = logical_and(In(a, b.where()), b); }
inline Tensor& operator|=(Tensor& a, In b) { return a = logical_or(In(a, b.where()), b); }
inline Tensor& operator^=(Tensor& a, In b) { return a = logical_xor(In(a, b.where()), b); }
/// @}

/// x with another element type, or x itself if it already has it. Floats that become integers are truncated towards
/// zero; a bool is x != 0. A gradient passes between floats only.
TAPESTRY_API Tensor cast(In x, DType dtype, std::string_view name = {});

/// @}

}  // namespace tapestry
