#pragma once

// cub::DeviceRadixSort::SortPairs by the standard library.

#include <algorithm>
#include <numeric>
#include <vector>

#include <cuda_runtime.h>

namespace cub {

struct DeviceRadixSort {
  template <class Key, class Value>
  static cudaError_t SortPairs(void* scratch, std::size_t& scratch_bytes, const Key* keys, Key* sorted_keys,
                               const Value* values, Value* sorted_values, int count, int begin_bit = 0,
                               int end_bit = sizeof(Key) * 8, cudaStream_t stream = nullptr) {
    const std::size_t needed = 1 + static_cast<std::size_t>(count) * (sizeof(Key) + sizeof(Value));
    if (!scratch) {
      scratch_bytes = needed;
      return cudaSuccess;
    }
    if (scratch_bytes < needed || begin_bit < 0 || end_bit > static_cast<int>(sizeof(Key) * 8) || begin_bit > end_bit)
      return cudaErrorInvalidValue;
    const auto sort = [=] {
      const Key mask = end_bit - begin_bit == sizeof(Key) * 8 ? ~Key{0} : (Key{1} << (end_bit - begin_bit)) - 1;
      std::vector<int> order(static_cast<std::size_t>(count));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](int a, int b) { return (keys[a] >> begin_bit & mask) < (keys[b] >> begin_bit & mask); });
      std::memset(scratch, 0xff, needed);
      for (int i = 0; i < count; ++i) {
        sorted_keys[i] = keys[order[static_cast<std::size_t>(i)]];
        sorted_values[i] = values[order[static_cast<std::size_t>(i)]];
      }
    };
    emulator::launch("cub::DeviceRadixSort::SortPairs", {1, 1, 0, stream}, [&] { return sort; });
    return cudaSuccess;
  }
};

}  // namespace cub
