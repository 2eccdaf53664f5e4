#pragma once

#include "tapestry/nn/layer.hpp"
#include "tapestry/ops/math.hpp"
#include "tapestry/ops/nn.hpp"

namespace tapestry::nn {

// The activation functions as layers, for Sequential. In a module of one's own the functions are simpler: `tp::relu`.

/// x itself.
class TAPESTRY_API Identity : public Layer {
  Tensor forward(const Tensor& x) const override { return x; }
};

class TAPESTRY_API ReLU : public Layer {
  Tensor forward(const Tensor& x) const override { return relu(x); }
};

class TAPESTRY_API Sigmoid : public Layer {
  Tensor forward(const Tensor& x) const override { return sigmoid(x); }
};

class TAPESTRY_API Tanh : public Layer {
  Tensor forward(const Tensor& x) const override { return tanh(x); }
};

class TAPESTRY_API SiLU : public Layer {
  Tensor forward(const Tensor& x) const override { return silu(x); }
};

class TAPESTRY_API ELU : public Layer {
  Tensor forward(const Tensor& x) const override { return elu(x); }
};

class TAPESTRY_API Softplus : public Layer {
  Tensor forward(const Tensor& x) const override { return softplus(x); }
};

class TAPESTRY_API GELU : public Layer {
 public:
  explicit GELU(bool approximate = false) : approximate_(approximate) {}

 private:
  Tensor forward(const Tensor& x) const override { return gelu(x, approximate_); }
  bool approximate_;
};

/// The slope below 0 is PyTorch's 0.01 by default, and not the 0.2 of `tp::leaky_relu`, which is TensorFlow's.
class TAPESTRY_API LeakyReLU : public Layer {
 public:
  explicit LeakyReLU(double slope = 0.01) : slope_(slope) {}

 private:
  Tensor forward(const Tensor& x) const override { return leaky_relu(x, slope_); }
  double slope_;
};

class TAPESTRY_API Softmax : public Layer {
 public:
  explicit Softmax(std::int64_t axis = -1) : axis_(axis) {}

 private:
  Tensor forward(const Tensor& x) const override { return softmax(x, axis_); }
  std::int64_t axis_;
};

class TAPESTRY_API LogSoftmax : public Layer {
 public:
  explicit LogSoftmax(std::int64_t axis = -1) : axis_(axis) {}

 private:
  Tensor forward(const Tensor& x) const override { return log_softmax(x, axis_); }
  std::int64_t axis_;
};

}  // namespace tapestry::nn
