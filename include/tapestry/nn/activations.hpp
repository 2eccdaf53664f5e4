#pragma once

#include "tapestry/nn/layer.hpp"
#include "tapestry/ops/math.hpp"
#include "tapestry/ops/nn.hpp"

namespace tapestry::nn {

/// @addtogroup layers
/// The activation functions as layers, for Sequential. In a module of one's own, a function such as `tp::relu` is
/// simpler.
/// @{

/// x itself.
class TAPESTRY_API Identity : public Layer {
 public:
  TAPESTRY_FIELDS()

 private:
  Tensor forward(const Tensor& x) const override { return x; }
};

/// max(x, 0): see `tp::relu`.
class TAPESTRY_API ReLU : public Layer {
 public:
  TAPESTRY_FIELDS()

 private:
  Tensor forward(const Tensor& x) const override { return relu(x); }
};

/// 1 / (1 + exp(-x)): see `tp::sigmoid`.
class TAPESTRY_API Sigmoid : public Layer {
 public:
  TAPESTRY_FIELDS()

 private:
  Tensor forward(const Tensor& x) const override { return sigmoid(x); }
};

/// tanh(x).
class TAPESTRY_API Tanh : public Layer {
 public:
  TAPESTRY_FIELDS()

 private:
  Tensor forward(const Tensor& x) const override { return tanh(x); }
};

/// x * sigmoid(x): see `tp::silu`.
class TAPESTRY_API SiLU : public Layer {
 public:
  TAPESTRY_FIELDS()

 private:
  Tensor forward(const Tensor& x) const override { return silu(x); }
};

/// x where it is positive, exp(x) - 1 elsewhere: see `tp::elu`.
class TAPESTRY_API ELU : public Layer {
 public:
  TAPESTRY_FIELDS()

 private:
  Tensor forward(const Tensor& x) const override { return elu(x); }
};

/// log(1 + exp(x)): see `tp::softplus`.
class TAPESTRY_API Softplus : public Layer {
 public:
  TAPESTRY_FIELDS()

 private:
  Tensor forward(const Tensor& x) const override { return softplus(x); }
};

/// x * Phi(x): see `tp::gelu`.
class TAPESTRY_API GELU : public Layer {
 public:
  /// `approximate` selects the form with tanh.
  explicit GELU(bool approximate = false) : approximate_(approximate) {}
  explicit GELU(const char* approximate) = delete;  // a text would be true
  TAPESTRY_FIELDS()

 private:
  Tensor forward(const Tensor& x) const override { return gelu(x, approximate_); }
  bool approximate_;
};

/// x where it is positive, slope * x elsewhere: see `tp::leaky_relu`.
class TAPESTRY_API LeakyReLU : public Layer {
 public:
  /// The default slope is PyTorch's 0.01, and not the 0.2 of `tp::leaky_relu`, which is TensorFlow's.
  explicit LeakyReLU(double slope = 0.01) : slope_(slope) {}
  TAPESTRY_FIELDS()

 private:
  Tensor forward(const Tensor& x) const override { return leaky_relu(x, slope_); }
  double slope_;
};

/// x where it is positive, weight * x elsewhere: one trainable slope for all, or one for each of the channels, the last
/// axis. PyTorch's PReLU. (K. He et al., "Delving deep into rectifiers", 2015.)
class TAPESTRY_API PReLU : public Layer {
 public:
  /// Throws InvalidArgumentError for a count below 1.
  explicit PReLU(std::int64_t count = 1, double initial = 0.25, Where where = Where::here());

  Parameter weight;  ///< [count]
  TAPESTRY_FIELDS(weight)
  /// The number of slopes, such as "1".
  std::string size_text() const override;

 private:
  Tensor forward(const Tensor& x) const override;
};

/// exp(x) / sum(exp(x)) along an axis: see `tp::softmax`.
class TAPESTRY_API Softmax : public Layer {
 public:
  /// Negative axes count from the end.
  explicit Softmax(std::int64_t axis = -1) : axis_(axis) {}
  TAPESTRY_FIELDS()

 private:
  Tensor forward(const Tensor& x) const override { return softmax(x, axis_); }
  std::int64_t axis_;
};

/// log(softmax(x)) along an axis: see `tp::log_softmax`.
class TAPESTRY_API LogSoftmax : public Layer {
 public:
  /// Negative axes count from the end.
  explicit LogSoftmax(std::int64_t axis = -1) : axis_(axis) {}
  TAPESTRY_FIELDS()

 private:
  Tensor forward(const Tensor& x) const override { return log_softmax(x, axis_); }
  std::int64_t axis_;
};

/// @}

}  // namespace tapestry::nn
