#pragma once

#include <tuple>
#include <utility>

#include "tapestry/ops/arguments.hpp"

namespace tapestry {

/// @addtogroup array
/// Functions that move elements and change shapes, for all dtypes. A result that is described as "a view" shares memory
/// with the argument, and nothing is copied. Negative axes count from the end. `x(...)` indexes: see
/// Tensor::operator().
/// @{

// ---- Shapes -------------------------------------------------------------------------------------------------------

/// x itself. In a graph it is a node of its own.
TAPESTRY_API Tensor identity(In x, std::string_view name = {});
/// x itself, but treated as a constant: no gradient passes.
TAPESTRY_API Tensor stop_gradient(In x, std::string_view name = {});
/// x itself, which must have this shape; a size of -1 may be any. Throws InvalidArgumentError, "Shape of tensor [4] is
/// not compatible with expected shape [5].", if it has not: in a graph as soon as the shape is known, which may be in a
/// run. There the result has the sizes that the shape tells, whatever is known of x.
TAPESTRY_API Tensor ensure_shape(In x, const Shape& shape, std::string_view name = {});
/// The elements of x, in the same row-major order, in another shape of the same size. One size may be -1; it follows
/// from the others. A view if x is contiguous, otherwise a copy.
TAPESTRY_API Tensor reshape(In x, const Shape& shape, std::string_view name = {});
/// x with permuted axes: axis i of the result is axis perm[i] of x. Without a permutation, the order of the axes is
/// reversed. A view.
TAPESTRY_API Tensor transpose(In x, const Ints& perm = {}, std::string_view name = {});
/// x with its axes in reverse order, with a name.
inline Tensor transpose(In x, const NodeName auto& name) { return transpose(x, {}, name); }
/// x without the given axes, which must have size 1; by default without all axes of size 1. A view.
TAPESTRY_API Tensor squeeze(In x, const Axes& axes = {}, std::string_view name = {});
/// x without all axes of size 1, with a name.
inline Tensor squeeze(In x, const NodeName auto& name) { return squeeze(x, {}, name); }
/// x with new axes of size 1. `axes` are their positions in the result, as in numpy.expand_dims. A view.
TAPESTRY_API Tensor expand_dims(In x, const Axes& axes, std::string_view name = {});
/// x repeated along its axes of size 1, and along new leading axes, to the given shape. A size of -1 keeps that of x. A
/// view.
TAPESTRY_API Tensor broadcast_to(In x, const Shape& shape, std::string_view name = {});
/// x with its elements in reverse order along each of the axes (by default all). A view.
TAPESTRY_API Tensor flip(In x, const Axes& axes = {}, std::string_view name = {});
/// The same along all axes, with a name.
inline Tensor flip(In x, const NodeName auto& name) { return flip(x, {}, name); }
/// x with its elements moved by `shift` positions along the axis, in the other direction if `shift` is negative.
/// Elements that are moved past the end reappear at the beginning.
TAPESTRY_API Tensor roll(In x, std::int64_t shift, std::int64_t axis, std::string_view name = {});
/// The slice of x that starts at `begin` and has the given sizes. A size of -1 reaches to the end. A view. Throws
/// InvalidArgumentError when the slice exceeds x.
TAPESTRY_API Tensor slice(In x, const Ints& begin, const Ints& size, std::string_view name = {});

namespace detail {
TAPESTRY_API Tensor slice_update(In x, In value, std::initializer_list<Index> indices, std::string_view name = {});
}
/// A copy of x in which the slice `x(first, rest...)` is replaced by `value`, which broadcasts to it. Floats keep the
/// dtype of x; whole numbers and bools are promoted with the value.
template <class... Indices>
requires(std::constructible_from<Index, Indices>&&...) Tensor
    slice_update(In x, In value, Index first, Indices... rest) {
  return detail::slice_update(x, value, {first, Index(rest)...});
}
/// The same with a name behind the indices.
template <class... Rest>
requires(NodeName<std::tuple_element_t<sizeof...(Rest), std::tuple<int, Rest...>>>) Tensor
    slice_update(In x, In value, Index first, const Rest&... rest) {
  const auto given = std::tie(rest...);
  return [&]<std::size_t... i>(std::index_sequence<i...>) {
    return detail::slice_update(x, value, {first, Index(std::get<i>(given))...}, std::get<sizeof...(i)>(given));
  }
  (std::make_index_sequence<sizeof...(Rest) - 1>());
}

/// The sizes of x (int64 [rank]), the number of its elements, and the size of one of its axes (int64 scalars), as
/// tensors, whose values a graph computes when it runs.
/// @{
TAPESTRY_API Tensor shape(In x, std::string_view name = {});
TAPESTRY_API Tensor size(In x, std::string_view name = {});
TAPESTRY_API Tensor size(In x, std::int64_t axis, std::string_view name = {});
/// @}

// ---- Joining and splitting ----------------------------------------------------------------------------------------

/// The tensors, joined along an existing axis. Their other sizes must be equal. The dtypes are promoted.
TAPESTRY_API Tensor concat(const InList& tensors, std::int64_t axis = 0, std::string_view name = {});
/// The same along axis 0, with a name.
inline Tensor concat(const InList& tensors, const NodeName auto& name) { return concat(tensors, 0, name); }
/// The tensors, which must have the same shape, joined along a new axis. The dtypes are promoted.
TAPESTRY_API Tensor stack(const InList& tensors, std::int64_t axis = 0, std::string_view name = {});
/// The same along a new axis 0, with a name.
inline Tensor stack(const InList& tensors, const NodeName auto& name) { return stack(tensors, 0, name); }
/// The slices x(0), x(1), ... along an axis, whose size must be known.
TAPESTRY_API std::vector<Tensor> unstack(In x, std::int64_t axis = 0, std::string_view name = {});
/// The same along axis 0, with a name.
inline std::vector<Tensor> unstack(In x, const NodeName auto& name) { return unstack(x, 0, name); }

/// How `split` divides an axis: into a number of equal parts, or into parts of given sizes.
class SplitParts {
 public:
  /// A number of equal parts.
  template <AxisNumber T>
  SplitParts(T count) : count_(static_cast<std::int64_t>(count)), listed_(false) {}  // NOLINT: a number of parts
  /// Parts of the given sizes. One size may be -1; it follows from the others.
  /// @{
  SplitParts(std::initializer_list<std::int64_t> sizes) : sizes_(sizes) {}  // NOLINT
  template <detail::IntegerList R>
  SplitParts(const R& sizes) : sizes_(sizes) {}  // NOLINT
  /// @}

  /// Whether sizes were given instead of a number of parts.
  bool listed() const { return listed_; }
  /// The number of equal parts; 0 if sizes were given.
  std::int64_t count() const { return count_; }
  /// The sizes as they were given; empty if a number of parts was given.
  const Ints& sizes() const { return sizes_; }

 private:
  std::int64_t count_ = 0;
  Ints sizes_;
  bool listed_ = true;
};

/// The parts of x along an axis: `split(x, 3)` gives three equal parts, and `split(x, {2, 5})` a part of size 2 and one
/// of size 5. Throws InvalidArgumentError when the parts do not make up the axis.
TAPESTRY_API std::vector<Tensor> split(In x, const SplitParts& parts, std::int64_t axis = 0,
                                       std::string_view name = {});
/// The same along axis 0, with a name.
inline std::vector<Tensor> split(In x, const SplitParts& parts, const NodeName auto& name) {
  return split(x, parts, 0, name);
}

/// x as a whole repeated `multiples[i]` times along each axis i: tile([1 2], {2}) is [1 2 1 2].
TAPESTRY_API Tensor tile(In x, const Ints& multiples, std::string_view name = {});
/// x with each element repeated `repeats` times along an axis: repeat([1 2], 2, 0) is [1 1 2 2].
TAPESTRY_API Tensor repeat(In x, std::int64_t repeats, std::int64_t axis, std::string_view name = {});
/// The same for the flattened x.
TAPESTRY_API Tensor repeat(In x, std::int64_t repeats, std::string_view name = {});

/// The widths of the border that `pad` adds to an axis.
struct Padding {
  std::int64_t before = 0;  ///< the number of elements before the first one
  std::int64_t after = 0;   ///< the number of elements after the last one
};
/// The elements of a border. In the examples, | marks the edge of x.
enum class PadMode : std::uint8_t {
  constant,   ///< PadOptions::value
  reflect,    ///< x mirrored at the element at the edge, which is not repeated: 3 2 | 1 2 3
  symmetric,  ///< x mirrored at the edge, so that the element there is repeated: 2 1 | 1 2 3
};
/// How `pad` fills the border; by default with zeros.
struct PadOptions {
  PadMode mode = PadMode::constant;  ///< what the elements of the border are
  double value = 0;                  ///< the element of a constant border, converted to the dtype of x
};
/// x with a border, whose widths are given for each axis: `pad(x, {{1, 1}, {0, 2}})`. Throws InvalidArgumentError for
/// negative widths, and when a mirrored border is wider than what it mirrors.
TAPESTRY_API Tensor pad(In x, const std::vector<Padding>& paddings, const PadOptions& options = {},
                        std::string_view name = {});
/// The same with zeros, and with a name.
inline Tensor pad(In x, const std::vector<Padding>& paddings, const NodeName auto& name) {
  return pad(x, paddings, {}, detail::plain_name(name, detail::Worded::pad_mode, x.where()));
}

// ---- Gathering by indices (int32 or int64) ------------------------------------------------------------------------

/// The slices of x at the indices along an axis. The shape of the result is that of x, in which the dimensions of
/// `indices` replace the axis. Throws InvalidArgumentError for an index outside the axis: "indices[2] = 7 is not in [0,
/// 5)".
TAPESTRY_API Tensor gather(In x, In indices, std::int64_t axis = 0, std::string_view name = {});
/// The same along axis 0, with a name.
inline Tensor gather(In x, In indices, const NodeName auto& name) { return gather(x, indices, 0, name); }
/// The slices x[indices[i..., :]]. The last axis of `indices`, of size k, holds coordinates along the first k axes of
/// x. The shape of the result is that of `indices` without its last axis, then that of x without its first k axes.
TAPESTRY_API Tensor gather_nd(In x, In indices, std::string_view name = {});
/// y[i, j, ...] = x[i, indices[i, j, ...], ...] along an axis, as in numpy.take_along_axis, but without negative
/// indices. The sizes of x and `indices` along all other axes must be equal.
TAPESTRY_API Tensor take_along_axis(In x, In indices, std::int64_t axis, std::string_view name = {});
/// A copy y of x with y[indices[i...], ...] += updates[i..., ...]. Updates with the same index are added up. The shape
/// of `updates` is that of `indices`, then that of x without its first axis. This is TensorFlow's scatter_add on a
/// value.
TAPESTRY_API Tensor scatter_add(In x, In indices, In updates, std::string_view name = {});
/// A copy y of x with y[indices[i..., :]] += updates[i...]. The indices hold coordinates as in `gather_nd`.
TAPESTRY_API Tensor tensor_scatter_nd_add(In x, In indices, In updates, std::string_view name = {});

/// The order of a sorted result.
enum class Direction : std::uint8_t {
  ascending,   ///< the smallest first
  descending,  ///< the largest first
};

/// The result of `top_k`, [..., k] each.
struct TopK {
  Tensor values;   ///< the elements, the largest first
  Tensor indices;  ///< their positions along the last axis, int32
};
/// The k largest elements along the last axis, the largest first, and their positions. Equal elements keep their order.
/// NaN counts as the largest, and true is larger than false. Throws InvalidArgumentError when the axis is shorter than
/// k.
TAPESTRY_API TopK top_k(In x, std::int64_t k = 1, std::string_view name = {});
/// The largest element along the last axis, with a name.
inline TopK top_k(In x, const NodeName auto& name) { return top_k(x, 1, name); }
/// The elements of x sorted along an axis, or their original positions in this order (int32). NaN counts as the
/// largest, and true is larger than false.
/// @{
TAPESTRY_API Tensor sort(In x, std::int64_t axis = -1, Direction direction = Direction::ascending,
                         std::string_view name = {});
TAPESTRY_API Tensor argsort(In x, std::int64_t axis = -1, Direction direction = Direction::ascending,
                            std::string_view name = {});
inline Tensor sort(In x, std::int64_t axis, const NodeName auto& name) {
  return sort(x, axis, Direction::ascending, detail::plain_name(name, detail::Worded::direction, x.where()));
}
inline Tensor argsort(In x, std::int64_t axis, const NodeName auto& name) {
  return argsort(x, axis, Direction::ascending, detail::plain_name(name, detail::Worded::direction, x.where()));
}
inline Tensor sort(In x, const NodeName auto& name) { return sort(x, -1, name); }
inline Tensor argsort(In x, const NodeName auto& name) { return argsort(x, -1, name); }
/// @}

// ---- Like another tensor ------------------------------------------------------------------------------------------

// Gradients are written with these functions. They take a shape from an operand, of which nothing else is read, so that
// a graph that is traced with one batch size is correct for another.

/// x summed to the shape of `like`, which must broadcast to x's.
TAPESTRY_API Tensor sum_like(In x, In like, std::string_view name = {});
/// x broadcast to the shape of `like`. A view.
TAPESTRY_API Tensor broadcast_like(In x, In like, std::string_view name = {});
/// x in the shape of `like`, which must have as many elements. A view if x is contiguous, otherwise a copy.
TAPESTRY_API Tensor reshape_like(In x, In like, std::string_view name = {});
/// The number of elements of x for each element of `like`, x.size() / like.size(), as a scalar of x's dtype. The
/// gradient of a mean divides by it.
TAPESTRY_API Tensor size_like(In x, In like, std::string_view name = {});

/// @}

}  // namespace tapestry
