#pragma once

// Loads and stores of neighbouring elements at once.

#include "backend/cuda/kernels/kernel.hpp"

namespace tapestry::gpu {

template <class T, int width>
struct alignas(sizeof(T) * width) Vector {
  T element[width];
};

/// The address must be a multiple of the vector's bytes.
template <class T, int width>
__device__ __forceinline__ void load(const T* x, T (&to)[width]) {
  const auto vector = *reinterpret_cast<const Vector<T, width>*>(x);
#pragma unroll
  for (int j = 0; j < width; ++j) to[j] = vector.element[j];
}
template <class T, int width>
__device__ __forceinline__ void store(const T (&from)[width], T* y) {
  Vector<T, width> vector;
#pragma unroll
  for (int j = 0; j < width; ++j) vector.element[j] = from[j];
  *reinterpret_cast<Vector<T, width>*>(y) = vector;
}

}  // namespace tapestry::gpu
