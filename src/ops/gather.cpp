#include "dispatch/deferred.hpp"
#include "ops/batching.hpp"
#include "ops/handles.hpp"
#include "ops/support.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/creation.hpp"
#include "tapestry/ops/math.hpp"
#include "tapestry/ops/nn.hpp"
#include "tapestry/ops/reduce.hpp"

TAPESTRY_OP_FAMILY(gather)

namespace tapestry {
namespace {

/// The gradient of a gathering op reads only the elements of the second input, the indices.
constexpr Needs needs_indices{2, 0};

void append(Shape& shape, const Shape& other, int first, int last) {
  for (int i = first; i < last; ++i) shape.push_back(other.sizes()[i]);
}

// Each gathering op has a scattering op with the inputs (indices, updates, like), which adds the updates to zeros in
// the shape of `like`. Each of the two is the gradient of the other.

Tensor scatter_nd(const Tensor& indices, const Tensor& updates, const Tensor& like);

// An example of a batch is one index more: the rules below are for indices that differ among the examples.

/// Indices [count, ...] as indices [count, ..., 1] into one example.
Tensor as_vectors(const Tensor& indices) { return expand_dims(indices, -1); }

/// Indices [count, ..., k] into the examples of a batch as indices [count, ..., 1 + k] into the batch.
Tensor with_example(const Tensor& indices) {
  const Tensor numbers = cumsum(ones({indices.shape()[0]}, {.dtype = indices.dtype(), .device = indices.device()}), 0,
                                {.exclusive = true});
  Ints added;
  Shape one_each;
  for (int axis = 1; axis < indices.rank(); ++axis) added.push_back(axis);
  for (int axis = 0; axis + 1 < indices.rank(); ++axis) one_each.push_back(indices.shape()[axis]);
  one_each.push_back(1);
  return concat({broadcast_to(expand_dims(numbers, added), one_each), indices}, -1);
}

/// The axis of a call for one example, whose input x is, 0 ... rank - 1.
int axis_in_example(const BatchedCall& call, std::size_t x) {
  return normalize_axis(call.one().attr<std::int64_t>("axis"), call.rank(x));
}

Tensors batch_gather(const BatchedCall& call) {
  const int axis = axis_in_example(call, 0), places = call.rank(1);
  const Where where = call.one().where();
  if (!call.has_batch(1)) return {gather(call.input(0), call.input(1), axis + 1)};
  if (!call.has_batch(0)) return {with_axes_moved(gather(call.input(0), call.input(1), axis), axis, 1, 0, where)};
  const Tensor table = with_axes_moved(call.input(0), axis + 1, 1, 1, where);
  const Tensor found = gather_nd(table, with_example(as_vectors(call.input(1))));
  return {with_axes_moved(found, 1, places, axis + 1, where)};
}

Tensors batch_scatter(const BatchedCall& call) {
  const int axis = axis_in_example(call, 2), places = call.rank(0);
  const Where where = call.one().where();
  const Tensor updates = call.all(1), like = call.all(2);
  if (!call.has_batch(0))
    return call.apply({call.input(0), updates, like}, with_attr(call.one().attrs(), "axis", std::int64_t{axis} + 1));
  const Tensor sums =
      scatter_nd(with_example(as_vectors(call.input(0))), with_axes_moved(updates, axis + 1, places, 1, where),
                 with_axes_moved(like, axis + 1, 1, 1, where));
  return {with_axes_moved(sums, 1, 1, axis + 1, where)};
}

Tensors batch_gather_nd(const BatchedCall& call) {
  if (!call.has_batch(0)) return {gather_nd(call.input(0), call.input(1))};
  return {gather_nd(call.input(0), with_example(call.all(1)))};
}

Tensors batch_scatter_nd(const BatchedCall& call) {
  return {scatter_nd(with_example(call.all(0)), call.all(1), call.all(2))};
}

Specs scattered(const Call& call, const Shape& updates) {
  require_type(call.input(0), index_types, "Tindices");
  require_type(call.input(1), number_types);
  require_same_shape(call.input(1).shape(), updates);
  return {{call.input(1).dtype(), call.input(2).shape()}};
}

// ---- gather -------------------------------------------------------------------------------------------------------

/// x's shape with the axis replaced by the dimensions of the indices.
Shape gathered_shape(const Tensor& x, const Tensor& indices, std::int64_t along) {
  const int axis = normalize_axis(along, x.rank());
  Shape shape;
  append(shape, x.shape(), 0, axis);
  append(shape, indices.shape(), 0, indices.rank());
  append(shape, x.shape(), axis + 1, x.rank());
  return shape;
}

TAPESTRY_OP(scatter_op){{
    .name = "UnsortedSegmentSum",
    .attrs = {{"axis", AttrKind::number}},
    .infer = [](const Call& call) -> Specs {
      return scattered(call, gathered_shape(call.input(2), call.input(0), call.attr<std::int64_t>("axis")));
    },
    .forward =
        [](Backend& backend, const Call& call) {
          const int axis = normalize_axis(call.attr<std::int64_t>("axis"), call.output().rank());
          backend.scatter_add(call.input(0), call.input(1), axis, call.output());
        },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      return {Tensor(), gather(g, call.input(0), call.attr<std::int64_t>("axis")), Tensor()};
    },
    .needs = {1, 0},
    .shape_inputs = 4,
    .batch = batch_scatter,
}};

TAPESTRY_OP(gather_op){{
    .name = "GatherV2",
    .attrs = {{"axis", AttrKind::number}},
    .infer = [](const Call& call) -> Specs {
      const Tensor &x = call.input(0), &indices = call.input(1);
      require_type(indices, index_types, "Tindices");
      return {{x.dtype(), gathered_shape(x, indices, call.attr<std::int64_t>("axis"))}};
    },
    .forward = [](Backend& backend,
                  const Call& call) { backend.gather(call.input(0), call.input(1), axis_of(call), call.output()); },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      const Tensors inputs{call.input(1), g, call.input(0)};
      // The rows of a table are applied by optimizers as they are.
      if (call.attr<std::int64_t>("axis") == 0)
        return {apply_deferred(scatter_op, inputs, call.attrs(), call.where()), Tensor()};
      return {apply(scatter_op, {inputs[0], inputs[1], inputs[2]}, call.attrs()), Tensor()};
    },
    .needs = needs_indices,
    .movement = Movement::moves,
    .batch = batch_gather,
}};

// ---- gather_nd ----------------------------------------------------------------------------------------------------

/// The indices' shape without its last axis, of size k, followed by x's shape without its first k axes.
Shape gathered_nd_shape(const Tensor& x, const Tensor& indices) {
  if (indices.rank() == 0) throw InvalidArgumentError("indices must be at least a vector, but is a scalar");
  const std::int64_t depth = indices.shape().sizes().back();
  if (depth < 0)
    throw InvalidArgumentError(detail::join("The last dimension of indices of shape ", indices.shape(),
                                            " must be known: the rank of the result depends on it"));
  if (depth > x.rank())
    throw InvalidArgumentError(
        detail::join("index innermost dimension length must be <= params rank; saw: ", depth, " vs. ", x.rank()));
  Shape shape;
  append(shape, indices.shape(), 0, indices.rank() - 1);
  append(shape, x.shape(), static_cast<int>(depth), x.rank());
  return shape;
}

TAPESTRY_OP(scatter_nd_op){{
    .name = "ScatterNd",
    .infer = [](const Call& call) -> Specs { return scattered(call, gathered_nd_shape(call.input(2), call.input(0))); },
    .forward = [](Backend& backend,
                  const Call& call) { backend.scatter_nd_add(call.input(0), call.input(1), call.output()); },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      return {Tensor(), gather_nd(g, call.input(0)), Tensor()};
    },
    .needs = {1, 0},
    .shape_inputs = 4,
    .batch = batch_scatter_nd,
}};

Tensor scatter_nd(const Tensor& indices, const Tensor& updates, const Tensor& like) {
  return apply(scatter_nd_op, {indices, updates, like});
}

TAPESTRY_OP(gather_nd_op){{
    .name = "GatherNd",
    .infer = [](const Call& call) -> Specs {
      require_type(call.input(1), index_types, "Tindices");
      return {{call.input(0).dtype(), gathered_nd_shape(call.input(0), call.input(1))}};
    },
    .forward = [](Backend& backend,
                  const Call& call) { backend.gather_nd(call.input(0), call.input(1), call.output()); },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      return {scatter_nd(call.input(1), g, call.input(0)), Tensor()};
    },
    .needs = needs_indices,
    .batch = batch_gather_nd,
}};

// ---- take_along_axis, top_k ---------------------------------------------------------------------------------------

/// The indices' shape, which must agree with x's but for the axis.
Shape taken_shape(const Tensor& x, const Tensor& indices, std::int64_t along) {
  const int axis = normalize_axis(along, x.rank());
  bool agree = x.rank() == indices.rank();
  for (int i = 0; agree && i < x.rank(); ++i)
    agree = i == axis || sizes_agree(x.shape().sizes()[i], indices.shape().sizes()[i]);
  if (!agree)
    throw InvalidArgumentError(detail::join("take_along_axis: the shapes ", x.shape(), " and ", indices.shape(),
                                            " of x and indices must agree in all axes but ", axis));
  return indices.shape();
}

TAPESTRY_OP(put_along_op){{
    .name = "PutAlongAxis",
    .attrs = {{"axis", AttrKind::number}},
    .infer = [](const Call& call) -> Specs {
      return scattered(call, taken_shape(call.input(2), call.input(0), call.attr<std::int64_t>("axis")));
    },
    .forward =
        [](Backend& backend, const Call& call) {
          backend.put_along_add(call.input(0), call.input(1), axis_of(call), call.output());
        },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      return {Tensor(), take_along_axis(g, call.input(0), call.attr<std::int64_t>("axis")), Tensor()};
    },
    .needs = {1, 0},
    .shape_inputs = 4,
    .batch = batch_beside_axis,
}};

Tensor put_along_axis(const Tensor& indices, const Tensor& updates, const Tensor& like, std::int64_t axis) {
  return apply(put_along_op, {indices, updates, like}, {{"axis", axis}});
}

TAPESTRY_OP(take_along_op){{
    .name = "TakeAlongAxis",
    .attrs = {{"axis", AttrKind::number}},
    .infer = [](const Call& call) -> Specs {
      const Tensor &x = call.input(0), &indices = call.input(1);
      require_type(indices, index_types, "Tindices");
      return {{x.dtype(), taken_shape(x, indices, call.attr<std::int64_t>("axis"))}};
    },
    .forward = [](Backend& backend,
                  const Call& call) { backend.take_along(call.input(0), call.input(1), axis_of(call), call.output()); },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      return {put_along_axis(call.input(1), g, call.input(0), call.attr<std::int64_t>("axis")), Tensor()};
    },
    .needs = needs_indices,
    .batch = batch_beside_axis,
}};

TAPESTRY_OP(top_k_op){{
    .name = "TopKV2",
    .attrs = {{"k", AttrKind::number, optional}, {"largest", AttrKind::flag, optional}},
    .infer = [](const Call& call) -> Specs {
      const Tensor& x = call.input(0);
      require_type(x, number_types);
      require_rank_at_least(x, 1);
      Shape shape = x.shape();
      const std::int64_t k = attr_or(call, "k", shape.sizes().back());
      if (k < 0 && call.attrs().find("k")) throw InvalidArgumentError(detail::join("Need k >= 0, got ", k));
      if (shape.sizes().back() >= 0 && k > shape.sizes().back())
        throw InvalidArgumentError(
            detail::join("input must have at least k columns. Had ", shape.sizes().back(), ", needed ", k));
      shape.set(shape.rank() - 1, k);
      return {{x.dtype(), shape}, {int32, shape}};
    },
    .forward =
        [](Backend& backend, const Call& call) {
          const Tensor& values = call.output(0);
          backend.top_k(call.input(0), values.shape().sizes().back(), attr_or(call, "largest", true), values,
                        call.output(1));
        },
    .gradient = [](const Call& call, const Tensors& g) -> Tensors {
      if (call.attrs().find("redo")) rank_of(call.input(0));  // throws: the gradient waits for the rank, too
      return {g[0] ? put_along_axis(call.output(1), g[0], call.input(0), -1) : Tensor()};
    },
    .needs = {0, 2},
    .outputs = 2,
    .batch = batch_in_front,
}};

/// All elements in order along an axis, and their former positions.
TopK sorted(const In& x, std::int64_t axis, Direction direction) {
  return blaming("Sort", x.where(), [&]() -> TopK {
    if (axis != -1 && !x->shape().has_rank()) {
      const auto redo = [axis, direction](const Tensors& known) -> Tensors {
        const TopK found = sorted(known[0], axis, direction);
        return {found.values, found.indices};
      };
      const Attrs attrs{{"largest", direction == Direction::descending}};
      const Tensors later = apply_all(top_k_op, {x.tensor()}, with_redo(attrs, redo), {}, x.where());
      return {later[0], later[1]};
    }
    Ints swap;
    bool inner = axis == -1 && !x->shape().has_rank();
    if (!inner) {
      require_rank_at_least(x, 1);
      const int last = rank_of(x) - 1, along = normalize_axis(axis, last + 1);
      for (int i = 0; i <= last; ++i) swap.push_back(i == along ? last : i == last ? along : i);
      inner = along == last;
    }
    const Tensor rows = inner ? x.tensor() : transpose(x, swap);
    const Tensors ordered =
        apply_all(top_k_op, {rows}, {{"largest", direction == Direction::descending}}, {}, x.where());
    if (inner) return {ordered[0], ordered[1]};
    return {transpose(ordered[0], swap), transpose(ordered[1], swap)};
  });
}

}  // namespace

namespace ops {
const Op &gather = gather_op, &unsorted_segment_sum = scatter_op;
}  // namespace ops

Tensor gather(In x, In indices, std::int64_t axis, std::string_view name) {
  return apply(gather_op, {std::move(x), std::move(indices)}, {{"axis", axis}}, name);
}
Tensor embedding_lookup(In params, In ids, std::string_view name) { return gather(params, ids, 0, name); }
Tensor gather_nd(In x, In indices, std::string_view name) {
  return apply(gather_nd_op, {std::move(x), std::move(indices)}, {}, name);
}
Tensor take_along_axis(In x, In indices, std::int64_t axis, std::string_view name) {
  return apply(take_along_op, {std::move(x), std::move(indices)}, {{"axis", axis}}, name);
}

Tensor scatter_add(In x, In indices, In updates, std::string_view name) {
  const CallSiteScope site(x.where());
  return add(x, apply(scatter_op, {indices, updates, x}, {{"axis", std::int64_t{0}}}), name);
}
Tensor tensor_scatter_nd_add(In x, In indices, In updates, std::string_view name) {
  const CallSiteScope site(x.where());
  return add(x, scatter_nd(indices, updates, x), name);
}

TopK top_k(In x, std::int64_t k, std::string_view name) {
  if (is_mask(x)) {
    const TopK top = top_k(In(x.as(int32), x.where()), k, name);
    return {top.values.cast(boolean, x.where()), top.indices};
  }
  const Tensors top = apply_all(top_k_op, {x}, {{"k", k}}, name, x.where());
  return {top[0], top[1]};
}
Tensor sort(In x, std::int64_t axis, Direction direction, std::string_view name) {
  if (is_mask(x))
    return named(sorted(In(x.as(int32), x.where()), axis, direction).values.cast(boolean, x.where()), name);
  return named(sorted(x, axis, direction).values, name);
}
Tensor argsort(In x, std::int64_t axis, Direction direction, std::string_view name) {
  return named(sorted(is_mask(x) ? In(x.as(int32), x.where()) : x, axis, direction).indices, name);
}

}  // namespace tapestry
