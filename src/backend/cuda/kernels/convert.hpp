#pragma once

#include "backend/cuda/kernels/kernel.hpp"
#include "tapestry/float16.hpp"

namespace tapestry::gpu {

template <class T>
inline constexpr bool is_float = false;
template <>
inline constexpr bool is_float<float> = true;
template <>
inline constexpr bool is_float<double> = true;

template <class T>
struct Range;
template <>
struct Range<std::uint8_t> {
  static constexpr std::uint8_t lowest = 0, highest = 255;
};
template <>
struct Range<std::int32_t> {
  static constexpr std::int32_t lowest = -2147483647 - 1, highest = 2147483647;
};
template <>
struct Range<std::int64_t> {
  static constexpr std::int64_t lowest = -9223372036854775807 - 1, highest = 9223372036854775807;
};
template <class T>
inline constexpr bool is_whole = false;
template <>
inline constexpr bool is_whole<std::uint8_t> = true;
template <>
inline constexpr bool is_whole<std::int32_t> = true;
template <>
inline constexpr bool is_whole<std::int64_t> = true;

/// Converts as `convert_kernel` says. The hardware's own conversions differ for numbers out of range.
template <class To, class From>
TAPESTRY_HD To convert(From x) {
  if constexpr (is_float16<From>) {
    return convert<To>(static_cast<float>(x));
  } else if constexpr (is_float<From> && is_whole<To>) {
    if (!(x == x)) return To(0);
    if (x >= static_cast<From>(Range<To>::highest)) return Range<To>::highest;
    if (x <= static_cast<From>(Range<To>::lowest)) return Range<To>::lowest;
    return static_cast<To>(x);
  } else if constexpr (!is_float<To> && !is_whole<To> && !is_float16<To>) {
    return x != From(0);
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace tapestry::gpu
