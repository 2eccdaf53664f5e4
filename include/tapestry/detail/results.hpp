#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tapestry/variable.hpp"

// Conversion of the result of a function to a list and back. The result is a Tensor, a std::vector of Tensors, a
// std::array, std::pair, std::tuple or struct of Tensors and of each other, or nothing. A Variable or a number stands
// for a Tensor, except in a struct; a std::array of numbers is none, as it is one literal.

namespace tapestry::detail {

/// Whether T is a Tensor or stands for one.
template <class T>
inline constexpr bool is_one_tensor = std::convertible_to<const T&, Tensor> || is_number<T>;

/// Converts to a Tensor only, and not to what is made of one.
struct TensorOnly {
  operator Tensor() const;  // NOLINT(google-explicit-constructor)
};
/// Converts to a Tensor or a struct.
struct AnyField {
  template <class T>
  requires(std::same_as<T, Tensor> || std::is_aggregate_v<T>) operator T() const;  // NOLINT
};
/// Whether T can be made of these in braces. The braces around the parts of a struct in a struct may be left out.
template <class T, class Field, std::size_t... I>
constexpr bool is_made_of(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), Field())...}; };
}
/// Whether T is a struct of Tensors, or of structs of them.
template <class T>
constexpr bool is_tensor_struct() {
  if constexpr (std::is_aggregate_v<T> && std::is_class_v<T> && !is_one_tensor<T>) {
    if constexpr (sizeof(T) % sizeof(Tensor) == 0)
      return is_made_of<T, TensorOnly>(std::make_index_sequence<sizeof(T) / sizeof(Tensor)>());
  }
  return false;
}
/// The number of fields of a struct of Tensors.
template <class T, std::size_t N = sizeof(T) / sizeof(Tensor)>
constexpr std::size_t field_count() {
  if constexpr (is_made_of<T, AnyField>(std::make_index_sequence<N>())) {
    return N;
  } else {
    return field_count<T, N - 1>();
  }
}
/// The fields of a struct as a tuple of references.
template <class T>
constexpr auto fields(const T& value) {
  constexpr std::size_t count = field_count<T>();
  static_assert(count <= 6, "A struct that is a result has at most 6 fields.");
  if constexpr (count == 1) {
    const auto& [a] = value;
    return std::tie(a);
  } else if constexpr (count == 2) {
    const auto& [a, b] = value;
    return std::tie(a, b);
  } else if constexpr (count == 3) {
    const auto& [a, b, c] = value;
    return std::tie(a, b, c);
  } else if constexpr (count == 4) {
    const auto& [a, b, c, d] = value;
    return std::tie(a, b, c, d);
  } else if constexpr (count == 5) {
    const auto& [a, b, c, d, e] = value;
    return std::tie(a, b, c, d, e);
  } else {
    const auto& [a, b, c, d, e, f] = value;
    return std::tie(a, b, c, d, e, f);
  }
}

/// The parts of a std::array, std::pair, std::tuple or struct.
template <class T>
constexpr decltype(auto) parts(const T& value) {
  if constexpr (requires { std::tuple_size<T>::value; }) {
    return (value);
  } else {
    return fields(value);
  }
}

/// Whether the type T tells of how many Tensors it is made.
template <class T>
inline constexpr bool is_structure = is_one_tensor<T> || is_tensor_struct<T>();
template <class T, std::size_t N>
inline constexpr bool is_structure<std::array<T, N>> = is_structure<T> && !is_number<T>;
template <class... T>
inline constexpr bool is_structure<std::tuple<T...>> = (is_structure<T> && ...);
template <class A, class B>
inline constexpr bool is_structure<std::pair<A, B>> = is_structure<A>&& is_structure<B>;

template <class T>
inline constexpr bool is_result = is_structure<T>;
template <>
inline constexpr bool is_result<void> = true;
template <>
inline constexpr bool is_result<std::vector<Tensor>> = true;
template <>
inline constexpr bool is_result<Tensors> = true;

/// The type of a result in which each part is a Tensor.
template <class T>
struct InTensors {
  using Type = T;
};
template <>
struct InTensors<void> {
  using Type = void;
};
template <class T>
requires is_one_tensor<T>
struct InTensors<T> {
  using Type = Tensor;
};
template <class T, std::size_t N>
struct InTensors<std::array<T, N>> {
  using Type = std::array<typename InTensors<T>::Type, N>;
};
template <class... T>
struct InTensors<std::tuple<T...>> {
  using Type = std::tuple<typename InTensors<T>::Type...>;
};
template <class A, class B>
struct InTensors<std::pair<A, B>> {
  using Type = std::pair<typename InTensors<A>::Type, typename InTensors<B>::Type>;
};
/// The type of what a call of a function with a result of type T returns.
template <class T>
using ResultType = typename InTensors<std::remove_cvref_t<T>>::Type;

template <class T>
void append(Tensors& list, const T& result) {
  if constexpr (is_number<T>) {
    list.push_back(tensor(result));
  } else if constexpr (is_one_tensor<T>) {
    list.push_back(Tensor(result));
  } else {
    std::apply([&](const auto&... each) { (append(list, each), ...); }, parts(result));
  }
}
/// The Tensors of a result in order.
template <class T>
requires is_result<T> Tensors flatten(const T& result) {
  if constexpr (std::convertible_to<const T&, Tensors>) {
    return result;
  } else {
    Tensors list;
    append(list, result);
    return list;
  }
}

template <class T>
T take(const Tensor*& next) {
  if constexpr (std::same_as<T, Tensor>) {
    return *next++;
  } else {
    using Parts = std::remove_cvref_t<decltype(parts(std::declval<const T&>()))>;
    // Braces make sure that the parts are taken from left to right.
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return T{take<std::remove_cvref_t<std::tuple_element_t<I, Parts>>>(next)...};
    }
    (std::make_index_sequence<std::tuple_size_v<Parts>>());
  }
}
/// The result whose Tensors these are. Each part of T is a Tensor.
template <class T>
T unflatten(const Tensors& list) {
  if constexpr (std::convertible_to<Tensors, T>) {
    return T(list);
  } else if constexpr (!std::is_void_v<T>) {
    const Tensor* next = list.begin();
    return take<T>(next);
  }
}

}  // namespace tapestry::detail
