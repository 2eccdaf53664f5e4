#pragma once

// What a kernel file needs to be compiled for the host: CUDA's words, and a GPU that runs one block at a time. The
// threads of a block are fibers, which take turns where they wait for one another.

#include <cmath>
#include <cstdint>
#include <functional>
#include <utility>

#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __grid_constant__
#define __launch_bounds__(threads)

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3(unsigned columns = 1, unsigned rows = 1, unsigned layers = 1) : x(columns), y(rows), z(layers) {}
};
extern dim3 gridDim, blockIdx, threadIdx;

namespace emulation {

/// Runs `thread` for every thread of the grid.
void launch(dim3 grid, dim3 block, const std::function<void()>& thread);
/// Returns when all threads of the block, or of the warp, have come here or ended.
void wait_for_block();
void wait_for_warp();
/// 8 bytes for each thread of the block.
std::uint64_t& slot(unsigned thread);

}  // namespace emulation

inline void __syncthreads() { emulation::wait_for_block(); }

template <class T>
T __shfl_xor_sync(unsigned, T value, int distance) {
  static_assert(sizeof(T) <= 8);
  __builtin_memcpy(&emulation::slot(threadIdx.x), &value, sizeof value);
  emulation::wait_for_warp();
  __builtin_memcpy(&value, &emulation::slot(threadIdx.x ^ static_cast<unsigned>(distance)), sizeof value);
  emulation::wait_for_warp();
  return value;
}

template <class T>
T atomicMin(T* address, T value) {
  const T before = *address;
  if (value < before) *address = value;
  return before;
}
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
