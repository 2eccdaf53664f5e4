#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "backend/strided_loop.hpp"
#include "backend/views.hpp"
#include "core/make_tensor.hpp"
#include "dispatch/recorder.hpp"
#include "ops/batching.hpp"
#include "ops/bitcast.hpp"
#include "ops/handles.hpp"
#include "ops/support.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/creation.hpp"
#include "tapestry/ops/math.hpp"
#include "tapestry/ops/reduce.hpp"

TAPESTRY_OP_FAMILY(array_movement)

namespace tapestry {
namespace {

using Strides = std::array<std::int64_t, Shape::max_rank>;

Strides strides_of(const Tensor& x) {
  Strides strides{};
  std::copy(x.strides().begin(), x.strides().end(), strides.begin());
  return strides;
}

Tensor same_view(const Call& call, const Spec&) { return view_of(call.input(0)); }

TAPESTRY_OP(identity_op){{
    .name = "Identity",
    .infer = same_shape,
    .view = same_view,
    .gradient = [](const Call&, const Tensor& g) -> Tensors { return {g}; },
    .needs = needs_nothing,
    .movement = Movement::keeps,
    .batch = batch_in_front,
}};

TAPESTRY_OP(stop_gradient_op){{
    .name = "StopGradient",
    .infer = same_shape,
    .view = same_view,
    .gradient = no_gradient,
    .movement = Movement::keeps,
    .batch = batch_in_front,
}};

/// What is known of a shape from the input's and from the one that it must have.
Shape ensured_shape(const Call& call) {
  const Shape &given = call.input(0).shape(), &due = call.attr<Shape>("shape");
  if (!agree(given, due))
    throw InvalidArgumentError(
        detail::join("Shape of tensor ", given, " is not compatible with expected shape ", due, '.'));
  if (!given.has_rank()) return due;
  Shape shape = given;
  for (int i = 0; due.has_rank() && i < due.rank(); ++i)
    if (shape.sizes()[i] < 0) shape.set(i, due.sizes()[i]);
  return shape;
}

TAPESTRY_OP(ensure_shape_op){{
    .name = "EnsureShape",
    .attrs = {{"shape", AttrKind::shape}},
    .infer = [](const Call& call) -> Specs {
      return {{call.input(0).dtype(), ensured_shape(call)}};
    },
    .view = same_view,
    .gradient = [](const Call&, const Tensor& g) -> Tensors { return {g}; },
    .needs = needs_nothing,
    .movement = Movement::keeps,
    .batch = [](const BatchedCall& call) -> Tensors {
      const Shape& due = call.one().attr<Shape>("shape");
      return {due.has_rank() ? ensure_shape(call.all(0), call.with_batch(due)) : identity(call.all(0))};
    },
}};

// ---- reshape ------------------------------------------------------------------------------------------------------

}  // namespace

Shape reshaped(std::int64_t total, Shape shape) {
  int open = -1;
  Shape given;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape.sizes()[i] >= 0) {
      given.push_back(shape.sizes()[i]);
    } else if (open >= 0) {
      throw InvalidArgumentError(detail::join("Only one input size may be -1, not both ", open, " and ", i));
    } else {
      open = i;
    }
  }
  const std::int64_t known = given.size();
  if (total < 0) return shape;
  if (open < 0) {
    if (known != total)
      throw InvalidArgumentError(detail::join("Input to reshape is a tensor with ", total,
                                              " values, but the requested shape ", shape, " has ", known));
    return shape;
  }
  if (known == 0)
    throw InvalidArgumentError(
        "reshape cannot infer the missing input size for an empty tensor unless all specified input sizes are "
        "non-zero");
  if (total % known != 0)
    throw InvalidArgumentError(detail::join("Input to reshape is a tensor with ", total,
                                            " values, but the requested shape ", shape, " requires a multiple of ",
                                            known));
  shape.set(open, total / known);
  return shape;
}

namespace {

/// Whether a size of the shape is that of a tensor of a graph.
bool has_source(const Shape& shape) {
  for (int i = 0; i < shape.rank(); ++i)
    if (shape.source(i).tensor) return true;
  return false;
}

TAPESTRY_OP(reshape_op){{
    .name = "Reshape",
    .attrs = {{"shape", AttrKind::shape}},
    .infer = [](const Call& call) -> Specs {
      const Tensor& x = call.input(0);
      return {{x.dtype(), reshaped(x.shape().num_elements(), call.attr<Shape>("shape"))}};
    },
    .view =
        [](const Call& call, const Spec& spec) {
          const Tensor& x = call.input(0);
          return view_as(backend_of(x.device()).contiguous(x), spec.shape);
        },
    .view_copies = true,
    .gradient = [](const Call& call, const Tensor& g) -> Tensors { return {reshape_like(g, call.input(0))}; },
    .needs = needs_nothing,
    .movement = Movement::reshapes,
    .batch = [](const BatchedCall& call) -> Tensors {
      const Shape& inferred = call.one().output().shape();
      // With no examples, a size that is to be inferred does not follow from the number of all elements.
      const Tensor one = inferred.is_known() ? Tensor() : zeros_of_one(call.all(0), call.one().where());
      return {reshape(call.all(0),
                      call.with_batch(one ? reshape(one, call.one().attr<Shape>("shape")).shape() : inferred))};
    },
}};

// ---- transpose ----------------------------------------------------------------------------------------------------

/// The permutation of a call of `transpose`, checked; by default the reversal of the axes.
Ints permutation_of(const Call& call) {
  const Ints* given = call.attrs().find<Ints>("perm");
  const bool tells_rank = given && !call.input(0).shape().has_rank();
  const int rank = tells_rank ? static_cast<int>(given->size()) : call.input(0).rank();
  Ints perm = given ? *given : Ints(rank);
  if (!given) {
    std::iota(perm.begin(), perm.end(), 0);
    std::reverse(perm.begin(), perm.end());
  }
  if (static_cast<int>(perm.size()) != rank)
    throw InvalidArgumentError(
        detail::join("transpose expects a vector of size ", rank, ". But input(1) is a vector of size ", perm.size()));
  std::uint32_t seen = 0;
  for (std::int64_t& axis : perm) {
    axis = normalize_axis(axis, rank);
    if (has_axis(seen, static_cast<int>(axis)))
      throw InvalidArgumentError(detail::join("transpose: axis ", axis, " appears twice in the permutation"));
    seen |= 1U << axis;
  }
  return perm;
}

TAPESTRY_OP(transpose_op){{
    .name = "Transpose",
    .attrs = {{"perm", AttrKind::numbers, optional}},
    .infer = [](const Call& call) -> Specs {
      const Tensor& x = call.input(0);
      Shape shape;
      for (const std::int64_t axis : permutation_of(call)) shape.push_back(x.shape().sizes()[static_cast<int>(axis)]);
      return {{x.dtype(), shape}};
    },
    .view =
        [](const Call& call, const Spec& spec) {
          const Tensor& x = call.input(0);
          Strides strides{};
          std::size_t i = 0;
          for (const std::int64_t axis : permutation_of(call)) strides[i++] = x.strides()[axis];
          return detail::make_view(x, spec.shape, strides);
        },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      if (!call.attrs().find("perm")) return {transpose(g)};  // which undoes itself
      const Ints perm = permutation_of(call);
      Ints inverse(perm.size());
      for (std::size_t i = 0; i < perm.size(); ++i) inverse[perm[i]] = static_cast<int>(i);
      return {transpose(g, inverse)};
    },
    .needs = needs_nothing,
    .movement = Movement::moves,
    .batch = [](const BatchedCall& call) -> Tensors {
      Ints perm{0};
      for (const std::int64_t axis : permutation_of(call.one())) perm.push_back(axis + 1);
      return {transpose(call.all(0), perm)};
    },
}};

// ---- squeeze, expand_dims -----------------------------------------------------------------------------------------

/// Axes, which are given as bits, once the axis of a batch is in front of them.
Ints axes_behind_batch(std::uint32_t axes) {
  Ints list;
  for (int axis = 0; axis <= Shape::max_rank; ++axis)
    if (has_axis(axes, axis)) list.push_back(axis + 1);
  return list;
}

/// The axes that a call of `squeeze` takes away, as bits.
std::uint32_t squeezed_axes(const Call& call) {
  const Shape& shape = call.input(0).shape();
  const bool all = !call.attrs().find("axis");
  std::uint32_t mask = axes_mask(call, shape.rank());
  for (int i = 0; i < shape.rank(); ++i) {
    if (!has_axis(mask, i) || shape.sizes()[i] == 1) continue;
    if (all && shape.sizes()[i] < 0)
      throw InvalidArgumentError(
          detail::join("squeeze without axes cannot tell the rank of its result for shape ", shape, ": name the axes"));
    if (!all && shape.sizes()[i] >= 0)
      throw InvalidArgumentError(
          detail::join("Can not squeeze dim[", i, "], expected a dimension of 1, got ", shape.sizes()[i]));
    if (all) mask &= ~(1U << i);
  }
  return mask;
}

TAPESTRY_OP(squeeze_op){{
    .name = "Squeeze",
    .attrs = {{"axis", AttrKind::numbers, optional}},
    .infer = [](const Call& call) -> Specs {
      const Tensor& x = call.input(0);
      const std::uint32_t gone = squeezed_axes(call);
      Shape shape;
      for (int i = 0; i < x.rank(); ++i)
        if (!has_axis(gone, i)) shape.push_back(x.shape().sizes()[i]);
      return {{x.dtype(), shape}};
    },
    .view =
        [](const Call& call, const Spec& spec) {
          const Tensor& x = call.input(0);
          const std::uint32_t gone = squeezed_axes(call);
          Strides strides{};
          std::size_t kept = 0;
          for (int i = 0; i < x.rank(); ++i)
            if (!has_axis(gone, i)) strides[kept++] = x.strides()[i];
          return detail::make_view(x, spec.shape, strides);
        },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors { return {reshape_like(g, call.input(0))}; },
    .needs = needs_nothing,
    .movement = Movement::reshapes,
    .batch = [](const BatchedCall& call) -> Tensors {
      return {squeeze(call.all(0), axes_behind_batch(squeezed_axes(call.one())))};
    },
}};

/// The axes of the result that a call of `expand_dims` adds, as bits.
std::uint32_t added_axes(const Call& call) {
  return axes_mask(call, call.input(0).rank() + static_cast<int>(call.attr<Ints>("axis").size()));
}

TAPESTRY_OP(expand_dims_op){{
    .name = "ExpandDims",
    .attrs = {{"axis", AttrKind::numbers}},
    .infer = [](const Call& call) -> Specs {
      const Tensor& x = call.input(0);
      const std::uint32_t added = added_axes(call);
      Shape shape = x.shape();
      for (int i = 0; i < x.rank() + std::popcount(added); ++i)
        if (has_axis(added, i)) shape.insert(i, 1);
      return {{x.dtype(), shape}};
    },
    .view =
        [](const Call& call, const Spec& spec) {
          const Tensor& x = call.input(0);
          const std::uint32_t added = added_axes(call);
          Strides strides{};
          // The loop starts at the end, so that the stride of a new axis spans the axes behind it, as in a row-major
          // tensor.
          std::int64_t behind = 1;
          auto axis = static_cast<std::size_t>(x.rank());
          for (int i = spec.shape.rank() - 1; i >= 0; --i) {
            if (!has_axis(added, i)) behind = x.strides()[--axis];
            strides[i] = behind;
            behind *= spec.shape.sizes()[i];
          }
          return detail::make_view(x, spec.shape, strides);
        },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors { return {reshape_like(g, call.input(0))}; },
    .needs = needs_nothing,
    .movement = Movement::reshapes,
    .batch = [](const BatchedCall& call) -> Tensors {
      return {expand_dims(call.all(0), axes_behind_batch(added_axes(call.one())))};
    },
}};

// ---- broadcast_to, flip -------------------------------------------------------------------------------------------

TAPESTRY_OP(broadcast_to_op){{
    .name = "BroadcastTo",
    .attrs = {{"shape", AttrKind::shape}},
    .infer = [](const Call& call) -> Specs {
      const Tensor& x = call.input(0);
      Shape shape = call.attr<Shape>("shape");
      const int offset = shape.rank() - x.rank();
      require_broadcast(x.shape(), shape);
      for (int i = 0; i < shape.rank(); ++i) {
        if (shape.sizes()[i] >= 0) continue;
        if (i < offset)
          throw InvalidArgumentError(
              detail::join("broadcast_to: -1 keeps a size, but ", x.shape(), " has no axis for it in ", shape));
        shape.set(i, x.shape().sizes()[i - offset]);
      }
      return {{x.dtype(), checked(shape)}};
    },
    .view = [](const Call& call, const Spec& spec) { return view_broadcast(call.input(0), spec.shape); },
    .gradient = [](const Call&, const Tensor& g) -> Tensors { return {g}; },
    .needs = needs_nothing,
    .broadcasts = true,
    .movement = Movement::repeats,
    .batch = [](const BatchedCall& call) -> Tensors {
      const Shape& shape = call.one().attr<Shape>("shape");
      return {broadcast_to(call.aligned(0, shape.rank()), call.with_batch(shape))};
    },
}};

TAPESTRY_OP(flip_op){{
    .name = "ReverseV2",
    .attrs = {{"axis", AttrKind::numbers, optional}},
    .infer = [](const Call& call) -> Specs {
      axes_mask(call, call.input(0).rank());
      return same_shape(call);
    },
    .view =
        [](const Call& call, const Spec&) {
          const Tensor& x = call.input(0);
          Strides strides = strides_of(x);
          std::int64_t offset = 0;
          const std::uint32_t axes = x.size() == 0 ? 0 : axes_mask(call, x.rank());
          for (int i = 0; i < x.rank(); ++i) {
            if (!has_axis(axes, i)) continue;
            std::int64_t& stride = strides[i];
            offset += (x.shape().sizes()[i] - 1) * stride;
            stride = -stride;
          }
          return detail::make_view(x, x.shape(), strides, offset);
        },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors { return {apply(call.op(), {g}, call.attrs())}; },
    .needs = needs_nothing,
    .movement = Movement::moves,
    .batch = batch_beside_axis,
}};

TAPESTRY_OP(roll_op){{
    .name = "Roll",
    .attrs = {{"shift", AttrKind::number}, {"axis", AttrKind::number}},
    .infer = [](const Call& call) { return axis_of(call), same_shape(call); },
    .forward =
        [](Backend& backend, const Call& call) {
          const int axis = axis_of(call);
          const std::int64_t size = call.output().shape().sizes()[axis], shift = call.attr<std::int64_t>("shift");
          const std::int64_t head = size == 0 ? 0 : (shift % size + size) % size, tail = size - head;
          backend.copy(view_part(call.input(0), axis, 0, tail), view_part(call.output(), axis, head, tail));
          backend.copy(view_part(call.input(0), axis, tail, head), view_part(call.output(), axis, 0, head));
        },
    .composition = [](const Call& call) -> Tensors {
      const Tensor &x = call.input(0), n = size(x, axis_of(call));
      const Tensor places = cumsum(ones({x.shape()[axis_of(call)]}, {.dtype = int64}), 0, {.exclusive = true});
      return {gather(x, mod(places - call.attr<std::int64_t>("shift"), n), axis_of(call))};
    },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      const auto axis = call.attr<std::int64_t>("axis");  // a roll in reverse order undoes the roll
      return {flip(apply(call.op(), {flip(g, axis)}, call.attrs()), axis)};
    },
    .needs = needs_nothing,
    .movement = Movement::moves,
    .batch = batch_beside_axis,
}};

// ---- Element type, device, layout ---------------------------------------------------------------------------------

/// y = x, in y's element type.
constexpr auto copy_input = elementwise([](const Call&) -> Elementwise { return {.function = Convert{}}; });

TAPESTRY_OP(cast_op){{
    .name = "Cast",
    .attrs = {{"dtype", AttrKind::type}},
    .infer = [](const Call& call) -> Specs {
      return {{call.attr<DType>("dtype"), call.input(0).shape()}};
    },
    .forward = copy_input,
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      const DType from = call.input(0).dtype();
      // A graph may not know the type of g yet.
      return {is_floating(from) && is_floating(call.attr<DType>("dtype")) ? g.cast(from) : Tensor()};
    },
    .needs = needs_nothing,
}};

/// The shape of the same bits as elements of another type: one with fewer bits adds an axis, one with more takes the
/// last axis away.
Shape bitcast_shape(const Tensor& x, DType dtype) {
  const std::size_t from = size_of(x.dtype()), to = size_of(dtype);
  if (from == 0 || to == 0 || x.dtype() == boolean || dtype == boolean)
    throw InvalidArgumentError(detail::join("Cannot bitcast ", to_string(x.dtype()), " to ", to_string(dtype)));
  if (from == to || !x.shape().has_rank()) return from == to ? x.shape() : Shape::unknown_rank();
  std::vector<std::int64_t> sizes(x.shape().sizes().begin(), x.shape().sizes().end());
  if (from > to) {
    sizes.push_back(static_cast<std::int64_t>(from / to));
    return Shape(sizes);
  }
  const auto ratio = static_cast<std::int64_t>(to / from);
  if (sizes.empty() || (sizes.back() >= 0 && sizes.back() != ratio))
    throw InvalidArgumentError(detail::join("Cannot bitcast from ", to_string(x.dtype()), " to ", to_string(dtype),
                                            ": the last axis must have size ", ratio, ", and the shape is ",
                                            x.shape()));
  sizes.pop_back();
  return Shape(sizes);
}

TAPESTRY_OP(bitcast_op){{
    .name = "Bitcast",
    .attrs = {{"type", AttrKind::type}},
    .infer = [](const Call& call) -> Specs {
      const auto dtype = call.attr<DType>("type");
      return {{dtype, bitcast_shape(call.input(0), dtype)}};
    },
    .forward =
        [](Backend& backend, const Call& call) {
          const Tensor& y = call.output();
          backend.copy(detail::make_bitcast(backend.contiguous(call.input(0)), y.dtype(), y.shape()), y);
        },
    .gradient = no_gradient,
}};

TAPESTRY_OP(contiguous_op){{
    .name = "Snapshot",
    .infer = same_shape,
    .forward = copy_input,
    .gradient = [](const Call&, const Tensor& g) -> Tensors { return {g}; },
    .needs = needs_nothing,
}};

/// Copies from one accelerator to another without the host. Returns false if that cannot be done.
bool copy_from_peer(Backend& backend, const Tensor& x, const Tensor& y) {
  Backend& there = backend_of(x.device());
  const Tensor from = there.contiguous(x);
  return backend.copy_from_peer(there, y.impl().data, from.impl().data, detail::nbytes(x));
}

/// A view only in form: the dispatcher would allocate the output on the input's device.
TAPESTRY_OP(device_copy_op){{
    .name = "DeviceCopy",
    .attrs = {{"device", AttrKind::device}},
    .infer = same_shape,
    .view =
        [](const Call& call, const Spec& spec) {
          const auto device = call.attr<Device>("device");
          const Tensor& x = call.input(0);
          Backend& backend = backend_of(device);
          if (device.is_cpu()) return detail::on_host(x);
          Tensor copy = detail::make_tensor(spec.dtype, spec.shape, device);
          if (!x.device().is_cpu() && copy_from_peer(backend, x, copy)) return copy;
          const Tensor host = detail::on_host(x);
          backend.copy_from_host(copy.impl().data, host.impl().data, detail::nbytes(host));
          return copy;
        },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors { return {g.to(call.input(0).device())}; },
    .needs = needs_nothing,
    .batch = batch_in_front,
}};

// ---- shape, size --------------------------------------------------------------------------------------------------

TAPESTRY_OP(shape_op){{
    .name = "Shape",
    .infer = [](const Call& call) -> Specs {
      return {{int64, {call.input(0).rank()}}};
    },
    .forward =
        [](Backend& backend, const Call& call) {
          const Shape& shape = call.input(0).shape();
          backend.copy_from_host(call.output().impl().data, shape.sizes().data(), shape.rank() * sizeof(std::int64_t));
        },
    .gradient = no_gradient,
    .shape_inputs = 1,
}};

TAPESTRY_OP(size_op){{
    .name = "Size",
    .infer = [](const Call&) -> Specs {
      return {{int64, {}}};
    },
    .forward =
        [](Backend& backend, const Call& call) {
          const std::int64_t size = call.input(0).size();
          backend.copy_from_host(call.output().impl().data, &size, sizeof size);
        },
    .gradient = no_gradient,
    .shape_inputs = 1,
}};

/// The attributes of an op along axes: none for all of them.
Attrs axis_attrs(const Axes& axes) { return axes.all() ? Attrs{} : Attrs{{"axis", axes.list()}}; }

}  // namespace

Tensor identity(In x, std::string_view name) { return apply(identity_op, {std::move(x)}, {}, name); }
Tensor ensure_shape(In x, const Shape& shape, std::string_view name) {
  return apply(ensure_shape_op, {std::move(x)}, {{"shape", shape}}, name);
}
Tensor stop_gradient(In x, std::string_view name) { return apply(stop_gradient_op, {std::move(x)}, {}, name); }
Tensor reshape(In x, const Shape& shape, std::string_view name) {
  if (!has_source(shape)) return apply(reshape_op, {x}, {{"shape", shape}}, name);
  const CallSiteScope site(x.where());
  return reshape_like(x, fill_like(shape, 0, {x->dtype(), x->device()}, x, {}, x.where()), name);
}
Tensor transpose(In x, const Ints& perm, std::string_view name) {
  return apply(transpose_op, {std::move(x)}, perm.empty() ? Attrs{} : Attrs{{"perm", perm}}, name);
}
Tensor squeeze(In x, const Axes& axes, std::string_view name) {
  return apply(squeeze_op, {std::move(x)}, axis_attrs(axes), name);
}
Tensor expand_dims(In x, const Axes& axes, std::string_view name) {
  return apply(expand_dims_op, {std::move(x)}, {{"axis", axes.list()}}, name);
}
Tensor broadcast_to(In x, const Shape& shape, std::string_view name) {
  if (!has_source(shape)) return apply(broadcast_to_op, {x}, {{"shape", shape}}, name);
  return blaming(broadcast_to_op.name, x.where(), [&] {
    Shape whole = shape;  // an unknown size without a source stays that of x
    for (int i = 0, own = rank_of(x) - shape.rank(); i < shape.rank(); ++i, ++own)
      if (shape.sizes()[i] < 0 && !shape.source(i).tensor && own >= 0) whole.set(i, x->shape()[own]);
    return broadcast_like(x, fill_like(whole, 0, {x->dtype(), x->device()}, {}, {}, x.where()), name);
  });
}
Tensor flip(In x, const Axes& axes, std::string_view name) {
  return apply(flip_op, {std::move(x)}, axis_attrs(axes), name);
}
Tensor roll(In x, std::int64_t shift, std::int64_t axis, std::string_view name) {
  return apply(roll_op, {std::move(x)}, {{"shift", shift}, {"axis", axis}}, name);
}
Tensor shape(In x, std::string_view name) {
  return apply(shape_op, {x}, {}, detail::plain_name(name, detail::Worded::result, x.where()));
}
Tensor size(In x, std::string_view name) {
  return apply(size_op, {x}, {}, detail::plain_name(name, detail::Worded::result, x.where()));
}
Tensor size(In x, std::int64_t axis, std::string_view name) {
  return blaming("Size", x.where(), [&] {
    if (x->shape().has_rank()) normalize_axis(axis, x->rank());
    return named(shape(x)(axis), detail::plain_name(name, detail::Worded::result, x.where()));
  });
}

Tensor cast(In x, DType dtype, std::string_view name) {
  // The view of a C++ number is an ordinary tensor, without a weak type.
  Tensor given = x.is_number() ? view_as(x.tensor(), {}) : x.tensor();
  if (bool(given) && given.dtype() == dtype) return given;
  return apply(cast_op, {In(given, x.where())}, {{"dtype", dtype}}, name);
}
Tensor bitcast(const Tensor& x, DType dtype) { return apply(bitcast_op, {x}, {{"type", dtype}}); }

Tensor Tensor::cast(DType dtype, Where where) const { return tapestry::cast(In(*this, where), dtype); }

Tensor Tensor::to(Device device, Where where) const {
  if (impl_ && this->device() == device) return *this;
  return apply(device_copy_op, {In(*this, where)}, {{"device", device}});
}

Tensor Tensor::contiguous(Where where) const {
  // Only the plan knows the strides of a symbolic tensor. A tape sees an op in any case, so that gradients are added in
  // the same order.
  if (impl_ && !is_symbolic() && is_contiguous()) return recorders().empty() ? *this : identity(In(*this, where));
  return apply(contiguous_op, {In(*this, where)});
}

namespace ops {
const Op &cast = cast_op, &device_copy = device_copy_op, &identity = identity_op, &snapshot = contiguous_op;
const Op &broadcast_to = broadcast_to_op, &expand_dims = expand_dims_op, &reshape = reshape_op,
         &transpose = transpose_op, &shape = shape_op;
}  // namespace ops

}  // namespace tapestry
