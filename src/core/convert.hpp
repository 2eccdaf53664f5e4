#pragma once

#include <limits>
#include <type_traits>

#include "tapestry/dtype.hpp"

namespace tapestry::detail {

/// Converts a number. C++ leaves the conversion of a float to a whole number that does not fit undefined; here it gives
/// the nearest end of the range, and 0 for a NaN.
template <class To, class From>
To convert(From value) {
  if constexpr (is_float16<From>) {
    return convert<To>(static_cast<float>(value));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To> && !std::is_same_v<To, bool>) {
    if (value != value) return To{0};
    if (value >= static_cast<From>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
    if (value <= std::numeric_limits<To>::lowest()) return std::numeric_limits<To>::lowest();
  }
  if constexpr (std::is_same_v<To, bool>) return value != From{};
  return static_cast<To>(value);
}

}  // namespace tapestry::detail
