#include <algorithm>

#include "backend/views.hpp"
#include "ops/batching.hpp"
#include "ops/support.hpp"
#include "tapestry/ops/array.hpp"

TAPESTRY_OP_FAMILY(array_extend)

namespace tapestry {
namespace {

// ---- tile, repeat -------------------------------------------------------------------------------------------------

/// One repetition: a row-major tensor seen as [outer, block] becomes [outer, times, block].
struct Repetition {
  std::int64_t outer, times, block;
};
using Repetitions = SmallVector<Repetition, 4>;

/// The repetitions of a call of `tile` ("multiples": one per axis) or `repeat` ("axis", "repeats"). The rank stays
/// below Shape::max_rank, which all axes interleaved with their multiples would exceed.
Repetitions repetitions_of(const Call& call, const Shape& shape) {
  const int rank = shape.rank();
  if (!call.attrs().find("multiples")) {
    const int axis = normalize_axis(call.attr<std::int64_t>("axis"), rank);
    return {
        {size_between(shape, 0, axis + 1), call.attr<std::int64_t>("repeats"), size_between(shape, axis + 1, rank)}};
  }
  const Ints& multiples = call.attr<Ints>("multiples");
  Repetitions repetitions;
  std::int64_t block = 1;
  for (int axis = rank - 1; axis >= 0; --axis) {
    const std::int64_t times = multiples[axis];
    block *= shape.sizes()[axis];
    if (times != 1) repetitions.push_back({size_between(shape, 0, axis), times, block});
    block *= times;
  }
  return repetitions;
}

Shape repeated_shape(const Call& call, Shape shape) {
  const auto grow = [&](int axis, std::int64_t times) {
    if (times < 0) throw InvalidArgumentError(detail::join("Expected multiples[", axis, "] >= 0, but got ", times));
    if (shape.sizes()[axis] >= 0) shape.set(axis, multiply_sizes(shape.sizes()[axis], times));
  };
  if (!call.attrs().find("multiples")) {
    grow(normalize_axis(call.attr<std::int64_t>("axis"), shape.rank()), call.attr<std::int64_t>("repeats"));
    return checked(shape);
  }
  const Ints& multiples = call.attr<Ints>("multiples");
  if (static_cast<int>(multiples.size()) != shape.rank())
    throw InvalidArgumentError(detail::join("Expected multiples argument to be a vector of length ", shape.rank(),
                                            " but got length ", multiples.size()));
  for (int axis = 0; axis < shape.rank(); ++axis) grow(axis, multiples[axis]);
  return checked(shape);
}

/// Runs the repetitions one after the other, from x over buffers of their own to y. `run` does one of them, from a
/// contiguous tensor to one with `size_after(repetition)` elements.
void run_steps(Backend& backend, const Tensor& x, const Tensor& y, const Repetitions& repetitions, auto size_after,
               auto run) {
  if (repetitions.empty()) return backend.copy(x, y);
  Tensor current = backend.contiguous(x);
  for (const Repetition& repetition : repetitions) {
    const bool last = &repetition == &repetitions.back();
    const Tensor next = last ? y : detail::make_tensor(y.dtype(), {size_after(repetition)}, y.device());
    run(repetition, current, next);
    current = next;
  }
}

Tensors batch_repetition(const BatchedCall& call) {
  const Ints* multiples = call.one().attrs().find<Ints>("multiples");
  if (!multiples) return batch_beside_axis(call);
  return call.apply(call.all(), {{"multiples", with_front({1}, *multiples)}});
}

Tensors batch_padding(const BatchedCall& call) {
  const Attrs& attrs = call.one().attrs();
  return call.apply(call.all(), with_attr(attrs, "paddings", with_front({0, 0}, attrs.get<Ints>("paddings"))));
}

/// Sums g, of the repeated shape, to the shape of the second input, which was repeated by the same attributes.
TAPESTRY_OP(tile_grad_op){{
    .name = "TileGrad",
    .attrs = {{"multiples", AttrKind::numbers, optional},
              {"repeats", AttrKind::number, optional},
              {"axis", AttrKind::number, optional}},
    .infer = [](const Call& call) -> Specs {
      require_type(call.input(0), number_types);
      require_same_shape(call.input(0).shape(), repeated_shape(call, call.input(1).shape()));
      return like_second(call);
    },
    .forward =
        [](Backend& backend, const Call& call) {
          if (call.output().size() == 0) return;
          if (call.input(0).size() == 0) return backend.fill(0, call.output());
          Repetitions repetitions = repetitions_of(call, call.output().shape());
          std::reverse(repetitions.begin(), repetitions.end());
          run_steps(
              backend, call.input(0), call.output(), repetitions, [](const Repetition& r) { return r.outer * r.block; },
              [&](const Repetition& r, const Tensor& from, const Tensor& to) {
                backend.reduce(ReduceFunction::sum, view_as(from, {r.outer, r.times, r.block}), 1U << 1,
                               view_as(to, {r.outer, r.block}));
              });
        },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      const Ints* multiples = call.attrs().find<Ints>("multiples");
      return {multiples ? tile(g, *multiples)
                        : repeat(g, call.attr<std::int64_t>("repeats"), call.attr<std::int64_t>("axis")),
              Tensor()};
    },
    .needs = needs_nothing,
    .shape_inputs = 2,
    .batch = batch_repetition,
}};

Op repeating_op(const char* name, std::vector<OpAttr> attrs) {
  return {
      .name = name,
      .attrs = std::move(attrs),
      .infer = [](const Call& call) -> Specs {
        return {{call.input(0).dtype(), repeated_shape(call, call.input(0).shape())}};
      },
      .forward =
          [](Backend& backend, const Call& call) {
            if (call.output().size() == 0) return;
            run_steps(
                backend, call.input(0), call.output(), repetitions_of(call, call.input(0).shape()),
                [](const Repetition& r) { return r.outer * r.times * r.block; },
                [&](const Repetition& r, const Tensor& from, const Tensor& to) {
                  const Shape repeated{r.outer, r.times, r.block};
                  backend.copy(view_broadcast(view_as(from, {r.outer, 1, r.block}), repeated), view_as(to, repeated));
                });
          },
      .gradient = [](const Call& call, const Tensor& g) -> Tensors {
        return {apply(tile_grad_op, {g, call.input(0)}, call.attrs())};
      },
      .needs = needs_nothing,
      .movement = Movement::moves,
      .batch = batch_repetition,
  };
}
TAPESTRY_OP(tile_op)(repeating_op("Tile", {{"multiples", AttrKind::numbers}}));
TAPESTRY_OP(repeat_op)(repeating_op("Repeat", {{"repeats", AttrKind::number}, {"axis", AttrKind::number}}));

// ---- pad ----------------------------------------------------------------------------------------------------------

Shape padded_shape(const Call& call, Shape shape) {
  const Ints& paddings = call.attr<Ints>("paddings");
  if (paddings.size() != 2 * static_cast<std::size_t>(shape.rank()))
    throw InvalidArgumentError(detail::join("The first dimension of paddings must be the rank of inputs: ",
                                            paddings.size() / 2, " pairs for shape ", shape));
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const std::int64_t before = paddings[2 * axis];
    const std::int64_t after = paddings[2 * axis + 1];
    if (before < 0 || after < 0)
      throw InvalidArgumentError(detail::join("Paddings must be non-negative: ", before, " ", after));
    if (shape.sizes()[axis] >= 0) shape.set(axis, add_sizes(add_sizes(shape.sizes()[axis], before), after));
  }
  return checked(shape);
}

/// The part of a padded tensor that is not padding, as a view of the given shape.
Tensor view_inside(const Call& call, const Tensor& padded, const Shape& shape) {
  const Ints& paddings = call.attr<Ints>("paddings");
  std::int64_t offset = 0;
  if (shape.size() > 0)
    for (std::size_t axis = 0; axis < padded.strides().size(); ++axis)
      offset += paddings[2 * axis] * padded.strides()[axis];
  return detail::make_view(padded, shape, padded.strides(), offset);
}

Tensor pad_by(const Tensor& x, const Ints& paddings);

/// The elements of g inside the padding that was put around the second input.
TAPESTRY_OP(pad_grad_op){{
    .name = "PadGrad",
    .attrs = {{"paddings", AttrKind::numbers}},
    .infer = [](const Call& call) -> Specs {
      require_same_shape(call.input(0).shape(), padded_shape(call, call.input(1).shape()));
      return like_second(call);
    },
    .view = [](const Call& call, const Spec& spec) { return view_inside(call, call.input(0), spec.shape); },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      return {pad_by(g, call.attr<Ints>("paddings")), Tensor()};
    },
    .needs = needs_nothing,
    .shape_inputs = 2,
    .batch = batch_padding,
}};

TAPESTRY_OP(pad_op){{
    .name = "PadV2",
    .attrs = {{"paddings", AttrKind::numbers}, {"constant_values", AttrKind::real}},
    .infer = [](const Call& call) -> Specs {
      require_fits(call.attr<double>("constant_values"), call.input(0).dtype());
      return {{call.input(0).dtype(), padded_shape(call, call.input(0).shape())}};
    },
    .forward =
        [](Backend& backend, const Call& call) {
          backend.fill(call.attr<double>("constant_values"), call.output());
          backend.copy(call.input(0), view_inside(call, call.output(), call.input(0).shape()));
        },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      return {apply(pad_grad_op, {g, call.input(0)}, {{"paddings", call.attr<Ints>("paddings")}})};
    },
    .needs = needs_nothing,
    .batch = batch_padding,
}};

Tensor pad_by(const Tensor& x, const Ints& paddings) {
  return apply(pad_op, {x}, {{"paddings", paddings}, {"constant_values", 0.0}});
}

/// `count` elements along an axis from `begin` on.
Tensor part_of(const Tensor& x, int axis, std::int64_t begin, std::int64_t count) {
  const auto rank = static_cast<std::size_t>(x.rank());
  Ints begins(rank), sizes(rank, -1);
  begins[axis] = begin;
  sizes[axis] = count;
  return slice(x, begins, sizes);
}

/// x with mirrored borders along one axis; `skip` is 1 when the element at the edge is not repeated.
Tensor mirror(const Tensor& x, int axis, Padding padding, std::int64_t skip) {
  const std::int64_t size = x.shape().sizes()[axis], widest = std::max(padding.before, padding.after);
  if (padding.before < 0 || padding.after < 0)
    throw InvalidArgumentError(detail::join("Paddings must be non-negative: ", padding.before, " ", padding.after));
  if (size >= 0 && widest > size - skip)
    throw InvalidArgumentError(detail::join("paddings must be ", skip ? "less than" : "no greater than",
                                            " the dimension size: ", padding.before, ", ", padding.after, " for ",
                                            size));
  // The padding at the end is the beginning of the flipped tensor, so that the size need not be known.
  return concat(
      {flip(part_of(x, axis, skip, padding.before), axis), x, part_of(flip(x, axis), axis, skip, padding.after)}, axis);
}

Tensor mirror_pad(In x, const std::vector<Padding>& paddings, PadMode mode, std::string_view name) {
  return blaming("MirrorPad", x.where(), [&] {
    if (paddings.size() != static_cast<std::size_t>(rank_of(x)))
      throw InvalidArgumentError(detail::join("The first dimension of paddings must be the rank of inputs: ",
                                              paddings.size(), " pairs for shape ", x->shape()));
    Tensor padded = x;
    for (std::size_t axis = 0; axis < paddings.size(); ++axis)
      padded = mirror(padded, static_cast<int>(axis), paddings[axis], mode == PadMode::reflect ? 1 : 0);
    return identity(padded, name);
  });
}

}  // namespace

Tensor tile(In x, const Ints& multiples, std::string_view name) {
  return apply(tile_op, {std::move(x)}, {{"multiples", multiples}}, name);
}

Tensor repeat(In x, std::int64_t repeats, std::int64_t axis, std::string_view name) {
  return apply(repeat_op, {std::move(x)}, {{"repeats", repeats}, {"axis", axis}}, name);
}

Tensor repeat(In x, std::int64_t repeats, std::string_view name) {
  const Where where = x.where();
  return repeat(In(reshape(x, {-1}), where), repeats, 0, name);
}

Tensor pad(In x, const std::vector<Padding>& paddings, const PadOptions& options, std::string_view name) {
  detail::plain_name(name, detail::Worded::pad_mode, x.where());
  if (options.mode != PadMode::constant) return mirror_pad(x, paddings, options.mode, name);
  Ints flat;
  for (const Padding& each : paddings) {
    flat.push_back(each.before);
    flat.push_back(each.after);
  }
  return apply(pad_op, {x}, {{"paddings", flat}, {"constant_values", options.value}}, name);
}

}  // namespace tapestry
