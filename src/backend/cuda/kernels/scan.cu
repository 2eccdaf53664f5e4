#include "backend/cuda/kernels/kernel.cuh"
#include "backend/cuda/kernels/scan.hpp"

namespace tapestry::gpu {
namespace {

template <class T>
struct Sum {
  static __device__ T none() { return T(0); }
  static __device__ T combine(T a, T b) { return static_cast<T>(a + b); }
};
template <>
struct Sum<bool> {
  static __device__ bool none() { return false; }
  static __device__ bool combine(bool a, bool b) { return a || b; }
};
template <class T>
struct Product {
  static __device__ T none() { return T(1); }
  static __device__ T combine(T a, T b) { return static_cast<T>(a * b); }
};
template <>
struct Product<bool> {
  static __device__ bool none() { return true; }
  static __device__ bool combine(bool a, bool b) { return a && b; }
};

/// Each thread scans a line. Neighbouring lines are neighbours in memory.
template <class F, class T>
__global__ void __launch_bounds__(block_threads) column_kernel(ScanShape s, const T* x, T* y) {
  const std::int64_t lines = s.outer * s.inner;
  for (std::int64_t i = global_thread(); i < lines; i += grid_threads()) {
    const std::int64_t first = i / s.inner * s.length * s.inner + i % s.inner;
    const std::int64_t start = s.reverse ? first + (s.length - 1) * s.inner : first;
    const std::int64_t step = s.reverse ? -s.inner : s.inner;
    T total = F::none();
    for (std::int64_t j = 0; j < s.length; ++j) {
      const T before = total;
      total = F::combine(total, x[start + j * step]);
      y[start + j * step] = s.exclusive ? before : total;
    }
  }
}

/// Each block scans a line, 256 elements at a time. Results are combined over a distance that doubles each time (Hillis
/// and Steele 1986), and the total is carried to the next 256.
template <class F, class T>
__global__ void __launch_bounds__(block_threads) line_kernel(ScanShape s, const T* x, T* y) {
  __shared__ T room[2][block_threads];
  const auto thread = static_cast<int>(threadIdx.x);
  for (std::int64_t line = blockIdx.x; line < s.outer; line += gridDim.x) {
    T carry = F::none();
    for (std::int64_t first = 0; first < s.length; first += block_threads) {
      const std::int64_t i = first + thread, place = line * s.length + (s.reverse ? s.length - 1 - i : i);
      int from = 0;
      room[0][thread] = i < s.length ? x[place] : F::none();
      __syncthreads();
      for (int distance = 1; distance < block_threads; distance *= 2) {
        const T own = room[from][thread];
        room[1 - from][thread] = thread >= distance ? F::combine(room[from][thread - distance], own) : own;
        from = 1 - from;
        __syncthreads();
      }
      const T before = thread > 0 ? F::combine(carry, room[from][thread - 1]) : carry;
      if (i < s.length) y[place] = s.exclusive ? before : F::combine(carry, room[from][thread]);
      carry = F::combine(carry, room[from][block_threads - 1]);
      __syncthreads();
    }
  }
}

template <class F, class T>
void start(Stream stream, const ScanShape& s, const void* x, void* y) {
  const auto* from = static_cast<const T*>(x);
  auto* to = static_cast<T*>(y);
  if (s.inner == 1) {
    line_kernel<F><<<blocks_for(s.outer * block_threads), block_threads, 0, stream>>>(s, from, to);
  } else {
    column_kernel<F><<<blocks_for(s.outer * s.inner), block_threads, 0, stream>>>(s, from, to);
  }
}

using Start = void (*)(Stream, const ScanShape&, const void*, void*);
template <template <class> class F>
constexpr Start starts[type_count] = {nullptr,
                                      start<F<bool>, bool>,
                                      start<F<std::uint8_t>, std::uint8_t>,
                                      start<F<std::int32_t>, std::int32_t>,
                                      start<F<std::int64_t>, std::int64_t>,
                                      nullptr,
                                      nullptr,
                                      start<F<float>, float>,
                                      start<F<double>, double>};

}  // namespace

void scan(Stream stream, bool product, Type type, const ScanShape& shape, const void* x, void* y) {
  (product ? starts<Product> : starts<Sum>)[static_cast<int>(type)](stream, shape, x, y);
}

}  // namespace tapestry::gpu
