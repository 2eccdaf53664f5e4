#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <ranges>
#include <span>
#include <string>
#include <vector>

#include "tapestry/detail/config.hpp"
#include "tapestry/detail/small_vector.hpp"
#include "tapestry/error.hpp"

namespace tapestry {

/// @addtogroup tensors
/// @{

/// A list of axes, a permutation, paddings: whatever an op is told in whole numbers, in braces or a std::vector.
using Ints = SmallVector<std::int64_t, 8>;

/// The sizes of a tensor's dimensions, row-major, outermost first; `{}` is a scalar's. At most 8 dimensions. A size of
/// -1 is a dimension known only when a graph runs; it stands in specs and on symbolic tensors only.
class TAPESTRY_API Shape {
 public:
  /// The most dimensions that a tensor can have.
  static constexpr int max_rank = 8;

  /// A scalar's.
  constexpr Shape() = default;
  /// Throws InvalidArgumentError above 8 dimensions, for a size below -1, and when the product of the sizes does not
  /// fit 64 bits (a size of 0 does not excuse the others, as in NumPy).
  /// @{
  Shape(std::initializer_list<std::int64_t> sizes, Where where = Where::here())
      : Shape(std::span(sizes.begin(), sizes.size()), where) {}
  Shape(const std::vector<std::int64_t>& sizes, Where where = Where::here())  // NOLINT(google-explicit-constructor)
      : Shape(std::span(sizes), where) {}
  Shape(std::span<const std::int64_t> sizes, Where where = {});              // NOLINT(google-explicit-constructor)
  Shape(const Ints& sizes) : Shape(std::span<const std::int64_t>(sizes)) {}  // NOLINT(google-explicit-constructor)
  /// @}

  /// Of an untyped placeholder not even the number of dimensions is known.
  static Shape unknown_rank();
  /// Whether the number of dimensions is known.
  bool has_rank() const { return rank_ >= 0; }

  /// Number of dimensions; -1 when it is unknown.
  int rank() const { return rank_; }
  /// Product of the sizes; -1 when one of them is unknown.
  std::int64_t size() const;
  /// Whether the number of dimensions and all sizes are known.
  bool is_known() const;

  /// The size of dimension i, 0 <= i < rank, which is not checked; -1 when it is unknown.
  std::int64_t operator[](int i) const { return sizes_[static_cast<std::size_t>(i)]; }
  /// The size of an axis that may count from the end; throws InvalidArgumentError when there is no such axis.
  std::int64_t dim(std::int64_t axis) const;
  /// The sizes as a range: `for (std::int64_t size : shape)`.
  /// @{
  const std::int64_t* begin() const { return sizes_.data(); }
  const std::int64_t* end() const { return sizes_.data() + std::max(rank_, 0); }
  /// @}
  /// The first and the last size; not of a scalar.
  /// @{
  std::int64_t front() const { return sizes_[0]; }
  std::int64_t back() const { return sizes_[static_cast<std::size_t>(rank_ - 1)]; }
  /// @}

  /// Adds a dimension behind the others. Throws InvalidArgumentError for a ninth one.
  void push_back(std::int64_t size);
  /// Changes the size of dimension i, 0 <= i < rank.
  void set(int i, std::int64_t size) { sizes_[static_cast<std::size_t>(i)] = size; }
  /// Adds a dimension before dimension i. Throws InvalidArgumentError for a ninth one.
  void insert(int i, std::int64_t size);
  /// Removes dimension i, 0 <= i < rank.
  void erase(int i);

  /// The sizes as a list.
  /// @{
  operator std::span<const std::int64_t>() const { return {begin(), end()}; }  // NOLINT(google-explicit-constructor)
  std::vector<std::int64_t> to_vector() const { return {begin(), end()}; }
  /// @}
  /// The same number of dimensions and the same sizes; unknown ones equal only unknown ones.
  friend bool operator==(const Shape& a, const Shape& b) {
    return a.rank_ == b.rank_ && std::equal(a.begin(), a.end(), b.begin());
  }

 private:
  std::array<std::int64_t, max_rank> sizes_{};
  int rank_ = 0;
};

/// @}

}  // namespace tapestry

/// @cond
// size() counts elements; a span of a shape must not take it for the number of dimensions.
template <>
inline constexpr bool std::ranges::disable_sized_range<tapestry::Shape> = true;
/// @endcond

namespace tapestry {

/// @addtogroup tensors
/// @{

/// "[2,3]", "[]", "[?,784]", "<unknown>": as in TensorFlow's messages.
TAPESTRY_API std::string to_string(const Shape& shape);
/// Prints what `to_string` gives.
TAPESTRY_API std::ostream& operator<<(std::ostream& out, const Shape& shape);

/// Whether a tensor of a shape that is known in part may turn out to have the other one, which is known.
TAPESTRY_API bool can_be(const Shape& shape, const Shape& known);
/// Whether two shapes, both known in part, may turn out to be the same.
TAPESTRY_API bool agree(const Shape& a, const Shape& b);

/// The axis as 0 ... rank-1; negative ones count from the end. Throws InvalidArgumentError when there is no such axis.
TAPESTRY_API int normalize_axis(std::int64_t axis, int rank);

/// The shape that two shapes broadcast to (NumPy's rules). A size of -1 stays unknown unless the other size decides it.
/// Throws InvalidArgumentError, "Incompatible shapes: [2,3] vs. [4,3]".
TAPESTRY_API Shape broadcast_shapes(const Shape& a, const Shape& b);

/// The distance in elements between neighbours along each axis of a contiguous tensor.
TAPESTRY_API std::array<std::int64_t, Shape::max_rank> row_major_strides(const Shape& shape);

/// @}

}  // namespace tapestry
