#include "backend/cuda/kernels/kernel.cuh"
#include "backend/cuda/kernels/math.hpp"
#include "backend/cuda/kernels/normalize.hpp"

namespace tapestry::gpu {
namespace {

// A warp computes a row, or a whole block if the row is long.

constexpr int warp = 32;
constexpr std::int64_t long_row = 1024;

struct Add {
  template <class T>
  static __device__ T combine(T a, T b) {
    return a + b;
  }
};
struct Larger {
  template <class T>
  static __device__ T combine(T a, T b) {
    return a > b || a != a ? a : b;
  }
};

/// Combines the values of all lanes, and returns the result to each.
template <class F, int lanes, class T>
__device__ T combine_lanes(T value) {
  for (int distance = warp / 2; distance > 0; distance /= 2)
    value = F::combine(value, __shfl_xor_sync(0xffffffffu, value, distance));
  if constexpr (lanes > warp) {
    __shared__ T of_warp[lanes / warp];
    __syncthreads();  // the last call's results may still be read
    if (threadIdx.x % warp == 0) of_warp[threadIdx.x / warp] = value;
    __syncthreads();
    value = of_warp[0];
    for (int i = 1; i < lanes / warp; ++i) value = F::combine(value, of_warp[i]);
  }
  return value;
}

/// Calls body(row, lane) for the rows of a thread.
template <int lanes, class Body>
__device__ void for_rows(std::int64_t rows, const Body& body) {
  constexpr int group = block_threads / lanes;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * group + threadIdx.x / lanes; row < rows;
       row += static_cast<std::int64_t>(gridDim.x) * group)
    body(row, static_cast<std::int64_t>(threadIdx.x % lanes));
}

template <int lanes, class T, class Term>
__device__ T sum_of(std::int64_t n, std::int64_t lane, const Term& term) {
  T sum = 0;
  for (std::int64_t i = lane; i < n; i += lanes) sum += term(i);
  return combine_lanes<Add, lanes>(sum);
}

template <int lanes, class T>
__global__ void __launch_bounds__(block_threads)
    softmax_kernel(std::int64_t rows, std::int64_t n, bool logarithm, const T* from, T* to) {
  for_rows<lanes>(rows, [&](std::int64_t row, std::int64_t lane) {
    const T* x = from + row * n;
    T* y = to + row * n;
    T largest = static_cast<T>(-__builtin_huge_val());
    for (std::int64_t i = lane; i < n; i += lanes) largest = Larger::combine(largest, x[i]);
    largest = combine_lanes<Larger, lanes>(largest);
    const T total = sum_of<lanes, T>(n, lane, [&](std::int64_t i) { return math::exp(x[i] - largest); });
    const T log_total = logarithm ? math::log(total) : T(0), factor = T(1) / total;
    for (std::int64_t i = lane; i < n; i += lanes)
      y[i] = logarithm ? (x[i] - largest) - log_total : math::exp(x[i] - largest) * factor;
  });
}

template <int lanes, class T>
__global__ void __launch_bounds__(block_threads)
    softmax_grad_kernel(std::int64_t rows, std::int64_t n, bool logarithm, const T* output, const T* gradient, T* to) {
  for_rows<lanes>(rows, [&](std::int64_t row, std::int64_t lane) {
    const T *y = output + row * n, *g = gradient + row * n;
    T* dx = to + row * n;
    const T total = sum_of<lanes, T>(n, lane, [&](std::int64_t i) { return logarithm ? g[i] : g[i] * y[i]; });
    for (std::int64_t i = lane; i < n; i += lanes)
      dx[i] = logarithm ? g[i] - math::exp(y[i]) * total : (g[i] - total) * y[i];
  });
}

template <int lanes, class T>
__global__ void __launch_bounds__(block_threads)
    cross_entropy_kernel(std::int64_t rows, std::int64_t n, const T* logits, const void* labels, bool wide, T* loss,
                         T* backprop, unsigned long long* refused) {
  for_rows<lanes>(rows, [&](std::int64_t row, std::int64_t lane) {
    const T* x = logits + row * n;
    T* dx = backprop + row * n;
    std::int64_t label =
        wide ? static_cast<const std::int64_t*>(labels)[row] : static_cast<const std::int32_t*>(labels)[row];
    if (label < 0 || label >= n) {
      if (lane == 0) atomicMin(refused, static_cast<unsigned long long>(row));
      label = 0;
    }
    T largest = static_cast<T>(-__builtin_huge_val());
    for (std::int64_t i = lane; i < n; i += lanes) largest = Larger::combine(largest, x[i]);
    largest = combine_lanes<Larger, lanes>(largest);
    const T total = sum_of<lanes, T>(n, lane, [&](std::int64_t i) { return math::exp(x[i] - largest); });
    const T log_total = math::log(total);
    for (std::int64_t i = lane; i < n; i += lanes)
      dx[i] = math::exp((x[i] - largest) - log_total) - (i == label ? T(1) : T(0));
    if (lane == 0) loss[row] = log_total - (x[label] - largest);
  });
}

template <int lanes, class T>
__global__ void __launch_bounds__(block_threads)
    normalize_kernel(std::int64_t rows, std::int64_t n, const T* from, const T* scale, const T* offset, T epsilon,
                     T* to, T* mean, T* rstd) {
  for_rows<lanes>(rows, [&](std::int64_t row, std::int64_t lane) {
    const T* x = from + row * n;
    T* y = to + row * n;
    const T middle = sum_of<lanes, T>(n, lane, [&](std::int64_t i) { return x[i]; }) / static_cast<T>(n);
    const T squares = sum_of<lanes, T>(n, lane, [&](std::int64_t i) { return (x[i] - middle) * (x[i] - middle); });
    const T factor = T(1) / math::sqrt(squares / static_cast<T>(n) + epsilon);
    for (std::int64_t i = lane; i < n; i += lanes) y[i] = (x[i] - middle) * factor * scale[i] + offset[i];
    if (lane == 0) {
      mean[row] = middle;
      rstd[row] = factor;
    }
  });
}

template <int lanes, class T>
__global__ void __launch_bounds__(block_threads)
    normalize_grad_kernel(std::int64_t rows, std::int64_t n, const T* from, const T* scale, const T* mean,
                          const T* rstd, const T* gradient, T* to) {
  for_rows<lanes>(rows, [&](std::int64_t row, std::int64_t lane) {
    const T *x = from + row * n, *g = gradient + row * n;
    T* dx = to + row * n;
    const T middle = mean[row], factor = rstd[row];
    const auto normal = [&](std::int64_t i) { return (x[i] - middle) * factor; };
    const T level = sum_of<lanes, T>(n, lane, [&](std::int64_t i) { return g[i] * scale[i]; }) / static_cast<T>(n);
    const T slope =
        sum_of<lanes, T>(n, lane, [&](std::int64_t i) { return g[i] * scale[i] * normal(i); }) / static_cast<T>(n);
    for (std::int64_t i = lane; i < n; i += lanes) dx[i] = factor * ((g[i] * scale[i] - level) - normal(i) * slope);
  });
}

/// A block sums `warp` columns of `sum_rows` rows. First each of its warps sums every eighth row; then one warp adds
/// the sums of all.
template <class T>
__global__ void __launch_bounds__(block_threads)
    normalize_sums_kernel(std::int64_t rows, std::int64_t n, const T* x, const T* mean, const T* rstd, const T* g,
                          T* scales, T* offsets) {
  constexpr int warps = block_threads / warp;
  __shared__ T of_scale[warps][warp], of_offset[warps][warp];
  const int column = static_cast<int>(threadIdx.x) % warp, part = static_cast<int>(threadIdx.x) / warp;
  const std::int64_t tiles = (n + warp - 1) / warp, parts = (rows + sum_rows - 1) / sum_rows;
  for (std::int64_t tile = blockIdx.x; tile < tiles * parts; tile += gridDim.x) {
    const std::int64_t c = tile % tiles * warp + column, first = tile / tiles * sum_rows;
    const std::int64_t end = first + sum_rows < rows ? first + sum_rows : rows;
    T scale = 0, offset = 0;
    for (std::int64_t row = first + part; row < end && c < n; row += warps) {
      const T gradient = g[row * n + c];
      scale += gradient * ((x[row * n + c] - mean[row]) * rstd[row]);
      offset += gradient;
    }
    of_scale[part][column] = scale;
    of_offset[part][column] = offset;
    __syncthreads();
    if (part == 0 && c < n) {
      for (int i = 1; i < warps; ++i) {
        scale += of_scale[i][column];
        offset += of_offset[i][column];
      }
      scales[tile / tiles * n + c] = scale;
      offsets[tile / tiles * n + c] = offset;
    }
    __syncthreads();
  }
}

/// The number of blocks: a warp computes a row, or a block does if the row is long.
unsigned blocks_of(Rows size) { return blocks_for(size.rows * (size.n > long_row ? block_threads : warp)); }

}  // namespace

void softmax(Stream stream, Type type, Rows size, bool logarithm, const void* x, void* y) {
  with_float_type(type, [&](auto t) {
    const auto kernel =
        size.n > long_row ? softmax_kernel<block_threads, decltype(t)> : softmax_kernel<warp, decltype(t)>;
    kernel<<<blocks_of(size), block_threads, 0, stream>>>(size.rows, size.n, logarithm, as(x, t), as(y, t));
  });
}

void softmax_grad(Stream stream, Type type, Rows size, bool logarithm, const void* y, const void* g, void* dx) {
  with_float_type(type, [&](auto t) {
    const auto kernel =
        size.n > long_row ? softmax_grad_kernel<block_threads, decltype(t)> : softmax_grad_kernel<warp, decltype(t)>;
    kernel<<<blocks_of(size), block_threads, 0, stream>>>(size.rows, size.n, logarithm, as(y, t), as(g, t), as(dx, t));
  });
}

void sparse_softmax_cross_entropy(Stream stream, Type type, Rows size, const void* logits, const void* labels,
                                  bool wide, void* loss, void* backprop, unsigned long long* refused) {
  with_float_type(type, [&](auto t) {
    const auto kernel =
        size.n > long_row ? cross_entropy_kernel<block_threads, decltype(t)> : cross_entropy_kernel<warp, decltype(t)>;
    kernel<<<blocks_of(size), block_threads, 0, stream>>>(size.rows, size.n, as(logits, t), labels, wide, as(loss, t),
                                                          as(backprop, t), refused);
  });
}

void normalize(Stream stream, Type type, Rows size, const void* x, const void* scale, const void* offset,
               double epsilon, void* y, void* mean, void* rstd) {
  with_float_type(type, [&](auto t) {
    const auto kernel =
        size.n > long_row ? normalize_kernel<block_threads, decltype(t)> : normalize_kernel<warp, decltype(t)>;
    kernel<<<blocks_of(size), block_threads, 0, stream>>>(size.rows, size.n, as(x, t), as(scale, t), as(offset, t),
                                                          static_cast<decltype(t)>(epsilon), as(y, t), as(mean, t),
                                                          as(rstd, t));
  });
}

void normalize_grad(Stream stream, Type type, Rows size, const void* x, const void* scale, const void* mean,
                    const void* rstd, const void* g, void* dx) {
  with_float_type(type, [&](auto t) {
    const auto kernel = size.n > long_row ? normalize_grad_kernel<block_threads, decltype(t)>
                                          : normalize_grad_kernel<warp, decltype(t)>;
    kernel<<<blocks_of(size), block_threads, 0, stream>>>(size.rows, size.n, as(x, t), as(scale, t), as(mean, t),
                                                          as(rstd, t), as(g, t), as(dx, t));
  });
}

void normalize_sums(Stream stream, Type type, Rows size, const void* x, const void* mean, const void* rstd,
                    const void* g, void* scales, void* offsets) {
  const std::int64_t tiles = (size.n + warp - 1) / warp, parts = (size.rows + sum_rows - 1) / sum_rows;
  with_float_type(type, [&](auto t) {
    normalize_sums_kernel<<<blocks_for(tiles * parts * block_threads), block_threads, 0, stream>>>(
        size.rows, size.n, as(x, t), as(mean, t), as(rstd, t), as(g, t), as(scales, t), as(offsets, t));
  });
}

}  // namespace tapestry::gpu
