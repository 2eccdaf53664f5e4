#pragma once

// What kernel files share among themselves.

#include "backend/cuda/kernels/kernel.hpp"

namespace tapestry::gpu {

/// The number of a thread in its grid of blocks of `block_threads`, and the number of threads in the grid. Kernels loop
/// over elements from the first in steps of the second (a grid-stride loop).
__device__ inline std::int64_t global_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x;
}
__device__ inline std::int64_t grid_threads() { return static_cast<std::int64_t>(gridDim.x) * block_threads; }

/// Calls start(x), where x is a number of the float type.
template <class Start>
void with_float_type(Type type, const Start& start) {
  if (type == Type::f32) {
    start(float{});
  } else {
    start(double{});
  }
}
/// x as a pointer to elements of the second argument's type.
template <class T>
const T* as(const void* x, T) {
  return static_cast<const T*>(x);
}
template <class T>
T* as(void* x, T) {
  return static_cast<T*>(x);
}

}  // namespace tapestry::gpu
