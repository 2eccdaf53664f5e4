#pragma once

#include "tapestry/nn/layer.hpp"
#include "tapestry/ops/nn.hpp"

namespace tapestry::nn {

/// @addtogroup layers
/// @{

/// The options of a BatchNorm.
struct BatchNormOptions {
  double epsilon = 1e-5;  ///< a number that is added to the variance
  double momentum = 0.1;  ///< the weight of a batch in the running statistics, as in PyTorch: 1 - TensorFlow's
};

/// Normalizes each channel, which is the last axis, to mean 0 and variance 1 over all other axes, then multiplies by
/// weight and adds bias: [..., channels] keeps its shape. In training mode, mean and variance are those of the batch,
/// and the running ones are updated with them. In evaluation mode they are the running ones. It equals PyTorch's
/// BatchNorm1d and BatchNorm2d in names and numbers. (S. Ioffe, C. Szegedy, "Batch normalization", 2015.)
///
/// A trace updates the statistics as eager code does. A graph that is built by hand, without a trace, does not, because
/// nothing in it depends on them.
class TAPESTRY_API BatchNorm : public Layer {
 public:
  /// Throws InvalidArgumentError for a number of channels below 1.
  explicit BatchNorm(std::int64_t channels, const BatchNormOptions& options = {}, Where where = Where::here());

  Parameter weight;            ///< [channels], initially ones
  Parameter bias;              ///< [channels], initially zeros
  Buffer running_mean;         ///< [channels]
  Buffer running_var;          ///< [channels], unbiased: divided by one less than the number of values
  Buffer num_batches_tracked;  ///< int64, a scalar
  TAPESTRY_FIELDS(weight, bias, running_mean, running_var, num_batches_tracked)
  /// The channels, such as "8".
  std::string size_text() const override;

 protected:
  /// The result in training mode. Throws InvalidArgumentError for only one value per channel, if sizes are known.
  virtual Tensor train_on(const Tensor& x) const;
  /// Updates the running statistics with those of a batch of `count` values per channel.
  void learn(const Tensor& count, const Tensor& mean, const Tensor& variance) const;
  /// The options that were given.
  const BatchNormOptions& options() const { return options_; }

 private:
  /// Throws InvalidArgumentError for another number of channels, and what `train_on` throws.
  Tensor forward(const Tensor& x) const override;

  BatchNormOptions options_;
};

/// Normalizes each row, along the last axis, to mean 0 and variance 1, then multiplies by weight and adds bias: [...,
/// features] keeps its shape. PyTorch's LayerNorm of one axis. (J. Ba, J. Kiros, G. Hinton, "Layer normalization",
/// 2016.)
class TAPESTRY_API LayerNorm : public Layer {
 public:
  /// Throws InvalidArgumentError for a number of features below 1.
  explicit LayerNorm(std::int64_t features, const LayerNormOptions& options = {}, Where where = Where::here());

  Parameter weight;  ///< [features], initially ones
  Parameter bias;    ///< [features], initially zeros
  TAPESTRY_FIELDS(weight, bias)
  /// The features, such as "8".
  std::string size_text() const override;

 private:
  Tensor forward(const Tensor& x) const override;
  LayerNormOptions options_;
};

/// Normalizes each group of channels of each example to mean 0 and variance 1 over all axes but the first, then
/// multiplies each channel by weight and adds bias: [batch, ..., channels] keeps its shape. A group is a run of
/// neighbouring channels. PyTorch's GroupNorm, and with as many groups as channels its InstanceNorm2d(affine=True).
/// (Y. Wu, K. He, "Group normalization", 2018.)
class TAPESTRY_API GroupNorm : public Layer {
 public:
  /// Throws InvalidArgumentError for a number below 1, and when the groups do not divide the channels.
  GroupNorm(std::int64_t groups, std::int64_t channels, const LayerNormOptions& options = {},
            Where where = Where::here());

  Parameter weight;  ///< [channels], initially ones
  Parameter bias;    ///< [channels], initially zeros
  TAPESTRY_FIELDS(weight, bias)
  /// The groups and channels, such as "4, 8".
  std::string size_text() const override;

 private:
  Tensor forward(const Tensor& x) const override;
  std::int64_t groups_;
  LayerNormOptions options_;
};

/// Divides each row, along the last axis, by the root of its mean square, then multiplies it by weight: [..., features]
/// keeps its shape. `options.epsilon` is added to the mean square. PyTorch's RMSNorm of one axis. (B. Zhang,
/// R. Sennrich, "Root mean square layer normalization", 2019.)
class TAPESTRY_API RMSNorm : public Layer {
 public:
  /// Throws InvalidArgumentError for a number of features below 1.
  explicit RMSNorm(std::int64_t features, const LayerNormOptions& options = {}, Where where = Where::here());

  Parameter weight;  ///< [features], initially ones
  TAPESTRY_FIELDS(weight)
  /// The features, such as "8".
  std::string size_text() const override;

 private:
  Tensor forward(const Tensor& x) const override;
  LayerNormOptions options_;
};

/// @}

}  // namespace tapestry::nn
