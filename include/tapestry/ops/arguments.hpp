#pragma once

#include <concepts>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "tapestry/op.hpp"

namespace tapestry {

/// @addtogroup ops
/// @{

/// The name of an operation in a graph. It may take the place of arguments that have defaults: `reduce_sum(x, "loss")`.
template <class T>
concept NodeName = std::convertible_to<const T&, std::string_view>;

/// An integer type other than `bool`.
template <class T>
concept AxisNumber = std::integral<T> && !std::same_as<T, bool>;

/// The element type and device of a new tensor.
struct TensorOptions {
  DType dtype = DType::unknown;  ///< the element type; `unknown` stands for the default of the creating function
  Device device = cpu();         ///< the device
};

namespace detail {

/// An argument that TensorFlow, NumPy or PyTorch takes as a string where there is a name here.
enum class Worded : std::uint8_t { pad_mode, direction, padding, norm_order, form, layout, dtype, dtype_alone, result };
/// The name of an operation. Throws InvalidArgumentError for one that is a value of the argument, as in
/// `pad(x, paddings, "REFLECT")`: it would be no more than a name.
TAPESTRY_API std::string_view plain_name(std::string_view name, Worded argument, Where where);

}  // namespace detail

/// The axes along which a function works: one axis, a list, or, by default, all axes. Negative axes count from the end.
class Axes {
 public:
  /// All axes.
  Axes() = default;
  /// One axis, or the axes in a list. An empty list means no axis.
  /// @{
  template <AxisNumber T>
  Axes(T axis) : list_{static_cast<std::int64_t>(axis)}, all_(false) {}         // NOLINT: a number is an axis
  Axes(std::initializer_list<std::int64_t> axes) : list_(axes), all_(false) {}  // NOLINT
  template <detail::IntegerList R>
  Axes(const R& axes) : list_(axes), all_(false) {}  // NOLINT
  /// @}

  /// Whether all axes are meant.
  bool all() const { return all_; }
  /// The axes as they were given; empty when all axes are meant.
  const Ints& list() const { return list_; }

 private:
  Ints list_;
  bool all_ = true;
};

/// @}

}  // namespace tapestry
