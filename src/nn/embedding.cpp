#include "tapestry/nn/embedding.hpp"

#include "nn/initial.hpp"
#include "tapestry/ops/nn.hpp"

namespace tapestry::nn {
namespace {

Tensor initial_table(std::int64_t count, std::int64_t features, Where where) {
  require_positive(count, "Embedding", "count", where);
  require_positive(features, "Embedding", "features", where);
  return normal_with(1, {count, features});
}

}  // namespace

Embedding::Embedding(std::int64_t count, std::int64_t features, Where where)
    : weight(initial_table(count, features, where), "weight") {}

std::string Embedding::size_text() const { return detail::join(weight.shape()[0], ", ", weight.shape()[1]); }

Tensor Embedding::forward(const Tensor& ids) const { return embedding_lookup(weight, ids); }

}  // namespace tapestry::nn
