#include "backend/cpu/kernels/matmul.hpp"

#include <cstdint>

#include "backend/cpu/kernels/math.hpp"

namespace tapestry::host::TAPESTRY_KERNEL_LEVEL {
namespace {

using std::int64_t;

template <class T, int K, int N>
void tiny(const T* __restrict a, const T* b, int64_t row, int64_t column, T* __restrict y, int64_t m) {
  T weights[K][N];
  for (int p = 0; p < K; ++p)
    for (int j = 0; j < N; ++j) weights[p][j] = b[p * row + j * column];
  for (int64_t i = 0; i < m; ++i) {
    for (int j = 0; j < N; ++j) {
      T sum = 0;  // as the kernels of gemm.cpp sum, so that an operand's layout does not decide on bits
      for (int p = 0; p < K; ++p) sum = math::multiply_add(a[i * K + p], weights[p][j], sum);
      y[i * N + j] = sum;
    }
  }
}

/// Blocks of b that stay in the caches: `depth` rows of `width` elements.
constexpr int64_t depth = 64, width = 1024;

template <class T>
void whole(const void* a, int64_t row, int64_t column, const void* b, void* y, int64_t m, int64_t n, int64_t k) {
  const T* left = static_cast<const T*>(a);
  T* result = static_cast<T*>(y);
  for (int64_t i = 0; i < m * n; ++i) result[i] = 0;
  for (int64_t j = 0; j < n; j += width) {
    const int64_t columns = n - j < width ? n - j : width;
    for (int64_t first = 0; first < k; first += depth) {
      const int64_t last = k - first < depth ? k : first + depth;
      for (int64_t i = 0; i < m; ++i) {
        T* __restrict to = result + i * n + j;
        for (int64_t p = first; p < last; ++p) {
          const T factor = left[i * row + p * column];
          const T* __restrict from = static_cast<const T*>(b) + p * n + j;
          for (int64_t c = 0; c < columns; ++c) to[c] = static_cast<T>(to[c] + factor * from[c]);
        }
      }
    }
  }
}

}  // namespace

#define TAPESTRY_TINY_DEPTH(T, K) \
  { tiny<T, K, 1>, tiny<T, K, 2>, tiny<T, K, 3>, tiny<T, K, 4>, tiny<T, K, 8> }
#define TAPESTRY_TINY(T)                                                                                        \
  {                                                                                                             \
    TAPESTRY_TINY_DEPTH(T, 1), TAPESTRY_TINY_DEPTH(T, 2), TAPESTRY_TINY_DEPTH(T, 3), TAPESTRY_TINY_DEPTH(T, 4), \
        TAPESTRY_TINY_DEPTH(T, 8)                                                                               \
  }
const MatmulTable matmul_table = {
    .tiny_f32 = TAPESTRY_TINY(float),
    .tiny_f64 = TAPESTRY_TINY(double),
    .i32 = whole<std::uint32_t>,
    .i64 = whole<std::uint64_t>,
    .u8 = whole<std::uint8_t>,
};
#undef TAPESTRY_TINY
#undef TAPESTRY_TINY_DEPTH

}  // namespace tapestry::host::TAPESTRY_KERNEL_LEVEL
