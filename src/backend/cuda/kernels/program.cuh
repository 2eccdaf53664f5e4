#pragma once

// The functions that the text of a program's kernel uses, see program_text.cpp. NVRTC compiles the text on the user's
// machine, where it finds only the headers that the plugin carries. So this file includes only this folder,
// functors.hpp and float16.hpp, and uses only what embed.py defines of the standard library.

#include "backend/cuda/kernels/convert.hpp"
#include "backend/cuda/kernels/formulas.hpp"
#include "backend/cuda/kernels/kernel.cuh"
#include "backend/cuda/kernels/layout.hpp"
#include "backend/cuda/kernels/vector.cuh"

namespace tapestry::gpu {

/// Loads the elements i, i + 1, ... of an array of n, and zeros beyond its end.
template <class T, int width>
__device__ __forceinline__ void load_flat(const T* x, std::int64_t i, std::int64_t n, T (&to)[width]) {
  if (i + width <= n) return load(x + i, to);
#pragma unroll
  for (int j = 0; j < width; ++j) to[j] = i + j < n ? x[i + j] : T(0);
}
template <class T, int width>
__device__ __forceinline__ void store_flat(const T (&from)[width], T* y, std::int64_t i, std::int64_t n) {
  if (i + width <= n) return store(from, y + i);
#pragma unroll
  for (int j = 0; j < width; ++j)
    if (i + j < n) y[i + j] = from[j];
}

/// Loads elements that are `stride` apart.
template <class T, int width>
__device__ __forceinline__ void load_strided(const T* x, std::int32_t stride, T (&to)[width]) {
#pragma unroll
  for (int j = 0; j < width; ++j) to[j] = x[j * stride];
}
template <class T, int width>
__device__ __forceinline__ void store_strided(const T (&from)[width], T* y, std::int32_t stride) {
#pragma unroll
  for (int j = 0; j < width; ++j) y[j * stride] = from[j];
}

}  // namespace tapestry::gpu
