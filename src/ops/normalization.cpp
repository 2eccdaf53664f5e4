#include "backend/views.hpp"
#include "ops/batching.hpp"
#include "ops/support.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/creation.hpp"
#include "tapestry/ops/math.hpp"
#include "tapestry/ops/nn.hpp"
#include "tapestry/ops/reduce.hpp"

TAPESTRY_OP_FAMILY(normalization)

namespace tapestry {
namespace {

Shape one_per_row(Shape shape) {
  shape.set(shape.rank() - 1, 1);
  return shape;
}

Tensor row_mean(const Tensor& x) { return reduce_mean(x, -1, {.keep_dims = true}); }
Tensor row_sum(const Tensor& x) { return reduce_sum(x, -1, {.keep_dims = true}); }

/// A parameter of one element, or of one for each element of a row, broadcast to one for each element of a row.
Tensor per_element(const Tensor& parameter, const Tensor& x) {
  return view_broadcast(parameter, Shape{x.shape().sizes().back()});
}

void add_to(Tensor& sum, const Tensor& part) { sum = sum ? sum + part : part; }

// With n = (x - mean) * rstd and h = g * scale: dx = rstd * (h - mean(h) - n * mean(h * n)), dscale = sum(g * n) and
// doffset = sum(g) over the rows.
TAPESTRY_OP(layer_norm_grad_op){{
    .name = "LayerNormGrad",
    .infer = [](const Call& call) -> Specs {
      require_type(call.input(0), float_types);
      require_rank_at_least(call.input(0), 1);
      const Spec x = call.input(0).spec(), per_row_element{x.dtype, {x.shape.sizes().back()}};
      require_broadcast(call.input(1).shape(), per_row_element.shape);
      for (const std::size_t i : {2, 3}) require_same_shape(call.input(i).shape(), one_per_row(x.shape));
      require_same_shape(call.input(4).shape(), x.shape);
      return {x, per_row_element, per_row_element};
    },
    .forward =
        [](Backend& backend, const Call& call) {
          backend.normalize_grad(call.input(0), per_element(call.input(1), call.input(0)), call.input(2), call.input(3),
                                 call.input(4), call.output(0), call.output(1), call.output(2));
        },
    .composition = [](const Call& call) -> Tensors {
      const Tensor &x = call.input(0), &scale = call.input(1), &mean = call.input(2), &rstd = call.input(3),
                   &g = call.input(4);
      // One scale for all does not tell how many elements a row has.
      if (scale.shape().rank() != 1 || scale.shape().sizes()[0] < 2) require_rank_at_least(x, 1);
      const Tensor n = (x - mean) * rstd, h = g * scale, along = n * row_mean(h * n);
      const Tensor dx = rstd * (h - row_mean(h) - along);
      return {dx, sum_over_rows(g * n, scale), sum_over_rows(g, scale)};
    },
    .gradient = [](const Call& call, const Tensors& u) -> Tensors {
      const Tensor &x = call.input(0), &scale = call.input(1), &mean = call.input(2), &rstd = call.input(3),
                   &g = call.input(4);
      const Tensor n = (x - mean) * rstd, h = g * scale;
      Tensor of_n, of_scale, of_rstd, of_g;
      if (u[0]) {
        // dx = rstd * project(h), where `project` is linear and symmetric.
        const auto project = [&](const Tensor& v) { return v - row_mean(v) - n * row_mean(v * n); };
        const Tensor of_h = rstd * project(u[0]);
        of_scale = of_h * g;
        of_g = of_h * scale;
        of_rstd = row_sum(u[0] * project(h));
        of_n = -(rstd * (u[0] * row_mean(h * n) + h * row_mean(u[0] * n)));
      }
      if (u[1]) {
        add_to(of_g, u[1] * n);
        add_to(of_n, u[1] * g);
      }
      if (u[2]) add_to(of_g, broadcast_like(u[2], g));
      if (!of_n) return {Tensor(), Tensor(), Tensor(), Tensor(), of_g};
      add_to(of_rstd, row_sum(of_n * (x - mean)));
      const Tensor of_x = of_n * rstd;
      return {of_x, of_scale, -row_sum(of_x), of_rstd, of_g};
    },
    .promotion = common_type,
    .needs = needs_inputs,
    .broadcasts = true,
    .outputs = 3,
}};

TAPESTRY_OP(layer_norm_op){{
    .name = "LayerNorm",
    .attrs = {{"epsilon", AttrKind::real}},
    .infer = [](const Call& call) -> Specs {
      const Tensor& x = call.input(0);
      require_type(x, float_types);
      require_rank_at_least(x, 1);
      for (const Tensor& parameter : {call.input(1), call.input(2)})
        require_broadcast(parameter.shape(), {x.shape().sizes().back()});
      const Spec per_row{x.dtype(), one_per_row(x.shape())};
      return {x.spec(), per_row, per_row};
    },
    .forward =
        [](Backend& backend, const Call& call) {
          const Tensor& x = call.input(0);
          backend.normalize(x, per_element(call.input(1), x), per_element(call.input(2), x),
                            call.attr<double>("epsilon"), call.output(0), call.output(1), call.output(2));
        },
    .composition = [](const Call& call) -> Tensors {
      const Tensor &x = call.input(0), mean = row_mean(x), centred = x - mean;
      const Tensor rstd = rsqrt(row_mean(square(centred)) + call.attr<double>("epsilon"));
      return {centred * rstd * call.input(1) + call.input(2), mean, rstd};
    },
    .gradient = [](const Call& call, const Tensors& g) -> Tensors {
      const Tensor &x = call.input(0), &mean = call.output(1), &rstd = call.output(2);
      Tensors gradients(3);
      if (g[0]) gradients = apply_all(layer_norm_grad_op, {x, call.input(1), mean, rstd, g[0]}, {}, {}, call.where());
      if (g[1]) add_to(gradients[0], broadcast_like(g[1] / size_like(x, g[1]), x));
      if (g[2]) add_to(gradients[0], -(g[2] * square(rstd) * rstd * (x - mean) / size_like(x, g[2])));
      return gradients;
    },
    .promotion = floating_type,
    .needs = Needs{3, 6},
    .precision = Precision::full,
    .broadcasts = true,
    .outputs = 3,
    .batch = [](const BatchedCall& call) -> Tensors {
      if (call.has_batch(1) || call.has_batch(2)) return {};
      return call.apply({call.all(0), call.input(1), call.input(2)}, call.one().attrs());
    },
}};

// ---- Batch normalization --------------------------------------------------------------------------------------------

/// The type and shape of what a call has for each channel of its first input. The inputs from the second on that are
/// named must have it, too.
Spec per_channel(const Call& call, std::initializer_list<std::size_t> statistics) {
  const Tensor& x = call.input(0);
  require_type(x, float_types);
  require_rank_at_least(x, 2);
  Spec spec{x.dtype(), {x.shape().sizes().back()}};
  for (const std::size_t i : statistics) require_same_shape(call.input(i).shape(), spec.shape);
  return spec;
}

TAPESTRY_OP(batch_norm_grad_op){{
    .name = "BatchNormGrad",
    .attrs = {{"epsilon", AttrKind::real}},
    .infer = [](const Call& call) -> Specs {
      const Spec channels = per_channel(call, {1, 2, 3});
      require_same_shape(call.input(4).shape(), call.input(0).shape());
      return {call.input(0).spec(), channels, channels};
    },
    .forward =
        [](Backend& backend, const Call& call) {
          backend.batch_normalize_grad(call.input(0), call.input(1), call.input(2), call.input(3), call.input(4),
                                       call.attr<double>("epsilon"), call.output(0), call.output(1), call.output(2));
        },
    .composition = [](const Call& call) -> Tensors {
      const Tensor &x = call.input(0), &scale = call.input(1), &mean = call.input(2), &g = call.input(4);
      const Tensor rstd = rsqrt(call.input(3) + call.attr<double>("epsilon")), n = (x - mean) * rstd;
      const Tensor dscale = sum_over_rows(g * n, scale), doffset = sum_over_rows(g, scale);
      const Tensor count = size_like(x, mean);
      return {(g - doffset / count - n * (dscale / count)) * (rstd * scale), dscale, doffset};
    },
    .promotion = common_type,
    .outputs = 3,
}};

TAPESTRY_OP(batch_norm_training_op){{
    .name = "BatchNormTraining",
    .attrs = {{"epsilon", AttrKind::real}},
    .infer = [](const Call& call) -> Specs {
      const Spec channels = per_channel(call, {1, 2});
      const Shape& shape = call.input(0).shape();
      if (shape.is_known() && channels.shape.is_known() && shape.num_elements() == channels.shape.num_elements())
        throw InvalidArgumentError(
            detail::join("one value per channel is too few to learn from, the shape is ", shape));
      return {call.input(0).spec(), channels, channels};
    },
    .forward =
        [](Backend& backend, const Call& call) {
          backend.batch_normalize(call.input(0), call.input(1), call.input(2), call.attr<double>("epsilon"),
                                  call.output(0), call.output(1), call.output(2));
        },
    .composition = [](const Call& call) -> Tensors {
      const Tensor &x = call.input(0), &scale = call.input(1);
      Moments m;
      if (x.shape().has_rank()) {
        m = moments(x, row_axes(x));
      } else {
        const auto mean_of_rows = [&](const Tensor& y) { return sum_over_rows(y, scale) / size_like(y, scale); };
        m.mean = mean_of_rows(x);
        m.variance = mean_of_rows(squared_difference(x, m.mean));
      }
      return {batch_norm(x, m.mean, m.variance, call.input(2), scale, call.attr<double>("epsilon")), m.mean,
              m.variance};
    },
    .gradient = [](const Call& call, const Tensors& g) -> Tensors {
      const Tensor &x = call.input(0), &mean = call.output(1), &variance = call.output(2);
      Tensors gradients(3);
      if (g[0])
        gradients =
            apply_all(batch_norm_grad_op, {x, call.input(1), mean, variance, g[0]}, call.attrs(), {}, call.where());
      if (g[1]) add_to(gradients[0], broadcast_like(g[1] / size_like(x, mean), x));
      if (g[2]) add_to(gradients[0], (x - mean) * (2 * g[2] / size_like(x, mean)));
      return gradients;
    },
    .promotion = floating_type,
    .needs = Needs{3, 6},
    .precision = Precision::full,
    .outputs = 3,
}};

/// Whether the parameter certainly broadcasts to the shape of x, whose sizes may be unknown. Throws
/// InvalidArgumentError when it does not.
bool require_broadcast_to(const Tensor& parameter, const Tensor& x, std::string_view what) {
  if (!x.shape().has_rank() || !parameter.shape().has_rank()) return false;
  const int rank = parameter.rank();
  bool fits = rank <= rank_of(x), is_certain = true;
  for (int i = 1; fits && i <= rank; ++i) {
    const Shape part{parameter.shape().dim(-i)}, whole{x.shape().dim(-i)};
    fits = part == Shape{1} || agree(part, whole);
    is_certain = is_certain && (part == Shape{1} || (part.is_known() && whole.is_known()));
  }
  if (!fits)
    throw InvalidArgumentError(
        detail::join("The ", what, " of shape ", parameter.shape(), " does not broadcast to the shape ", x.shape()));
  return is_certain;
}

/// The result if it certainly has the shape of x. Otherwise an op on it, which throws if it has another shape.
Tensor of_shape(const Tensor& x, const Tensor& result, bool is_certain) {
  return is_certain ? result : broadcast_like(result, x);
}

}  // namespace

Moments moments(In x, const Axes& axes, const ReduceOptions& options, std::string_view name) {
  const CallSiteScope site(x.where());
  return {reduce_mean(x, axes, options, name), variance(x, axes, options)};
}

Tensor batch_norm(In x, In mean, In variance, In offset, In scale, double epsilon, std::string_view name) {
  return blaming("BatchNorm", x.where(), [&] {
    bool is_certain = true;
    for (const In& parameter : {mean, variance, offset, scale})
      if (parameter.tensor()) is_certain &= require_broadcast_to(parameter, x, "parameter");
    Tensor factor = rsqrt(variance + epsilon);
    if (scale.tensor()) factor = factor * scale;
    // Not x * factor + (offset - mean * factor), which loses digits where the mean is large beside the deviation.
    const Tensor centred = x - mean;
    const Tensor y = offset.tensor() ? add(centred * factor, offset, name) : multiply(centred, factor, name);
    return of_shape(x, y, is_certain);
  });
}

BatchNormTraining batch_norm_training(In x, In scale, In offset, double epsilon, std::string_view name) {
  return blaming(batch_norm_training_op.name, x.where(), [&]() -> BatchNormTraining {
    const Tensors results =
        apply_all(batch_norm_training_op, {x, scale, offset}, {{"epsilon", epsilon}}, name, x.where());
    return {results[0], results[1], results[2]};
  });
}

Tensor layer_norm(In x, In scale, In offset, const LayerNormOptions& options, std::string_view name) {
  return blaming(layer_norm_op.name, x.where(), [&] {
    bool is_certain = !scale.tensor() || require_broadcast_to(scale, x, "scale");
    if (offset.tensor()) is_certain &= require_broadcast_to(offset, x, "offset");
    const auto per_element_or_none = [](const In& p) {
      return !p.tensor() || !p->shape().has_rank() || p->rank() <= 1;
    };
    const bool fused = per_element_or_none(scale) && per_element_or_none(offset);
    const Tensor floats = as_floats(x);
    const TensorOptions like{.dtype = floats.dtype(), .device = floats.device()};
    const Tensor factor = fused && bool(scale.tensor()) ? scale.tensor() : ones({}, like);
    const Tensor addend = fused && bool(offset.tensor()) ? offset.tensor() : zeros({}, like);
    Tensor y = apply_all(layer_norm_op, {floats, factor, addend}, {{"epsilon", options.epsilon}}, {}, x.where())[0];
    if (!fused && bool(scale.tensor())) y = y * scale;
    if (!fused && bool(offset.tensor())) y = y + offset;
    return named(of_shape(x, y, is_certain), name);
  });
}

}  // namespace tapestry
