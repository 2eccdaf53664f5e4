#pragma once

#include "tapestry/nn/layer.hpp"

namespace tapestry::nn {

/// @addtogroup layers
/// @{

/// A trainable row for each of `count` ids: ids [...] (int32 or int64) give [..., features]. It equals PyTorch's
/// Embedding in shape, name and initial values, which are normal with deviation 1. Throws InvalidArgumentError for an
/// id outside [0, count).
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

/// @}

}  // namespace tapestry::nn
