#pragma once

#include "backend/cuda/kernels/kernel.hpp"
#include "backend/philox.hpp"

namespace tapestry::gpu {

/// The values of Distribution, whose header is too large for kernel files.
enum class RandomKind : std::uint8_t { uniform, normal, truncated_normal, bernoulli };

/// Fills y with n floats of `type` from the Philox blocks of `key`, starting with the block `counter`; see
/// Backend::random. `top` is the largest number below b.
void random_floats(Stream stream, Type type, RandomKind kind, std::uint64_t key, std::uint64_t counter, double a,
                   double b, double top, void* y, std::int64_t n);
/// Fills y with n uniform integers of 32 or 64 bits in [a, a + range).
void random_whole(Stream stream, Type type, std::uint64_t key, std::uint64_t counter, std::int64_t a,
                  std::uint64_t range, void* y, std::int64_t n);

/// The number of elements that one Philox block makes.
template <class T>
inline constexpr int block_elements = sizeof(T) == 4 ? 4 : 2;
inline constexpr int whole_block_elements = 2;

// --- One block ----------------------------------------------------------------------------------------------------
//
// These functions compute what the CPU's kernels do (src/backend/cpu/kernels: random.cpp, and the logarithm of
// math.hpp), in the same order, so that the numbers have the same bits. Normal numbers have them only if the CPU can
// fuse a multiplication with an addition. Here only `fused` does that: random.cu is compiled with --fmad=false.

namespace normal {

TAPESTRY_HD float fused(float a, float b, float c) { return ::fmaf(a, b, c); }
TAPESTRY_HD double fused(double a, double b, double c) { return ::fma(a, b, c); }

template <class T>
struct Real;
template <>
struct Real<float> {
  using Bits = std::uint32_t;
  static constexpr int mantissa_bits = 23, terms = 3, turn_terms = 5;
  static constexpr Bits sqrt_half = 0x3f3504f3u, one = 0x3f800000u, two_to_mantissa_bits = 0x4b000000u;
  static constexpr float two_to_mantissa_and_bias = 0x1p23f + 127.0f;
  static constexpr float ln2_high = 0x1.62e3p-1f, ln2_low = 9.05800061e-6f, unit = 0x1p-24f;
  TAPESTRY_HD static float coefficient(int i) {
    constexpr float c[] = {6.6666776e-1f, 3.9977562e-1f, 2.9871893e-1f};
    return c[i];
  }
};
template <>
struct Real<double> {
  using Bits = std::uint64_t;
  static constexpr int mantissa_bits = 52, terms = 7, turn_terms = 9;
  static constexpr Bits sqrt_half = 0x3fe6a09e667f3bcdu, one = 0x3ff0000000000000u,
                        two_to_mantissa_bits = 0x4330000000000000u;
  static constexpr double two_to_mantissa_and_bias = 0x1p52 + 1023.0;
  static constexpr double ln2_high = 6.93147180369123816490e-1, ln2_low = 1.90821492927058770002e-10, unit = 0x1p-53;
  TAPESTRY_HD static double coefficient(int i) {
    constexpr double c[] = {0.6666666666666731,  0.39999999999429936, 0.28571428739885557, 0.22222198764930212,
                            0.18183556967462505, 0.1531418452498403,  0.14795068506680908};
    return c[i];
  }
};

/// c[begin] + c[begin + 1] x + ... up to c[end - 1], by halves.
template <class T, int begin, int end>
TAPESTRY_HD T polynomial(T x) {
  if constexpr (end - begin == 1) {
    return Real<T>::coefficient(begin);
  } else {
    constexpr int half = end - begin > 4 ? 4 : end - begin > 2 ? 2 : 1;
    const T x2 = x * x, power = half == 4 ? x2 * x2 : half == 2 ? x2 : x;
    return fused(power, polynomial<T, begin + half, end>(x), polynomial<T, begin, begin + half>(x));
  }
}

/// The logarithm of a normal number in (0, 1].
template <class T>
TAPESTRY_HD T log(T x) {
  using R = Real<T>;
  const auto b = __builtin_bit_cast(typename R::Bits, x) + (R::one - R::sqrt_half);
  const auto exponent = b >> R::mantissa_bits;
  const T k = __builtin_bit_cast(T, exponent | R::two_to_mantissa_bits) - R::two_to_mantissa_and_bias;
  const T f = __builtin_bit_cast(T, (b & ((typename R::Bits{1} << R::mantissa_bits) - 1)) + R::sqrt_half) - T(1);
  const T s = f / (T(2) + f);
  const T square = s * s;
  const T half_f2 = T(0.5) * f * f;
  const T rest = square * polynomial<T, 0, R::terms>(square);
  const T low = fused(s, half_f2 + rest, k * R::ln2_low);
  return fused(k, R::ln2_high, f - (half_f2 - low));
}

TAPESTRY_HD float root(float x) { return ::sqrtf(x); }
TAPESTRY_HD double root(double x) { return ::sqrt(x); }
TAPESTRY_HD float floor(float x) { return ::floorf(x); }
TAPESTRY_HD double floor(double x) { return ::floor(x); }

/// Sine and cosine of 2 pi u for u in [0, 1), by Taylor's series around the nearest quarter turn.
template <class T>
TAPESTRY_HD void turn(T u, T& sine, T& cosine) {
  constexpr T half_pi = static_cast<T>(1.57079632679489661923);
  const T quarter = floor(u * T(4) + T(0.5));
  const T x = (u * T(4) - quarter) * half_pi, z = x * x;
  T s = 1, c = 1;
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
  for (int i = Real<T>::turn_terms; i > 0; --i) {
    s = T(1) - z * s * static_cast<T>(1.0 / (2 * i * (2 * i + 1)));
    c = T(1) - z * c * static_cast<T>(1.0 / (2 * i * (2 * i - 1)));
  }
  s *= x;
  const bool odd = quarter == T(1) || quarter == T(3);
  sine = odd ? c : s;
  cosine = odd ? s : c;
  if (quarter == T(2) || quarter == T(3)) sine = -sine;
  if (quarter == T(1) || quarter == T(2)) cosine = -cosine;
}

}  // namespace normal

TAPESTRY_HD void units(const philox::Block& block, float (&to)[4]) {
  for (int i = 0; i < 4; ++i) to[i] = philox::unit_float(block.words[i]);
}
TAPESTRY_HD void units(const philox::Block& block, double (&to)[2]) {
  for (int i = 0; i < 2; ++i) to[i] = philox::unit_double(block.words[2 * i], block.words[2 * i + 1]);
}

/// The normal numbers of a block, mean 0 and deviation 1 (Box and Muller 1958).
template <class T>
TAPESTRY_HD void draw_normal(std::uint64_t key, std::uint64_t counter, std::uint32_t attempt,
                             T (&to)[block_elements<T>]) {
  units(philox::block(key, counter, attempt), to);
  for (int i = 0; i < block_elements<T>; i += 2) {
    const T radius = normal::root(T(-2) * normal::log(to[i] + normal::Real<T>::unit));
    T sine, cosine;
    normal::turn(to[i + 1], sine, cosine);
    to[i] = radius * cosine;
    to[i + 1] = radius * sine;
  }
}

/// The numbers of one block.
template <class T>
TAPESTRY_HD void draw(RandomKind kind, std::uint64_t key, std::uint64_t counter, T a, T b, T top,
                      T (&to)[block_elements<T>]) {
  if (kind == RandomKind::uniform || kind == RandomKind::bernoulli) {
    units(philox::block(key, counter), to);
    for (T& value : to) {
      const T scaled = a + value * (b - a);
      value = kind == RandomKind::bernoulli ? (value < a ? T(1) : T(0)) : scaled > top ? top : scaled;
    }
    return;
  }
  draw_normal(key, counter, 0, to);
  bool beyond = kind == RandomKind::truncated_normal;
  for (std::uint32_t attempt = 1; beyond; ++attempt) {
    beyond = false;
    for (const T value : to) beyond = beyond || value > T(2) || value < T(-2);
    if (!beyond) break;
    T again[block_elements<T>];
    draw_normal(key, counter, attempt, again);
    for (int i = 0; i < block_elements<T>; ++i)
      if (to[i] > T(2) || to[i] < T(-2)) to[i] = again[i];
  }
  for (T& value : to) value = a + b * value;
}

/// The i-th integer of a block.
TAPESTRY_HD std::uint64_t draw_whole(const philox::Block& block, int i, std::int64_t a, std::uint64_t range) {
  const std::uint64_t word = std::uint64_t{block.words[2 * i]} << 32 | block.words[2 * i + 1];
  const auto product = static_cast<unsigned __int128>(word) * range;
  return static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(product >> 64);
}

}  // namespace tapestry::gpu
