#include "backend/cuda/kernels/kernel.cuh"
#include "backend/cuda/kernels/random.hpp"

namespace tapestry::gpu {
namespace {

/// A thread makes all numbers of a block: block i makes the elements from i * count on.
template <class T>
__global__ void __launch_bounds__(block_threads)
    floats_kernel(RandomKind kind, std::uint64_t key, std::uint64_t counter, T a, T b, T top, T* y, std::int64_t n) {
  constexpr int count = block_elements<T>;
  for (std::int64_t i = global_thread(); i * count < n; i += grid_threads()) {
    T numbers[count];
    draw(kind, key, counter + static_cast<std::uint64_t>(i), a, b, top, numbers);
#pragma unroll
    for (int j = 0; j < count; ++j)
      if (i * count + j < n) y[i * count + j] = numbers[j];
  }
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    whole_kernel(std::uint64_t key, std::uint64_t counter, std::int64_t a, std::uint64_t range, T* y, std::int64_t n) {
  constexpr int count = whole_block_elements;
  for (std::int64_t i = global_thread(); i * count < n; i += grid_threads()) {
    const philox::Block block = philox::block(key, counter + static_cast<std::uint64_t>(i));
#pragma unroll
    for (int j = 0; j < count; ++j)
      if (i * count + j < n) y[i * count + j] = static_cast<T>(draw_whole(block, j, a, range));
  }
}

template <class T>
void start_floats(Stream stream, RandomKind kind, std::uint64_t key, std::uint64_t counter, double a, double b,
                  double top, void* y, std::int64_t n) {
  const unsigned blocks = blocks_for((n + block_elements<T> - 1) / block_elements<T>);
  floats_kernel<T><<<blocks, block_threads, 0, stream>>>(kind, key, counter, static_cast<T>(a), static_cast<T>(b),
                                                         static_cast<T>(top), static_cast<T*>(y), n);
}

template <class T>
void start_whole(Stream stream, std::uint64_t key, std::uint64_t counter, std::int64_t a, std::uint64_t range, void* y,
                 std::int64_t n) {
  const unsigned blocks = blocks_for((n + whole_block_elements - 1) / whole_block_elements);
  whole_kernel<T><<<blocks, block_threads, 0, stream>>>(key, counter, a, range, static_cast<T*>(y), n);
}

}  // namespace

void random_floats(Stream stream, Type type, RandomKind kind, std::uint64_t key, std::uint64_t counter, double a,
                   double b, double top, void* y, std::int64_t n) {
  if (type == Type::f32) return start_floats<float>(stream, kind, key, counter, a, b, top, y, n);
  start_floats<double>(stream, kind, key, counter, a, b, top, y, n);
}

void random_whole(Stream stream, Type type, std::uint64_t key, std::uint64_t counter, std::int64_t a,
                  std::uint64_t range, void* y, std::int64_t n) {
  if (type == Type::i32) return start_whole<std::int32_t>(stream, key, counter, a, range, y, n);
  start_whole<std::int64_t>(stream, key, counter, a, range, y, n);
}

}  // namespace tapestry::gpu
