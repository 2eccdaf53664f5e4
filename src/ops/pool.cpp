#include "backend/views.hpp"
#include "ops/batching.hpp"
#include "ops/window.hpp"
#include "tapestry/ops/nn.hpp"

TAPESTRY_OP_FAMILY(pool)

namespace tapestry {
namespace {

Size2d pool_size(const Call& call) {
  const Ints& sizes = call.attr<Ints>("ksize");
  return {sizes[1], sizes[2]};
}

Window2d pool_window(const Call& call) { return window_of(call, call.input(0).shape(), pool_size(call)); }

/// The shape of the first input, pooled.
Shape pooled_shape(const Call& call) {
  const Tensor& x = call.input(0);
  require_type(x, float_types);
  check_window_attrs(call);
  if (x.rank() != 4) throw InvalidArgumentError(detail::join("tensor_in must be 4-dimensional: ", x.shape()));
  Shape shape = window_output(call, x.shape(), pool_size(call));
  if (x.shape().is_known()) {
    const Window2d window = pool_window(call);
    // A window that is entirely in the padding has no elements to choose from.
    if (std::max(window.pad_top, window.pad_bottom) >= window.height ||
        std::max(window.pad_left, window.pad_right) >= window.width)
      throw InvalidArgumentError("The padding must be smaller than the window");
  }
  return shape;
}

Specs infer_pool(const Call& call) { return {{call.input(0).dtype(), pooled_shape(call)}}; }

/// The gradient has the dtype and shape of the first input. The other inputs have the shape of that input, pooled.
Specs infer_pool_gradient(const Call& call) {
  const Shape pooled = pooled_shape(call);
  for (std::size_t i = 1; i < call.inputs().size(); ++i) require_same_shape(call.input(i).shape(), pooled);
  return {call.input(0).spec()};
}

template <PoolKind kind>
void run_pool(Backend& backend, const Call& call) {
  backend.pool2d(kind, call.input(0), pool_window(call), call.output());
}

// ---- Average -----------------------------------------------------------------------------------------------------------

// The average and its gradient are linear, so each is the gradient of the other.
Tensor average_backward(const Call& call, const Tensor& x_like, const Tensor& g);

TAPESTRY_OP(avg_pool_op){{
    .name = "AvgPool",
    .attrs = pool_attrs(),
    .infer = infer_pool,
    .forward = run_pool<PoolKind::average>,
    .gradient = [](const Call& call, const Tensor& g) -> Tensors { return {average_backward(call, call.input(0), g)}; },
    .promotion = floating_type,
    .needs = needs_nothing,
    .batch = batch_of_images<0>,
}};

TAPESTRY_OP(avg_pool_grad_op){{
    .name = "AvgPoolGrad",
    .attrs = pool_attrs(),
    .infer = infer_pool_gradient,
    .forward =
        [](Backend& backend, const Call& call) {
          // The values of x and y do not matter for an average; g stands in for them.
          const Tensor& g = call.input(1);
          backend.pool2d_grad(PoolKind::average, g, g, g, pool_window(call), call.output());
        },
    .gradient = [](const Call& call, const Tensor& u) -> Tensors {
      return {Tensor(), apply(avg_pool_op, {u}, call.attrs())};
    },
    .promotion = floating_type,
    .needs = needs_nothing,
    .shape_inputs = 1,
    .batch = batch_of_images<0>,
}};

Tensor average_backward(const Call& call, const Tensor& x_like, const Tensor& g) {
  return apply(avg_pool_grad_op, {x_like, g}, call.attrs());
}

// ---- Maximum -----------------------------------------------------------------------------------------------------------

/// The outputs, along one axis, whose window element at `offset` is within the image, and the position of that element
/// for the first of them.
struct Overlap {
  std::int64_t first_output = 0, outputs = 0, first_input = 0;
};

Overlap overlap(std::int64_t offset, std::int64_t stride, std::int64_t pad, std::int64_t inputs, std::int64_t outputs) {
  const std::int64_t shift = offset - pad;  // input of output 0
  const std::int64_t first = shift >= 0 ? 0 : (-shift - 1) / stride + 1;
  const std::int64_t last = shift >= inputs ? -1 : std::min(outputs - 1, (inputs - 1 - shift) / stride);
  if (last < first) return {};
  return {first, last - first + 1, first * stride + shift};
}

/// The elements [first, last) of a window, along one axis, that may be within the image for some output. The window may
/// be much larger than the image, and the stride larger than both.
struct Offsets {
  std::int64_t first, last;
};

Offsets offsets(std::int64_t window, std::int64_t stride, std::int64_t pad, std::int64_t inputs, std::int64_t outputs) {
  return {outputs > pad / stride ? 0 : pad - outputs * stride, std::min(window, pad + inputs)};
}

/// A view of the elements of an image that one element of the window covers, for all outputs of the overlaps.
Tensor met_by(const Tensor& image, const Overlap& y, const Overlap& x, const Window2d& window) {
  const auto s = image.strides();
  const auto step = [](const Overlap& overlap, std::int64_t stride) { return overlap.outputs > 1 ? stride : 1; };
  const std::array<std::int64_t, Shape::max_rank> strides{s[0], s[1] * step(y, window.stride_y),
                                                          s[2] * step(x, window.stride_x), s[3]};
  return detail::make_view(image, {image.shape().sizes()[0], y.outputs, x.outputs, image.shape().sizes()[3]}, strides,
                           y.first_input * s[1] + x.first_input * s[2]);
}

/// Picks from each window of `values` the element at the first maximum of x. This is the transpose of MaxPoolGrad. The
/// loop is over the elements of the window, for all outputs at once.
void pick_at_maxima(Backend& backend, const Call& call) {
  const Tensor &x = call.input(0), &y = call.input(1), &values = call.input(2), &picked = call.output();
  const Window2d window = pool_window(call);
  const auto make = [&](DType dtype, const Shape& shape) { return detail::make_tensor(dtype, shape, x.device()); };
  const Tensor open = make(boolean, y.shape());  // the outputs whose maximum has not been found yet
  backend.fill(1, open);
  backend.fill(0, picked);
  const Offsets down =
      offsets(window.height, window.stride_y, window.pad_top, x.shape().sizes()[1], y.shape().sizes()[1]);
  const Offsets across =
      offsets(window.width, window.stride_x, window.pad_left, x.shape().sizes()[2], y.shape().sizes()[2]);
  for (std::int64_t i = down.first; i < down.last; ++i) {
    for (std::int64_t j = across.first; j < across.last; ++j) {
      const Overlap rows = overlap(i, window.stride_y, window.pad_top, x.shape().sizes()[1], y.shape().sizes()[1]);
      const Overlap columns = overlap(j, window.stride_x, window.pad_left, x.shape().sizes()[2], y.shape().sizes()[2]);
      const auto part = [&](const Tensor& t) {
        return view_part(view_part(t, 1, rows.first_output, rows.outputs), 2, columns.first_output, columns.outputs);
      };
      if (rows.outputs == 0 || columns.outputs == 0) continue;
      const Tensor x_here = met_by(x, rows, columns, window), values_here = met_by(values, rows, columns, window);
      const Shape& shape = x_here.shape();
      const Tensor maximal = make(boolean, shape), nan = make(boolean, shape), candidate = make(boolean, shape);
      backend.binary(Binary::equal, x_here, part(y), 0, maximal);
      backend.unary(Unary::is_nan, x_here, 0, nan);
      backend.binary(Binary::logical_or, maximal, nan, 0, candidate);
      const Tensor chosen = make(boolean, shape), still_open = make(boolean, shape);
      const Tensor result = make(values.dtype(), shape);
      backend.binary(Binary::logical_and, candidate, part(open), 0, chosen);
      backend.ternary(Ternary::select, chosen, values_here, part(picked), result);
      backend.copy(result, part(picked));
      backend.binary(Binary::not_equal, part(open), chosen, 0, still_open);
      backend.copy(still_open, part(open));
    }
  }
}

Tensor maximum_backward(const Call& call, const Tensor& x, const Tensor& y, const Tensor& g);

TAPESTRY_OP(max_pool_op){{
    .name = "MaxPool",
    .attrs = pool_attrs(),
    .infer = infer_pool,
    .forward = run_pool<PoolKind::max>,
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      return {maximum_backward(call, call.input(0), call.output(), g)};
    },
    .promotion = floating_type,
    .batch = batch_of_images<0>,
}};

// The inputs x and y only give the positions of the maxima, so the op is linear in the third input.
TAPESTRY_OP(max_pool_grad_grad_op){{
    .name = "MaxPoolGradGrad",
    .attrs = pool_attrs(),
    .infer = [](const Call& call) -> Specs {
      require_same_shape(call.input(1).shape(), pooled_shape(call));
      require_same_shape(call.input(2).shape(), call.input(0).shape());
      return {call.input(1).spec()};
    },
    .forward = pick_at_maxima,
    .gradient = [](const Call& call, const Tensor& u) -> Tensors {
      return {Tensor(), Tensor(), maximum_backward(call, call.input(0), call.input(1), u)};
    },
    .promotion = floating_type,
    .needs = Needs{3, 0},
    .batch = batch_of_images<0>,
}};

TAPESTRY_OP(max_pool_grad_op){{
    .name = "MaxPoolGrad",
    .attrs = pool_attrs(),
    .infer = infer_pool_gradient,
    .forward =
        [](Backend& backend, const Call& call) {
          backend.pool2d_grad(PoolKind::max, call.input(0), call.input(1), call.input(2), pool_window(call),
                              call.output());
        },
    .gradient = [](const Call& call, const Tensor& u) -> Tensors {
      return {Tensor(), Tensor(), apply(max_pool_grad_grad_op, {call.input(0), call.input(1), u}, call.attrs())};
    },
    .promotion = floating_type,
    .needs = Needs{3, 0},
    .batch = batch_of_images<0>,
}};

Tensor maximum_backward(const Call& call, const Tensor& x, const Tensor& y, const Tensor& g) {
  return apply(max_pool_grad_op, {x, y, g}, call.attrs());
}

Tensor pool(const Op& op, In x, const Pool2dOptions& options, std::string_view name) {
  const Size2d& strides = options.strides.height == 0 && options.strides.width == 0 ? options.window : options.strides;
  return blaming(op.name, x.where(), [&] {
    return apply(op, {x},
                 {{"ksize", four("window", options.window)},
                  {"strides", four("strides", strides)},
                  {"padding", options.padding.scheme()},
                  {"explicit_paddings", options.padding.widths()}},
                 name);
  });
}

}  // namespace

Tensor max_pool2d(In x, const Pool2dOptions& options, std::string_view name) {
  return pool(max_pool_op, x, options, detail::plain_name(name, detail::Worded::padding, x.where()));
}
Tensor avg_pool2d(In x, const Pool2dOptions& options, std::string_view name) {
  return pool(avg_pool_op, x, options, detail::plain_name(name, detail::Worded::padding, x.where()));
}

}  // namespace tapestry
