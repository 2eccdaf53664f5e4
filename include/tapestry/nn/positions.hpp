#pragma once

#include "tapestry/nn/layer.hpp"

namespace tapestry::nn {

/// @addtogroup layers
/// @{

/// Adds a trainable row for each position of a sequence to the elements at that position: [batch, time, features] keeps
/// its shape, for any time up to `count`. The initial values are normal with deviation 0.02, as in BERT and GPT-2.
class TAPESTRY_API PositionEmbedding : public Layer {
 public:
  /// Throws InvalidArgumentError for a size below 1.
  PositionEmbedding(std::int64_t count, std::int64_t features, Where where = Where::here());

  Parameter weight;  ///< [count, features]
  TAPESTRY_FIELDS(weight)
  /// The count and the features, such as "16, 8".
  std::string size_text() const override;

 private:
  /// Throws InvalidArgumentError for another number of features, and for a time above `count`. If a trace does not know
  /// the time, the run throws.
  Tensor forward(const Tensor& x) const override;
};

/// Adds sin(t / p) and cos(t / p) for each position t to the elements at that position, with the periods p = 10000^(2 i
/// / features): [batch, time, features] keeps its shape. The sine is added to feature 2 i, and the cosine to feature 2
/// i + 1. Nothing is trained. (A. Vaswani et al., "Attention is all you need", 2017.)
class TAPESTRY_API SinusoidalPositions : public Layer {
 public:
  TAPESTRY_FIELDS()

 private:
  /// Throws InvalidArgumentError unless the number of features is known and even.
  Tensor forward(const Tensor& x) const override;
};

/// A mask for a MultiHeadAttention or TransformerBlock with which each query sees the positions up to its own. It is
/// [time, time] bool for x [batch, time, features]. Sizes need not be known.
TAPESTRY_API Tensor causal_mask(In x);
/// A mask of the positions of x [batch, time, features] that are in use, for sequences of the given lengths (int32 or
/// int64 [batch], each at least 1). It is [batch, 1, 1, time] bool, as attention takes it. Batch and time need not be
/// known. `tp::logical_and` combines it with a causal mask.
TAPESTRY_API Tensor padding_mask(In lengths, In x);

/// @}

}  // namespace tapestry::nn
