#pragma once

#include "tapestry/nn/layer.hpp"

namespace tapestry::nn {

/// @addtogroup layers
/// @{

/// A learnt row for each place of a sequence, added to what stands there: [batch, time, features] keeps its shape, for
/// any time up to `count`. The initial values are normal with deviation 0.02, as in BERT and GPT-2.
class TAPESTRY_API PositionEmbedding : public Layer {
 public:
  /// Throws InvalidArgumentError for a size below 1.
  PositionEmbedding(std::int64_t count, std::int64_t features, Where where = Where::here());

  Parameter weight;  ///< [count, features]
  TAPESTRY_FIELDS(weight)
  std::string size_text() const override;  ///< "16, 8": count and features

 private:
  /// Throws InvalidArgumentError for other features, and for a time above `count`; where a trace does not know it, the
  /// run throws.
  Tensor forward(const Tensor& x) const override;
};

/// sin(t / p) and cos(t / p) of each place t, added to what stands there, with the periods p = 10000^(2 i / features):
/// [batch, time, features] keeps its shape. Feature 2 i is the sine, feature 2 i + 1 the cosine. Nothing is learnt. (A.
/// Vaswani et al., "Attention is all you need", 2017.)
class TAPESTRY_API SinusoidalPositions : public Layer {
 public:
  TAPESTRY_FIELDS()

 private:
  /// Throws InvalidArgumentError unless the number of features is known and even.
  Tensor forward(const Tensor& x) const override;
};

/// Which places a query may see, for a MultiHeadAttention or TransformerBlock: those up to its own. [time, time] bool
/// for x [batch, time, features], whatever is known of time.
TAPESTRY_API Tensor causal_mask(In x);
/// Which places of x [batch, time, features] are filled, for sequences of these lengths (int32 or int64 [batch], each
/// at least 1), whatever is known of batch and time: [batch, 1, 1, time] bool, as attention takes it.
/// `tp::logical_and` makes one of this and a causal mask.
TAPESTRY_API Tensor padding_mask(In lengths, In x);

/// @}

}  // namespace tapestry::nn
