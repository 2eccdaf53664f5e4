#pragma once

// What kernel files share among themselves.

#include "backend/cuda/kernels/kernel.hpp"

namespace tapestry::gpu {

/// The number of a thread in its grid of blocks of `block_threads`, and how many the grid has: the elements of a thread
/// are those from its number on, in steps of the whole grid.
__device__ inline std::int64_t global_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x;
}
__device__ inline std::int64_t grid_threads() { return static_cast<std::int64_t>(gridDim.x) * block_threads; }

/// start(a number of the float type)
template <class Start>
void with_float_type(Type type, const Start& start) {
  if (type == Type::f32) {
    start(float{});
  } else {
    start(double{});
  }
}
/// The memory as that of the type of the second argument.
template <class T>
const T* as(const void* x, T) {
  return static_cast<const T*>(x);
}
template <class T>
T* as(void* x, T) {
  return static_cast<T*>(x);
}

}  // namespace tapestry::gpu
