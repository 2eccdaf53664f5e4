#include "backend/cuda/kernels/batch_normalize.hpp"
#include "backend/cuda/kernels/kernel.cuh"
#include "backend/cuda/kernels/math.hpp"

namespace tapestry::gpu {
namespace {

/// The mean of some numbers, and the sum of their squared distances from it.
template <class T>
struct Moments {
  T mean = 0, squares = 0, count = 0;

  /// Chan, Golub and LeVeque (1979): Updating formulae and a pairwise algorithm for computing sample variances.
  __device__ void join(const Moments& other) {
    if (other.count == T(0)) return;
    const T total = count + other.count, distance = other.mean - mean, part = other.count / total;
    mean += distance * part;
    squares += other.squares + distance * distance * count * part;
    count = total;
  }
};

template <class T>
struct Sums {
  T scale = 0, offset = 0;

  __device__ void join(const Sums& other) {
    scale += other.scale;
    offset += other.offset;
  }
};

/// Joins the values of the threads whose number has the same remainder by `width`. The first of them gets the result.
template <class Value>
__device__ Value join_threads(const Value& own, int width) {
  __shared__ Value shared[block_threads];
  const int thread = static_cast<int>(threadIdx.x);
  shared[thread] = own;
  __syncthreads();
  for (int half = block_threads / 2; half >= width; half /= 2) {
    if (thread < half) shared[thread].join(shared[thread + half]);
    __syncthreads();
  }
  return shared[thread];
}

/// Calls body(column, first row, step, end of the rows) if the thread's column exists.
template <class Body>
__device__ void for_part(const RowParts& size, const Body& body) {
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * size.width + thread % size.width;
  const std::int64_t begin = blockIdx.y * size.part_rows;
  const std::int64_t end = begin + size.part_rows < size.rows ? begin + size.part_rows : size.rows;
  if (column < size.n) body(column, begin + thread / size.width, block_threads / size.width, end);
}

/// Whether the thread writes the result of its column in its part; `at` is where.
__device__ bool writes(const RowParts& size, std::int64_t& at) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * size.width + threadIdx.x;
  at = blockIdx.y * size.n + column;
  return threadIdx.x < static_cast<unsigned>(size.width) && column < size.n;
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    part_moments_kernel(const __grid_constant__ RowParts size, const T* x, T* means, T* squares) {
  Moments<T> own;
  for_part(size, [&](std::int64_t column, std::int64_t row, int step, std::int64_t end) {
    constexpr int group = 8;
    for (; row < end; row += group * step) {
      T value[group];
      Moments<T> some;
#pragma unroll
      for (int i = 0; i < group; ++i) {
        const bool exists = row + i * step < end;
        value[i] = exists ? x[(row + i * step) * size.n + column] : T(0);
        some.mean += value[i];
        if (exists) some.count += T(1);
      }
      some.mean /= some.count;
#pragma unroll
      for (int i = 0; i < group; ++i)
        if (row + i * step < end) some.squares += (value[i] - some.mean) * (value[i] - some.mean);
      own.join(some);
    }
  });
  own = join_threads(own, size.width);
  std::int64_t at;
  if (!writes(size, at)) return;
  means[at] = own.mean;
  squares[at] = own.squares;
}

/// A block joins the parts of a column.
template <class T>
__global__ void __launch_bounds__(block_threads)
    join_moments_kernel(const __grid_constant__ RowParts size, const T* means, const T* squares, T* mean, T* variance) {
  const std::int64_t column = blockIdx.x;
  Moments<T> own;
  for (unsigned part = threadIdx.x; part < size.parts; part += block_threads) {
    const std::int64_t begin = part * size.part_rows, rest = size.rows - begin, at = part * size.n + column;
    own.join({means[at], squares[at], static_cast<T>(rest < size.part_rows ? rest : size.part_rows)});
  }
  own = join_threads(own, 1);
  if (threadIdx.x > 0) return;
  mean[column] = own.mean;
  variance[column] = own.squares / static_cast<T>(size.rows);
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    batch_normalize_kernel(const __grid_constant__ RowParts size, const T* x, const T* scale, const T* offset,
                           const T* mean, const T* variance, T epsilon, T* y) {
  for_part(size, [&](std::int64_t column, std::int64_t row, int step, std::int64_t end) {
    const T middle = mean[column], level = offset[column];
    const T factor = scale[column] / math::sqrt(variance[column] + epsilon);
    for (; row < end; row += step) y[row * size.n + column] = (x[row * size.n + column] - middle) * factor + level;
  });
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    part_sums_kernel(const __grid_constant__ RowParts size, const T* x, const T* g, const T* mean, const T* variance,
                     T epsilon, T* scales, T* offsets) {
  Sums<T> own;
  for_part(size, [&](std::int64_t column, std::int64_t row, int step, std::int64_t end) {
    const T middle = mean[column], factor = T(1) / math::sqrt(variance[column] + epsilon);
    for (; row < end; row += step) {
      const T gradient = g[row * size.n + column];
      own.join({gradient * ((x[row * size.n + column] - middle) * factor), gradient});
    }
  });
  own = join_threads(own, size.width);
  std::int64_t at;
  if (!writes(size, at)) return;
  scales[at] = own.scale;
  offsets[at] = own.offset;
}

/// A block joins the parts of a column.
template <class T>
__global__ void __launch_bounds__(block_threads)
    join_sums_kernel(const __grid_constant__ RowParts size, const T* scales, const T* offsets, T* dscale, T* doffset) {
  const std::int64_t column = blockIdx.x;
  Sums<T> own;
  for (unsigned part = threadIdx.x; part < size.parts; part += block_threads)
    own.join({scales[part * size.n + column], offsets[part * size.n + column]});
  own = join_threads(own, 1);
  if (threadIdx.x > 0) return;
  dscale[column] = own.scale;
  doffset[column] = own.offset;
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    batch_normalize_grad_kernel(const __grid_constant__ RowParts size, const T* x, const T* g, const T* scale,
                                const T* mean, const T* variance, T epsilon, const T* dscale, const T* doffset, T* dx) {
  for_part(size, [&](std::int64_t column, std::int64_t row, int step, std::int64_t end) {
    const T middle = mean[column], deviation = math::sqrt(variance[column] + epsilon), rows = static_cast<T>(size.rows);
    const T level = doffset[column] / rows, slope = dscale[column] / rows, factor = scale[column] / deviation;
    for (; row < end; row += step) {
      const std::int64_t i = row * size.n + column;
      dx[i] = factor * ((g[i] - level) - (x[i] - middle) / deviation * slope);
    }
  });
}

dim3 grid_of(const RowParts& size) { return {size.tiles, size.parts}; }

}  // namespace

RowParts row_parts(std::int64_t rows, std::int64_t n) {
  constexpr int most_width = 32, least_rounds = 8;
  constexpr std::int64_t most_blocks = 512;
  RowParts size{rows, n, 1, 0, 0, 0};
  while (size.width < most_width && size.width < n) size.width *= 2;
  const std::int64_t tiles = (n + size.width - 1) / size.width;
  const std::int64_t most_parts = tiles < most_blocks ? most_blocks / tiles : 1;
  const std::int64_t least_rows = least_rounds * block_threads / size.width,
                     share = (rows + most_parts - 1) / most_parts;
  size.part_rows = share > least_rows ? share : least_rows;
  size.tiles = static_cast<unsigned>(tiles);
  size.parts = static_cast<unsigned>((rows + size.part_rows - 1) / size.part_rows);
  return size;
}

void part_moments(Stream stream, Type type, const RowParts& size, const void* x, void* means, void* squares) {
  with_float_type(type, [&](auto t) {
    part_moments_kernel<<<grid_of(size), block_threads, 0, stream>>>(size, as(x, t), as(means, t), as(squares, t));
  });
}

void join_moments(Stream stream, Type type, const RowParts& size, const void* means, const void* squares, void* mean,
                  void* variance) {
  with_float_type(type, [&](auto t) {
    join_moments_kernel<<<static_cast<unsigned>(size.n), block_threads, 0, stream>>>(size, as(means, t), as(squares, t),
                                                                                     as(mean, t), as(variance, t));
  });
}

void batch_normalize(Stream stream, Type type, const RowParts& size, const void* x, const void* scale,
                     const void* offset, const void* mean, const void* variance, double epsilon, void* y) {
  with_float_type(type, [&](auto t) {
    batch_normalize_kernel<<<grid_of(size), block_threads, 0, stream>>>(size, as(x, t), as(scale, t), as(offset, t),
                                                                        as(mean, t), as(variance, t),
                                                                        static_cast<decltype(t)>(epsilon), as(y, t));
  });
}

void part_sums(Stream stream, Type type, const RowParts& size, const void* x, const void* g, const void* mean,
               const void* variance, double epsilon, void* scales, void* offsets) {
  with_float_type(type, [&](auto t) {
    part_sums_kernel<<<grid_of(size), block_threads, 0, stream>>>(size, as(x, t), as(g, t), as(mean, t),
                                                                  as(variance, t), static_cast<decltype(t)>(epsilon),
                                                                  as(scales, t), as(offsets, t));
  });
}

void join_sums(Stream stream, Type type, const RowParts& size, const void* scales, const void* offsets, void* dscale,
               void* doffset) {
  with_float_type(type, [&](auto t) {
    join_sums_kernel<<<static_cast<unsigned>(size.n), block_threads, 0, stream>>>(size, as(scales, t), as(offsets, t),
                                                                                  as(dscale, t), as(doffset, t));
  });
}

void batch_normalize_grad(Stream stream, Type type, const RowParts& size, const void* x, const void* g,
                          const void* scale, const void* mean, const void* variance, double epsilon, const void* dscale,
                          const void* doffset, void* dx) {
  with_float_type(type, [&](auto t) {
    batch_normalize_grad_kernel<<<grid_of(size), block_threads, 0, stream>>>(
        size, as(x, t), as(g, t), as(scale, t), as(mean, t), as(variance, t), static_cast<decltype(t)>(epsilon),
        as(dscale, t), as(doffset, t), as(dx, t));
  });
}

}  // namespace tapestry::gpu
