#pragma once

#include "tapestry/dtype.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry::nn::init {

/// @addtogroup init
/// Initial values for weights. They are computed immediately, from the global random stream:
///
///     net.hidden.weight.assign(tp::nn::init::xavier_uniform(net.hidden.weight.shape()));
///
/// For constants and plain distributions, there are `tp::zeros`, `tp::full`, `tp::random::normal`,
/// `tp::random::truncated_normal`.
///
/// Weights have PyTorch's shapes: [out, in], or [out, in, height, width] for images. So fan_in, the number of inputs of
/// one output, is the product of all sizes but the first, and fan_out is the product of all sizes but the second. These
/// functions throw InvalidArgumentError for a shape of fewer than two dimensions, for a gain that is negative or not
/// finite, and for a dtype that is no float type.
/// @{

/// The spread and the type of the values.
struct XavierOptions {
  double gain = 1;        ///< a factor of the spread: 5/3 before tanh, sqrt(2) before ReLU
  DType dtype = float32;  ///< a float type
};
/// Values that are uniform in [-b, b), b = gain * sqrt(6 / (fan_in + fan_out)), or normal with the deviation gain *
/// sqrt(2 / (fan_in + fan_out)): X. Glorot, Y. Bengio, "Understanding the difficulty of training deep feedforward
/// neural networks", 2010.
/// @{
TAPESTRY_API Tensor xavier_uniform(const Shape& shape, const XavierOptions& options = {}, Where where = Where::here());
TAPESTRY_API Tensor xavier_normal(const Shape& shape, const XavierOptions& options = {}, Where where = Where::here());
/// @}

/// The number of connections by which `kaiming_uniform` and `kaiming_normal` divide.
enum class Fan {
  in,   ///< fan_in, which keeps the variance in the forward pass
  out,  ///< fan_out, which keeps the variance of the gradients
};
/// The spread and the type of the values.
struct KaimingOptions {
  /// A factor of the spread: sqrt(2) before ReLU, sqrt(2 / (1 + a^2)) before a leaky ReLU of slope a.
  double gain = 1.4142135623730951;
  /// The number of connections: fan_in or fan_out.
  Fan fan = Fan::in;
  /// A float type.
  DType dtype = float32;
};
/// Values that are uniform in [-b, b), b = gain * sqrt(3 / fan), or normal with the deviation gain / sqrt(fan): K. He
/// et al., "Delving deep into rectifiers", 2015.
/// @{
TAPESTRY_API Tensor kaiming_uniform(const Shape& shape, const KaimingOptions& options = {},
                                    Where where = Where::here());
TAPESTRY_API Tensor kaiming_normal(const Shape& shape, const KaimingOptions& options = {}, Where where = Where::here());
/// @}

/// The length of the orthogonal vectors, and their type.
struct OrthogonalOptions {
  double gain = 1;        ///< the length of the vectors
  DType dtype = float32;  ///< a float type
};
/// gain times a random matrix [shape[0], product of the other sizes] with orthonormal rows, or, if it has more rows
/// than columns, with orthonormal columns. All such matrices are equally likely: A. Saxe et al., "Exact solutions to
/// the nonlinear dynamics of learning in deep linear neural networks", 2014.
TAPESTRY_API Tensor orthogonal(const Shape& shape, const OrthogonalOptions& options = {}, Where where = Where::here());

/// @}

}  // namespace tapestry::nn::init
