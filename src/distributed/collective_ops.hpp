#pragma once

#include <string>

#include "tapestry/distributed/communicator.hpp"
#include "tapestry/sparse.hpp"

namespace tapestry::detail {

/// What all ranks must have alike when they meet, for the message where they do not.
struct SharedSettings {
  std::string name{};  ///< of the optimizer; "" for no settings
  double clip_norm = 0;
  /// Gives what may change between runs: the number of the step, the learning rate, the numbers of the formula.
  Closure numbers{};
};

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
                               Where where, const SharedSettings& settings = {});
/// Waits for the reduced tensors.
Tensors finish(const PendingReduce& pending);

/// The rows of all ranks, one rank's behind the other's. Rows of one rank that have the same index are added up first.
/// `layout` must be equal on all ranks.
IndexedSlices gather_rows(const Communicator& among, const IndexedSlices& rows, std::int64_t layout, Where where,
                          const SharedSettings& settings = {});

}  // namespace tapestry::detail
