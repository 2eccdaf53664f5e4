#include "tapestry/nn/attention.hpp"

#include <cmath>
#include <limits>

#include "nn/bias.hpp"
#include "nn/initial.hpp"
#include "nn/layer_call.hpp"
#include "nn/names.hpp"
#include "nn/positions.hpp"
#include "ops/checked_like.hpp"
#include "tapestry/nn/init.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::nn {
namespace {

Shape projection_shape(std::int64_t features, std::int64_t heads, Where where) {
  require_positive(features, "MultiHeadAttention", "features", where);
  require_positive(heads, "MultiHeadAttention", "heads", where);
  if (features % heads != 0)
    throw InvalidArgumentError(
        detail::join("MultiHeadAttention: ", heads, " heads do not divide ", features, " features"), where);
  return {3 * features, features};
}

/// [batch, time, features] as [batch, heads, time, features / heads], a view that products read in place; batch and
/// time may be unknown.
Tensor to_heads(const Tensor& x, std::int64_t heads) {
  return transpose(reshape(x, {x.shape()[0], x.shape()[1], heads, x.shape()[2] / heads}), {0, 2, 1, 3});
}
Tensor from_heads(const Tensor& x) {
  const Tensor rows = transpose(x, {0, 2, 1, 3});
  return reshape(rows, {rows.shape()[0], rows.shape()[1], rows.shape()[2] * rows.shape()[3]});
}

/// The mask [queries, keys] of two tensors [batch, heads, time, features]: whether a key's position is at most the
/// query's.
Tensor causal_mask(const Tensor& query, const Tensor& key) {
  return less_equal(expand_dims(positions_along(key, 2), 0), expand_dims(positions_along(query, 2), 1));
}

void require_sequence(const Tensor& x, std::int64_t features, std::string_view what) {
  if (x.rank() != 3 || (x.shape()[2].is_known() && x.shape()[2] != features))
    throw InvalidArgumentError(
        detail::join("The ", what, " must be [batch, time, ", features, "], but the shape is ", x.shape()));
}

/// The keys or values, which must have the query's batch size.
Tensor with_batch_of(const Tensor& query, const Tensor& x, std::string_view what) {
  if (x.is(query) || query.rank() != 3 || x.rank() != 3) return x;
  Shape shape = x.shape();
  shape.set(0, query.shape()[0]);
  if (!agree(shape, x.shape()))
    throw InvalidArgumentError(detail::join("The ", what,
                                            " must have the batch size of the query, but their shapes are ", x.shape(),
                                            " and ", query.shape()));
  return x.shape()[0].is_known() && query.shape()[0].is_known() ? x : checked_like(x, shape);
}

void require_mask(const Tensor& mask) {
  if (bool(mask) && mask.dtype() != boolean && mask.dtype() != DType::unknown)
    throw InvalidArgumentError(detail::join("The mask must be bool, true where a query may look at a key, but is ",
                                            to_string(mask.dtype()), mask.shape()));
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(std::int64_t features, std::int64_t heads,
                                       const MultiHeadAttentionOptions& options, Where where)
    : in_proj_weight(init::xavier_uniform(projection_shape(features, heads, where), {}, where), "in_proj_weight"),
      out_proj(features, features, {.bias = options.bias}, where),
      heads_(heads),
      options_(options) {
  require_rate(options.dropout, "MultiHeadAttention", "dropout", where);
  if (!options.bias) return;
  in_proj_bias.emplace(filled(0, {3 * features}, where), "in_proj_bias");
  out_proj.bias.emplace(filled(0, {features}, where), "bias");
}

Tensor MultiHeadAttention::operator()(In x, In mask) const { return (*this)(x, x, x, mask); }

Tensor MultiHeadAttention::operator()(In query, In key, In value, In mask) const {
  const LayerCall call(*this, query.where());
  const auto blamed = [&](auto f) {
    return naming(*this, {query.tensor(), key.tensor(), value.tensor(), mask.tensor()},
                  [&] { return blaming("MultiHeadAttention", query.where(), f); });
  };
  return blamed([&] {
    const std::vector<Tensor> weights = split(in_proj_weight, 3);
    const std::vector<Tensor> biases = in_proj_bias ? split(*in_proj_bias, 3) : std::vector<Tensor>(3);
    const auto projected = [&](const Tensor& x, std::size_t part, std::string_view what) {
      require_sequence(x, weights[0].shape()[0], what);
      return to_heads(with_bias(matmul(x, weights[part], {.transpose_b = true}), biases[part]), heads_);
    };
    require_mask(mask);
    const Tensor q = projected(query, 0, "query");
    const Tensor k = projected(with_batch_of(query, key, "key"), 1, "key");
    const Tensor v = projected(with_batch_of(query, value, "value"), 2, "value");

    const double scale = 1 / std::sqrt(static_cast<double>(q.shape().back()));
    Tensor scores = matmul(q * scale, k, {.transpose_b = true});
    constexpr double never = -std::numeric_limits<double>::infinity();
    if (options_.causal) scores = where(causal_mask(q, k), scores, never);
    if (mask.tensor()) scores = where(mask, scores, never);
    Tensor weighting = softmax(scores);
    if (training() && options_.dropout > 0) weighting = tapestry::dropout(weighting, options_.dropout);
    return call.gives(out_proj(from_heads(matmul(weighting, v))));
  });
}

TransformerBlock::TransformerBlock(std::int64_t features, std::int64_t heads, std::int64_t hidden,
                                   const TransformerBlockOptions& options, Where where)
    : self_attn(features, heads, {.causal = options.causal, .dropout = options.dropout}, where),
      linear1(features, hidden, {}, where),
      linear2(hidden, features, {}, where),
      norm1(features, {.epsilon = options.epsilon}, where),
      norm2(features, {.epsilon = options.epsilon}, where),
      dropout(options.dropout, where),
      options_(options) {}

Tensor TransformerBlock::feed_forward(const Tensor& x) const {
  const Tensor hidden = linear1(x);
  return linear2(dropout(options_.activation == FeedForwardActivation::relu ? relu(hidden) : gelu(hidden)));
}

Tensor TransformerBlock::operator()(In x, In mask) const {
  const LayerCall call(*this, x.where());
  return naming(*this, {x.tensor(), mask.tensor()}, [&] {
    if (options_.norm_first) {
      const Tensor seen = x + dropout(self_attn(norm1(x), mask));
      return call.gives(seen + dropout(feed_forward(norm2(seen))));
    }
    const Tensor seen = norm1(x + dropout(self_attn(x, mask)));
    return call.gives(norm2(seen + dropout(feed_forward(seen))));
  });
}

std::string MultiHeadAttention::size_text() const { return detail::join(in_proj_weight.shape()[1], ", ", heads_); }

std::string TransformerBlock::size_text() const {
  return detail::join(self_attn.size_text(), ", ", linear1.weight.shape()[0]);
}

}  // namespace tapestry::nn
