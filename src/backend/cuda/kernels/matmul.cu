#include "backend/cuda/kernels/matmul.hpp"

namespace tapestry::gpu {
namespace {

constexpr int tile = 16;

/// A block computes a tile of y from tiles of a and b in shared memory. T is unsigned, so that it may overflow.
template <class T>
__global__ void __launch_bounds__(tile* tile)
    multiply_kernel(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t count, Matrices a, Matrices b, T* y,
                    std::int64_t y_batch) {
  __shared__ T left[tile][tile], right[tile][tile];
  const int column = static_cast<int>(threadIdx.x) % tile, row = static_cast<int>(threadIdx.x) / tile;
  const std::int64_t tiles_down = (m + tile - 1) / tile, tiles_across = (n + tile - 1) / tile;
  const std::int64_t tiles = tiles_down * tiles_across;
  for (std::int64_t place = blockIdx.x; place < tiles * count; place += gridDim.x) {
    const std::int64_t product = place / tiles;
    const std::int64_t i = place % tiles / tiles_across * tile + row, j = place % tiles_across * tile + column;
    const T* from_a = static_cast<const T*>(a.data) + product * a.batch;
    const T* from_b = static_cast<const T*>(b.data) + product * b.batch;
    T sum = 0;
    for (std::int64_t first = 0; first < k; first += tile) {
      const std::int64_t a_column = first + column, b_row = first + row;
      left[row][column] = i < m && a_column < k ? from_a[i * a.row + a_column * a.column] : T(0);
      right[row][column] = b_row < k && j < n ? from_b[b_row * b.row + j * b.column] : T(0);
      __syncthreads();
      for (int l = 0; l < tile; ++l) sum = static_cast<T>(sum + left[row][l] * right[l][column]);
      __syncthreads();
    }
    if (i < m && j < n) y[product * y_batch + i * n + j] = sum;
  }
}

template <class T>
void start(Stream stream, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t count, Matrices a, Matrices b,
           void* y, std::int64_t y_batch) {
  const std::int64_t tiles = (m + tile - 1) / tile * ((n + tile - 1) / tile) * count;
  multiply_kernel<<<blocks_for(tiles * block_threads), tile * tile, 0, stream>>>(m, n, k, count, a, b,
                                                                                 static_cast<T*>(y), y_batch);
}

}  // namespace

void multiply_whole(Stream stream, Type type, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t count,
                    Matrices a, Matrices b, void* y, std::int64_t y_batch) {
  const auto start = type == Type::u8    ? gpu::start<std::uint8_t>
                     : type == Type::i32 ? gpu::start<std::uint32_t>
                                         : gpu::start<std::uint64_t>;
  start(stream, m, n, k, count, a, b, y, y_batch);
}

}  // namespace tapestry::gpu
