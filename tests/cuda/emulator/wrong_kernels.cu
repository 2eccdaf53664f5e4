#include "wrong_kernels.hpp"

namespace emulator::test {
namespace {

constexpr int block_threads = 64;

/// sums[i]: the sum of the numbers of all threads of a warp, plus 100 times that of the neighbour in the block.
__global__ void right_kernel(int* sums) {
  __shared__ int number[block_threads];
  const int i = static_cast<int>(threadIdx.x);
  int sum = i;
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
  number[i] = i;
  __syncthreads();
  sums[i] = sum + 100 * number[(i + 1) % block_threads];
}
__global__ void leaving_kernel() {
  if (threadIdx.x == 5) return;
  __syncthreads();
}
__global__ void divergent_kernel() {
  if (threadIdx.x < 3) __syncthreads();
}
__global__ void branches_kernel() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
__global__ void lonely_shuffle_kernel() {
  if (threadIdx.x % 32 != 31) __shfl_xor_sync(0xffffffffu, 1, 1);
}
__global__ void shuffle_kernel() { __shfl_xor_sync(0xffffffffu, 1, 1); }
__global__ void beyond_kernel(int* data, int count) { data[count] = 0; }
/// Reads what another thread writes, without a barrier between them.
__global__ void racing_kernel(int* data) {
  __shared__ int number[block_threads];
  const int i = static_cast<int>(threadIdx.x);
  number[i] = i;
  data[i] = number[(i + 1) % block_threads];
}
/// Reads shared memory that nobody has written.
__global__ void forgetful_kernel(int* data) {
  __shared__ int number[block_threads];
  data[threadIdx.x] = number[threadIdx.x];
}
__global__ void shared_kernel() {
  __shared__ double many[1000][7];
  many[0][0] = 1;
}
__global__ void __launch_bounds__(block_threads) bounded_kernel() {}
__global__ void empty_kernel() {}
__global__ void adding_kernel(int* data, int at) { ++data[at]; }

}  // namespace

void start_right(CUstream_st* stream, int* sums) { right_kernel<<<1, block_threads, 0, stream>>>(sums); }
void start_leaving(CUstream_st* stream) { leaving_kernel<<<1, block_threads, 0, stream>>>(); }
void start_divergent(CUstream_st* stream) { divergent_kernel<<<1, block_threads, 0, stream>>>(); }
void start_branches(CUstream_st* stream) { branches_kernel<<<1, block_threads, 0, stream>>>(); }
void start_lonely_shuffle(CUstream_st* stream) { lonely_shuffle_kernel<<<1, block_threads, 0, stream>>>(); }
void start_short_warp(CUstream_st* stream) { shuffle_kernel<<<1, 40, 0, stream>>>(); }
void start_adding(CUstream_st* stream, int* data, int at) { adding_kernel<<<1, 1, 0, stream>>>(data, at); }
void start_beyond(CUstream_st* stream, int* data, int count) { beyond_kernel<<<1, 1, 0, stream>>>(data, count); }
void start_racing(CUstream_st* stream, int* data) { racing_kernel<<<1, block_threads, 0, stream>>>(data); }
void start_forgetful(CUstream_st* stream, int* data) { forgetful_kernel<<<1, block_threads, 0, stream>>>(data); }
void start_shared(CUstream_st* stream) { shared_kernel<<<1, 1, 0, stream>>>(); }
void start_bounded(CUstream_st* stream, unsigned threads) { bounded_kernel<<<1, threads, 0, stream>>>(); }
void start_grid(CUstream_st* stream, unsigned x, unsigned y, unsigned threads) {
  empty_kernel<<<dim3(x, y), threads, 0, stream>>>();
}

}  // namespace emulator::test
