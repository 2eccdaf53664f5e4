#pragma once

#include <cstdint>
#include <type_traits>

// These functions are always inlined. The CPU's kernels are compiled for several instruction sets, and the linker would
// keep one copy of a function, compiled for any of the sets, for all kernels (see src/backend/cpu/levels.hpp). CUDA's
// kernels use the functions, too.
#ifdef __CUDACC__
#define TAPESTRY_FLOAT16 __host__ __device__ __forceinline__ constexpr
#else
#define TAPESTRY_FLOAT16 [[gnu::always_inline]] constexpr
#endif

namespace tapestry {

namespace detail {

/// Converts a double to float by "rounding to odd": a number that is not a float becomes that of its two neighbours
/// whose last bit is 1. Rounding the result to a type of at most 22 significant bits gives what rounding the double
/// itself would have given (Boldo and Melquiond, When double rounding is odd, 2005).
TAPESTRY_FLOAT16 float odd_float(double x) {
  const auto near = static_cast<float>(x);
  const auto back = static_cast<double>(near);
  const bool too_far = (back < 0 ? -back : back) > (x < 0 ? -x : x), exact = back == x;
  const auto bits = __builtin_bit_cast(std::uint32_t, near) - (too_far ? 1U : 0U);
  return __builtin_bit_cast(float, bits | (exact ? 0U : 1U));
}
/// Converts an integer in the same way. In an integer that a double may not hold exactly, the last 12 bits are replaced
/// by their highest bit, which is set if any of them was set. It is far below the last bit of a 16-bit float.
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

/// IEEE 754's binary16: 1 bit of sign, 5 bits of exponent and 10 bits of fraction.
struct Binary16 {
  /// Rounds to the nearest number, ties to even. A number that is too large becomes infinite, and a NaN becomes quiet.
  TAPESTRY_FLOAT16 static std::uint16_t encode(float x) {
    const auto all = __builtin_bit_cast(std::uint32_t, x);
    const std::uint32_t magnitude = all & 0x7fffffffU, sign = (all ^ magnitude) >> 16;
    // The bias of the exponent is 15 instead of 127, and 13 bits of the fraction are dropped. A carry from the rounding
    // goes into the exponent, possibly up to infinity.
    const std::uint32_t normal = (magnitude - (112U << 23) + 0xfffU + (magnitude >> 13 & 1U)) >> 13;
    // In [1/2, 1), the last bit of a float is 2^-24, the smallest subnormal number.
    const auto shifted = __builtin_bit_cast(float, magnitude) + 0.5F;
    const std::uint32_t subnormal = __builtin_bit_cast(std::uint32_t, shifted) - (126U << 23);
    const std::uint32_t nan = 0x7e00U | (magnitude >> 13 & 0x3ffU);
    const std::uint32_t finite = magnitude < (113U << 23) ? subnormal : normal;
    const std::uint32_t large = magnitude > 0x7f800000U ? nan : 0x7c00U;
    return static_cast<std::uint16_t>((magnitude < (143U << 23) ? finite : large) | sign);
  }
  /// Converts back. The result is exact.
  TAPESTRY_FLOAT16 static float decode(std::uint16_t bits) {
    const std::uint32_t sign = (bits & 0x8000U) << 16, magnitude = (bits & 0x7fffU) << 13;
    const std::uint32_t normal = magnitude + (112U << 23);
    const std::uint32_t large = magnitude | 0x7f800000U;  // infinity or NaN
    // The bits are those of 2^-14 + x.
    const float subnormal = __builtin_bit_cast(float, magnitude + (113U << 23)) - 0x1p-14F;
    const std::uint32_t usual = magnitude < (1U << 23) ? __builtin_bit_cast(std::uint32_t, subnormal) : normal;
    return __builtin_bit_cast(float, (magnitude < (31U << 23) ? usual : large) | sign);
  }
};

/// The upper half of a float: 1 bit of sign, 8 bits of exponent and 7 bits of fraction.
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

/// A floating-point number of 16 bits, as it is stored in memory. Conversion from any number rounds once, to the
/// nearest (ties to even). Conversion to float is exact and implicit, so that arithmetic and comparisons are those of
/// floats.
template <class Format>
class Float16 {
 public:
  /// An indeterminate number; `Float16{}` is 0.
  Float16() = default;
  /// The nearest 16-bit number; infinite when `number` is too large.
  template <class T>
  requires std::is_arithmetic_v<T> TAPESTRY_FLOAT16 explicit Float16(T number) : bits_(encode(number)) {}
  /// The same for a number of the other format.
  template <class Other>
  TAPESTRY_FLOAT16 explicit Float16(Float16<Other> number) : bits_(Format::encode(number)) {}

  /// The same number as a float.
  TAPESTRY_FLOAT16 operator float() const { return Format::decode(bits_); }  // NOLINT(google-explicit-constructor)

  /// Conversion from and to the 16 bits of the number.
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

/// Arithmetic of numbers of one or of both formats. It is that of floats.
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

/// The element type of `float16`, IEEE 754's binary16: 11 significant bits. The positive numbers are 6e-8 to 65504, of
/// which those below 6e-5 have fewer significant bits.
using float16_t = Float16<detail::Binary16>;
/// The element type of `bfloat16`, the upper half of a float: 8 significant bits, and the range of float.
using bfloat16_t = Float16<detail::Brain16>;
static_assert(sizeof(float16_t) == 2 && std::is_trivially_copyable_v<float16_t>);

/// Whether T is float16_t or bfloat16_t.
template <class T>
inline constexpr bool is_float16 = std::is_same_v<T, float16_t> || std::is_same_v<T, bfloat16_t>;

/// @}

}  // namespace tapestry

#undef TAPESTRY_FLOAT16
