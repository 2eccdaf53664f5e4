#pragma once

// The functions of functors.hpp on the GPU: CUDA's own, which are within a few units in the last place (the CUDA
// programming guide lists their errors under mathematical functions), and IEEE's square root. nvcc compiles them for
// the host, too, where they are tested without a GPU.

#include "backend/cuda/kernels/kernel.hpp"

namespace tapestry::gpu::math {

#define TAPESTRY_MATH(name, in_float, in_double)            \
  TAPESTRY_HD float name(float x) { return ::in_float(x); } \
  TAPESTRY_HD double name(double x) { return ::in_double(x); }
TAPESTRY_MATH(sqrt, sqrtf, sqrt)
TAPESTRY_MATH(exp, expf, exp)
TAPESTRY_MATH(expm1, expm1f, expm1)
TAPESTRY_MATH(log, logf, log)
TAPESTRY_MATH(log1p, log1pf, log1p)
TAPESTRY_MATH(sin, sinf, sin)
TAPESTRY_MATH(cos, cosf, cos)
TAPESTRY_MATH(tan, tanf, tan)
TAPESTRY_MATH(asin, asinf, asin)
TAPESTRY_MATH(acos, acosf, acos)
TAPESTRY_MATH(atan, atanf, atan)
TAPESTRY_MATH(sinh, sinhf, sinh)
TAPESTRY_MATH(cosh, coshf, cosh)
TAPESTRY_MATH(tanh, tanhf, tanh)
TAPESTRY_MATH(erf, erff, erf)
TAPESTRY_MATH(floor, floorf, floor)
TAPESTRY_MATH(ceil, ceilf, ceil)
TAPESTRY_MATH(round_half_even, rintf, rint)
#undef TAPESTRY_MATH

template <class T>
TAPESTRY_HD T select(bool first, T a, T b) {
  return first ? a : b;
}
TAPESTRY_HD float abs(float x) { return ::fabsf(x); }
TAPESTRY_HD double abs(double x) { return ::fabs(x); }
template <class T>
TAPESTRY_HD T abs(T x) {
  return x < T(0) ? static_cast<T>(-x) : x;
}
TAPESTRY_HD float atan2(float y, float x) { return ::atan2f(y, x); }
TAPESTRY_HD double atan2(double y, double x) { return ::atan2(y, x); }

/// Computed from exp of a number that is at most 0, which never overflows.
template <class T>
TAPESTRY_HD T sigmoid(T x) {
  const T e = exp(-abs(x));
  return (x >= T(0) ? T(1) : e) / (T(1) + e);
}
template <class T>
TAPESTRY_HD T softplus(T x) {
  return (x > T(0) ? x : T(0)) + log1p(exp(-abs(x)));
}

/// For floats, as in TensorFlow: the remainder has the divisor's sign.
TAPESTRY_HD float floor_mod(float a, float b) {
  const float r = ::fmodf(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
TAPESTRY_HD double floor_mod(double a, double b) {
  const double r = ::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
TAPESTRY_HD float floor_divide(float a, float b) { return floor(a / b); }
TAPESTRY_HD double floor_divide(double a, double b) { return floor(a / b); }

/// For integers. A divisor of 0 has been refused before. The lowest number divided by -1 wraps.
template <class T>
TAPESTRY_HD T floor_divide(T a, T b) {
  if (b == T(0)) return T(0);
  if (b == static_cast<T>(-1) && T(-1) < T(0)) return static_cast<T>(T(0) - a);
  const T quotient = static_cast<T>(a / b);
  return static_cast<T>(a % b != T(0) && (a < T(0)) != (b < T(0)) ? quotient - 1 : quotient);
}
template <class T>
TAPESTRY_HD T floor_mod(T a, T b) {
  if (b == T(0) || (b == static_cast<T>(-1) && T(-1) < T(0))) return T(0);
  const T r = static_cast<T>(a % b);
  return static_cast<T>(r != T(0) && (r < T(0)) != (b < T(0)) ? r + b : r);
}

TAPESTRY_HD float power(float a, float b) { return ::powf(a, b); }
TAPESTRY_HD double power(double a, double b) { return ::pow(a, b); }
/// By repeated squaring, modulo 2 to the number of T's bits. Negative exponents have been refused before.
template <class T>
TAPESTRY_HD T power(T a, T b) {
  // Unsigned, so that it may overflow. The lower bits of a product do not depend on the type.
  unsigned long long result = 1, factor = static_cast<unsigned long long>(a);
  for (; b > T(0); b = static_cast<T>(b / 2)) {
    if (b % 2 != T(0)) result *= factor;
    factor *= factor;
  }
  return static_cast<T>(result);
}

}  // namespace tapestry::gpu::math
