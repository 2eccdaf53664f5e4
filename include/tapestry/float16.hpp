#pragma once

#include <cstdint>
#include <type_traits>

// Inlined always: the CPU's kernels are compiled for several instruction sets, and a copy that they shared would be one
// for any of them (see src/backend/cpu/levels.hpp). CUDA's kernels use it, too.
#ifdef __CUDACC__
#define TAPESTRY_FLOAT16 __host__ __device__ __forceinline__ constexpr
#else
#define TAPESTRY_FLOAT16 [[gnu::always_inline]] constexpr
#endif

namespace tapestry {

namespace detail {

/// A double in float, by "rounding to odd": what is no float becomes that of its two neighbours whose last bit is 1. To
/// round that to a type of at most 22 bits gives what rounding the double itself would have given (Boldo and Melquiond,
/// When double rounding is odd, 2005).
TAPESTRY_FLOAT16 float odd_float(double x) {
  const auto near = static_cast<float>(x);
  const auto back = static_cast<double>(near);
  const bool too_far = (back < 0 ? -back : back) > (x < 0 ? -x : x), exact = back == x;
  const auto bits = __builtin_bit_cast(std::uint32_t, near) - (too_far ? 1U : 0U);
  return __builtin_bit_cast(float, bits | (exact ? 0U : 1U));
}
/// A whole number in the same way. What a double cannot hold exactly loses its last 12 bits to the highest of them,
/// which is far below the last bit of any of the types that are meant.
template <class T>
TAPESTRY_FLOAT16 float odd_float_of_whole(T x) {
  if constexpr (sizeof(T) == 8) {
    constexpr T limit = T{1} << 53, lost = 4095;
    const bool large = x > limit || (std::is_signed_v<T> && x < static_cast<T>(T{0} - limit));
    const T shortened = static_cast<T>((x & static_cast<T>(~lost)) | ((x & lost) != 0 ? T{2048} : T{0}));
    return odd_float(static_cast<double>(large ? shortened : x));
  } else {
    return odd_float(static_cast<double>(x));
  }
}

/// IEEE 754's binary16: a sign, 5 bits of the exponent and 10 of the fraction.
struct Binary16 {
  /// Rounds to the nearest, ties to even; too large a number becomes infinite, and a NaN stays one, a quiet one.
  TAPESTRY_FLOAT16 static std::uint16_t encode(float x) {
    const auto all = __builtin_bit_cast(std::uint32_t, x);
    const std::uint32_t magnitude = all & 0x7fffffffU, sign = (all ^ magnitude) >> 16;
    // The exponent is counted from 15 instead of 127, and 13 bits of the fraction go; a carry of the rounding goes on
    // into the exponent, and so to infinity.
    const std::uint32_t normal = (magnitude - (112U << 23) + 0xfffU + (magnitude >> 13 & 1U)) >> 13;
    // Beside 1/2, the last bit of a float is the least subnormal number.
    const auto shifted = __builtin_bit_cast(float, magnitude) + 0.5F;
    const std::uint32_t subnormal = __builtin_bit_cast(std::uint32_t, shifted) - (126U << 23);
    const std::uint32_t nan = 0x7e00U | (magnitude >> 13 & 0x3ffU);
    const std::uint32_t finite = magnitude < (113U << 23) ? subnormal : normal;
    const std::uint32_t large = magnitude > 0x7f800000U ? nan : 0x7c00U;
    return static_cast<std::uint16_t>((magnitude < (143U << 23) ? finite : large) | sign);
  }
  /// Exact.
  TAPESTRY_FLOAT16 static float decode(std::uint16_t bits) {
    const std::uint32_t sign = (bits & 0x8000U) << 16, magnitude = (bits & 0x7fffU) << 13;
    const std::uint32_t normal = magnitude + (112U << 23);
    const std::uint32_t large = magnitude | 0x7f800000U;  // infinity or NaN
    // 2^-14 + x, of which 2^-14 is taken away again.
    const float subnormal = __builtin_bit_cast(float, magnitude + (113U << 23)) - 0x1p-14F;
    const std::uint32_t usual = magnitude < (1U << 23) ? __builtin_bit_cast(std::uint32_t, subnormal) : normal;
    return __builtin_bit_cast(float, (magnitude < (31U << 23) ? usual : large) | sign);
  }
};

/// The upper half of a float: a sign, 8 bits of the exponent and 7 of the fraction.
struct Brain16 {
  TAPESTRY_FLOAT16 static std::uint16_t encode(float x) {
    const auto all = __builtin_bit_cast(std::uint32_t, x);
    const std::uint32_t rounded = (all + 0x7fffU + (all >> 16 & 1U)) >> 16;
    const std::uint32_t nan = all >> 16 | 0x40U;
    return static_cast<std::uint16_t>((all & 0x7fffffffU) > 0x7f800000U ? nan : rounded);
  }
  TAPESTRY_FLOAT16 static float decode(std::uint16_t bits) {
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
  }
};

}  // namespace detail

/// @addtogroup tensors
/// @{

/// A floating-point number in 16 bits, as it lies in memory. It is made of any number, rounded once, to the nearest
/// (ties to even); arithmetic and comparisons are those of the float that it becomes, exactly, by itself.
template <class Format>
class Float16 {
 public:
  Float16() = default;  ///< any number; `Float16{}` is 0
  /// The nearest number; infinite when that would be too large.
  template <class T>
  requires std::is_arithmetic_v<T> TAPESTRY_FLOAT16 explicit Float16(T number) : bits_(encode(number)) {}
  /// The same of a number of the other format.
  template <class Other>
  TAPESTRY_FLOAT16 explicit Float16(Float16<Other> number) : bits_(Format::encode(number)) {}

  /// The same number.
  TAPESTRY_FLOAT16 operator float() const { return Format::decode(bits_); }  // NOLINT(google-explicit-constructor)

  /// The number that those 16 bits are, and the other way round.
  /// @{
  TAPESTRY_FLOAT16 static Float16 from_bits(std::uint16_t bits) {
    Float16 number{};
    number.bits_ = bits;
    return number;
  }
  TAPESTRY_FLOAT16 std::uint16_t bits() const { return bits_; }
  /// @}

 private:
  template <class T>
  TAPESTRY_FLOAT16 static std::uint16_t encode(T number) {
    if constexpr (std::is_same_v<T, float>) {
      return Format::encode(number);
    } else if constexpr (std::is_floating_point_v<T>) {
      return Format::encode(detail::odd_float(static_cast<double>(number)));
    } else {
      return Format::encode(detail::odd_float_of_whole(number));
    }
  }

  std::uint16_t bits_;
};

/// Arithmetic of two of them, each in its format, is that of floats.
/// @{
template <class A, class B>
TAPESTRY_FLOAT16 float operator+(Float16<A> a, Float16<B> b) {
  return static_cast<float>(a) + static_cast<float>(b);
}
template <class A, class B>
TAPESTRY_FLOAT16 float operator-(Float16<A> a, Float16<B> b) {
  return static_cast<float>(a) - static_cast<float>(b);
}
template <class A, class B>
TAPESTRY_FLOAT16 float operator*(Float16<A> a, Float16<B> b) {
  return static_cast<float>(a) * static_cast<float>(b);
}
template <class A, class B>
TAPESTRY_FLOAT16 float operator/(Float16<A> a, Float16<B> b) {
  return static_cast<float>(a) / static_cast<float>(b);
}
template <class A>
TAPESTRY_FLOAT16 float operator-(Float16<A> a) {
  return -static_cast<float>(a);
}
/// @}

/// The element type of `float16`, IEEE 754's binary16: 11 significant bits, numbers from 6e-8 (6e-5 with all bits) to
/// 65504.
using float16_t = Float16<detail::Binary16>;
/// The element type of `bfloat16`, the upper half of a float: 8 significant bits, and a float's range.
using bfloat16_t = Float16<detail::Brain16>;
static_assert(sizeof(float16_t) == 2 && std::is_trivially_copyable_v<float16_t>);

/// Whether T is one of the two.
template <class T>
inline constexpr bool is_float16 = std::is_same_v<T, float16_t> || std::is_same_v<T, bfloat16_t>;

/// @}

}  // namespace tapestry

#undef TAPESTRY_FLOAT16
