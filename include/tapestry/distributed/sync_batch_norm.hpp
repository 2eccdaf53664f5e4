#pragma once

#include "tapestry/distributed/communicator.hpp"
#include "tapestry/nn/norm.hpp"

namespace tapestry::nn {

/// @addtogroup distributed
/// @{

/// A BatchNorm whose mean and variance, in training mode, are those of the batches of all ranks together. The batches
/// may have different sizes. It has the names of a BatchNorm, so that states are exchanged freely. All ranks must call
/// it together, also for gradients.
class TAPESTRY_API SyncBatchNorm : public BatchNorm {
 public:
  /// Throws InvalidArgumentError for a number of channels below 1.
  SyncBatchNorm(std::int64_t channels, const Communicator& world, const BatchNormOptions& options = {},
                Where where = Where::here())
      : BatchNorm(channels, options, where), world_(world) {}

 private:
  Tensor train_on(const Tensor& x) const override;

  Communicator world_;
};

/// @}

}  // namespace tapestry::nn
