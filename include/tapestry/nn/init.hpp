#pragma once

#include "tapestry/dtype.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry::nn::init {

/// @addtogroup init
/// Initial values for weights, computed at once, from the global random stream:
///
///     net.hidden.weight.assign(tp::nn::init::xavier_uniform(net.hidden.weight.shape()));
///
/// Constants and plain distributions are `tp::zeros`, `tp::full`, `tp::random::normal`, `tp::random::truncated_normal`.
///
/// Weights have PyTorch's shapes: [out, in], or [out, in, height, width] for images. So fan_in, the number of inputs of
/// one output, is the product of all sizes but the first, and fan_out that of all but the second. These functions throw
/// InvalidArgumentError for a shape of fewer than two dimensions.
/// @{

/// How far the values spread, and their type.
struct XavierOptions {
  double gain = 1;        ///< 5/3 before tanh, sqrt(2) before ReLU
  DType dtype = float32;  ///< a float type
};
/// Uniform in [-b, b), b = gain * sqrt(6 / (fan_in + fan_out)), or normal with the deviation gain * sqrt(2 / (fan_in +
/// fan_out)): X. Glorot, Y. Bengio, "Understanding the difficulty of training deep feedforward neural networks", 2010.
/// @{
TAPESTRY_API Tensor xavier_uniform(const Shape& shape, const XavierOptions& options = {}, Where where = Where::here());
TAPESTRY_API Tensor xavier_normal(const Shape& shape, const XavierOptions& options = {}, Where where = Where::here());
/// @}

/// Which number of connections `kaiming_uniform` and `kaiming_normal` divide by.
enum class Fan {
  in,   ///< keeps the variance of what flows forward
  out,  ///< keeps the variance of the gradients
};
/// How far the values spread, and their type.
struct KaimingOptions {
  double gain = 1.4142135623730951;  ///< sqrt(2) before ReLU; sqrt(2 / (1 + a^2)) before a leaky ReLU of slope a
  Fan fan = Fan::in;                 ///< fan_in or fan_out
  DType dtype = float32;             ///< a float type
};
/// Uniform in [-b, b), b = gain * sqrt(3 / fan), or normal with the deviation gain / sqrt(fan): K. He et al., "Delving
/// deep into rectifiers", 2015.
/// @{
TAPESTRY_API Tensor kaiming_uniform(const Shape& shape, const KaimingOptions& options = {},
                                    Where where = Where::here());
TAPESTRY_API Tensor kaiming_normal(const Shape& shape, const KaimingOptions& options = {}, Where where = Where::here());
/// @}

/// How long the orthogonal vectors are, and their type.
struct OrthogonalOptions {
  double gain = 1;        ///< their length
  DType dtype = float32;  ///< a float type
};
/// gain times a matrix [shape[0], product of the other sizes] whose rows, or, where there are more rows than columns,
/// columns, are orthonormal, all such matrices being equally likely: A. Saxe et al., "Exact solutions to the nonlinear
/// dynamics of learning in deep linear neural networks", 2014.
TAPESTRY_API Tensor orthogonal(const Shape& shape, const OrthogonalOptions& options = {}, Where where = Where::here());

/// @}

}  // namespace tapestry::nn::init
