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

/// A list of integers, such as axes or a permutation, given in braces or as a std::vector, std::array or std::span.
using Ints = SmallVector<std::int64_t, 8>;

namespace detail {

/// An axis of a symbolic tensor, the size of which is known only when the graph runs.
struct UnknownSize {
  Intrusive<Origin> tensor;
  int axis = 0;
};

/// The tensors to which the unknown sizes of a shape belong. Copies of a shape share this object.
struct UnknownSizes {
  ReferenceCount references;
  std::array<UnknownSize, 8> axes;
  TAPESTRY_API static void destroy(UnknownSizes* sizes) noexcept;
};

}  // namespace detail

/// The size of a dimension: an integer, or, in a graph, the size of a tensor that is known only when the graph runs. A
/// size that is not known yet can be used in a shape, `zeros({x.shape()[0], 2})`. Used as a number, it throws
/// FailedPreconditionError, which names the tensor and the line.
class TAPESTRY_API Dimension {
 public:
  /// The size as a number.
  operator std::int64_t() const {  // NOLINT(google-explicit-constructor): a size is a number
    if (size_ < 0) [[unlikely]]
      refuse();
    return size_;
  }
  /// The size as a number of another type, by an explicit cast.
  template <class T>
  requires(std::is_arithmetic_v<T> && !std::same_as<T, std::int64_t>) explicit operator T() const {
    return static_cast<T>(std::int64_t{*this});
  }
  /// Whether the size is known.
  bool is_known() const { return size_ >= 0; }

 private:
  friend class Shape;
  Dimension(std::int64_t size, Where where) : size_(size), where_(where) {}
  [[noreturn]] void refuse() const;

  std::int64_t size_;
  detail::UnknownSize source_;  ///< the tensor to which an unknown size belongs, if any
  Where where_;
};
/// The number, or "?" for an unknown size.
TAPESTRY_API std::string to_string(const Dimension& size);
/// Prints what `to_string` gives.
TAPESTRY_API std::ostream& operator<<(std::ostream& out, const Dimension& size);

/// The sizes of a tensor's dimensions, from the outermost to the innermost; `{}` is the shape of a scalar. There are at
/// most 8 dimensions. Symbolic tensors and specs may have unknown sizes, written as -1. An unknown size of a tensor in
/// a graph remembers that tensor: in a shape that is made of it, it becomes the tensor's size when the graph runs.
class TAPESTRY_API Shape {
 public:
  /// The most dimensions that a tensor can have.
  static constexpr int max_rank = 8;

  /// A size in braces: a number, -1 for an unknown one, or the size of a tensor.
  class Size {
   public:
    /// A number: at least 0, or -1 for an unknown size.
    template <class T>
    requires((std::integral<T> && !std::same_as<T, bool>) || std::is_enum_v<T>)
        Size(T size) {  // NOLINT: a size in braces
      if constexpr (std::is_enum_v<T>)
        size_ = static_cast<std::int64_t>(size);
      else
        size_ = detail::saturated(size);
    }
    /// The size of a tensor, known or not.
    Size(const Dimension& size) : size_(size.size_), source_(size.source_) {}  // NOLINT: a size in braces

   private:
    friend class Shape;
    std::int64_t size_;
    detail::UnknownSize source_;
  };
  /// An axis and its call site. A negative axis counts from the end.
  class Axis {
   public:
    /// An axis at its call site.
    template <std::integral T>
    Axis(T axis, Where where = Where::here())  // NOLINT(google-explicit-constructor): what stands in brackets
        : axis_(static_cast<std::int64_t>(axis)), where_(where) {}

   private:
    friend class Shape;
    std::int64_t axis_;
    Where where_;
  };
  /// An iterator over the sizes.
  class Iterator {
   public:
    /// For the standard library.
    /// @{
    using value_type = Dimension;
    using difference_type = std::ptrdiff_t;
    /// @}

    /// An iterator over no shape.
    Iterator() = default;
    /// The current size.
    Dimension operator*() const;
    /// Advances to the next size.
    /// @{
    Iterator& operator++() { return ++axis_, *this; }
    Iterator operator++(int) { return std::exchange(*this, {shape_, axis_ + 1}); }
    /// @}
    /// Whether two iterators over one shape are at the same axis.
    bool operator==(const Iterator& other) const { return axis_ == other.axis_; }

   private:
    friend class Shape;
    Iterator(const Shape* shape, int axis) : shape_(shape), axis_(axis) {}
    const Shape* shape_ = nullptr;
    int axis_ = 0;
  };

  /// The shape of a scalar.
  constexpr Shape() = default;
  /// A shape with the given sizes. Throws InvalidArgumentError for more than 8 dimensions, for a size below -1, and
  /// when the product of the sizes does not fit 64 bits. As in NumPy, the sizes that are not 0 must fit even if another
  /// one is 0.
  /// @{
  Shape(std::initializer_list<Size> sizes, Where where = Where::here());
  Shape(const std::vector<std::int64_t>& sizes, Where where = Where::here())  // NOLINT(google-explicit-constructor)
      : Shape(std::span(sizes), where) {}
  Shape(std::span<const std::int64_t> sizes, Where where = {});              // NOLINT(google-explicit-constructor)
  Shape(const Ints& sizes) : Shape(std::span<const std::int64_t>(sizes)) {}  // NOLINT(google-explicit-constructor)
  template <detail::IntegerList R>
  Shape(const R& sizes, Where where = Where::here())  // NOLINT(google-explicit-constructor)
      : Shape(std::span<const std::int64_t>(Ints(sizes)), where) {}
  /// @}

  /// A shape whose number of dimensions is unknown, as that of an untyped placeholder.
  static Shape unknown_rank();
  /// Whether the number of dimensions is known.
  bool has_rank() const { return rank_ >= 0; }

  /// The number of dimensions; -1 when it is unknown.
  int rank() const { return rank_; }
  /// The product of the sizes. Throws FailedPreconditionError when one of them is unknown.
  std::int64_t size(Where where = Where::here()) const;
  /// Whether the number of dimensions and all sizes are known.
  bool is_known() const;

  /// The size of an axis. A negative axis counts from the end. Throws InvalidArgumentError when there is no such axis.
  /// @{
  Dimension operator[](Axis axis) const;
  Dimension dim(Axis axis) const { return (*this)[axis]; }
  /// @}
  /// The sizes as a range: `for (std::int64_t size : shape)`.
  /// @{
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, std::max(rank_, 0)}; }
  /// @}
  /// The first and the last size. They throw InvalidArgumentError for a scalar's shape.
  /// @{
  Dimension front(Where where = Where::here()) const { return (*this)[{0, where}]; }
  Dimension back(Where where = Where::here()) const { return (*this)[{-1, where}]; }
  /// @}
  /// The sizes as a list. Throws FailedPreconditionError when one of them is unknown.
  std::vector<std::int64_t> to_vector(Where where = Where::here()) const;

  /// Appends a dimension, changes the size of dimension i, inserts one before dimension i, or removes it. They throw
  /// InvalidArgumentError for a ninth dimension, a size below -1, and a dimension that there is not, and
  /// FailedPreconditionError when the number of dimensions is unknown.
  /// @{
  void push_back(const Size& size);
  void set(int i, const Size& size);
  void insert(int i, const Size& size);
  void erase(int i);
  /// @}

  /// The sizes, and their product, with -1 for an unknown number. They are for ops, which must work with unknown sizes.
  /// @{
  std::span<const std::int64_t> sizes() const { return {sizes_.data(), static_cast<std::size_t>(std::max(rank_, 0))}; }
  std::int64_t num_elements() const;
  /// @}
  /// For graphs: the tensor and axis to which the size of dimension i belongs. The tensor is empty for a known size,
  /// and for an unknown size that belongs to no tensor.
  detail::UnknownSize source(int i) const;
  /// For graphs: makes all unknown sizes belong to the same axes of a tensor.
  void set_source(const detail::Intrusive<detail::Origin>& tensor);

  /// Whether both have the same number of dimensions and the same sizes. An unknown size equals only an unknown one.
  friend bool operator==(const Shape& a, const Shape& b) {
    return a.rank_ == b.rank_ && std::ranges::equal(a.sizes(), b.sizes());
  }

 private:
  Dimension at(int i, Where where) const;
  void require(int i, int most) const;
  detail::UnknownSizes& own_unknown();

  std::array<std::int64_t, max_rank> sizes_{};
  int rank_ = 0;
  detail::Intrusive<detail::UnknownSizes> unknown_;  ///< empty when the unknown sizes belong to no tensor
};

/// @}

}  // namespace tapestry

/// @cond
// Shape::size() counts elements; std::span must not take it for the number of dimensions.
template <>
inline constexpr bool std::ranges::disable_sized_range<tapestry::Shape> = true;
/// @endcond

namespace tapestry {

/// @addtogroup tensors
/// @{

/// The shape as in TensorFlow's messages: "[2,3]", "[]", "[?,784]", "<unknown>".
TAPESTRY_API std::string to_string(const Shape& shape);
/// Prints what `to_string` gives.
TAPESTRY_API std::ostream& operator<<(std::ostream& out, const Shape& shape);

/// Whether a tensor of a partly unknown shape can have the known shape.
TAPESTRY_API bool can_be(const Shape& shape, const Shape& known);
/// Whether two partly unknown shapes can be the same.
TAPESTRY_API bool agree(const Shape& a, const Shape& b);

/// Converts an axis to 0 ... rank-1. A negative axis counts from the end. Throws InvalidArgumentError when there is no
/// such axis.
TAPESTRY_API int normalize_axis(std::int64_t axis, int rank);

/// The shape to which two shapes broadcast by NumPy's rules. An unknown size stays unknown unless the other size
/// determines it. Throws InvalidArgumentError, "Incompatible shapes: [2,3] vs. [4,3]".
TAPESTRY_API Shape broadcast_shapes(const Shape& a, const Shape& b);

/// The strides of a contiguous tensor, in elements.
TAPESTRY_API std::array<std::int64_t, Shape::max_rank> row_major_strides(const Shape& shape);

/// @}

}  // namespace tapestry
