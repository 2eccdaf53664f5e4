#pragma once

#include "tapestry/nn/dense.hpp"
#include "tapestry/nn/dropout.hpp"
#include "tapestry/nn/norm.hpp"

namespace tapestry::nn {

/// @addtogroup layers
/// @{

/// What a query sees, and what is learnt.
struct MultiHeadAttentionOptions {
  bool causal = false;  ///< a query sees the keys up to its own place only
  bool bias = true;     ///< of the projections: without it there are neither in_proj_bias nor out_proj.bias
  double dropout = 0;   ///< in training mode, of the attention weights
};

/// Each query takes the mean of the values, weighted by the softmax of its products with the keys divided by
/// sqrt(features / heads); that in `heads` subspaces side by side. PyTorch's MultiheadAttention with batch_first =
/// true, in names, shapes and initial values. (A. Vaswani et al., "Attention is all you need", 2017.)
class TAPESTRY_API MultiHeadAttention : public Module {
 public:
  /// Throws InvalidArgumentError for a size below 1, and when the heads do not divide the features.
  MultiHeadAttention(std::int64_t features, std::int64_t heads, const MultiHeadAttentionOptions& options = {},
                     Where where = Where::here());

  Parameter in_proj_weight;               ///< [3 * features, features], the rows of queries, keys and values
  std::optional<Parameter> in_proj_bias;  ///< [3 * features], zeros at first
  Dense out_proj;                         ///< its bias, too, is zeros at first
  TAPESTRY_FIELDS(in_proj_weight, in_proj_bias, out_proj)
  std::string size_text() const override;  ///< "32, 4": features and heads

  /// Of a sequence on itself: [batch, time, features] keeps its shape. The mask (bool) says which keys a query may see;
  /// it broadcasts to [batch, heads, queries, keys] and leaves every query at least one key.
  Tensor operator()(In x, In mask = {}) const;
  /// Of one sequence on another: queries [batch, n, features], keys and values [batch, m, features] give [batch, n,
  /// features]. Throws InvalidArgumentError when sizes do not fit.
  Tensor operator()(In query, In key, In value, In mask = {}) const;

 private:
  std::int64_t heads_;
  MultiHeadAttentionOptions options_;
};

/// The function between the two dense layers of a TransformerBlock.
enum class FeedForwardActivation {
  relu,  ///< `tp::relu`
  gelu,  ///< `tp::gelu`, the exact form
};

/// How a TransformerBlock is built; by default as in the first paper.
struct TransformerBlockOptions {
  bool causal = false;      ///< a place sees those up to itself only, as in language models
  bool norm_first = false;  ///< x + f(norm(x)), which trains more easily, instead of norm(x + f(x))
  FeedForwardActivation activation = FeedForwardActivation::relu;  ///< between the dense layers
  double dropout = 0.1;   ///< in training mode: of the attention weights, and of what is added to x
  double epsilon = 1e-5;  ///< of the normalizations
};

/// Attention of a sequence on itself, then two dense layers on each place, both added to what they read, with layer
/// normalization. PyTorch's TransformerEncoderLayer with batch_first = true, in names and numbers. (A. Vaswani et al.,
/// 2017; norm_first: R. Xiong et al., "On layer normalization in the transformer architecture", 2020.)
class TAPESTRY_API TransformerBlock : public Module {
 public:
  /// `hidden` is the size between the two dense layers, usually 4 * features. Throws InvalidArgumentError for a size
  /// below 1, and when the heads do not divide the features.
  TransformerBlock(std::int64_t features, std::int64_t heads, std::int64_t hidden,
                   const TransformerBlockOptions& options = {}, Where where = Where::here());

  MultiHeadAttention self_attn;  ///< of the sequence on itself
  Dense linear1;                 ///< from features to hidden
  Dense linear2;                 ///< and back
  LayerNorm norm1;               ///< of x plus the attention's result, or, with norm_first, of what the attention reads
  LayerNorm norm2;               ///< the same for the dense layers
  Dropout dropout;               ///< of the results of both, and between the dense layers
  TAPESTRY_FIELDS(self_attn, linear1, linear2, norm1, norm2, dropout)
  std::string size_text() const override;  ///< "32, 4, 128": features, heads and hidden

  /// [batch, time, features] keeps its shape. The mask is that of MultiHeadAttention.
  Tensor operator()(In x, In mask = {}) const;

 private:
  Tensor feed_forward(const Tensor& x) const;

  TransformerBlockOptions options_;
};

/// @}

}  // namespace tapestry::nn
