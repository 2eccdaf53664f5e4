#pragma once

#include <cstdint>

#include "tapestry/nn/layer.hpp"

namespace tapestry::nn {

/// @addtogroup layers
/// @{

/// A trainable row for each of `count` ids: ids [...] (int32 or int64) give [..., features]. It equals PyTorch's
/// Embedding in shape, name and initial values, which are normal with deviation 1. Its gradient is row-sparse (see
/// `indexed_slices`). Throws InvalidArgumentError for an id outside [0, count).
class TAPESTRY_API Embedding : public Layer {
 public:
  /// Throws InvalidArgumentError for a size below 1.
  Embedding(std::int64_t count, std::int64_t features, Where where = Where::here());

  Parameter weight;  ///< [count, features]
  TAPESTRY_FIELDS(weight)
  /// The count and the features, such as "65, 32".
  std::string size_text() const override;

 private:
  Tensor forward(const Tensor& ids) const override;
};

/// What an EmbeddingBag makes of the rows of a bag.
enum class Combiner : std::uint8_t {
  sum,   ///< their weighted sum
  mean,  ///< their weighted mean
};

/// The options of EmbeddingBag.
struct EmbeddingBagOptions {
  Combiner combiner = Combiner::mean;  ///< what is made of the rows of a bag
};

/// The sums or means of rows of an Embedding: bags of n ids each, [..., n] (int32 or int64), give [..., features]. A
/// negative id is padding and counts for nothing, so that bags may have different sizes, and a bag without ids gives 0.
/// It equals PyTorch's EmbeddingBag in shape, name, initial values and results, and TensorFlow's
/// `embedding_lookup_sparse`. Its gradient is row-sparse (see `indexed_slices`). Throws InvalidArgumentError for ids
/// that are scalars, and for an id of `count` or above.
class TAPESTRY_API EmbeddingBag : public Layer {
 public:
  /// Throws InvalidArgumentError for a size below 1.
  EmbeddingBag(std::int64_t count, std::int64_t features, const EmbeddingBagOptions& options = {},
               Where where = Where::here());

  using Layer::operator();
  /// The same with a weight for each id, in the shape of the ids: the mean is the weighted sum divided by the sum of
  /// the weights, or 0 if that is 0. Throws InvalidArgumentError for weights of another shape.
  Tensor operator()(In ids, In weights) const;

  Parameter weight;  ///< [count, features]
  TAPESTRY_FIELDS(weight)
  /// The count, the features and the combiner, such as "65, 32, mean".
  std::string size_text() const override;

 private:
  Tensor forward(const Tensor& ids) const override;
  Tensor combined(const Tensor& ids, const Tensor& weights) const;

  EmbeddingBagOptions options_;
};

/// @}

}  // namespace tapestry::nn
