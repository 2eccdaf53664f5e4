#include "tapestry/nn/norm.hpp"

#include "dispatch/recorder.hpp"
#include "nn/features.hpp"
#include "nn/initial.hpp"
#include "ops/support.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::nn {
namespace {

Shape shape_of(std::int64_t size, std::string_view layer, std::string_view what, Where where) {
  require_positive(size, layer, what, where);
  return {size};
}

}  // namespace

BatchNorm::BatchNorm(std::int64_t channels, const BatchNormOptions& options, Where where)
    : weight(filled(1, shape_of(channels, "BatchNorm", "channels", where), where), "weight"),
      bias(filled(0, {channels}, where), "bias"),
      running_mean(filled(0, {channels}, where), "running_mean"),
      running_var(filled(1, {channels}, where), "running_var"),
      num_batches_tracked(tensor(std::int64_t{0}), "num_batches_tracked"),
      options_(options) {}

Tensor BatchNorm::forward(const Tensor& x) const {
  const std::int64_t channels = weight.shape()[0];
  if (x.shape().has_rank() && x.rank() < 2)
    throw InvalidArgumentError(detail::join("x must be [..., ", channels, "], but its shape is ", x.shape()), {},
                               CallSiteScope::current());
  const Tensor fitting = with_features(x, channels);
  return training() ? train_on(fitting)
                    : batch_norm(fitting, running_mean, running_var, bias, weight, options_.epsilon);
}

Tensor BatchNorm::train_on(const Tensor& x) const {
  const BatchNormTraining batch = batch_norm_training(x, weight, bias, options_.epsilon);
  learn(size_like(x, batch.mean), stop_gradient(batch.mean), stop_gradient(batch.variance));
  return batch.y;
}

void BatchNorm::learn(const Tensor& count, const Tensor& mean, const Tensor& variance) const {
  const double old_part = 1 - options_.momentum, new_part = options_.momentum;
  // Where all ranks together have one value per channel, the variance is 0.
  const Tensor unbiased = variance * (count / maximum(count - 1, 1));
  // A batch without values has neither a mean nor a variance, so that there is nothing to learn from it.
  const Tensor has_values = greater(count, 0);
  const auto move = [&](const Variable& running, const Tensor& to) {
    const Tensor before = running;
    running.assign(where(has_values, old_part * before + new_part * to, before));
  };
  move(running_mean, mean);
  move(running_var, unbiased);
  Variable batches = num_batches_tracked;
  batches.assign_add(1);
}

std::string BatchNorm::size_text() const { return detail::join(weight.shape()[0]); }

LayerNorm::LayerNorm(std::int64_t features, const LayerNormOptions& options, Where where)
    : weight(filled(1, shape_of(features, "LayerNorm", "features", where), where), "weight"),
      bias(filled(0, {features}, where), "bias"),
      options_(options) {}

std::string LayerNorm::size_text() const { return detail::join(weight.shape()[0]); }

Tensor LayerNorm::forward(const Tensor& x) const {
  return layer_norm(with_features(x, weight.shape()[0]), weight, bias, options_);
}

namespace {

Shape channels_of(std::int64_t groups, std::int64_t channels, Where where) {
  require_positive(groups, "GroupNorm", "groups", where);
  Shape shape = shape_of(channels, "GroupNorm", "channels", where);
  if (channels % groups != 0)
    throw InvalidArgumentError(detail::join("GroupNorm: ", groups, " groups do not divide ", channels, " channels"),
                               where);
  return shape;
}

}  // namespace

GroupNorm::GroupNorm(std::int64_t groups, std::int64_t channels, const LayerNormOptions& options, Where where)
    : weight(filled(1, channels_of(groups, channels, where), where), "weight"),
      bias(filled(0, {channels}, where), "bias"),
      groups_(groups),
      options_(options) {}

std::string GroupNorm::size_text() const { return detail::join(groups_, ", ", weight.shape()[0]); }

Tensor GroupNorm::forward(const Tensor& x) const {
  const std::int64_t channels = weight.shape()[0];
  if (!x.shape().has_rank() || x.rank() < 2)
    throw InvalidArgumentError(detail::join("x must be [batch, ..., ", channels, "], but its shape is ", x.shape()),
                               CallSiteScope::current());
  const Tensor wide = widened(with_features(x, channels, "batch, ..."));
  // The last axis is divided into groups and the channels of a group.
  Shape divided = wide.shape();
  divided.set(x.rank() - 1, groups_);
  divided.push_back(channels / groups_);
  Ints axes{x.rank()};
  for (int axis = 1; axis < x.rank() - 1; ++axis) axes.push_back(axis);
  const Tensor parts = reshape(wide, divided);
  const Moments of = moments(parts, axes, {.keep_dims = true});
  const Tensor scaled = reshape_like((parts - of.mean) * rsqrt(of.variance + options_.epsilon), wide);
  return (is_half(x.dtype()) ? scaled.cast(x.dtype()) : scaled) * weight + bias;
}

RMSNorm::RMSNorm(std::int64_t features, const LayerNormOptions& options, Where where)
    : weight(filled(1, shape_of(features, "RMSNorm", "features", where), where), "weight"), options_(options) {}

std::string RMSNorm::size_text() const { return detail::join(weight.shape()[0]); }

Tensor RMSNorm::forward(const Tensor& x) const {
  const Tensor wide = widened(with_features(x, weight.shape()[0]));
  const Tensor mean = reduce_mean(square(wide), -1, {.keep_dims = true});
  const Tensor scaled = wide * rsqrt(mean + options_.epsilon);
  const Tensor y = (is_half(x.dtype()) ? scaled.cast(x.dtype()) : scaled) * weight;
  return x.shape().has_rank() ? y : broadcast_like(y, x);  // which compares the last sizes
}

}  // namespace tapestry::nn
