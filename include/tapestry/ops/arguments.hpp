#pragma once

#include <concepts>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "tapestry/op.hpp"

namespace tapestry {

/// @addtogroup ops
/// @{

/// What the op is to be called in a graph, given in place of arguments that have defaults: `reduce_sum(x, "loss")`.
template <class T>
concept NodeName = std::convertible_to<const T&, std::string_view>;

/// A whole number, which a `bool` is not.
template <class T>
concept AxisNumber = std::integral<T> && !std::same_as<T, bool>;

/// Of what element type a new tensor is and where it lives; `unknown` is the creating function's default.
struct TensorOptions {
  DType dtype = DType::unknown;  ///< of the elements
  Device device = cpu();         ///< where they are
};

/// The axes that a function works along: one, a list, or, by default, all. Negative ones count from the end.
class Axes {
 public:
  /// All axes.
  Axes() = default;
  /// One axis, or the axes of a list, which may be empty: none.
  /// @{
  template <AxisNumber T>
  Axes(T axis) : list_{static_cast<std::int64_t>(axis)}, all_(false) {}         // NOLINT: a number is an axis
  Axes(std::initializer_list<std::int64_t> axes) : list_(axes), all_(false) {}  // NOLINT
  Axes(const std::vector<std::int64_t>& axes) : list_(axes), all_(false) {}     // NOLINT
  Axes(const Ints& axes) : list_(axes), all_(false) {}                          // NOLINT
  /// @}

  /// Whether none was named.
  bool all() const { return all_; }
  /// The axes as they were given; empty when all are meant.
  const Ints& list() const { return list_; }

 private:
  Ints list_;
  bool all_ = true;
};

/// @}

}  // namespace tapestry
