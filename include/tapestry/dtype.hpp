#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <type_traits>

#include "tapestry/detail/config.hpp"
#include "tapestry/float16.hpp"

namespace tapestry {

/// @addtogroup tensors
/// @{

/// Element types.
enum class DType : std::uint8_t {
  unknown,   ///< the type of an untyped placeholder until it is fed
  boolean,   ///< bool, one byte
  uint8,     ///< std::uint8_t
  int32,     ///< std::int32_t
  int64,     ///< std::int64_t
  float16,   ///< tp::float16_t
  bfloat16,  ///< tp::bfloat16_t
  float32,   ///< float
  float64,   ///< double
  resource,  ///< the type of a graph's handle to a Variable, which has no elements
};

/// Short names: `tp::float32`.
/// @{
inline constexpr DType boolean = DType::boolean;
inline constexpr DType uint8 = DType::uint8;
inline constexpr DType int32 = DType::int32;
inline constexpr DType int64 = DType::int64;
inline constexpr DType float16 = DType::float16;
inline constexpr DType bfloat16 = DType::bfloat16;
inline constexpr DType float32 = DType::float32;
inline constexpr DType float64 = DType::float64;
/// @}

/// NumPy's name: "float32", "bool".
TAPESTRY_API std::string to_string(DType dtype);
/// Prints NumPy's name.
TAPESTRY_API std::ostream& operator<<(std::ostream& out, DType dtype);
/// The name in TensorFlow's messages: "float", "double", "half", "int32", "bool".
TAPESTRY_API std::string_view tensorflow_name(DType dtype);

namespace detail {
inline constexpr std::uint8_t element_sizes[] = {0, 1, 1, 4, 8, 2, 2, 4, 8, 0};
}
/// The size of one element in bytes.
constexpr std::size_t size_of(DType dtype) {
  return dtype <= DType::resource ? detail::element_sizes[static_cast<std::size_t>(dtype)] : 0;
}
/// Whether the type is float16, bfloat16, float32 or float64.
constexpr bool is_floating(DType dtype) { return dtype >= DType::float16 && dtype <= DType::float64; }
/// Whether the type is float16 or bfloat16. These types store numbers; computations with them are done in float32.
constexpr bool is_half(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }
/// Whether the type is uint8, int32 or int64.
constexpr bool is_integer(DType dtype) { return dtype >= DType::uint8 && dtype <= DType::int64; }

/// The common type of two tensors, as PyTorch's result_type: bool < integers < floats, and the wider of two types of a
/// kind. float16 and bfloat16 have the common type float32, because neither holds all numbers of the other.
constexpr DType promote(DType a, DType b) {
  if (is_half(a) && is_half(b) && a != b) return DType::float32;
  return a > b ? a : b;
}

/// The DType of a C++ element type; `long` and `long long` are both int64.
template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, bool>) {
    return boolean;
  } else if constexpr (std::is_same_v<T, std::uint8_t>) {
    return uint8;
  } else if constexpr (std::is_same_v<T, float16_t>) {
    return float16;
  } else if constexpr (std::is_same_v<T, bfloat16_t>) {
    return bfloat16;
  } else if constexpr (std::is_same_v<T, float>) {
    return float32;
  } else if constexpr (std::is_same_v<T, double>) {
    return float64;
  } else {
    static_assert(std::is_integral_v<T> && std::is_signed_v<T> && (sizeof(T) == 4 || sizeof(T) == 8),
                  "an element is bool, uint8_t, int32_t, int64_t, float16_t, bfloat16_t, float or double");
    return sizeof(T) == 4 ? int32 : int64;
  }
}

namespace detail {

/// Whether a C++ type is a type of numbers.
template <class T>
inline constexpr bool is_number = std::is_arithmetic_v<T> || is_float16<T>;

/// Whether a C++ type is one of integers that no element type represents, such as std::size_t or short.
template <class T>
inline constexpr bool is_other_integer = std::is_integral_v<T> && !std::is_same_v<T, bool> &&
                                         !std::is_same_v<T, std::uint8_t> && (std::is_unsigned_v<T> || sizeof(T) < 4);
/// The element type of a literal of integers: int64 if int32 does not hold all numbers of T.
template <std::integral T>
using LiteralInteger =
    std::conditional_t<(sizeof(T) > 4 || (sizeof(T) == 4 && std::is_unsigned_v<T>)), std::int64_t, std::int32_t>;

/// Calls `f.template operator()<T>()` with the C++ type of a known dtype.
template <class F>
decltype(auto) visit_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::boolean:
      return f.template operator()<bool>();
    case DType::uint8:
      return f.template operator()<std::uint8_t>();
    case DType::int32:
      return f.template operator()<std::int32_t>();
    case DType::int64:
      return f.template operator()<std::int64_t>();
    case DType::float16:
      return f.template operator()<float16_t>();
    case DType::bfloat16:
      return f.template operator()<bfloat16_t>();
    case DType::float32:
      return f.template operator()<float>();
    default:
      return f.template operator()<double>();
  }
}

}  // namespace detail

/// @}

}  // namespace tapestry
