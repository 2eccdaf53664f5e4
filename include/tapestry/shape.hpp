#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <limits>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tapestry/detail/config.hpp"
#include "tapestry/detail/intrusive.hpp"
#include "tapestry/detail/small_vector.hpp"
#include "tapestry/error.hpp"

namespace tapestry {

/// @addtogroup tensors
/// @{

/// A list of axes, a permutation, paddings: whatever an op is told in whole numbers, in braces or a std::vector.
using Ints = SmallVector<std::int64_t, 8>;

namespace detail {

/// The axis of a symbolic tensor whose size is known only when the graph runs.
struct UnknownSize {
  Intrusive<Origin> tensor;
  int axis = 0;
};

/// Whose the unknown sizes of a shape are. Shared by the copies of a shape.
struct UnknownSizes {
  ReferenceCount references;
  std::array<UnknownSize, 8> axes;
  TAPESTRY_API static void destroy(UnknownSizes* sizes) noexcept;
};

}  // namespace detail

/// The size of a dimension: a whole number, or, in a graph, the size of a tensor that is known only when the graph
/// runs. The latter may stand in a shape, `zeros({x.shape()[0], 2})`. Used as a number it throws
/// FailedPreconditionError, which names the tensor and the line.
class TAPESTRY_API Dimension {
 public:
  /// The number.
  operator std::int64_t() const {  // NOLINT(google-explicit-constructor): a size is a number
    if (size_ < 0) [[unlikely]]
      refuse();
    return size_;
  }
  /// The number as another type, by a cast.
  template <class T>
  requires(std::is_arithmetic_v<T> && !std::same_as<T, std::int64_t>) explicit operator T() const {
    return static_cast<T>(std::int64_t{*this});
  }
  /// Whether it is a number by now.
  bool is_known() const { return size_ >= 0; }

 private:
  friend class Shape;
  Dimension(std::int64_t size, Where where) : size_(size), where_(where) {}
  [[noreturn]] void refuse() const;

  std::int64_t size_;
  detail::UnknownSize source_;  ///< where it is unknown and some tensor's
  Where where_;
};
/// The number, or "?".
TAPESTRY_API std::string to_string(const Dimension& size);
/// Prints what `to_string` gives.
TAPESTRY_API std::ostream& operator<<(std::ostream& out, const Dimension& size);

/// The sizes of a tensor's dimensions, row-major, outermost first; `{}` is a scalar's. At most 8 dimensions. A size may
/// be unknown, on symbolic tensors and in specs, where it is written as -1. The unknown sizes of a tensor in a graph
/// remember whose they are: in a shape that is made of them they are that tensor's when the graph runs.
class TAPESTRY_API Shape {
 public:
  /// The most dimensions that a tensor can have.
  static constexpr int max_rank = 8;

  /// A size in braces: a number, -1 for an unknown one, or the size of a tensor.
  class Size {
   public:
    /// A number: at least 0, or -1.
    template <class T>
    requires((std::integral<T> && !std::same_as<T, bool>) || std::is_enum_v<T>)
        Size(T size)  // NOLINT: a size in braces
        : size_(static_cast<std::int64_t>(size)) {
      if constexpr (std::is_unsigned_v<T> && sizeof(T) == 8)
        if (size_ < 0) size_ = std::numeric_limits<std::int64_t>::max();  // no memory holds either
    }
    /// The size of a tensor, known or not.
    Size(const Dimension& size) : size_(size.size_), source_(size.source_) {}  // NOLINT: a size in braces

   private:
    friend class Shape;
    std::int64_t size_;
    detail::UnknownSize source_;
  };
  /// An axis, which may count from the end, and the line where it was written.
  class Axis {
   public:
    /// At the place where it is written.
    template <std::integral T>
    Axis(T axis, Where where = Where::here())  // NOLINT(google-explicit-constructor): what stands in brackets
        : axis_(static_cast<std::int64_t>(axis)), where_(where) {}

   private:
    friend class Shape;
    std::int64_t axis_;
    Where where_;
  };
  /// Goes through the sizes.
  class Iterator {
   public:
    using value_type = Dimension;                                                   ///< for the standard library
    using difference_type = std::ptrdiff_t;                                         ///< for the standard library
    Iterator() = default;                                                           ///< of no shape
    Dimension operator*() const;                                                    ///< the size
    Iterator& operator++() { return ++axis_, *this; }                               ///< the next one
    Iterator operator++(int) { return std::exchange(*this, {shape_, axis_ + 1}); }  ///< the next one
    bool operator==(const Iterator& other) const { return axis_ == other.axis_; }   ///< of the same shape

   private:
    friend class Shape;
    Iterator(const Shape* shape, int axis) : shape_(shape), axis_(axis) {}
    const Shape* shape_ = nullptr;
    int axis_ = 0;
  };

  /// A scalar's.
  constexpr Shape() = default;
  /// Throws InvalidArgumentError above 8 dimensions, for a size below -1, and when the product of the sizes does not
  /// fit 64 bits (a size of 0 does not excuse the others, as in NumPy).
  /// @{
  Shape(std::initializer_list<Size> sizes, Where where = Where::here());
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
  /// Product of the sizes. Throws FailedPreconditionError when one of them is unknown.
  std::int64_t size(Where where = Where::here()) const;
  /// Whether the number of dimensions and all sizes are known.
  bool is_known() const;

  /// The size of an axis; a negative one counts from the end. Throws InvalidArgumentError when there is no such axis.
  /// @{
  Dimension operator[](Axis axis) const;
  Dimension dim(Axis axis) const { return (*this)[axis]; }
  /// @}
  /// The sizes as a range: `for (std::int64_t size : shape)`.
  /// @{
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, std::max(rank_, 0)}; }
  /// @}
  /// The first and the last size. Throw InvalidArgumentError for a scalar's shape.
  /// @{
  Dimension front(Where where = Where::here()) const { return (*this)[{0, where}]; }
  Dimension back(Where where = Where::here()) const { return (*this)[{-1, where}]; }
  /// @}
  /// The sizes as a list. Throws FailedPreconditionError when one of them is unknown.
  std::vector<std::int64_t> to_vector(Where where = Where::here()) const;

  /// Adds a dimension behind the others. Throws InvalidArgumentError for a ninth one.
  void push_back(const Size& size);
  /// Changes the size of dimension i, 0 <= i < rank.
  void set(int i, const Size& size);
  /// Adds a dimension before dimension i. Throws InvalidArgumentError for a ninth one.
  void insert(int i, const Size& size);
  /// Removes dimension i, 0 <= i < rank.
  void erase(int i);

  /// For ops, which have to work when sizes are unknown: the sizes, and their product, with -1 for what is unknown.
  /// @{
  std::span<const std::int64_t> sizes() const { return {sizes_.data(), static_cast<std::size_t>(std::max(rank_, 0))}; }
  std::int64_t num_elements() const;
  /// @}
  /// For graphs: whose the size of dimension i is; without a tensor where nobody knows, or where it is a number.
  detail::UnknownSize source(int i) const;
  /// For graphs: lets all unknown sizes be those of a tensor's axes.
  void set_source(const detail::Intrusive<detail::Origin>& tensor);

  /// The same number of dimensions and the same sizes; unknown ones equal only unknown ones.
  friend bool operator==(const Shape& a, const Shape& b) {
    return a.rank_ == b.rank_ && std::ranges::equal(a.sizes(), b.sizes());
  }

 private:
  Dimension at(int i, Where where) const;
  detail::UnknownSizes& own_unknown();

  std::array<std::int64_t, max_rank> sizes_{};
  int rank_ = 0;
  detail::Intrusive<detail::UnknownSizes> unknown_;  ///< empty where no tensor is known whose the unknown sizes are
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
