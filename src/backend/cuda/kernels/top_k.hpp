#pragma once

#include "backend/cuda/kernels/kernel.hpp"

namespace tapestry::gpu {

/// keys[i] = an unsigned number that orders as x[i] does, with NaN as the largest and both zeros equal. The order is
/// reversed for `largest`.
void order_keys(Stream stream, Type type, bool largest, const void* x, std::int64_t count, std::uint64_t* keys);
/// The number of lower bits that such keys use.
int key_bits(Type type);

/// keys[i] = order[i] / n: the row of an element.
void row_keys(Stream stream, const std::uint32_t* order, std::int64_t n, std::int64_t count, std::uint64_t* keys);

/// Takes the first k of each row of n sorted elements: values[r, j] = x[order[r n + j]], for elements of 1, 4 or 8
/// bytes. `indices` gets their positions in their rows, as int64 if `wide`, else int32.
void take_first(Stream stream, std::int64_t element_bytes, const void* x, const std::uint32_t* order, std::int64_t rows,
                std::int64_t n, std::int64_t k, void* values, void* indices, bool wide);

}  // namespace tapestry::gpu
