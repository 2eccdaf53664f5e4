#include <algorithm>
#include <array>

#include "backend/views.hpp"
#include "ops/batching.hpp"
#include "ops/support.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/creation.hpp"

TAPESTRY_OP_FAMILY(array_join)

namespace tapestry {
namespace {

/// The gradients of a call's outputs, with zeros for those where nothing flows.
Tensors with_zeros(const Call& call, const Tensors& gradients) {
  Tensors full = gradients;
  for (std::size_t i = 0; i < full.size(); ++i)
    if (!full[i]) full[i] = zeros_like(call.output(i));
  return full;
}

/// Sets the unknown sizes of `shape` to those of `other`, except along the axis `but`. Throws InvalidArgumentError when
/// the ranks, or known sizes of another axis, differ.
void merge_sizes(Shape& shape, const Shape& other, int but, const char* op) {
  bool agree = shape.rank() == other.rank();
  for (int i = 0; agree && i < shape.rank(); ++i) {
    if (i == but) continue;
    agree = sizes_agree(shape.sizes()[i], other.sizes()[i]);
    if (shape.sizes()[i] < 0) shape.set(i, other.sizes()[i]);
  }
  if (!agree)
    throw InvalidArgumentError(
        detail::join(op, " : Dimensions of inputs should match: shape[0] = ", shape, " vs. ", other));
}

/// The shape of the concatenation, along the axis of the call, of the inputs from `first` on.
Shape joined_shape(const Call& call, std::size_t first) {
  Shape shape = call.input(first).shape();
  const int axis = normalize_axis(call.attr<std::int64_t>("axis"), shape.rank());
  std::int64_t total = 0;
  for (std::size_t i = first; i < call.inputs().size(); ++i) {
    merge_sizes(shape, call.input(i).shape(), axis, "ConcatOp");
    const std::int64_t size = call.input(i).shape().sizes()[axis];
    total = total < 0 || size < 0 ? -1 : add_sizes(total, size);
  }
  shape.set(axis, total);
  return checked(shape);
}

/// Views of the parts of x that lie one after another along an axis, and have the sizes of `like` there.
Tensors parts_of(const Tensor& x, int axis, const Tensors& like) {
  Tensors parts;
  std::int64_t begin = 0;
  for (const Tensor& each : like) {
    const std::int64_t size = each.shape().sizes()[axis];
    parts.push_back(view_part(x, axis, begin, size));
    begin += size;
  }
  return parts;
}

/// Views of x at each index of an axis.
Tensors slices_of(const Tensor& x, int axis) {
  Tensors slices;
  for (std::int64_t i = 0; i < x.shape().sizes()[axis]; ++i) slices.push_back(view_at(x, axis, i));
  return slices;
}

// ---- concat -------------------------------------------------------------------------------------------------------

/// Splits g into tensors of the other inputs' shapes.
TAPESTRY_OP(concat_grad_op){{
    .name = "ConcatGrad",
    .attrs = {{"axis", AttrKind::number}},
    .infer = [](const Call& call) -> Specs {
      require_same_shape(call.input(0).shape(), joined_shape(call, 1));
      Specs specs;
      for (std::size_t i = 1; i < call.inputs().size(); ++i)
        specs.push_back({call.input(0).dtype(), call.input(i).shape()});
      return specs;
    },
    .forward =
        [](Backend& backend, const Call& call) {
          backend.copy_each(parts_of(call.input(0), axis_of(call), call.outputs()), call.outputs());
        },
    .gradient = [](const Call& call, const Tensors& g) -> Tensors {
      Tensors gradients(call.inputs().size());
      gradients[0] = concat(with_zeros(call, g), call.attr<std::int64_t>("axis"));
      return gradients;
    },
    .needs = needs_nothing,
    .shape_inputs = ~1U,
    .outputs = -1,
    .batch = batch_beside_axis,
}};

TAPESTRY_OP(concat_op){{
    .name = "ConcatV2",
    .attrs = {{"axis", AttrKind::number}},
    .infer = [](const Call& call) -> Specs {
      if (call.inputs().empty()) throw InvalidArgumentError("ConcatOp : Expected at least one tensor");
      return {{call.input(0).dtype(), joined_shape(call, 0)}};
    },
    .forward =
        [](Backend& backend, const Call& call) {
          const int axis = axis_of(call);
          if (!backend.join(call.inputs(), axis, call.output()))
            backend.copy_each(call.inputs(), parts_of(call.output(), axis, call.inputs()));
        },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      Tensors inputs{g};
      inputs.append(call.inputs().begin(), call.inputs().end());
      return apply_all(concat_grad_op, inputs, call.attrs(), {}, call.where());
    },
    .promotion = common_type,
    .needs = needs_nothing,
    .movement = Movement::joins,
    .batch = batch_beside_axis,
}};

// ---- stack, unstack -----------------------------------------------------------------------------------------------

TAPESTRY_OP(stack_op){{
    .name = "Pack",
    .attrs = {{"axis", AttrKind::number}},
    .infer = [](const Call& call) -> Specs {
      if (call.inputs().empty()) throw InvalidArgumentError("Pack : Expected at least one tensor");
      Shape shape = call.input(0).shape();
      for (const Tensor& input : call.inputs()) merge_sizes(shape, input.shape(), -1, "Pack");
      const int axis = normalize_axis(call.attr<std::int64_t>("axis"), shape.rank() + 1);
      shape.insert(axis, static_cast<std::int64_t>(call.inputs().size()));
      return {{call.input(0).dtype(), shape}};
    },
    .forward =
        [](Backend& backend, const Call& call) {
          const Tensor& y = call.output();
          const int axis = normalize_axis(call.attr<std::int64_t>("axis"), y.rank());
          if (!backend.join(call.inputs(), axis, y)) backend.copy_each(call.inputs(), slices_of(y, axis));
        },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      const auto axis = call.attr<std::int64_t>("axis");
      if (g.shape().has_rank()) return Tensors(unstack(g, axis));
      Tensors parts;
      for (const Tensor& each : split(g, static_cast<std::int64_t>(call.inputs().size()), axis))
        parts.push_back(squeeze(each, {axis}));
      return parts;
    },
    .promotion = common_type,
    .needs = needs_nothing,
    .movement = Movement::joins,
    .batch = batch_beside_axis,
}};

TAPESTRY_OP(unstack_op){{
    .name = "Unpack",
    .attrs = {{"axis", AttrKind::number}},
    .infer = [](const Call& call) -> Specs {
      const Tensor& x = call.input(0);
      const int axis = axis_of(call);
      if (x.shape().sizes()[axis] < 0)
        throw InvalidArgumentError(detail::join("Cannot infer argument `num` from shape ", x.shape()));
      require_few_results(x.shape().sizes()[axis]);
      Shape shape = x.shape();
      shape.erase(axis);
      return Specs(static_cast<std::size_t>(x.shape().sizes()[axis]), Spec{x.dtype(), shape});
    },
    .forward = [](Backend& backend,
                  const Call& call) { backend.copy_each(slices_of(call.input(0), axis_of(call)), call.outputs()); },
    .gradient = [](const Call& call, const Tensors& g) -> Tensors {
      return {stack(with_zeros(call, g), call.attr<std::int64_t>("axis"))};
    },
    .needs = needs_nothing,
    .movement = Movement::moves,
    .outputs = -1,
    .batch = batch_beside_axis,
}};

// ---- split --------------------------------------------------------------------------------------------------------

/// The sizes of the parts that an axis of the given size (-1: unknown) is split into.
Ints part_sizes(const Call& call, std::int64_t size) {
  if (const auto* num_split = call.attrs().find<std::int64_t>("num_split")) {
    const std::int64_t count = *num_split;
    if (count < 1) throw InvalidArgumentError(detail::join("Number of ways to split should be > 0, but got ", count));
    require_few_results(count);
    if (size >= 0 && size % count != 0)
      throw InvalidArgumentError(detail::join("Dimension size must be evenly divisible by ", count, " but is ", size));
    return Ints(static_cast<std::size_t>(count), size < 0 ? -1 : size / count);
  }
  Ints sizes = call.attr<Ints>("size_splits");
  const auto open = std::find(sizes.begin(), sizes.end(), -1);
  std::int64_t total = 0;
  for (const std::int64_t each : sizes) {
    if (each < -1) throw InvalidArgumentError(detail::join("Split sizes must be >= 0, but one is ", each));
    if (each >= 0 && __builtin_add_overflow(total, each, &total))
      throw InvalidArgumentError("The sum of the split sizes does not fit 64 bits");
  }
  if (std::count(sizes.begin(), sizes.end(), -1) > 1)
    throw InvalidArgumentError("There can only be one -1 in the split sizes");
  if (size < 0 && sizes.empty()) throw InvalidArgumentError("An axis of unknown size cannot be split into no parts");
  if (size < 0) return sizes;
  if (open == sizes.end() ? total != size : total > size)
    throw InvalidArgumentError(
        detail::join("Determined shape must either match input shape along split_dim exactly if fully specified, or be "
                     "less than the "
                     "size of the input along split_dim if not fully specified.  Got: ",
                     total, " for size ", size));
  if (open != sizes.end()) *open = size - total;
  return sizes;
}

Op splitting_op(const char* name, std::vector<OpAttr> attrs) {
  return {
      .name = name,
      .attrs = std::move(attrs),
      .infer = [](const Call& call) -> Specs {
        const Tensor& x = call.input(0);
        const int axis = axis_of(call);
        Specs specs;
        for (const std::int64_t size : part_sizes(call, x.shape().sizes()[axis])) {
          Shape part = x.shape();
          part.set(axis, size);
          specs.push_back({x.dtype(), part});
        }
        return specs;
      },
      .forward =
          [](Backend& backend, const Call& call) {
            backend.copy_each(parts_of(call.input(0), axis_of(call), call.outputs()), call.outputs());
          },
      .gradient = [](const Call& call, const Tensors& g) -> Tensors {
        return {concat(with_zeros(call, g), call.attr<std::int64_t>("axis"))};
      },
      .needs = needs_nothing,
      .movement = Movement::moves,
      .outputs = -1,
      .batch = batch_beside_axis,
  };
}
TAPESTRY_OP(split_op)(splitting_op("Split", {{"num_split", AttrKind::number}, {"axis", AttrKind::number}}));
TAPESTRY_OP(split_sizes_op)(splitting_op("SplitV", {{"size_splits", AttrKind::numbers}, {"axis", AttrKind::number}}));

}  // namespace

Tensor concat(const InList& tensors, std::int64_t axis, std::string_view name) {
  return apply_all(concat_op, tensors.tensors(), {{"axis", axis}}, name, tensors.where())[0];
}

Tensor stack(const InList& tensors, std::int64_t axis, std::string_view name) {
  return apply_all(stack_op, tensors.tensors(), {{"axis", axis}}, name, tensors.where())[0];
}

std::vector<Tensor> unstack(In x, std::int64_t axis, std::string_view name) {
  return apply_all(unstack_op, {x}, {{"axis", axis}}, name, x.where());
}

std::vector<Tensor> split(In x, const SplitParts& parts, std::int64_t axis, std::string_view name) {
  if (!parts.listed()) return apply_all(split_op, {x}, {{"num_split", parts.count()}, {"axis", axis}}, name, x.where());
  return apply_all(split_sizes_op, {x}, {{"size_splits", parts.sizes()}, {"axis", axis}}, name, x.where());
}

}  // namespace tapestry
