#pragma once

#include "tapestry/ops/arguments.hpp"

namespace tapestry {

/// @addtogroup array
/// Functions that move elements and change shapes, for all dtypes. Those marked "a view" share memory with their
/// argument and cost nothing. Negative axes count from the end. `x(...)` indexes: see Tensor::operator().
/// @{

// ---- Shapes -------------------------------------------------------------------------------------------------------

/// x itself, as a node of its own.
TAPESTRY_API Tensor identity(In x, std::string_view name = {});
/// x itself, as a constant: no gradient passes.
TAPESTRY_API Tensor stop_gradient(In x, std::string_view name = {});
/// The same elements in row-major order in another shape of the same size; one size may be -1, which follows from the
/// others. A view of a contiguous tensor, otherwise a copy.
TAPESTRY_API Tensor reshape(In x, const Shape& shape, std::string_view name = {});
/// Dimension i of the result is dimension perm[i] of x; without a permutation the order is reversed. A view.
TAPESTRY_API Tensor transpose(In x, const Ints& perm = {}, std::string_view name = {});
/// The axes in reverse order, with a name.
inline Tensor transpose(In x, const NodeName auto& name) { return transpose(x, {}, name); }
/// Without the named axes, which must have size 1; by default without all axes of size 1. A view.
TAPESTRY_API Tensor squeeze(In x, const Axes& axes = {}, std::string_view name = {});
/// Without all axes of size 1, with a name.
inline Tensor squeeze(In x, const NodeName auto& name) { return squeeze(x, {}, name); }
/// With new axes of size 1 at the named places of the result, as numpy.expand_dims. A view.
TAPESTRY_API Tensor expand_dims(In x, const Axes& axes, std::string_view name = {});
/// Repeated along axes of size 1 and along new leading axes up to the shape; a size of -1 keeps that of x. A view.
TAPESTRY_API Tensor broadcast_to(In x, const Shape& shape, std::string_view name = {});
/// The elements in reverse order along each of the axes (by default all). A view.
TAPESTRY_API Tensor flip(In x, const Axes& axes = {}, std::string_view name = {});
/// Along all axes, with a name.
inline Tensor flip(In x, const NodeName auto& name) { return flip(x, {}, name); }
/// The elements `shift` places further along the axis, those at its end at its beginning; below 0 the other way round.
TAPESTRY_API Tensor roll(In x, std::int64_t shift, std::int64_t axis, std::string_view name = {});
/// The part of x of the given sizes that starts at `begin`; a size of -1 reaches to the end. A view. Throws
/// InvalidArgumentError when it does not lie within x.
TAPESTRY_API Tensor slice(In x, const Ints& begin, const Ints& size, std::string_view name = {});

namespace detail {
TAPESTRY_API Tensor slice_update(In x, In value, std::initializer_list<Index> indices);
}
/// A copy of x whose part `x(first, rest...)` is `value`, which broadcasts to it. Promotes.
template <class... Indices>
requires(std::constructible_from<Index, Indices>&&...) Tensor
    slice_update(In x, In value, Index first, Indices... rest) {
  return detail::slice_update(x, value, {first, Index(rest)...});
}

/// The sizes of x as a tensor (int64, of shape [rank]), the number of its elements, and the size of one of its axes
/// (int64, scalars): in a graph known when it runs. Negative axes count from the end.
/// @{
TAPESTRY_API Tensor shape(In x, std::string_view name = {});
TAPESTRY_API Tensor size(In x, std::string_view name = {});
TAPESTRY_API Tensor size(In x, std::int64_t axis, std::string_view name = {});
/// @}

// ---- Joining and splitting ----------------------------------------------------------------------------------------

/// The tensors one after the other along an axis that all of them have; the other sizes must agree. Promotes.
TAPESTRY_API Tensor concat(const InList& tensors, std::int64_t axis = 0, std::string_view name = {});
/// Along axis 0, with a name.
inline Tensor concat(const InList& tensors, const NodeName auto& name) { return concat(tensors, 0, name); }
/// Tensors of one shape along a new axis. Promotes.
TAPESTRY_API Tensor stack(const InList& tensors, std::int64_t axis = 0, std::string_view name = {});
/// Along a new axis 0, with a name.
inline Tensor stack(const InList& tensors, const NodeName auto& name) { return stack(tensors, 0, name); }
/// The x(0), x(1), ... along an axis, whose size must be known.
TAPESTRY_API std::vector<Tensor> unstack(In x, std::int64_t axis = 0, std::string_view name = {});
/// Along axis 0, with a name.
inline std::vector<Tensor> unstack(In x, const NodeName auto& name) { return unstack(x, 0, name); }

/// How `split` divides an axis: into a number of equal parts, or into parts of the listed sizes.
class SplitParts {
 public:
  /// So many equal parts.
  template <AxisNumber T>
  SplitParts(T count) : count_(static_cast<std::int64_t>(count)), listed_(false) {}  // NOLINT: a number of parts
  /// Parts of these sizes; -1 is what the others leave.
  /// @{
  SplitParts(std::initializer_list<std::int64_t> sizes) : sizes_(sizes) {}  // NOLINT
  SplitParts(const std::vector<std::int64_t>& sizes) : sizes_(sizes) {}     // NOLINT
  SplitParts(const Ints& sizes) : sizes_(sizes) {}                          // NOLINT
  /// @}

  /// Whether sizes were given, and not a number of parts.
  bool listed() const { return listed_; }
  /// The number of equal parts; 0 where sizes were given.
  std::int64_t count() const { return count_; }
  /// The sizes as they were given; empty where a number of parts was.
  const Ints& sizes() const { return sizes_; }

 private:
  std::int64_t count_ = 0;
  Ints sizes_;
  bool listed_ = true;
};

/// The parts of x along an axis: `split(x, 3)` three equal ones, `split(x, {2, 5})` one of size 2 and one of size 5;
/// one of the sizes may be -1. Throws InvalidArgumentError when the parts do not make up the axis.
TAPESTRY_API std::vector<Tensor> split(In x, const SplitParts& parts, std::int64_t axis = 0,
                                       std::string_view name = {});
/// Along axis 0, with a name.
inline std::vector<Tensor> split(In x, const SplitParts& parts, const NodeName auto& name) {
  return split(x, parts, 0, name);
}

/// x repeated `multiples[i]` times along each axis i as a whole: tile([1 2], {2}) is [1 2 1 2].
TAPESTRY_API Tensor tile(In x, const Ints& multiples, std::string_view name = {});
/// Each element `repeats` times along an axis: repeat([1 2], 2, 0) is [1 1 2 2].
TAPESTRY_API Tensor repeat(In x, std::int64_t repeats, std::int64_t axis, std::string_view name = {});
/// Of the flattened x.
TAPESTRY_API Tensor repeat(In x, std::int64_t repeats, std::string_view name = {});

/// How many elements `pad` puts before and behind an axis.
struct Padding {
  std::int64_t before = 0;  ///< so many before the first element
  std::int64_t after = 0;   ///< so many behind the last one
};
/// What a border is filled with; | marks the edge of x.
enum class PadMode : std::uint8_t {
  constant,   ///< the value
  reflect,    ///< mirrored at the edge element, which is not repeated: 3 2 | 1 2 3
  symmetric,  ///< mirrored at the edge, whose element is repeated: 2 1 | 1 2 3
};
/// How `pad` fills the border: by default with zeros.
struct PadOptions {
  PadMode mode = PadMode::constant;  ///< where the elements of the border come from
  double value = 0;                  ///< of a constant border, converted to the dtype of x
};
/// x with a border: `pad(x, {{1, 1}, {0, 2}})`, one pair per axis. Throws InvalidArgumentError for negative numbers,
/// and when a mirrored border is wider than what it mirrors.
TAPESTRY_API Tensor pad(In x, const std::vector<Padding>& paddings, const PadOptions& options = {},
                        std::string_view name = {});
/// With zeros, and with a name.
inline Tensor pad(In x, const std::vector<Padding>& paddings, const NodeName auto& name) {
  return pad(x, paddings, {}, name);
}

// ---- Gathering by indices (int32 or int64) ------------------------------------------------------------------------

/// The parts of x at the indices along an axis: the result's shape is x's with the axis replaced by the dimensions of
/// `indices`. Throws InvalidArgumentError for an index outside the axis: "indices[2] = 7 is not in [0, 5)".
TAPESTRY_API Tensor gather(In x, In indices, std::int64_t axis = 0, std::string_view name = {});
/// Along axis 0, with a name.
inline Tensor gather(In x, In indices, const NodeName auto& name) { return gather(x, indices, 0, name); }
/// The parts x[indices[i..., :]]: the last axis of `indices` (of size k) holds coordinates along the first k axes of x.
/// The result's shape is that of `indices` without its last axis, then x's without its first k.
TAPESTRY_API Tensor gather_nd(In x, In indices, std::string_view name = {});
/// y[i, j, ...] = x[i, indices[i, j, ...], ...] along an axis, as numpy.take_along_axis: the shapes of x and `indices`
/// agree in all other axes.
TAPESTRY_API Tensor take_along_axis(In x, In indices, std::int64_t axis, std::string_view name = {});
/// A copy of x with y[indices[i...], ...] += updates[i..., ...]: what several indices name is added up. The shape of
/// `updates` is that of `indices`, then x's without its first axis. TensorFlow's scatter_add, on a value.
TAPESTRY_API Tensor scatter_add(In x, In indices, In updates, std::string_view name = {});
/// A copy of x with y[indices[i..., :]] += updates[i...], coordinates as in `gather_nd`.
TAPESTRY_API Tensor tensor_scatter_nd_add(In x, In indices, In updates, std::string_view name = {});

/// Whether a sorted result starts with the smallest or with the largest element.
enum class Direction : std::uint8_t {
  ascending,   ///< the smallest first
  descending,  ///< the largest first
};

/// What `top_k` finds, [..., k] each.
struct TopK {
  Tensor values;   ///< the elements, the largest first
  Tensor indices;  ///< int32, where they are along the last axis
};
/// The k largest elements along the last axis, the largest first, and their positions. Equal elements keep their order;
/// NaN counts as the largest. Throws InvalidArgumentError when the axis is shorter than k.
TAPESTRY_API TopK top_k(In x, std::int64_t k = 1, std::string_view name = {});
/// The largest element along the last axis, with a name.
inline TopK top_k(In x, const NodeName auto& name) { return top_k(x, 1, name); }
/// The elements in order along an axis, and their former positions (int32). NaN counts as the largest.
/// @{
TAPESTRY_API Tensor sort(In x, std::int64_t axis = -1, Direction direction = Direction::ascending,
                         std::string_view name = {});
TAPESTRY_API Tensor argsort(In x, std::int64_t axis = -1, Direction direction = Direction::ascending,
                            std::string_view name = {});
inline Tensor sort(In x, const NodeName auto& name) { return sort(x, -1, Direction::ascending, name); }
inline Tensor argsort(In x, const NodeName auto& name) { return argsort(x, -1, Direction::ascending, name); }
inline Tensor sort(In x, std::int64_t axis, const NodeName auto& name) {
  return sort(x, axis, Direction::ascending, name);
}
inline Tensor argsort(In x, std::int64_t axis, const NodeName auto& name) {
  return argsort(x, axis, Direction::ascending, name);
}
/// @}

// ---- Like another tensor ------------------------------------------------------------------------------------------

// What gradients are written with: shapes come from an operand, of which nothing but the shape is read, so that a graph
// traced at one batch size is right at another.

/// x summed to the shape of `like`, which must broadcast to x's.
TAPESTRY_API Tensor sum_like(In x, In like, std::string_view name = {});
/// x broadcast to the shape of `like`. A view.
TAPESTRY_API Tensor broadcast_like(In x, In like, std::string_view name = {});
/// x in the shape of `like`, which must have as many elements. A view of a contiguous tensor, otherwise a copy.
TAPESTRY_API Tensor reshape_like(In x, In like, std::string_view name = {});
/// How many elements of x there are for each element of `like`, x.size() / like.size(): a scalar of x's dtype. The
/// gradient of a mean divides by it.
TAPESTRY_API Tensor size_like(In x, In like, std::string_view name = {});

/// @}

}  // namespace tapestry
