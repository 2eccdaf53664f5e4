#pragma once

#include "tapestry/nn/layer.hpp"
#include "tapestry/ops/nn.hpp"

namespace tapestry::nn {

/// @addtogroup layers
/// @{

/// How a BatchNorm divides and learns.
struct BatchNormOptions {
  double epsilon = 1e-5;  ///< added to the variance
  double momentum = 0.1;  ///< of a batch in the running statistics, PyTorch's convention: 1 - TensorFlow's
};

/// Each channel, which is the last axis, normalized to mean 0 and variance 1 over all others, then times weight plus
/// bias: [..., channels] keeps its shape. Mean and variance are, in training mode, those of the batch, and the running
/// ones learn from them; in evaluation mode they are the running ones. PyTorch's BatchNorm1d and BatchNorm2d in names
/// and numbers. (S. Ioffe, C. Szegedy, "Batch normalization", 2015.)
///
/// A trace updates the statistics as eager code does. A graph that is built by hand without a trace does not: nothing
/// in it depends on them.
class TAPESTRY_API BatchNorm : public Layer {
 public:
  /// Throws InvalidArgumentError for less than one channel.
  explicit BatchNorm(std::int64_t channels, const BatchNormOptions& options = {}, Where where = Where::here());

  Parameter weight;            ///< [channels], ones at first
  Parameter bias;              ///< [channels], zeros at first
  Buffer running_mean;         ///< [channels]
  Buffer running_var;          ///< [channels], unbiased: divided by one less than the number of values
  Buffer num_batches_tracked;  ///< int64, a scalar
  TAPESTRY_FIELDS(weight, bias, running_mean, running_var, num_batches_tracked)
  std::string size_text() const override;  ///< "8": the channels

 private:
  /// Throws InvalidArgumentError for another number of channels and, in training mode, for one value per channel, as
  /// far as sizes are known.
  Tensor forward(const Tensor& x) const override;
  void learn(const Tensor& x, const Tensor& mean, const Tensor& variance) const;

  BatchNormOptions options_;
};

/// Each row, along the last axis, normalized to mean 0 and variance 1, then times weight plus bias: [..., features]
/// keeps its shape. PyTorch's LayerNorm of one axis. (J. Ba, J. Kiros, G. Hinton, "Layer normalization", 2016.)
class TAPESTRY_API LayerNorm : public Layer {
 public:
  /// Throws InvalidArgumentError for less than one feature.
  explicit LayerNorm(std::int64_t features, const LayerNormOptions& options = {}, Where where = Where::here());

  Parameter weight;  ///< [features], ones at first
  Parameter bias;    ///< [features], zeros at first
  TAPESTRY_FIELDS(weight, bias)
  std::string size_text() const override;  ///< "8": the features

 private:
  Tensor forward(const Tensor& x) const override;
  LayerNormOptions options_;
};

/// @}

}  // namespace tapestry::nn
