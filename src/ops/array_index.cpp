#include <algorithm>
#include <array>

#include "backend/views.hpp"
#include "ops/batching.hpp"
#include "ops/support.hpp"
#include "tapestry/ops/array.hpp"

TAPESTRY_OP_FAMILY(array_index)

namespace tapestry {
namespace {

/// The part of a tensor that an index expression or `slice` names.
struct Region {
  Shape shape;
  std::array<int, Shape::max_rank> axis{};  ///< of the tensor, for each dimension of the part; -1 for a new one
  std::array<std::int64_t, Shape::max_rank> start{}, step{};  ///< along each axis of the tensor

  void add(int along, std::int64_t size) {
    shape.push_back(size);
    axis[shape.rank() - 1] = along;
  }
};

Tensor view_region(const Tensor& x, const Region& region) {
  std::array<std::int64_t, Shape::max_rank> strides{};
  for (int i = 0; i < region.shape.rank(); ++i) {
    const auto dimension = i;
    if (region.axis[dimension] < 0) continue;
    const auto axis = static_cast<std::size_t>(region.axis[dimension]);
    // The stride along an axis of one element is never used, and a large step might make it overflow.
    strides[dimension] = x.strides()[axis] * (region.shape.sizes()[i] > 1 ? region.step[axis] : 1);
  }
  std::int64_t offset = 0;
  if (region.shape.size() > 0)
    for (std::size_t axis = 0; axis < x.strides().size(); ++axis) offset += region.start[axis] * x.strides()[axis];
  return detail::make_view(x, region.shape, strides, offset);
}

// ---- Index expressions --------------------------------------------------------------------------------------------

/// An index expression as attributes: TensorFlow's StridedSlice, its five masks in one list.
enum Mask : std::uint8_t { begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask, mask_count };

struct Expression {
  static constexpr std::size_t max_entries = 2 * Shape::max_rank + 1;  ///< all axes, as many new ones, an ellipsis

  Ints begin, end, strides, masks = Ints(mask_count);

  explicit Expression(std::initializer_list<Index> indices) {
    if (indices.size() > max_entries)
      throw InvalidArgumentError(detail::join("Too many indices: ", indices.size()), indices.begin()->where);
    std::size_t i = 0;
    for (const Index& index : indices) {
      const RangeIndex& range = index.range;
      const bool number = index.kind == Index::Kind::number;
      begin.push_back(range.start.value_or(0));
      end.push_back(range.stop.value_or(0));
      strides.push_back(range.step);
      const std::int64_t bit = std::int64_t{1} << i++;
      if (number) masks[shrink_axis_mask] |= bit;
      if (index.kind == Index::Kind::dots) masks[ellipsis_mask] |= bit;
      if (index.kind == Index::Kind::new_axis) masks[new_axis_mask] |= bit;
      if (!range.start) masks[begin_mask] |= bit;
      if (!range.stop) masks[end_mask] |= bit;
    }
  }
  explicit Expression(const Attrs& attrs)
      : begin(attrs.get<Ints>("begin")),
        end(attrs.get<Ints>("end")),
        strides(attrs.get<Ints>("strides")),
        masks(attrs.get<Ints>("masks")) {
    if (begin.size() > max_entries || end.size() != begin.size() || strides.size() != begin.size() ||
        masks.size() != mask_count)
      throw InvalidArgumentError(detail::join("Expected begin, end, and strides to be lists of the same size, at most ",
                                              max_entries, ", and ", int{mask_count}, " masks"));
  }

  Attrs attrs() const { return {{"begin", begin}, {"end", end}, {"strides", strides}, {"masks", masks}}; }
  bool has(Mask mask, std::size_t i) const { return (masks[mask] >> i & 1) != 0; }

  /// Adds what entry i picks along an axis of the given size, by Python's rules for slices.
  void pick(std::size_t i, int axis, std::int64_t size, Region& region) const {
    const std::int64_t step = strides[i];
    const auto at = axis;
    region.step[at] = step;
    if (has(shrink_axis_mask, i)) {
      if (size < 0) return;  // known and checked when the graph runs
      region.start[at] = begin[i] < 0 ? begin[i] + size : begin[i];
      if (region.start[at] < 0 || region.start[at] >= size)
        throw InvalidArgumentError(detail::join("slice index ", begin[i], " of dimension ", axis, " out of bounds."));
      return;
    }
    if (step == 0) throw InvalidArgumentError(detail::join("strides[", i, "] must be non-zero"));
    if (size < 0) return region.add(axis, -1);
    const std::int64_t lowest = step > 0 ? 0 : -1, highest = step > 0 ? size : size - 1;
    const auto bound = [&](std::int64_t given) {
      return std::clamp(given < 0 ? given + size : given, lowest, highest);
    };
    const std::int64_t first = has(begin_mask, i) ? (step > 0 ? lowest : highest) : bound(begin[i]);
    const std::int64_t last = has(end_mask, i) ? (step > 0 ? highest : lowest) : bound(end[i]);
    const std::int64_t distance = last - first;
    const bool empty = step > 0 ? distance <= 0 : distance >= 0;
    region.start[at] = first;
    region.add(axis, empty ? 0 : (distance - (step > 0 ? 1 : -1)) / step + 1);
  }

  Region resolve(const Shape& shape) const {
    int picked = 0, dots = 0;
    for (std::size_t i = 0; i < begin.size(); ++i) {
      if (has(ellipsis_mask, i)) {
        ++dots;
      } else if (!has(new_axis_mask, i)) {
        ++picked;
      }
    }
    if (dots > 1) throw InvalidArgumentError("Multiple ellipses in slice spec not allowed");
    if (picked > shape.rank())
      throw InvalidArgumentError(detail::join("Index out of range using input dim ", shape.rank(), "; input has only ",
                                              shape.rank(), " dims"));
    Region region;
    region.step.fill(1);
    int axis = 0;
    const auto skip_axes = [&](int count) {
      for (; count > 0; --count, ++axis) region.add(axis, shape.sizes()[axis]);
    };
    for (std::size_t i = 0; i < begin.size(); ++i) {
      if (has(ellipsis_mask, i)) {
        skip_axes(shape.rank() - picked);
      } else if (has(new_axis_mask, i)) {
        region.add(-1, 1);
      } else {
        pick(i, axis, shape.sizes()[axis], region);
        ++axis;
      }
    }
    skip_axes(shape.rank() - axis);
    return region;
  }
};

// ---- slice --------------------------------------------------------------------------------------------------------

Region slice_region(const Ints& begin, const Ints& size, const Shape& shape) {
  const auto rank = static_cast<std::size_t>(shape.rank());
  if (begin.size() != rank || size.size() != rank)
    throw InvalidArgumentError(detail::join("Expected begin and size arguments to be 1-D tensors of size ", rank,
                                            ", but got sizes ", begin.size(), " and ", size.size(), " instead."));
  Region region;
  region.step.fill(1);
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t all = shape.sizes()[static_cast<int>(i)];
    if (begin[i] < 0 || (all >= 0 && begin[i] > all))
      throw InvalidArgumentError(detail::join("Expected begin[", i, "] in [0, ", all, "], but got ", begin[i]));
    if (size[i] < -1 || (all >= 0 && size[i] > all - begin[i]))
      throw InvalidArgumentError(
          detail::join("Expected size[", i, "] in [0, ", all - begin[i], "], but got ", size[i]));
    region.start[i] = begin[i];
    region.add(static_cast<int>(i), size[i] >= 0 || all < 0 ? size[i] : all - begin[i]);
  }
  return region;
}

/// The part of a tensor of that shape that the attributes of a call of `slice`, or of an index expression, select.
Region region_of(const Call& call, const Shape& shape) {
  if (call.attrs().find("size")) return slice_region(call.attr<Ints>("begin"), call.attr<Ints>("size"), shape);
  return Expression(call.attrs()).resolve(shape);
}

/// The attributes of a slice or of an index expression that takes the same part of each example of a batch.
Attrs behind_batch(const Attrs& attrs) {
  const auto behind = [&](std::string_view name, std::int64_t first) {
    return with_front({first}, attrs.get<Ints>(name));
  };
  if (attrs.find("size")) return {{"begin", behind("begin", 0)}, {"size", behind("size", -1)}};
  Ints masks = attrs.get<Ints>("masks");
  for (std::size_t i = 0; i < masks.size(); ++i) masks[i] = masks[i] * 2 + (i == begin_mask || i == end_mask ? 1 : 0);
  return {
      {"begin", behind("begin", 0)}, {"end", behind("end", 0)}, {"strides", behind("strides", 1)}, {"masks", masks}};
}

// ---- The ops ------------------------------------------------------------------------------------------------------

/// Applies the op that has these attributes, `slice` or an index expression, to another tensor.
Tensor slice_alike(const Tensor& x, const Attrs& attrs);

/// Zeros in the shape of the second input, the tensor that was sliced, with the gradient in the part that was selected.
TAPESTRY_OP(slice_grad_op){{
    .name = "StridedSliceGrad",
    .attrs = {{"begin", AttrKind::numbers},
              {"end", AttrKind::numbers, optional},
              {"size", AttrKind::numbers, optional},
              {"strides", AttrKind::numbers, optional},
              {"masks", AttrKind::numbers, optional, 5}},
    .infer = [](const Call& call) -> Specs {
      require_same_shape(call.input(0).shape(), region_of(call, call.input(1).shape()).shape);
      return like_second(call);
    },
    .forward =
        [](Backend& backend, const Call& call) {
          const Tensor& y = call.output();
          backend.fill(0, y);
          backend.copy(call.input(0), view_region(y, region_of(call, y.shape())));
        },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      return {slice_alike(g, call.attrs()), Tensor()};
    },
    .needs = needs_nothing,
    .shape_inputs = 2,
    .batch = [](const BatchedCall& call) -> Tensors {
      return call.apply(call.all(), behind_batch(call.one().attrs()));
    },
}};

/// The attributes of an index expression. Each list but the masks has an entry for each index.
std::vector<OpAttr> expression_attrs() {
  return {{"begin", AttrKind::numbers},
          {"end", AttrKind::numbers},
          {"strides", AttrKind::numbers},
          {"masks", AttrKind::numbers, required, 5}};
}

Op slicing_op(const char* name, std::vector<OpAttr> attrs) {
  return {
      .name = name,
      .attrs = std::move(attrs),
      .infer = [](const Call& call) -> Specs {
        return {{call.input(0).dtype(), region_of(call, call.input(0).shape()).shape}};
      },
      .view = [](const Call& call,
                 const Spec&) { return view_region(call.input(0), region_of(call, call.input(0).shape())); },
      .gradient = [](const Call& call, const Tensor& g) -> Tensors {
        return {apply(slice_grad_op, {g, call.input(0)}, call.attrs())};
      },
      .needs = needs_nothing,
      .movement = Movement::moves,
      .batch = [](const BatchedCall& call) -> Tensors {
        return call.apply(call.all(), behind_batch(call.one().attrs()));
      },
  };
}
TAPESTRY_OP(strided_slice_op)(slicing_op("StridedSlice", expression_attrs()));
TAPESTRY_OP(slice_op)(slicing_op("Slice", {{"begin", AttrKind::numbers}, {"size", AttrKind::numbers}}));

Tensor slice_alike(const Tensor& x, const Attrs& attrs) {
  return apply(attrs.find("size") ? slice_op : strided_slice_op, {x}, attrs);
}

TAPESTRY_OP(slice_update_op){{
    .name = "TensorStridedSliceUpdate",
    .attrs = expression_attrs(),
    .infer = [](const Call& call) -> Specs {
      require_broadcast(call.input(1).shape(), region_of(call, call.input(0).shape()).shape);
      return same_shape(call);
    },
    .forward =
        [](Backend& backend, const Call& call) {
          const Tensor& y = call.output();
          const Region region = region_of(call, y.shape());
          backend.copy(call.input(0), y);
          backend.copy(view_broadcast(call.input(1), region.shape), view_region(y, region));
        },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      return wanted(
          call,
          [&] {
            return apply(call.op(), {g, 0.0}, call.attrs());
          },
          [&] { return apply(strided_slice_op, {g}, call.attrs()); });
    },
    .promotion = common_type,
    .needs = needs_nothing,
    .broadcasts = true,
    .batch = [](const BatchedCall& call) -> Tensors {
      const int rank = region_of(call.one(), call.one().input(0).shape()).shape.rank();
      return call.apply({call.all(0), call.aligned(1, rank)}, behind_batch(call.one().attrs()));
    },
}};

}  // namespace

Tensor detail::index(const Tensor& x, std::initializer_list<Index> indices) {
  return apply(strided_slice_op, {In(x, indices.begin()->where)}, Expression(indices).attrs());
}

Tensor detail::slice_update(In x, In value, std::initializer_list<Index> indices, std::string_view name) {
  const bool is_narrowed = bool(x.tensor()) && is_floating(x->dtype()) && bool(value.tensor()) && !value.is_number();
  const Tensor part = is_narrowed ? value.as(x->dtype()) : value.tensor();
  return apply(slice_update_op, {x, In(part, value.where())}, Expression(indices).attrs(), name);
}

Tensor slice(In x, const Ints& begin, const Ints& size, std::string_view name) {
  return apply(slice_op, {std::move(x)}, {{"begin", begin}, {"size", size}}, name);
}

}  // namespace tapestry
