#pragma once

// The two kernel templates of all elementwise functions.

#include "backend/cuda/kernels/elementwise.hpp"
#include "backend/cuda/kernels/kernel.cuh"
#include "backend/cuda/kernels/vector.cuh"

namespace tapestry::gpu {

/// The number of elements of the largest type that fit in 16 bytes.
template <class A, class T, class Y>
inline constexpr int vector_width = 16 / (sizeof(A) > sizeof(T) ? (sizeof(A) > sizeof(Y) ? sizeof(A) : sizeof(Y))
                                                                : (sizeof(T) > sizeof(Y) ? sizeof(T) : sizeof(Y)));

template <class T, int width>
__device__ __forceinline__ void load(const T* x, int step, std::int64_t i, T (&to)[width]) {
  if (step == 0) {
    const T value = *x;
#pragma unroll
    for (int j = 0; j < width; ++j) to[j] = value;
  } else {
    load(x + i, to);
  }
}

/// y[i] = F(a[i], b[i], c[i]; p), with the first `inputs` of the three operands. y may be an input.
template <class F, int inputs, class A, class T, class Y>
__global__ void __launch_bounds__(block_threads)
    flat_kernel(const A* a, const T* b, const T* c, Y* y, int a_step, int b_step, int c_step, std::int64_t n, T p) {
  constexpr int width = vector_width<A, T, Y>;
  for (std::int64_t i = global_thread() * width; i < n; i += grid_threads() * width) {
    if (i + width <= n) {
      A first[width] = {};
      T second[width] = {}, third[width] = {};
      load(a, a_step, i, first);
      if constexpr (inputs > 1) load(b, b_step, i, second);
      if constexpr (inputs > 2) load(c, c_step, i, third);
      Y result[width];
#pragma unroll
      for (int j = 0; j < width; ++j)
        result[j] = static_cast<Y>(F::template apply<A, T>(first[j], second[j], third[j], p));
      store(result, y + i);
    } else {
#pragma unroll 1
      for (std::int64_t j = i; j < n; ++j)
        y[j] = static_cast<Y>(F::template apply<A, T>(a[j * a_step], inputs > 1 ? b[j * b_step] : T(0),
                                                      inputs > 2 ? c[j * c_step] : T(0), p));
    }
  }
}

template <class F, int inputs, class A, class T, class Y>
__global__ void __launch_bounds__(block_threads)
    strided_kernel(const A* a, const T* b, const T* c, Y* y, const __grid_constant__ Layout layout, std::uint32_t n,
                   T p) {
  const std::uint32_t grid = gridDim.x * block_threads;
  for (std::uint32_t i = blockIdx.x * block_threads + threadIdx.x; i < n; i += grid) {
    std::int32_t offset[inputs + 1];
    layout.locate(i, offset);
    T second = T(0), third = T(0);
    if constexpr (inputs > 1) second = b[offset[2]];
    if constexpr (inputs > 2) third = c[offset[inputs]];
    y[offset[0]] = static_cast<Y>(F::template apply<A, T>(a[offset[1]], second, third, p));
  }
}

/// Starts a function of `inputs` arrays. A is the type of the first; T is that of the others and of the number.
template <class F, int inputs, class A, class T, class Y>
void launch(Stream stream, const Elements& e, double number) {
  const auto* a = static_cast<const A*>(e.x[0]);
  const auto* b = static_cast<const T*>(e.x[1]);
  const auto* c = static_cast<const T*>(e.x[2]);
  auto* y = static_cast<Y*>(e.y);
  if (e.flat) {
    constexpr int width = vector_width<A, T, Y>;
    flat_kernel<F, inputs, A, T, Y><<<blocks_for((e.n + width - 1) / width), block_threads, 0, stream>>>(
        a, b, c, y, e.step[0], e.step[1], e.step[2], e.n, static_cast<T>(number));
  } else {
    strided_kernel<F, inputs, A, T, Y><<<blocks_for(e.n), block_threads, 0, stream>>>(
        a, b, c, y, e.layout, static_cast<std::uint32_t>(e.n), static_cast<T>(number));
  }
}

/// An entry of the tables in formulas.hpp.
template <int inputs, class F, class A, class T, class Y>
struct Kernel {
  static constexpr Launch value = launch<F, inputs, A, T, Y>;
};

}  // namespace tapestry::gpu
