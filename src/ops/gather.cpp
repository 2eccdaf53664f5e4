#include "dispatch/deferred.hpp"
#include "ops/handles.hpp"
#include "ops/support.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/math.hpp"
#include "tapestry/ops/nn.hpp"

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
}};

TAPESTRY_OP(gather_nd_op){{
    .name = "GatherNd",
    .infer = [](const Call& call) -> Specs {
      require_type(call.input(1), index_types, "Tindices");
      return {{call.input(0).dtype(), gathered_nd_shape(call.input(0), call.input(1))}};
    },
    .forward = [](Backend& backend,
                  const Call& call) { backend.gather_nd(call.input(0), call.input(1), call.output()); },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      return {apply(scatter_nd_op, {call.input(1), g, call.input(0)}), Tensor()};
    },
    .needs = needs_indices,
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
      return {g[0] ? put_along_axis(call.output(1), g[0], call.input(0), -1) : Tensor()};
    },
    .needs = {0, 2},
    .outputs = 2,
}};

/// All elements in order along an axis, and their former positions.
TopK sorted(const In& x, std::int64_t axis, Direction direction) {
  return blaming("Sort", x.where(), [&]() -> TopK {
    require_rank_at_least(x, 1);
    const int last = x->rank() - 1, along = normalize_axis(axis, x->rank());
    Ints swap;
    for (int i = 0; i <= last; ++i) swap.push_back(i == along ? last : i == last ? along : i);
    const bool inner = along == last;
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
  return apply(gather_op, {x, indices}, {{"axis", axis}}, name);
}
Tensor embedding_lookup(In params, In ids, std::string_view name) { return gather(params, ids, 0, name); }
Tensor gather_nd(In x, In indices, std::string_view name) { return apply(gather_nd_op, {x, indices}, {}, name); }
Tensor take_along_axis(In x, In indices, std::int64_t axis, std::string_view name) {
  return apply(take_along_op, {x, indices}, {{"axis", axis}}, name);
}

Tensor scatter_add(In x, In indices, In updates, std::string_view name) {
  const CallSiteScope site(x.where());
  return add(x, apply(scatter_op, {indices, updates, x}, {{"axis", std::int64_t{0}}}), name);
}
Tensor tensor_scatter_nd_add(In x, In indices, In updates, std::string_view name) {
  const CallSiteScope site(x.where());
  return add(x, apply(scatter_nd_op, {indices, updates, x}), name);
}

TopK top_k(In x, std::int64_t k, std::string_view name) {
  const Tensors top = apply_all(top_k_op, {x}, {{"k", k}}, name, x.where());
  return {top[0], top[1]};
}
Tensor sort(In x, std::int64_t axis, Direction direction, std::string_view name) {
  return named(sorted(x, axis, direction).values, name);
}
Tensor argsort(In x, std::int64_t axis, Direction direction, std::string_view name) {
  return named(sorted(x, axis, direction).indices, name);
}

}  // namespace tapestry
