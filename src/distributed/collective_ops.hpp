#pragma once

#include "tapestry/distributed/communicator.hpp"

namespace tapestry::detail {

/// A reduction of several tensors that has begun.
struct PendingReduce {
  Attrs attrs;      ///< of the two ops
  Tensors tensors;  ///< of which `finish` reads dtypes and shapes
  Tensor handle;    ///< what the first op gives to the second
  Where where;
};

/// Begins to reduce tensors of one dtype (a sum or mean). Other ops can run until the result is needed. `layout` must
/// be equal on all ranks.
PendingReduce start_all_reduce(const Communicator& among, const Tensors& tensors, Reduce reduce, std::int64_t layout,
                               Where where);
/// Waits for the reduced tensors.
Tensors finish(const PendingReduce& pending);

}  // namespace tapestry::detail
