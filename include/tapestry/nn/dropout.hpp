#pragma once

#include "tapestry/nn/layer.hpp"

namespace tapestry::nn {

/// @addtogroup layers
/// @{

/// In training mode, each element is set to 0 with probability `rate`, and the others are divided by 1 - rate. In
/// evaluation mode nothing happens. (N. Srivastava et al., "Dropout", 2014.)
class TAPESTRY_API Dropout : public Layer {
 public:
  /// Throws InvalidArgumentError unless 0 <= rate < 1.
  explicit Dropout(double rate = 0.5, Where where = Where::here());
  TAPESTRY_FIELDS()

 private:
  Tensor forward(const Tensor& x) const override;
  double rate_;
};

/// @}

}  // namespace tapestry::nn
