#pragma once

// The declarations that kernel files and their callers share. nvcc compiles kernel files, which see plain structures
// only: this folder, functors.hpp, philox.hpp and float16.hpp. The library's compiler compiles their callers, which see
// no CUDA syntax.

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define TAPESTRY_HD __host__ __device__ __forceinline__
#else
#include <cmath>
#define TAPESTRY_HD inline
#endif

struct CUstream_st;

namespace tapestry::gpu {

/// cudaStream_t, without CUDA's headers.
using Stream = CUstream_st*;

/// The element types, numbered as DType is. The only kernels for f16 and bf16 are those that move and convert.
enum class Type : std::uint8_t { b8 = 1, u8, i32, i64, f16, bf16, f32, f64 };
inline constexpr int type_count = 9;

inline constexpr int block_threads = 256;
/// The most blocks of a kernel with a grid-stride loop: several for each multiprocessor of the largest GPU.
inline constexpr std::int64_t grid_limit = 132 * 16;

/// Blocks for `threads` threads.
inline unsigned blocks_for(std::int64_t threads) {
  const std::int64_t blocks = (threads + block_threads - 1) / block_threads;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks > grid_limit ? grid_limit : blocks);
}

}  // namespace tapestry::gpu
