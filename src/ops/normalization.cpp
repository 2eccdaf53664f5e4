#include "ops/support.hpp"
#include "tapestry/ops/array.hpp"
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

// dx = rstd * (g - mean(g) - y * mean(g * y)), linear and symmetric in g
TAPESTRY_OP(layer_norm_grad_op){
    {.name = "LayerNormGrad",
     .infer = [](const Call& call) -> Specs { return {call.input(0).spec()}; },
     .forward =
         [](Backend& backend, const Call& call) {
           backend.normalize_grad(call.input(0), call.input(1), call.input(2), call.output());
         },
     .gradient = [](const Call& call, const Tensor& u) -> Tensors {
       const Tensor &y = call.input(0), &rstd = call.input(1), &g = call.input(2);
       const auto of_rstd = [&] {
         return reduce_sum(u * (g - row_mean(g) - y * row_mean(g * y)), -1, {.keep_dims = true});
       };
       return wanted(
           call, [&] { return -(rstd * (u * row_mean(g * y) + g * row_mean(u * y))); }, of_rstd,
           [&] {
             return apply(call.op(), {y, rstd, u});
           });
     },
     .needs = needs_inputs}};

TAPESTRY_OP(layer_norm_op){{.name = "LayerNorm",
                            .infer = [](const Call& call) -> Specs {
                              const Tensor& x = call.input(0);
                              require_type(x, float_types);
                              require_rank_at_least(x, 1);
                              const Spec per_row{x.dtype(), one_per_row(x.shape())};
                              return {x.spec(), per_row, per_row};
                            },
                            .forward =
                                [](Backend& backend, const Call& call) {
                                  backend.normalize(call.input(0), call.attr<double>("epsilon"), call.output(0),
                                                    call.output(1), call.output(2));
                                },
                            .gradient = [](const Call& call, const Tensors& g) -> Tensors {
                              const Tensor &x = call.input(0), &y = call.output(0), &rstd = call.output(2);
                              Tensor sum;
                              const auto add_part = [&](const Tensor& part) { sum = sum ? sum + part : part; };
                              if (g[0]) add_part(apply(layer_norm_grad_op, {y, rstd, g[0]}));
                              if (g[1]) add_part(broadcast_like(g[1] / size_like(x, g[1]), x));
                              if (g[2]) add_part(-(g[2] * square(rstd) * y / size_like(x, g[2])));
                              return {sum};
                            },
                            .promotion = floating_type,
                            .needs = Needs{0, 5}}};

void require_broadcast_to(const Tensor& parameter, const Tensor& x, std::string_view what) {
  bool fits = parameter.rank() <= x.rank();
  for (int i = 1; fits && i <= parameter.rank(); ++i) {
    const std::int64_t size = parameter.shape()[parameter.rank() - i];
    fits = size == 1 || sizes_agree(size, x.shape()[x.rank() - i]);
  }
  if (!fits)
    throw InvalidArgumentError(
        detail::join("The ", what, " of shape ", parameter.shape(), " does not broadcast to the shape ", x.shape()));
}

}  // namespace

Moments moments(In x, const Axes& axes, const ReduceOptions& options, std::string_view name) {
  const CallSiteScope site(x.where());
  return {reduce_mean(x, axes, options, name), variance(x, axes, options)};
}

Tensor batch_norm(In x, In mean, In variance, In offset, In scale, double epsilon, std::string_view name) {
  return blaming("BatchNorm", x.where(), [&] {
    for (const In& parameter : {mean, variance, offset, scale})
      if (parameter.tensor()) require_broadcast_to(parameter, x, "parameter");
    Tensor factor = rsqrt(variance + epsilon);
    if (scale.tensor()) factor = factor * scale;
    // Not x * factor + (offset - mean * factor), which loses digits where the mean is large beside the deviation.
    const Tensor centred = x - mean;
    return offset.tensor() ? add(centred * factor, offset, name) : multiply(centred, factor, name);
  });
}

Tensor layer_norm(In x, In scale, In offset, const LayerNormOptions& options, std::string_view name) {
  return blaming(layer_norm_op.name, x.where(), [&] {
    if (scale.tensor()) require_broadcast_to(scale, x, "scale");
    if (offset.tensor()) require_broadcast_to(offset, x, "offset");
    Tensor y = apply_all(layer_norm_op, {x.tensor()}, {{"epsilon", options.epsilon}}, {}, x.where())[0];
    if (scale.tensor()) y = y * scale;
    if (offset.tensor()) y = y + offset;
    return named(y, name);
  });
}

}  // namespace tapestry
