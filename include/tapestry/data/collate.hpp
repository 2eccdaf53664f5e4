#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tapestry/data/loader.hpp"

namespace tapestry::data {

/// @addtogroup streams
/// @{

/// How a stream makes batches.
struct BatchOptions {
  /// Whether to leave out the last batch of an epoch if it is smaller than the others.
  bool drop_last = false;
  /// The value behind the elements of a tensor that is shorter than others of the batch, along any axis. Without it,
  /// all must have the same shape.
  std::optional<double> pad = {};
};

/// Makes a batch of elements: what `Stream::batch` calls. Tensors and numbers are stacked along a new first axis; a
/// Batch, a StateDict, a std::vector, std::array, std::pair or std::tuple of them is stacked part by part; elements of
/// any other type become a std::vector. For a type of one's own, a function of this name beside it is called instead.
/// Throws InvalidArgumentError for tensors of different dtypes, ranks or, without `pad`, shapes, and for lists or
/// StateDicts of different parts.
/// @{
TAPESTRY_API Tensor collate(std::vector<Tensor> elements, const BatchOptions& options, Where where);
TAPESTRY_API Batch collate(std::vector<Batch> elements, const BatchOptions& options, Where where);
TAPESTRY_API StateDict collate(std::vector<StateDict> elements, const BatchOptions& options, Where where);
TAPESTRY_API std::vector<Tensor> collate(std::vector<std::vector<Tensor>> elements, const BatchOptions& options,
                                         Where where);
template <std::size_t count>
std::array<Tensor, count> collate(std::vector<std::array<Tensor, count>> elements, const BatchOptions& options,
                                  Where where) {
  std::array<Tensor, count> batch;
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<Tensor> parts;
    for (const auto& each : elements) parts.push_back(each[i]);
    batch[i] = collate(std::move(parts), options, where);
  }
  return batch;
}
template <class T>
auto collate(std::vector<T> elements, const BatchOptions& options, Where where);
/// @}

/// @}

namespace stages {

template <class T>
inline constexpr bool is_tuple = false;
template <class... T>
inline constexpr bool is_tuple<std::tuple<T...>> = true;
template <class A, class B>
inline constexpr bool is_tuple<std::pair<A, B>> = true;

/// The parts number i of some tuples.
template <std::size_t i, class T>
auto parts_of(std::vector<T>& tuples) {
  std::vector<std::tuple_element_t<i, T>> parts;
  for (T& each : tuples) parts.push_back(std::get<i>(std::move(each)));
  return parts;
}

}  // namespace stages

template <class T>
auto collate(std::vector<T> elements, const BatchOptions& options, Where where) {
  if constexpr (std::is_arithmetic_v<T>) {
    return tensor(elements);
  } else if constexpr (stages::is_tuple<T>) {
    return [&]<std::size_t... i>(std::index_sequence<i...>) {
      return std::tuple{collate(stages::parts_of<i>(elements), options, where)...};
    }
    (std::make_index_sequence<std::tuple_size_v<T>>());
  } else {
    return elements;
  }
}

}  // namespace tapestry::data
