#pragma once

#include "tapestry/ops/arguments.hpp"

namespace tapestry {

/// @addtogroup creation
/// New tensors. They are float32 on the CPU unless the options say otherwise: `zeros({2, 3}, {.dtype = float64})`. The
/// functions throw InvalidArgumentError for a negative size, and ResourceExhaustedError when there is not enough
/// memory.
/// @{

/// Tensors of the given shape, with all elements 0 or 1.
/// @{
TAPESTRY_API Tensor zeros(const Shape& shape, const TensorOptions& options = {}, std::string_view name = {},
                          Where where = Where::here());
TAPESTRY_API Tensor ones(const Shape& shape, const TensorOptions& options = {}, std::string_view name = {},
                         Where where = Where::here());
inline Tensor zeros(const Shape& shape, std::same_as<DType> auto dtype, std::string_view name = {},
                    Where where = Where::here()) {
  return zeros(shape, TensorOptions{.dtype = dtype}, name, where);
}
inline Tensor ones(const Shape& shape, std::same_as<DType> auto dtype, std::string_view name = {},
                   Where where = Where::here()) {
  return ones(shape, TensorOptions{.dtype = dtype}, name, where);
}
inline Tensor zeros(const Shape& shape, const NodeName auto& name, Where where = Where::here()) {
  return zeros(shape, {}, detail::plain_name(name, detail::Worded::dtype, where), where);
}
inline Tensor ones(const Shape& shape, const NodeName auto& name, Where where = Where::here()) {
  return ones(shape, {}, detail::plain_name(name, detail::Worded::dtype, where), where);
}
/// @}
/// A tensor of the given shape, filled with `value`: a number, or a tensor that broadcasts to the shape. The dtype is
/// that of the value (1 is int32, 1.0 is float32) unless the options say otherwise.
TAPESTRY_API Tensor full(const Shape& shape, In value, const TensorOptions& options = {}, std::string_view name = {});
/// The same in a dtype on the CPU.
inline Tensor full(const Shape& shape, In value, std::same_as<DType> auto dtype, std::string_view name = {}) {
  return full(shape, value, TensorOptions{.dtype = dtype}, name);
}
/// The same in the value's dtype on the CPU, with a name.
inline Tensor full(const Shape& shape, In value, const NodeName auto& name) {
  return full(shape, value, {}, detail::plain_name(name, detail::Worded::dtype, value.where()));
}

/// A tensor of the shape, dtype and device of x, with all elements 0 or 1.
/// @{
TAPESTRY_API Tensor zeros_like(In x, std::string_view name = {});
TAPESTRY_API Tensor ones_like(In x, std::string_view name = {});
/// @}

/// The matrix [rows, columns] with ones on its main diagonal and zeros elsewhere.
TAPESTRY_API Tensor eye(std::int64_t rows, std::int64_t columns, const TensorOptions& options = {},
                        std::string_view name = {}, Where where = Where::here());
/// The square matrix [size, size] with ones on its main diagonal and zeros elsewhere.
inline Tensor eye(std::int64_t size, const TensorOptions& options = {}, std::string_view name = {},
                  Where where = Where::here()) {
  return eye(size, size, options, name, where);
}
/// The same in float32 on the CPU, with a name.
/// @{
inline Tensor eye(std::int64_t rows, std::convertible_to<std::int64_t> auto columns, const NodeName auto& name,
                  Where where = Where::here()) {
  return eye(rows, columns, {}, detail::plain_name(name, detail::Worded::dtype, where), where);
}
inline Tensor eye(std::int64_t size, const NodeName auto& name, Where where = Where::here()) {
  return eye(size, size, name, where);
}
/// @}

namespace detail {

template <class T>
concept Number = std::is_arithmetic_v<T> || std::same_as<T, Dimension>;

/// The dtype of `arange`: float32 if an argument is a float, otherwise int64 if an argument has 64 bits, otherwise
/// int32.
template <Number... T>
constexpr DType arange_type() {
  if ((std::floating_point<T> || ...)) return float32;
  return ((sizeof(T) > sizeof(std::int32_t)) || ...) ? int64 : int32;
}
/// The numbers in which `arange` counts: integers, unless an argument is a float or may exceed int64.
template <Number... T>
using Counted = std::conditional_t<((std::floating_point<T> || (std::unsigned_integral<T> && sizeof(T) == 8)) || ...),
                                   double, std::int64_t>;
TAPESTRY_API Tensor arange(double start, double stop, double step, TensorOptions options, DType natural_type,
                           std::string_view name, Where where);
TAPESTRY_API Tensor arange(std::int64_t start, std::int64_t stop, std::int64_t step, TensorOptions options,
                           DType natural_type, std::string_view name, Where where);

}  // namespace detail

/// The numbers start, start + step, ... before stop, as in numpy.arange. The shape is [ceil((stop - start) / step)],
/// and the tensor is empty when the step leads away from stop. The dtype is float32 if an argument is a float,
/// otherwise int64 if an argument has 64 bits, otherwise int32. Throws InvalidArgumentError for a step of 0, and for
/// numbers that the dtype cannot hold.
template <detail::Number T, detail::Number U, detail::Number V>
Tensor arange(T start, U stop, V step, const TensorOptions& options = {}, std::string_view name = {},
              Where where = Where::here()) {
  using Counted = detail::Counted<T, U, V>;
  return detail::arange(static_cast<Counted>(start), static_cast<Counted>(stop), static_cast<Counted>(step), options,
                        detail::arange_type<T, U, V>(), name, where);
}
/// The same in steps of 1.
template <detail::Number T, detail::Number U>
Tensor arange(T start, U stop, const TensorOptions& options = {}, std::string_view name = {},
              Where where = Where::here()) {
  using Counted = detail::Counted<T, U>;
  return detail::arange(static_cast<Counted>(start), static_cast<Counted>(stop), Counted{1}, options,
                        detail::arange_type<T, U>(), name, where);
}
/// The same, from 0 in steps of 1.
template <detail::Number T>
Tensor arange(T stop, const TensorOptions& options = {}, std::string_view name = {}, Where where = Where::here()) {
  using Counted = detail::Counted<T>;
  return detail::arange(Counted{0}, static_cast<Counted>(stop), Counted{1}, options, detail::arange_type<T>(), name,
                        where);
}
/// The same in the natural dtype on the CPU, with a name.
/// @{
template <detail::Number T, detail::Number U, detail::Number V>
Tensor arange(T start, U stop, V step, const NodeName auto& name, Where where = Where::here()) {
  return arange(start, stop, step, {}, detail::plain_name(name, detail::Worded::dtype, where), where);
}
template <detail::Number T, detail::Number U>
Tensor arange(T start, U stop, const NodeName auto& name, Where where = Where::here()) {
  return arange(start, stop, 1, name, where);
}
template <detail::Number T>
Tensor arange(T stop, const NodeName auto& name, Where where = Where::here()) {
  return arange(0, stop, 1, name, where);
}
/// @}

/// `count` numbers evenly spaced from start to stop, both included. Throws InvalidArgumentError for a count below 1.
TAPESTRY_API Tensor linspace(double start, double stop, std::int64_t count = 50, const TensorOptions& options = {},
                             std::string_view name = {}, Where where = Where::here());
/// The same in float32 on the CPU, with a name.
/// @{
inline Tensor linspace(double start, double stop, std::int64_t count, const NodeName auto& name,
                       Where where = Where::here()) {
  return linspace(start, stop, count, {}, detail::plain_name(name, detail::Worded::dtype, where), where);
}
inline Tensor linspace(double start, double stop, const NodeName auto& name, Where where = Where::here()) {
  return linspace(start, stop, 50, name, where);
}
/// @}

/// The one-hot rows of integer labels: labels [...] give [..., depth], with 1 at the index that is the label, and 0
/// elsewhere. A label outside [0, depth) gives a row of zeros.
TAPESTRY_API Tensor one_hot(In labels, std::int64_t depth, DType dtype = float32, std::string_view name = {});
/// The same in float32, with a name.
inline Tensor one_hot(In labels, std::int64_t depth, const NodeName auto& name) {
  return one_hot(labels, depth, float32, detail::plain_name(name, detail::Worded::dtype_alone, labels.where()));
}

/// @}

}  // namespace tapestry
