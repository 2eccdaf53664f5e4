#pragma once

#include <memory>
#include <string>

#include "backend/backend.hpp"
#include "backend/cuda/context.hpp"

namespace tapestry::gpu {

/// Which GPU this is, on all machines. Throws NotFoundError if it cannot use NCCL, or TAPESTRY_NCCL is 0.
std::string nccl_address(int index);
/// The bytes of a new NcclId.
std::string new_nccl_id();
/// Joins a device with those of the other ranks. Throws InternalError if NCCL cannot do it, AbortedError if another
/// rank of this process has failed to.
std::unique_ptr<DeviceGroup> join_by_nccl(Context& gpu, const std::string& id, int rank, int ranks);

}  // namespace tapestry::gpu
