#pragma once

#include "backend/cuda/kernels/kernel.hpp"

namespace tapestry::gpu {

/// values[i] = i.
void number(Stream stream, std::uint32_t* values, std::int64_t count);

/// Bytes of scratch memory that `sort_pairs` needs for `count` pairs.
std::size_t sort_scratch(std::int64_t count);

/// Sorts fewer than 2^31 pairs by the lower `bits` bits of their keys; pairs of equal keys keep their order. Returns
/// CUDA's error, 0 for none, as cudaGetLastError does not report all of them.
int sort_pairs(Stream stream, const std::uint64_t* keys, std::uint64_t* sorted_keys, const std::uint32_t* values,
               std::uint32_t* sorted_values, std::int64_t count, int bits, void* scratch, std::size_t scratch_bytes);

}  // namespace tapestry::gpu
