#pragma once

#include "tapestry/nn/layer.hpp"

namespace tapestry::nn {

/// @addtogroup layers
/// @{

/// Whether a Dense layer has a bias.
struct DenseOptions {
  bool bias = true;  ///< whether a number is added to each output
};

/// x weight^T + bias for the rows of x: [..., in] gives [..., out]. It equals PyTorch's Linear in shapes, names and
/// initial values, which are uniform in [-1/sqrt(in), 1/sqrt(in)).
class TAPESTRY_API Dense : public Layer {
 public:
  /// Throws InvalidArgumentError for a size below 1.
  Dense(std::int64_t in, std::int64_t out, const DenseOptions& options = {}, Where where = Where::here());

  Parameter weight;               ///< [out, in]
  std::optional<Parameter> bias;  ///< [out]
  TAPESTRY_FIELDS(weight, bias)
  /// The sizes, such as "8, 9" of a Dense(8, 9).
  std::string size_text() const override;

 private:
  Tensor forward(const Tensor& x) const override;
};

/// y[k] = a^T weight[k] b + bias[k] for the rows of a [..., first] and b [..., second]. It equals PyTorch's Bilinear in
/// shapes, names and initial values, which are uniform in [-1/sqrt(first), 1/sqrt(first)).
class TAPESTRY_API Bilinear : public Module {
 public:
  /// Throws InvalidArgumentError for a size below 1.
  Bilinear(std::int64_t first, std::int64_t second, std::int64_t out, const DenseOptions& options = {},
           Where where = Where::here());
  /// Applies the layer to rows of both inputs, whose other axes agree.
  Tensor operator()(In a, In b) const;

  Parameter weight;               ///< [out, first, second]
  std::optional<Parameter> bias;  ///< [out]
  TAPESTRY_FIELDS(weight, bias)
  /// The sizes, such as "5, 6, 3".
  std::string size_text() const override;
};

/// The order of the elements of an example.
struct FlattenOptions {
  /// Whether an image [batch, height, width, channels], or a sequence [batch, time, channels], becomes the row that
  /// PyTorch makes of it, with the elements of one channel after the other. Then the weights of a Dense layer after it
  /// are those of PyTorch.
  bool channels_first = false;
};

/// One row for each example: [batch, ...] gives [batch, product of the other sizes], which must be known.
class TAPESTRY_API Flatten : public Layer {
 public:
  /// By default, the order of the elements does not change.
  explicit Flatten(const FlattenOptions& options = {}) : options_(options) {}
  TAPESTRY_FIELDS()

 private:
  Tensor forward(const Tensor& x) const override;
  FlattenOptions options_;
};

/// @}

}  // namespace tapestry::nn
