#pragma once

#include <cstdint>

#include "backend/cpu/levels.hpp"

namespace tapestry::host {

/// y[m, N] = a[m, K] b[K, N], with a and y contiguous and b[p, j] = b[p * row + j * column].
template <class T>
using TinyProduct = void (*)(const T* a, const T* b, std::int64_t row, std::int64_t column, T* y, std::int64_t m);
/// y[m, n] = a b of integers, which wrap: a[i, p] = a[i * row + p * column], b and y contiguous.
using WholeProduct = void (*)(const void* a, std::int64_t row, std::int64_t column, const void* b, void* y,
                              std::int64_t m, std::int64_t n, std::int64_t k);

constexpr std::int64_t tiny_sizes[] = {1, 2, 3, 4, 8};

struct MatmulTable {
  /// Indexed by the positions of K and N in `tiny_sizes`.
  TinyProduct<float> tiny_f32[5][5];
  TinyProduct<double> tiny_f64[5][5];
  WholeProduct i32, i64, u8;
};
TAPESTRY_KERNEL_TABLE(MatmulTable, matmul_table)

}  // namespace tapestry::host
