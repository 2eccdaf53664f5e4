// Batch normalization and local response normalization, with their gradients.

#include <algorithm>

#include "io/tensorflow/foreign_parts.hpp"

namespace tapestry::io {
namespace {

// ---- Batches --------------------------------------------------------------------------------------------------------

/// All axes but that of the channels.
Ints axes_before_channels(const ForeignNode& n, const Tensor& x) {
  if (x.shape().rank() < 2) n.node.refuse(detail::join("its input has the shape ", x.shape()));
  Ints axes;
  for (int axis = 0; axis + 1 < x.shape().rank(); ++axis) axes.push_back(axis);
  return axes;
}

void require_channels_last(const ForeignNode& n) {
  const auto format = n.node.attr_or<std::string>("data_format", "NHWC");
  if (format != "NHWC" && format != "NDHWC") lack(n, "'data_format'");
}

/// What only TensorFlow's kernels for GPUs have to say: nothing, as on its CPU.
Tensor reserved(const ForeignNode& n, const std::string& name, DType dtype) {
  const Tensor value = [&] {
    const ExecuteNow now;
    return zeros({0}, dtype == DType::unknown ? float32 : dtype);
  }();
  return constant_node(value, name, n.where);
}

Tensors normalized_by_moments(const ForeignNode& n, double epsilon) {
  const Tensor &x = n.in(0), &scale = n.in(1), &offset = n.in(2), &old_mean = n.in(3), &old_variance = n.in(4);
  const double factor = n.node.attr_or<float>("exponential_avg_factor", 1);
  const Ints axes = axes_before_channels(n, x);
  const Tensor wide = x.cast(scale.dtype());
  const auto [mean, variance] = moments(wide, axes);
  const Tensor result = batch_norm(wide, mean, variance, offset, scale, epsilon);
  const Tensor count = size_like(wide, mean);
  const Tensor unbiased = variance * (count / maximum(count - 1, 1));
  const auto averaged = [&](const Tensor& old, const Tensor& fresh) {
    return factor == 1 ? fresh : old * (1 - factor) + fresh * factor;
  };
  return {result.cast(x.dtype()), averaged(old_mean, mean), averaged(old_variance, unbiased), mean, variance};
}

Tensors read_batch_norm(const ForeignNode& n) {
  require_channels_last(n);
  const auto epsilon = n.node.attr_or<float>("epsilon", 0.0001F);
  const Tensor &x = n.in(0), &scale = n.in(1), &offset = n.in(2), &mean = n.in(3), &variance = n.in(4);
  require_one_type(n, 1);
  return n.composed([&] {
    Tensors outputs;
    if (n.node.attr_or<bool>("is_training", true)) {
      outputs = normalized_by_moments(n, epsilon);
    } else {
      const Tensor result = batch_norm(x.cast(scale.dtype()), mean, variance, offset, scale, epsilon);
      outputs = {result.cast(x.dtype()), mean, variance, mean, variance};
    }
    if (n.node.def().op == "FusedBatchNormV3") outputs.push_back(reserved(n, "reserve_space_3", scale.dtype()));
    return outputs;
  });
}

/// The gradients of x, scale and offset; those of the moments are nothing, as TensorFlow uses them for averages only.
Tensors read_batch_norm_gradient(const ForeignNode& n) {
  require_channels_last(n);
  const auto epsilon = n.node.attr_or<float>("epsilon", 0.0001F);
  const Tensor &scale = n.in(2), &mean = n.in(3), &variance = n.in(4);
  if (n.in(0).dtype() != n.in(1).dtype()) n.node.refuse("its inputs have several types");
  const Ints axes = axes_before_channels(n, n.in(1));
  return n.composed([&] {
    const Tensor g = n.in(0).cast(scale.dtype()), centered = n.in(1).cast(scale.dtype()) - mean;
    const Tensor slope = rsqrt(variance + epsilon);
    const Tensor of_offset = reduce_sum(g, axes), of_product = reduce_sum(g * centered, axes);
    Tensor of_x = g * (scale * slope);
    if (n.node.attr_or<bool>("is_training", true)) {
      const Tensor count = size_like(centered, mean);
      const Tensor rest = of_offset / count + centered * (square(slope) * of_product / count);
      of_x = (g - rest) * (scale * slope);
    }
    return Tensors{of_x.cast(n.in(1).dtype()), of_product * slope, of_offset,
                   reserved(n, "reserve_space_4", scale.dtype()), reserved(n, "reserve_space_5", scale.dtype())};
  });
}

/// The op of TensorFlow's first models.
Tensors read_global_norm(const ForeignNode& n) {
  require_one_type(n);
  const bool scaled = n.node.attr<bool>("scale_after_normalization");
  const auto epsilon = n.node.attr<float>("variance_epsilon");
  return n.composed(
      [&] { return batch_norm(n.in(0), n.in(1), n.in(2), n.in(3), scaled ? Tensor(n.in(4)) : Tensor(), epsilon); });
}

/// Its gradients by the images, the mean, the variance, the offset, which is no input, and the scale.
Tensors read_global_norm_gradient(const ForeignNode& n) {
  require_one_type(n);
  const bool scaled = n.node.attr<bool>("scale_after_normalization");
  const auto epsilon = n.node.attr<float>("variance_epsilon");
  return n.composed([&] {
    const Tensors sources{n.in(0), n.in(1), n.in(2), zeros_like(n.in(1)), n.in(3)};
    return gradients_of(sources, [&](const Tensors& x) -> Tensors {
      return {batch_norm(x[0], x[1], x[2], x[3], scaled ? Tensor(x[4]) : Tensor(), epsilon) * n.in(4)};
    });
  });
}

// ---- Neighbouring channels ------------------------------------------------------------------------------------------

/// A local response normalization: each element is divided by (bias + alpha * sum of the neighbours' squares)^beta.
struct Response {
  explicit Response(const ForeignNode& n)
      : radius(n.node.attr_or<std::int64_t>("depth_radius", 5)),
        bias(n.node.attr_or<float>("bias", 1)),
        alpha(n.node.attr_or<float>("alpha", 1)),
        beta(n.node.attr_or<float>("beta", 0.5F)) {
    if (radius < 0) n.node.refuse(detail::join("its radius is ", radius));
  }
  /// The sum over the channels that are at most a radius away.
  Tensor sum(const Tensor& x) const {
    const std::int64_t channels = x.shape().sizes()[3];
    const Tensor all = broadcast_to(ones({1, 1}, {.dtype = x.dtype()}), {channels, channels});
    return matmul(x, band_part(all, radius, radius));
  }
  Tensor norm(const Tensor& x) const { return bias + alpha * sum(square(x)); }

  std::int64_t radius;
  double bias, alpha, beta;
};

Tensors read_response_norm(const ForeignNode& n) {
  require_images(n);
  const Response response(n);
  return n.composed([&] { return n.in(0) * power(response.norm(n.in(0)), -response.beta); });
}

Tensors read_response_norm_gradient(const ForeignNode& n) {
  require_images(n);
  require_one_type(n);
  const Response response(n);
  return n.composed([&] {
    const Tensor &g = n.in(0), &x = n.in(1), &y = n.in(2), norm = response.norm(x);
    return g * power(norm, -response.beta) - 2 * response.alpha * response.beta * x * response.sum(g * y / norm);
  });
}

}  // namespace

ForeignOps foreign_normalizations() {
  return {
      {.name = "BatchNormWithGlobalNormalization",
       .inputs = 5,
       .lacks_sizes = lacks_rank,
       .outputs = {like(0)},
       .read = read_global_norm},
      {.name = "BatchNormWithGlobalNormalizationGrad",
       .inputs = 5,
       .lacks_sizes = lacks_rank,
       .outputs = {like(0), like(1), like(1), like(1), like(1)},
       .read = read_global_norm_gradient},
      {.name = "FusedBatchNorm", .inputs = 5, .lacks_sizes = lacks_rank, .read = read_batch_norm},
      {.name = "FusedBatchNormGrad",
       .inputs = 5,
       .lacks_sizes = lacks_rank,
       .outputs = {like(0), like(2), like(2), like(2), like(2)},
       .read = read_batch_norm_gradient},
      {.name = "FusedBatchNormGradV2",
       .inputs = 5,
       .lacks_sizes = lacks_rank,
       .outputs = {like(0), like(2), like(2), like(2), like(2)},
       .read = read_batch_norm_gradient},
      {.name = "FusedBatchNormGradV3",
       .inputs = 6,
       .lacks_sizes = lacks_rank,
       .outputs = {like(0), like(2), like(2), like(2), like(2)},
       .read = read_batch_norm_gradient},
      {.name = "FusedBatchNormV2", .inputs = 5, .lacks_sizes = lacks_rank, .read = read_batch_norm},
      {.name = "FusedBatchNormV3", .inputs = 5, .lacks_sizes = lacks_rank, .read = read_batch_norm},
      {.name = "LRN",
       .inputs = 1,
       .lacks_sizes = lacks_element_sizes,
       .outputs = {like(0)},
       .read = read_response_norm},
      {.name = "LRNGrad",
       .inputs = 3,
       .lacks_sizes = lacks_element_sizes,
       .outputs = {like(0)},
       .read = read_response_norm_gradient},
  };
}

}  // namespace tapestry::io
