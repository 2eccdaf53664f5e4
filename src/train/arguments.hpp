#pragma once

#include <cmath>
#include <string_view>

#include "tapestry/error.hpp"

namespace tapestry::train {

/// Throws InvalidArgumentError unless a condition on an argument holds; the condition is false for a NaN.
template <class T>
void require(bool condition, std::string_view argument, T value, std::string_view range, Where where) {
  if (!condition) throw InvalidArgumentError(detail::join(argument, " must be ", range, ", got ", value), where);
}

/// Throws InvalidArgumentError unless the value of a rate or decay is finite and at least 0.
inline void require_not_negative(double value, std::string_view argument, Where where) {
  require(value >= 0 && std::isfinite(value), argument, value, "a finite number >= 0", where);
}

/// Throws InvalidArgumentError unless the factor of a running mean is in [0, 1).
inline void require_fraction(double value, std::string_view argument, Where where) {
  require(value >= 0 && value < 1, argument, value, "in [0, 1)", where);
}

}  // namespace tapestry::train
