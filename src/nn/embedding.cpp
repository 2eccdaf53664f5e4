#include "tapestry/nn/embedding.hpp"

#include "nn/initial.hpp"
#include "nn/layer_call.hpp"
#include "nn/names.hpp"
#include "ops/checked_like.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::nn {
namespace {

Tensor initial_table(std::string_view layer, std::int64_t count, std::int64_t features, Where where) {
  require_positive(count, layer, "count", where);
  require_positive(features, layer, "features", where);
  return normal_with(1, Shape({count, features}, where), where);
}

}  // namespace

Embedding::Embedding(std::int64_t count, std::int64_t features, Where where)
    : weight(initial_table("Embedding", count, features, where), "weight") {}

std::string Embedding::size_text() const { return detail::join(weight.shape()[0], ", ", weight.shape()[1]); }

Tensor Embedding::forward(const Tensor& ids) const { return embedding_lookup(weight, ids); }

EmbeddingBag::EmbeddingBag(std::int64_t count, std::int64_t features, const EmbeddingBagOptions& options, Where where)
    : weight(initial_table("EmbeddingBag", count, features, where), "weight"), options_(options) {}

std::string EmbeddingBag::size_text() const {
  return detail::join(weight.shape()[0], ", ", weight.shape()[1],
                      options_.combiner == Combiner::sum ? ", sum" : ", mean");
}

Tensor EmbeddingBag::forward(const Tensor& ids) const { return combined(ids, {}); }

Tensor EmbeddingBag::operator()(In ids, In weights) const {
  const LayerCall call(*this, ids.where());
  return naming(*this, {ids.tensor(), weights.tensor()}, [&] {
    if (!agree(ids->shape(), weights->shape()))
      throw InvalidArgumentError(detail::join("The weights must have the shape of the ids, but the shapes are ",
                                              weights->shape(), " and ", ids->shape()),
                                 {}, CallSiteScope::current());
    return call.gives(combined(ids, checked_like(weights.as(weight.dtype()), ids)));
  });
}

Tensor EmbeddingBag::combined(const Tensor& ids, const Tensor& weights) const {
  if (ids.rank() == 0)
    throw InvalidArgumentError("The ids of bags must be at least a vector, but are a scalar", {},
                               CallSiteScope::current());
  const Tensor is_id = greater_equal(ids, 0);
  // Padding looks up a row that is looked up anyway, so that no other row gets a gradient, which is 0.
  const Tensor rows = embedding_lookup(weight, where(is_id, ids, maximum(reduce_max(ids), 0)));
  const Tensor counts = is_id.cast(weight.dtype()), shares = weights ? where(is_id, weights, 0.0) : counts;
  Tensor sum = reduce_sum(where(expand_dims(is_id, -1), rows * expand_dims(shares, -1), 0.0), -2);
  if (options_.combiner == Combiner::sum) return sum;
  return divide_no_nan(sum, reduce_sum(shares, -1, {.keep_dims = true}));
}

}  // namespace tapestry::nn
