#include "tapestry/ops/creation.hpp"

#include <algorithm>
#include <cmath>

#include "backend/views.hpp"
#include "ops/handles.hpp"
#include "ops/support.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/math.hpp"

TAPESTRY_OP_FAMILY(creation)

namespace tapestry {
namespace {

/// The one output of an op without inputs: the attributes tell its dtype and shape.
Specs by_attributes(const Call& call) { return {{call.attr<DType>("dtype"), call.attr<Shape>("shape")}}; }

/// The dtype of a tensor that is filled with the attribute "value".
DType filled_type(const Call& call) {
  const DType dtype = call.attr<DType>("dtype");
  require_fits(call.attr<double>("value"), dtype);
  return dtype;
}

TAPESTRY_OP(fill_op){{
    .name = "Fill",
    .attrs = {{"dtype", AttrKind::type},
              {"shape", AttrKind::shape},
              {"value", AttrKind::real},
              {"device", AttrKind::device, optional}},
    .infer = [](const Call& call) -> Specs {
      return {{filled_type(call), call.attr<Shape>("shape")}};
    },
    .forward = [](Backend& backend, const Call& call) { backend.fill(call.attr<double>("value"), call.output()); },
    .gradient = no_gradient,
}};

Specs infer_range(const Call& call) {
  Specs specs = by_attributes(call);
  const auto last = static_cast<double>(specs[0].shape.num_elements() - 1);
  const double start = call.attr<double>("start"), delta = call.attr<double>("delta");
  if (last >= 0) require_fits(start, specs[0].dtype);
  if (last >= 1) require_fits(start + delta, specs[0].dtype);
  if (last >= 1) require_fits(start + delta * last, specs[0].dtype);
  return specs;
}

TAPESTRY_OP(range_op){{
    .name = "Range",
    .attrs = {{"dtype", AttrKind::type},
              {"shape", AttrKind::shape},
              {"start", AttrKind::real},
              {"delta", AttrKind::real},
              {"device", AttrKind::device, optional}},
    .infer = infer_range,
    .forward =
        [](Backend& backend, const Call& call) {
          backend.iota(call.attr<double>("start"), call.attr<double>("delta"), call.output());
        },
    .gradient = no_gradient,
}};

TAPESTRY_OP(linspace_op){{
    .name = "LinSpace",
    .attrs = {{"dtype", AttrKind::type},
              {"shape", AttrKind::shape},
              {"start", AttrKind::real},
              {"stop", AttrKind::real},
              {"device", AttrKind::device, optional}},
    .infer = by_attributes,
    .forward =
        [](Backend& backend, const Call& call) {
          const Tensor& y = call.output();
          const double start = call.attr<double>("start"), stop = call.attr<double>("stop");
          const std::int64_t last = y.size() - 1;
          backend.iota(start, last > 0 ? (stop - start) / static_cast<double>(last) : 0, y);
          // start + last * step may miss the end by a rounding.
          if (last > 0) backend.fill(stop, view_part(y, 0, last, 1));
        },
    .gradient = no_gradient,
}};

/// The shape of a FillLike is the attribute "shape". For each of its unknown sizes, in order, "sizes_of" has a pair
/// (input, axis): the size is that of this axis. The axis -1 stands for the number of elements of the input divided by
/// the other sizes.
Shape shape_like_inputs(const Call& call) {
  Shape shape = call.attr<Shape>("shape");
  const Ints& sizes_of = call.attr<Ints>("sizes_of");
  std::size_t next = 0;
  const Tensor* rest = nullptr;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape.sizes()[i] >= 0) continue;
    if (next + 2 > sizes_of.size()) throw InvalidArgumentError("FillLike: sizes_of is too short");
    const std::int64_t input = sizes_of[next], axis = sizes_of[next + 1];
    next += 2;
    if (input < 0 || (axis < 0 && (axis != -1 || rest)))
      throw InvalidArgumentError(detail::join("FillLike: there is no axis ", axis, " of an input ", input));
    const Tensor& source = call.input(input);
    if (axis < 0) {
      rest = &source;
    } else {
      shape.set(i, source.shape().sizes()[normalize_axis(axis, source.rank())]);
    }
  }
  if (next != sizes_of.size()) throw InvalidArgumentError("FillLike: sizes_of is too long");
  if (!rest || std::ranges::count(shape.sizes(), -1) > 1) return checked(shape);
  return reshaped(rest->shape().num_elements(), checked(shape));
}

TAPESTRY_OP(fill_like_op){{
    .name = "FillLike",
    .attrs = {{"dtype", AttrKind::type},
              {"shape", AttrKind::shape},
              {"sizes_of", AttrKind::numbers},
              {"value", AttrKind::real},
              {"device", AttrKind::device, optional}},
    .infer = [](const Call& call) -> Specs {
      return {{filled_type(call), shape_like_inputs(call)}};
    },
    .forward = [](Backend& backend, const Call& call) { backend.fill(call.attr<double>("value"), call.output()); },
    .gradient = no_gradient,
    .needs = needs_nothing,
    .shape_inputs = ~0U,
}};

template <int value>
Op constant_like(const char* name) {
  return {
      .name = name,
      .infer = same_shape,
      .forward = [](Backend& backend, const Call& call) { backend.fill(value, call.output()); },
      .gradient = no_gradient,
      .shape_inputs = 1,
  };
}
TAPESTRY_OP(zeros_like_op)(constant_like<0>("ZerosLike"));
TAPESTRY_OP(ones_like_op)(constant_like<1>("OnesLike"));

DType type_or(const TensorOptions& options, DType natural) {
  return options.dtype == DType::unknown ? natural : options.dtype;
}

Tensor fill(const Shape& shape, double value, DType dtype, Device device, std::string_view name, Where where) {
  if (!shape.is_known()) return fill_like(shape, value, {dtype, device}, Tensor(), name, where);
  return apply_all(fill_op, {}, {{"dtype", dtype}, {"shape", shape}, {"value", value}, {"device", device}}, name,
                   where)[0];
}

/// Whether a double is the number, not a neighbour to which it was rounded.
bool is_exact(double number) { return std::abs(number) < 0x1p53; }

}  // namespace

Tensor fill_like(const Shape& shape, double value, const TensorOptions& options, const Tensor& rest,
                 std::string_view name, Where where) {
  if (!shape.has_rank())
    throw InvalidArgumentError("A tensor needs a shape, of which not even the rank is known", fill_op.name, where);
  Tensors inputs;
  Ints sizes_of;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape.sizes()[i] >= 0) continue;
    const detail::UnknownSize source = shape.source(i);
    if (!source.tensor && !rest)
      throw InvalidArgumentError(detail::join("A tensor cannot be made of the partly unknown shape ", shape),
                                 fill_op.name, where);
    const Tensor tensor = source.tensor ? source.tensor->tensor() : rest;
    const auto known = std::ranges::find_if(inputs, [&](const Tensor& input) { return input.is(tensor); });
    sizes_of.push_back(known - inputs.begin());
    sizes_of.push_back(source.tensor ? source.axis : -1);
    if (known == inputs.end()) inputs.push_back(tensor);
  }
  return apply_all(fill_like_op, inputs,
                   {{"dtype", options.dtype},
                    {"shape", Shape(shape.sizes())},
                    {"sizes_of", sizes_of},
                    {"value", value},
                    {"device", options.device}},
                   name, where)[0];
}

Tensor zeros(const Shape& shape, const TensorOptions& options, std::string_view name, Where where) {
  return fill(shape, 0, type_or(options, float32), options.device, name, where);
}

Tensor ones(const Shape& shape, const TensorOptions& options, std::string_view name, Where where) {
  return fill(shape, 1, type_or(options, float32), options.device, name, where);
}

Tensor full(const Shape& shape, In value, const TensorOptions& options, std::string_view name) {
  if (!value.tensor()) return broadcast_to(value, shape, name);  // which refuses it
  const DType natural = value.is_number() && is_floating(value->dtype()) ? float32 : value->dtype();
  const DType dtype = type_or(options, natural);
  if (value.is_number() && (dtype != int64 || is_floating(value->dtype()) || is_exact(value->item<double>())))
    return fill(shape, value->item<double>(), dtype, options.device, name, value.where());
  const Where where = value.where();
  const Tensor element = value.as(dtype).to(options.device, where);
  return broadcast_to(In(element, where), shape, name).contiguous(where);
}

Tensor zeros_like(In x, std::string_view name) { return apply(zeros_like_op, {std::move(x)}, {}, name); }
Tensor ones_like(In x, std::string_view name) { return apply(ones_like_op, {std::move(x)}, {}, name); }

Tensor eye(std::int64_t rows, std::int64_t columns, const TensorOptions& options, std::string_view name, Where where) {
  return blaming("Eye", where, [&] {
    if (rows < 0 || columns < 0)
      throw InvalidArgumentError(detail::join("eye: sizes must be >= 0, but are ", rows, " and ", columns));
    const TensorOptions counting{.dtype = int64, .device = options.device};
    const Tensor row = expand_dims(arange(rows, counting, {}, where), -1);
    return cast(equal(row, arange(columns, counting, {}, where)), type_or(options, float32), name);
  });
}

Tensor detail::arange(double start, double stop, double step, TensorOptions options, DType natural_type,
                      std::string_view name, Where where) {
  if (step == 0) throw InvalidArgumentError("Requires delta != 0: 0", range_op.name, where);
  const double count = std::ceil((stop - start) / step);
  if (!(std::abs(count) < 0x1p62))
    throw InvalidArgumentError(detail::join("arange: no tensor can hold the numbers from ", start, " to ", stop),
                               range_op.name, where);
  const DType dtype = type_or(options, natural_type);
  if (dtype == int64 && !(is_exact(start) && is_exact(stop) && is_exact(step)))
    throw InvalidArgumentError(detail::join("Bounds must be within 2^53, but are ", start, " and ", stop),
                               range_op.name, where);
  const Shape shape{std::max<std::int64_t>(static_cast<std::int64_t>(count), 0)};
  return apply_all(range_op, {},
                   {{"dtype", dtype}, {"shape", shape}, {"start", start}, {"delta", step}, {"device", options.device}},
                   name, where)[0];
}

Tensor detail::arange(std::int64_t start, std::int64_t stop, std::int64_t step, TensorOptions options,
                      DType natural_type, std::string_view name, Where where) {
  const auto first = static_cast<double>(start), end = static_cast<double>(stop), delta = static_cast<double>(step);
  std::int64_t distance = 0;
  const bool is_long = __builtin_sub_overflow(stop, start, &distance) || step == 0 ||
                       std::abs(static_cast<double>(distance) / delta) >= 0x1p62;
  if (is_long || type_or(options, natural_type) != int64 || (is_exact(first) && is_exact(end) && is_exact(delta)))
    return arange(first, end, delta, options, natural_type, name, where);
  return blaming(range_op.name, where, [&] {
    const bool leads_away = (distance < 0) != (step < 0);
    const std::int64_t count = leads_away ? 0 : distance / step + (distance % step != 0 ? 1 : 0);
    if (!is_exact(static_cast<double>(count)))
      throw InvalidArgumentError(detail::join("arange: no tensor can hold the numbers from ", start, " to ", stop));
    return add(multiply(tapestry::arange(count, {.dtype = int64, .device = options.device}, {}, where), step), start,
               name);
  });
}

Tensor linspace(double start, double stop, std::int64_t count, const TensorOptions& options, std::string_view name,
                Where where) {
  if (count < 1) throw InvalidArgumentError(detail::join("Requires num > 0: ", count), linspace_op.name, where);
  return apply_all(linspace_op, {},
                   {{"dtype", type_or(options, float32)},
                    {"shape", Shape{count}},
                    {"start", start},
                    {"stop", stop},
                    {"device", options.device}},
                   name, where)[0];
}

Tensor one_hot(In labels, std::int64_t depth, DType dtype, std::string_view name) {
  return blaming("OneHot", labels.where(), [&] {
    require_type(labels, whole_types, "TI");
    if (depth < 0) throw InvalidArgumentError(detail::join("depth must be non-negative, got: ", depth));
    const Tensor classes = arange(depth, {.dtype = int64, .device = labels->device()}, {}, labels.where());
    return cast(equal(expand_dims(labels, -1), classes), dtype, name);
  });
}

namespace ops {
const Op &fill = fill_op, &ones_like = ones_like_op, &zeros_like = zeros_like_op;
}  // namespace ops

}  // namespace tapestry
