#pragma once

#include "tapestry/nn/dense.hpp"
#include "tapestry/nn/dropout.hpp"
#include "tapestry/nn/norm.hpp"

namespace tapestry::nn {

/// @addtogroup layers
/// @{

/// How a MultiHeadAttention is built.
struct MultiHeadAttentionOptions {
  /// Whether a query sees only the keys up to its own position.
  bool causal = false;
  /// Whether the projections have a bias: in_proj_bias and out_proj.bias.
  bool bias = true;
  /// The dropout rate of the attention weights in training mode.
  double dropout = 0;
};

/// Attention with several heads. The result of a query is the mean of the values, weighted by the softmax of the
/// products of the query with the keys, divided by sqrt(features / heads). `heads` subspaces do this independently. It
/// equals PyTorch's MultiheadAttention with batch_first = true in names, shapes and initial values. (A. Vaswani et al.,
/// "Attention is all you need", 2017.)
class TAPESTRY_API MultiHeadAttention : public Module {
 public:
  /// Throws InvalidArgumentError for a size below 1, when the heads do not divide the features, and for a dropout rate
  /// outside [0, 1).
  MultiHeadAttention(std::int64_t features, std::int64_t heads, const MultiHeadAttentionOptions& options = {},
                     Where where = Where::here());

  /// [3 * features, features]: the rows for queries, keys and values.
  Parameter in_proj_weight;
  /// [3 * features], initially zeros.
  std::optional<Parameter> in_proj_bias;
  /// The projection of the result. Its bias is initially zeros, too.
  Dense out_proj;
  TAPESTRY_FIELDS(in_proj_weight, in_proj_bias, out_proj)
  /// The features and heads, such as "32, 4".
  std::string size_text() const override;

  /// The attention of a sequence to itself: [batch, time, features] keeps its shape. The mask (bool) tells which keys a
  /// query may see. It broadcasts to [batch, heads, queries, keys], and must leave every query at least one key.
  Tensor operator()(In x, In mask = {}) const;
  /// The attention of one sequence to another: queries [batch, n, features], keys and values [batch, m, features] give
  /// [batch, n, features]. Throws InvalidArgumentError when sizes do not fit.
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

/// How a TransformerBlock is built. The default is that of the first paper.
struct TransformerBlockOptions {
  /// Whether a position sees only the positions up to itself, as in language models.
  bool causal = false;
  /// Whether to compute x + f(norm(x)), which trains more easily, instead of norm(x + f(x)).
  bool norm_first = false;
  /// The function between the dense layers.
  FeedForwardActivation activation = FeedForwardActivation::relu;
  /// The dropout rate in training mode: of the attention weights, of the values between the dense layers, and of the
  /// results that are added to x.
  double dropout = 0.1;
  /// The number that the normalizations add to the variance.
  double epsilon = 1e-5;
};

/// Attention of a sequence to itself, then two dense layers that are applied to each position. Both results are added
/// to their inputs, with layer normalization. It equals PyTorch's TransformerEncoderLayer with batch_first = true in
/// names and numbers. (A. Vaswani et al., 2017; norm_first: R. Xiong et al., "On layer normalization in the transformer
/// architecture", 2020.)
class TAPESTRY_API TransformerBlock : public Module {
 public:
  /// `hidden` is the size between the two dense layers, usually 4 * features. Throws InvalidArgumentError for a size
  /// below 1, and when the heads do not divide the features.
  TransformerBlock(std::int64_t features, std::int64_t heads, std::int64_t hidden,
                   const TransformerBlockOptions& options = {}, Where where = Where::here());

  /// The attention of the sequence to itself.
  MultiHeadAttention self_attn;
  /// The dense layer from features to hidden.
  Dense linear1;
  /// The dense layer from hidden to features.
  Dense linear2;
  /// The normalization of x plus the result of the attention, or, with norm_first, of the attention's input.
  LayerNorm norm1;
  /// The same for the dense layers.
  LayerNorm norm2;
  /// The dropout of the results of both, and between the dense layers.
  Dropout dropout;
  TAPESTRY_FIELDS(self_attn, linear1, linear2, norm1, norm2, dropout)
  /// The features, heads and hidden, such as "32, 4, 128".
  std::string size_text() const override;

  /// [batch, time, features] keeps its shape. The mask is the same as for MultiHeadAttention.
  Tensor operator()(In x, In mask = {}) const;

 private:
  Tensor feed_forward(const Tensor& x) const;

  TransformerBlockOptions options_;
};

/// @}

}  // namespace tapestry::nn
