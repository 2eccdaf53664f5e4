#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

struct CUstream_st;

namespace tapestry::gpu {

// The functions and numbers of NCCL 2 that the plugin uses. They are declared here, so that a build without NCCL's
// header can use the library where it is installed. The tests compare them with the header where they find it.

/// What connects one device with those of the other ranks.
using NcclComm = struct NcclCommunicator*;
/// Names a communicator that is to be made.
struct NcclId {
  char bytes[128];
};

inline constexpr int nccl_success = 0, nccl_in_progress = 7, nccl_sum = 0, nccl_prod = 1, nccl_max = 2, nccl_min = 3,
                     nccl_uint8 = 1, nccl_int32 = 2, nccl_int64 = 4, nccl_float16 = 6, nccl_float32 = 7,
                     nccl_float64 = 8, nccl_bfloat16 = 9;

/// The settings of a communicator, as NCCL 2.14 had them; later versions take the others as unset. A call on one that
/// is not `blocking` returns at once, with `nccl_in_progress` if it has something to wait for.
struct NcclConfig {
  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef, version = 21400;
  int blocking = 0;
};

struct Nccl {
  int (*version)(int* number);
  const char* (*error_string)(int result);
  const char* (*last_error)(NcclComm);
  int (*new_id)(NcclId*);
  int (*init)(NcclComm*, int ranks, NcclId, int rank, NcclConfig*);
  int (*abort)(NcclComm);
  int (*async_error)(NcclComm, int* result);
  int (*all_reduce)(const void* from, void* to, std::size_t count, int type, int op, NcclComm, CUstream_st*);
  int (*reduce_scatter)(const void* from, void* to, std::size_t received, int type, int op, NcclComm, CUstream_st*);
  int (*all_gather)(const void* from, void* to, std::size_t sent, int type, NcclComm, CUstream_st*);
  int (*broadcast)(const void* from, void* to, std::size_t count, int type, int root, NcclComm, CUstream_st*);
};

/// X(member of Nccl, name in the library)
#define TAPESTRY_NCCL(X)                \
  X(version, ncclGetVersion)            \
  X(error_string, ncclGetErrorString)   \
  X(last_error, ncclGetLastError)       \
  X(new_id, ncclGetUniqueId)            \
  X(init, ncclCommInitRankConfig)       \
  X(abort, ncclCommAbort)               \
  X(async_error, ncclCommGetAsyncError) \
  X(all_reduce, ncclAllReduce)          \
  X(reduce_scatter, ncclReduceScatter)  \
  X(all_gather, ncclAllGather)          \
  X(broadcast, ncclBroadcast)

/// The library, opened at the first call. Throws NotFoundError if it is not installed or lacks a function.
const Nccl& nccl();
/// "NCCL 2.28.9".
std::string nccl_name();

}  // namespace tapestry::gpu
