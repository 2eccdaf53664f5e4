#include "backend/cuda/kernels/kernel.cuh"
#include "backend/cuda/kernels/sort.hpp"

// The one file with CUB, which takes seconds to compile.
#include <cub/device/device_radix_sort.cuh>

namespace tapestry::gpu {
namespace {

__global__ void __launch_bounds__(block_threads) number_kernel(std::uint32_t* values, std::int64_t count) {
  for (std::int64_t i = global_thread(); i < count; i += grid_threads()) values[i] = static_cast<std::uint32_t>(i);
}

}  // namespace

void number(Stream stream, std::uint32_t* values, std::int64_t count) {
  number_kernel<<<blocks_for(count), block_threads, 0, stream>>>(values, count);
}

std::size_t sort_scratch(std::int64_t count) {
  std::size_t bytes = 0;
  cub::DeviceRadixSort::SortPairs(nullptr, bytes, static_cast<const std::uint64_t*>(nullptr),
                                  static_cast<std::uint64_t*>(nullptr), static_cast<const std::uint32_t*>(nullptr),
                                  static_cast<std::uint32_t*>(nullptr), static_cast<int>(count));
  return bytes;
}

int sort_pairs(Stream stream, const std::uint64_t* keys, std::uint64_t* sorted_keys, const std::uint32_t* values,
               std::uint32_t* sorted_values, std::int64_t count, int bits, void* scratch, std::size_t scratch_bytes) {
  return cub::DeviceRadixSort::SortPairs(scratch, scratch_bytes, keys, sorted_keys, values, sorted_values,
                                         static_cast<int>(count), 0, bits, stream);
}

}  // namespace tapestry::gpu
