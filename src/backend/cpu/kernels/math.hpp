#pragma once

// The functions of functors.hpp on the CPU: branch-free plain C++ that GCC and clang turn into vector code. The
// compiler is not allowed to fuse multiplications with additions; `multiply_add` fuses them where that pays. So an
// element has the same bits in a vector and in the tail of one, and on all processors that can fuse (v3 and v4).
// Results are mostly within 2.5 units in the last place (tests/kernels_math_test.cpp holds the bounds). NaN,
// infinities, signed zeros and denormals are as in C's Annex F.
//
// The methods are the usual ones: additive range reduction (Cody and Waite, Software Manual for the Elementary
// Functions, 1980), rounding by adding 1.5 * 2^52, the logarithm in s = f / (2 + f) (Ng, fdlibm, 1993). The polynomials
// are minimax fits of the relative error by Remez's exchange; each is named with its interval and its error.
//
// exp, expm1, log, log1p, tanh, sigmoid and softplus are computed here in the type of the operand. Of the others, in
// double the trigonometric functions, sinh, cosh, erf and pow call libm. In float erf is computed in float, and the
// rest through short polynomials in double, which need no case distinctions.
//
// A template's T may also be a Value (vector_value.hpp), which writes down what is done with it. So functions choose by
// `select`, not by ?:, and the first operand of `select` and of `multiply_add` is no plain number.

#include <cstdint>
#include <type_traits>

#ifndef TAPESTRY_INLINE
#define TAPESTRY_INLINE inline __attribute__((always_inline))
#endif

namespace tapestry::host::TAPESTRY_KERNEL_LEVEL::math {

template <class T>
struct Real;

template <>
struct Real<float> {
  using Bits = std::uint32_t;
  static constexpr int mantissa_bits = 23;
  static constexpr Bits bias = 127, sign = 0x80000000u, sqrt_half = 0x3f3504f3u;
  static constexpr float infinity = __builtin_inff(), nan = __builtin_nanf(""), least_normal = 0x1p-126f;
  static constexpr float rounder = 0x1.8p23f, two_to_mantissa = 0x1p23f;
  static constexpr float log2_e = 1.44269504f, ln2_high = 0x1.62e3p-1f, ln2_low = 9.05800061e-6f;
  static constexpr float exp_low = -104, exp_normal = -87, exp_high = 88.7228317f, expm1_low = -18, tanh_high = 10;
  static constexpr Bits detour = 64;
  /// (exp(r) - 1 - r) / r^2 for |r| <= ln(2) / 2: 2^-26 of expm1(r).
  static constexpr float exp[] = {4.9999997e-1f, 1.6666542e-1f, 4.1667204e-2f, 8.366713e-3f, 1.3882485e-3f};
  /// (log((1 + s) / (1 - s)) / s - 2) / s^2 in s^2 for |s| <= 0.1717: 2^-29 of the logarithm.
  static constexpr float log[] = {6.6666776e-1f, 3.9977562e-1f, 2.9871893e-1f};
};

template <>
struct Real<double> {
  using Bits = std::uint64_t;
  static constexpr int mantissa_bits = 52;
  static constexpr Bits bias = 1023, sign = Bits{1} << 63, sqrt_half = 0x3fe6a09e667f3bcdu;
  static constexpr double infinity = __builtin_inf(), nan = __builtin_nan(""), least_normal = 0x1p-1022;
  static constexpr double rounder = 0x1.8p52, two_to_mantissa = 0x1p52;
  static constexpr double log2_e = 1.4426950408889634, ln2_high = 6.93147180369123816490e-1,
                          ln2_low = 1.90821492927058770002e-10;
  static constexpr double exp_low = -746, exp_normal = -708, exp_high = 709.782712893384, expm1_low = -40,
                          tanh_high = 22;
  static constexpr Bits detour = 128;
  /// As above: 2^-55.
  static constexpr double exp[] = {
      0.5000000000000006,    0.16666666666666588,   0.04166666666657466,  0.008333333333390872,  0.001388888893231006,
      0.0001984126971685237, 2.4801504320713922e-5, 2.755740858532026e-6, 2.7626436323390805e-7, 2.5053779541250903e-8};
  /// As above: 2^-58.
  static constexpr double log[] = {0.6666666666666731,  0.39999999999429936, 0.28571428739885557, 0.22222198764930212,
                                   0.18183556967462505, 0.1531418452498403,  0.14795068506680908};
};

// --- Bits ---------------------------------------------------------------------------------------------------------

template <class T>
TAPESTRY_INLINE constexpr typename Real<T>::Bits bits(T x) {
  if constexpr (__is_class(T)) {
    return x.bits();
  } else {
    return __builtin_bit_cast(typename Real<T>::Bits, x);
  }
}
template <class T>
TAPESTRY_INLINE constexpr T from_bits(typename Real<T>::Bits b) {
  if constexpr (__is_class(T)) {
    return T::from_bits(b);
  } else {
    return __builtin_bit_cast(T, b);
  }
}
template <class T>
TAPESTRY_INLINE constexpr T select(bool first, T a, T b) {
  return first ? a : b;
}
TAPESTRY_INLINE double widen(float x) { return static_cast<double>(x); }
TAPESTRY_INLINE float narrow(double x) { return static_cast<float>(x); }
/// 2^n for n in the range of normal numbers; n may be a negative number's unsigned form.
template <class T>
TAPESTRY_INLINE T power_of_two(typename Real<T>::Bits n) {
  return from_bits<T>((n + Real<T>::bias) << Real<T>::mantissa_bits);
}
TAPESTRY_INLINE float abs(float x) { return from_bits<float>(bits(x) & ~Real<float>::sign); }
TAPESTRY_INLINE double abs(double x) { return from_bits<double>(bits(x) & ~Real<double>::sign); }
template <class T>
TAPESTRY_INLINE T abs(T x) {
  return select(x < T(0), static_cast<T>(-x), x);
}
template <class T>
TAPESTRY_INLINE T minus_abs(T x) {
  return from_bits<T>(bits(x) | Real<T>::sign);
}
template <class T>
TAPESTRY_INLINE T copy_sign(T magnitude, T sign) {
  return from_bits<T>((bits(magnitude) & ~Real<T>::sign) | (bits(sign) & Real<T>::sign));
}
/// a * b + c, rounded once on a processor with FMA.
template <class T>
TAPESTRY_INLINE T multiply_add(T a, std::type_identity_t<T> b, std::type_identity_t<T> c) {
#if defined(__FMA__) || defined(__FP_FAST_FMA)
  if constexpr (sizeof(T) == sizeof(float)) {
    return __builtin_fmaf(a, b, c);
  } else {
    return __builtin_fma(a, b, c);
  }
#else
  return a * b + c;
#endif
}

/// c[0] + c[1] x + c[2] x^2 + ... by Estrin's scheme: the halves are independent, and so hide each other's latency. The
/// first half of five coefficients has two, which saves computing x^4.
template <class T, class Coefficient, int count, int begin = 0, int end = count>
TAPESTRY_INLINE T polynomial(T x, const Coefficient (&c)[count]) {
  if constexpr (end - begin == 1) {
    return c[begin];
  } else {
    constexpr int half = end - begin > 8 ? 8 : end - begin > 5 ? 4 : end - begin > 2 ? 2 : 1;
    const T x2 = x * x, x4 = x2 * x2;  // the compiler computes each power once, or not at all
    const T power = half == 8 ? x4 * x4 : half == 4 ? x4 : half == 2 ? x2 : x;
    return multiply_add(power, polynomial<T, Coefficient, count, begin + half, end>(x, c),
                        polynomial<T, Coefficient, count, begin, begin + half>(x, c));
  }
}

TAPESTRY_INLINE float sqrt(float x) { return __builtin_sqrtf(x); }
TAPESTRY_INLINE double sqrt(double x) { return __builtin_sqrt(x); }
TAPESTRY_INLINE float floor(float x) { return __builtin_floorf(x); }
TAPESTRY_INLINE double floor(double x) { return __builtin_floor(x); }
TAPESTRY_INLINE float ceil(float x) { return __builtin_ceilf(x); }
TAPESTRY_INLINE double ceil(double x) { return __builtin_ceil(x); }
TAPESTRY_INLINE float round_half_even(float x) { return __builtin_rintf(x); }
TAPESTRY_INLINE double round_half_even(double x) { return __builtin_rint(x); }

// --- Exponentials -------------------------------------------------------------------------------------------------

// Out of range, the formulas below yield garbage, which a last selection replaces. g++ turns that into one masked
// instruction; if x were limited beforehand, g++ would split the whole function in cases.

/// exp(x) = 2^n (1 + expm1_r).
template <class T>
struct Exponential {
  T shifted;  ///< n in the low bits; the bits above them are not 0
  T expm1_r;
};
template <class T>
TAPESTRY_INLINE Exponential<T> split_exponential(T x) {
  using R = Real<T>;
  const T shifted = multiply_add(x, R::log2_e, R::rounder);
  const T n = shifted - R::rounder;
  const T r = multiply_add(-n, R::ln2_low, multiply_add(-n, R::ln2_high, x));
  return {shifted, multiply_add(r * r, polynomial(r, R::exp), r)};
}

/// exp for x <= exp_high.
template <class T>
TAPESTRY_INLINE T exp_not_above(T x) {
  using R = Real<T>;
  const auto [shifted, expm1_r] = split_exponential(x);
  // Adding n to the exponent multiplies by 2^n, which must not touch a NaN. A denormal result is computed 2^detour
  // times too large and then scaled, so that it is rounded once.
  const auto n = select(x == x, bits(shifted), typename R::Bits{0});
  const auto scaled = bits(T(1) + expm1_r) + (n << R::mantissa_bits);
  const T denormal = from_bits<T>(scaled + (R::detour << R::mantissa_bits)) * power_of_two<T>(-R::detour);
  return select(x < R::exp_low, T(0), select(x < R::exp_normal, denormal, from_bits<T>(scaled)));
}

template <class T>
TAPESTRY_INLINE T exp(T x) {
  return select(x > Real<T>::exp_high, T(Real<T>::infinity), exp_not_above(x));
}

/// expm1(x) / 2 for x in [expm1_low, exp_high]. It loses the sign of -0.
template <class T>
TAPESTRY_INLINE T half_expm1(T x) {
  const auto [shifted, expm1_r] = split_exponential(x);
  const T half =
      from_bits<T>((bits(shifted) << Real<T>::mantissa_bits) + bits(T(0.5)));  // 2^n / 2; 2^n itself may overflow
  return multiply_add(half, expm1_r, half - T(0.5));
}

template <class T>
TAPESTRY_INLINE T expm1(T x) {
  const T y = copy_sign(T(2) * half_expm1(x), x);
  return select(x < Real<T>::expm1_low, T(-1), select(x > Real<T>::exp_high, T(Real<T>::infinity), y));
}

template <class T>
TAPESTRY_INLINE T tanh(T x) {
  const T magnitude = abs(x);
  const T e = half_expm1(T(2) * magnitude);
  const T y = e / (e + T(1));
  return copy_sign(select(magnitude > Real<T>::tanh_high, T(1), y), x);
}

template <class T>
TAPESTRY_INLINE T sigmoid(T x) {
  const T e = exp_not_above(minus_abs(x));
  return select(x >= T(0), T(1), e) / (T(1) + e);
}

// --- Logarithms ---------------------------------------------------------------------------------------------------

/// The logarithm of 2^k (1 + f), |f| small, k exact.
template <class T>
TAPESTRY_INLINE T log_of_parts(T k, T f) {
  const T s = f / (T(2) + f);
  const T square = s * s;
  const T half_f2 = T(0.5) * f * f;
  const T rest = square * polynomial(square, Real<T>::log);
  const T low = multiply_add(s, half_f2 + rest, k * Real<T>::ln2_low);
  return multiply_add(k, Real<T>::ln2_high, f - (half_f2 - low));
}

/// x = 2^k m with m in [sqrt(1/2), sqrt(2)), for a positive normal x.
template <class T>
struct ExponentAndMantissa {
  typename Real<T>::Bits exponent;  ///< k + bias
  T k, m;
};
template <class T>
TAPESTRY_INLINE ExponentAndMantissa<T> split(T x) {
  using R = Real<T>;
  const auto b = bits(x) + (bits(T(1)) - R::sqrt_half);
  const auto exponent = b >> R::mantissa_bits;
  // An integer below 2^mantissa_bits is converted by writing it to the mantissa of the float 2^mantissa_bits.
  const T k = from_bits<T>(exponent | bits(R::two_to_mantissa)) - (R::two_to_mantissa + T(R::bias));
  return {exponent, k, from_bits<T>((b & ((typename R::Bits{1} << R::mantissa_bits) - 1)) + R::sqrt_half)};
}

template <class T>
TAPESTRY_INLINE T log(T x) {
  using R = Real<T>;
  const auto denormal = x < R::least_normal;
  const ExponentAndMantissa<T> parts = split(select(denormal, x * R::two_to_mantissa, x));
  const T y = log_of_parts(parts.k - select(denormal, T(R::mantissa_bits), T(0)), parts.m - T(1));
  return select(x > T(0), select(x < R::infinity, y, x), select(x == T(0), T(-R::infinity), T(R::nan)));
}

template <class T>
TAPESTRY_INLINE T log1p(T x) {
  using R = Real<T>;
  const T u = T(1) + x;
  const T lost = select(x < T(1), x - (u - T(1)), T(1) - (u - x));  // 1 + x - u, exactly
  const ExponentAndMantissa<T> parts = split(u);
  const T scale = T(0.5) * power_of_two<T>(R::bias + 1 - parts.exponent);  // 2^-k, or 0 where that is denormal
  const T y = log_of_parts(parts.k, (parts.m - T(1)) + lost * scale);
  return select(x > T(-1), select(x < R::infinity, copy_sign(y, x), x), select(x == T(-1), T(-R::infinity), T(R::nan)));
}

template <class T>
TAPESTRY_INLINE T softplus(T x) {
  return select(x > T(0), x, T(0)) + log1p(exp_not_above(minus_abs(x)));
}

// --- float through double, double through libm --------------------------------------------------------------------

/// The largest |x| for which sin, cos and tan of a float may be called here, because pi / 2 is known to 86 bits. Beyond
/// it the kernels call libm.
inline constexpr float trigonometric_limit = 0x1p20f;

struct Angle {
  double sin, cos;
  std::uint64_t quadrant;  ///< the angle is measured from it; the last two bits count
};
TAPESTRY_INLINE Angle angle(float x) {
  using R = Real<double>;
  constexpr double two_by_pi = 6.36619772367581382433e-1;
  constexpr double half_pi_high = 1.57079632673412561417, half_pi_low = 6.07710050650619224932e-11;  // 33 bits, and 53
  // (sin(r) / r - 1) / r^2 and (cos(r) - 1 + r^2 / 2) / r^4 in r^2 for |r| <= pi / 4: 2^-37, 2^-43.
  constexpr double sine[] = {-0.16666666641838793, 0.008333329403017386, -0.00019839339001321717,
                             2.7183429781528248e-6};
  constexpr double cosine[] = {0.041666666624219646, -0.0013888883850251101, 2.479954144425639e-5,
                               -2.7211763165703267e-7};
  const double d = x;
  const double shifted = multiply_add(d, two_by_pi, R::rounder);
  const double n = shifted - R::rounder;
  const double r = multiply_add(-n, half_pi_low, multiply_add(-n, half_pi_high, d));
  const double z = r * r;
  return {r * multiply_add(z, polynomial(z, sine), 1.0),
          multiply_add(z * z, polynomial(z, cosine), multiply_add(-0.5, z, 1.0)), bits(shifted)};
}
TAPESTRY_INLINE double sine_in_quadrant(const Angle& a, std::uint64_t quadrant) {
  return from_bits<double>(bits(quadrant & 1 ? a.cos : a.sin) ^ ((quadrant & 2) << 62));
}
TAPESTRY_INLINE float sin(float x) {
  const Angle a = angle(x);
  return static_cast<float>(sine_in_quadrant(a, a.quadrant));
}
TAPESTRY_INLINE float cos(float x) {
  const Angle a = angle(x);
  return static_cast<float>(sine_in_quadrant(a, a.quadrant + 1));
}
TAPESTRY_INLINE float tan(float x) {
  const Angle a = angle(x);
  const bool odd = a.quadrant & 1;
  return static_cast<float>((odd ? -a.cos : a.sin) / (odd ? a.sin : a.cos));
}
TAPESTRY_INLINE double sin(double x) { return __builtin_sin(x); }
TAPESTRY_INLINE double cos(double x) { return __builtin_cos(x); }
TAPESTRY_INLINE double tan(double x) { return __builtin_tan(x); }

inline constexpr double pi = 3.14159265358979323846;

/// asin(s) for 0 <= s <= 1/2 and z = s^2.
template <class T>
TAPESTRY_INLINE T small_asin(T s, T z) {
  // (asin(s) / s - 1) / s^2 in s^2: 2^-35.
  constexpr double c[] = {0.16666667153302148,  0.07499950375144873,  0.04465967964620751, 0.030115310817926552,
                          0.024590931616998938, 0.007543580335377412, 0.0346129904383659};
  return multiply_add(s, z * polynomial(z, c), s);
}
/// Above 1/2, asin(s) = pi / 2 - 2 asin(sqrt((1 - s) / 2)).
template <class T>
TAPESTRY_INLINE T asin(T x) {
  const auto a = abs(widen(x));
  const auto large = a > 0.5;
  const auto z = select(large, (1 - a) * 0.5, a * a);
  const auto y = small_asin(select(large, sqrt(z), a), z);
  return copy_sign(narrow(select(large, pi / 2 - 2 * y, y)), x);
}
template <class T>
TAPESTRY_INLINE T acos(T x) {
  const auto d = widen(x);
  const auto a = abs(d);
  const auto large = a > 0.5;
  const auto z = select(large, (1 - a) * 0.5, a * a);
  const auto y = small_asin(select(large, sqrt(z), a), z);
  return narrow(select(large, select(d > 0, 2 * y, pi - 2 * y), pi / 2 - select(d > 0, y, -y)));
}
TAPESTRY_INLINE double asin(double x) { return __builtin_asin(x); }
TAPESTRY_INLINE double acos(double x) { return __builtin_acos(x); }

/// atan(u) for 0 <= u <= 1.
template <class T>
TAPESTRY_INLINE T small_atan(T u) {
  // (atan(u) / u - 1) / u^2 in u^2: 2^-31.
  constexpr double c[] = {-0.3333332765710509,   0.1999969975347043,   -0.14280215470103547,  0.11060758530830443,
                          -0.08820658902646421,  0.06763492313322894,  -0.044999383402728334, 0.02280380540309931,
                          -0.007442491945341307, 0.0011387480283332984};
  const T z = u * u;
  return multiply_add(u, z * polynomial(z, c), u);
}
template <class T>
TAPESTRY_INLINE T atan(T x) {
  const auto a = abs(widen(x));
  const auto large = a > 1;
  const auto y = small_atan(select(large, 1 / a, a));
  return copy_sign(narrow(select(large, pi / 2 - y, y)), x);
}
template <class T>
TAPESTRY_INLINE T atan2(T y, T x) {
  const auto a = abs(widen(x)), b = abs(widen(y));
  using Wide = decltype(widen(x));
  const auto steep = b > a;
  const Wide low = select(steep, a, b), high = select(steep, b, a);
  // 0 / 0 and infinity / infinity have a direction too: 0 and 45 degrees.
  const Wide ratio = select(low == high, select(low == 0, Wide(0), Wide(1)), low / high);
  const Wide first_octant = small_atan(ratio);
  const Wide first_quadrant = select(steep, pi / 2 - first_octant, first_octant);
  const Wide angle = select(copy_sign(T(1), x) < T(0), pi - first_quadrant, first_quadrant);
  return select((x != x) | (y != y), x + y, copy_sign(narrow(angle), y));
}
TAPESTRY_INLINE double atan(double x) { return __builtin_atan(x); }
TAPESTRY_INLINE double atan2(double y, double x) { return __builtin_atan2(y, x); }

template <class T>
TAPESTRY_INLINE T sinh(T x) {
  const T a = abs(x);
  const auto e = half_expm1(widen(a));
  const T y = narrow(e + e / (2 * e + 1));
  return copy_sign(select(a > 100, T(Real<T>::infinity), y), x);
}
template <class T>
TAPESTRY_INLINE T cosh(T x) {
  const T a = abs(x);
  const auto e = exp_not_above(widen(a));
  const T y = narrow(0.5 * (e + 1 / e));
  return select(a > 100, T(Real<T>::infinity), y);
}
TAPESTRY_INLINE double sinh(double x) { return __builtin_sinh(x); }
TAPESTRY_INLINE double cosh(double x) { return __builtin_cosh(x); }

template <class T>
TAPESTRY_INLINE T erf(T x) {
  // erf(t) / t - 1 in t^2 for t <= 0.9: 2^-31; -log(erfc(t)) / t for 0.9 <= t <= 4: 2^-28 of erf.
  constexpr float small[] = {1.2837917e-1f, -3.7612635e-1f, 1.12837195e-1f, -2.6860753e-2f,
                             5.204436e-3f,  -8.181928e-4f,  8.538843e-5f};
  constexpr float large[] = {1.1285166f, 6.3571125e-1f, 1.05270505e-1f, -2.2895124e-2f, 3.2164508e-3f, -2.1415376e-4f};
  const T a = abs(x);
  const T near = multiply_add(a, polynomial(a * a, small), a);
  const T far = -2 * half_expm1(-(a * polynomial(a, large)));
  return copy_sign(select(a < 0.9f, near, select(a > 4, T(1), far)), x);
}
TAPESTRY_INLINE double erf(double x) { return __builtin_erf(x); }

/// Computes exp(b log(a)) in double, which rounds correctly to float except near ties.
template <class T>
TAPESTRY_INLINE T float_power(T a, T b) {
  const auto y = exp(widen(b) * log(widen(abs(a))));
  const auto whole = floor(b) == b;  // infinities too
  const T half = b * 0.5f;
  const auto odd = whole & (floor(half) != half);
  const T magnitude = select((b == 0) | (abs(a) == 1), T(1), narrow(y));  // also where the other operand is NaN
  const T signed_power = select(odd, copy_sign(magnitude, a), magnitude);
  const auto undefined = (a < 0) & (!whole) & (a != -Real<T>::infinity);
  return select((b == 0) | (a == 1), T(1), select(undefined | (b != b), T(Real<T>::nan), signed_power));
}
TAPESTRY_INLINE float power(float a, float b) { return float_power(a, b); }
TAPESTRY_INLINE double power(double a, double b) { return __builtin_pow(a, b); }

// --- Division with the sign of the divisor ------------------------------------------------------------------------

/// For floats, as in TensorFlow: the remainder has the sign of the divisor.
TAPESTRY_INLINE float floor_mod(float a, float b) {
  const float r = __builtin_fmodf(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
TAPESTRY_INLINE double floor_mod(double a, double b) {
  const double r = __builtin_fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
template <class T>
TAPESTRY_INLINE T float_floor_divide(T a, T b) {
  return floor(a / b);
}
TAPESTRY_INLINE float floor_divide(float a, float b) { return float_floor_divide(a, b); }
TAPESTRY_INLINE double floor_divide(double a, double b) { return float_floor_divide(a, b); }

/// For integers. The caller has refused b = 0, which must not trap here all the same. The kernels are compiled with
/// -fwrapv, but the processor's division traps for the smallest number by -1.
template <class T>
TAPESTRY_INLINE T floor_divide(T a, T b) {
  if (b == T(0)) return T(0);
  if (b == static_cast<T>(-1) && T(-1) < T(0)) return static_cast<T>(-a);
  const T quotient = static_cast<T>(a / b);
  return static_cast<T>(a % b != T(0) && (a < T(0)) != (b < T(0)) ? quotient - 1 : quotient);
}
template <class T>
TAPESTRY_INLINE T floor_mod(T a, T b) {
  if (b == T(0) || (b == static_cast<T>(-1) && T(-1) < T(0))) return T(0);
  const T r = static_cast<T>(a % b);
  return static_cast<T>(r != T(0) && (r < T(0)) != (b < T(0)) ? r + b : r);
}

/// For integers, by squaring, modulo the type's size. The caller has refused negative exponents.
template <class T>
TAPESTRY_INLINE T power(T a, T b) {
  T result = T(1);
  for (; b > T(0); b = static_cast<T>(b / 2)) {
    if (b % 2 != T(0)) result = static_cast<T>(result * a);
    a = static_cast<T>(a * a);
  }
  return result;
}

}  // namespace tapestry::host::TAPESTRY_KERNEL_LEVEL::math
