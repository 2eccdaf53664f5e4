#pragma once

#include "distributed/rpc_plugin.hpp"

namespace tapestry::detail {

/// Adds the operations of a synchronous step to the default graph. Those of queues and accumulators are nodes of
/// TensorFlow's, which only servers run.
train::SyncReplicasOptimizer::Operations synchronize(train::Optimizer& optimizer,
                                                     const train::GradientsAndVariables& gradients,
                                                     const train::ApplyOptions& options, const SyncCounts& counts);

}  // namespace tapestry::detail
