#include "backend/cuda/kernels/kernel.cuh"
#include "backend/cuda/kernels/linalg.hpp"
#include "backend/cuda/kernels/math.hpp"

namespace tapestry::gpu {
namespace {

__device__ int thread() { return static_cast<int>(threadIdx.x); }

template <class T>
__global__ void __launch_bounds__(block_threads)
    cholesky_kernel(std::int64_t batch, std::int64_t n, T* matrices, unsigned long long* refused) {
  for (std::int64_t i = blockIdx.x; i < batch; i += gridDim.x) {
    T* a = matrices + i * n * n;
    for (std::int64_t j = 0; j < n; ++j) {
      const T pivot = a[j * n + j];
      __syncthreads();  // all threads have read the pivot
      if (thread() == 0) {
        if (!(pivot > T(0))) atomicMin(refused, static_cast<unsigned long long>(i));
        a[j * n + j] = math::sqrt(pivot);
      }
      for (std::int64_t k = j + 1 + thread(); k < n; k += block_threads) {
        a[k * n + j] /= math::sqrt(pivot);
        a[j * n + k] = T(0);
      }
      __syncthreads();
      const std::int64_t rest = n - j - 1;
      for (std::int64_t place = thread(); place < rest * rest; place += block_threads) {
        const std::int64_t row = j + 1 + place / rest, column = j + 1 + place % rest;
        if (column <= row) a[row * n + column] -= a[row * n + j] * a[column * n + j];
      }
      __syncthreads();
    }
  }
}

/// Gaussian elimination. The pivot is the first element of the largest absolute value in its column.
template <class T>
__global__ void __launch_bounds__(block_threads) solve_kernel(std::int64_t batch, std::int64_t n, std::int64_t columns,
                                                              T* matrices, T* sides, unsigned long long* refused) {
  __shared__ std::int64_t best_row[block_threads];
  __shared__ T best[block_threads];
  for (std::int64_t i = blockIdx.x; i < batch; i += gridDim.x) {
    T *a = matrices + i * n * n, *b = sides + i * n * columns;
    for (std::int64_t j = 0; j < n; ++j) {
      best[thread()] = T(-1);
      best_row[thread()] = j;
      for (std::int64_t k = j + thread(); k < n; k += block_threads) {
        const T size = math::abs(a[k * n + j]);
        if (size > best[thread()] || size != size) {
          best[thread()] = size;
          best_row[thread()] = k;
        }
      }
      __syncthreads();
      std::int64_t pivot_row = best_row[0];
      T largest = best[0];
      for (int other = 1; other < block_threads; ++other) {
        if (best[other] > largest || (best[other] == largest && best_row[other] < pivot_row)) {
          largest = best[other];
          pivot_row = best_row[other];
        }
      }
      __syncthreads();
      if (thread() == 0 && largest == T(0)) atomicMin(refused, static_cast<unsigned long long>(i));
      const auto exchange = [&](T* rows, std::int64_t width) {
        for (std::int64_t k = thread(); k < width && pivot_row != j; k += block_threads) {
          const T other = rows[j * width + k];
          rows[j * width + k] = rows[pivot_row * width + k];
          rows[pivot_row * width + k] = other;
        }
      };
      exchange(a, n);
      exchange(b, columns);
      __syncthreads();
      const T pivot = a[j * n + j];
      for (std::int64_t k = j + 1 + thread(); k < n; k += block_threads) a[k * n + j] /= pivot;
      __syncthreads();
      const std::int64_t rest = n - j - 1, width = rest + columns;
      for (std::int64_t place = thread(); place < rest * width; place += block_threads) {
        const std::int64_t row = j + 1 + place / width, column = place % width;
        const T factor = a[row * n + j];
        if (column < rest) {
          a[row * n + j + 1 + column] -= factor * a[j * n + j + 1 + column];
        } else {
          b[row * columns + column - rest] -= factor * b[j * columns + column - rest];
        }
      }
      __syncthreads();
    }
    // Each thread solves a column of b, from the last row on.
    for (std::int64_t c = thread(); c < columns; c += block_threads) {
      for (std::int64_t row = n - 1; row >= 0; --row) {
        T sum = b[row * columns + c];
        for (std::int64_t k = row + 1; k < n; ++k) sum -= a[row * n + k] * b[k * columns + c];
        b[row * columns + c] = sum / a[row * n + row];
      }
    }
    __syncthreads();
  }
}

/// Each thread solves a column of b.
template <class T>
__global__ void __launch_bounds__(block_threads)
    triangular_kernel(std::int64_t batch, std::int64_t n, std::int64_t columns, bool adjoint, const T* triangles,
                      T* sides, unsigned long long* refused) {
  for (std::int64_t place = global_thread(); place < batch * columns; place += grid_threads()) {
    const T* l = triangles + place / columns * n * n;
    T* b = sides + place / columns * n * columns + place % columns;
    for (std::int64_t step = 0; step < n; ++step) {
      const std::int64_t row = adjoint ? n - 1 - step : step;
      T sum = b[row * columns];
      for (std::int64_t earlier = 0; earlier < step; ++earlier) {
        const std::int64_t k = adjoint ? n - 1 - earlier : earlier;
        sum -= (adjoint ? l[k * n + row] : l[row * n + k]) * b[k * columns];
      }
      if (l[row * n + row] == T(0)) atomicMin(refused, static_cast<unsigned long long>(place / columns));
      b[row * columns] = sum / l[row * n + row];
    }
  }
}

template <class T>
__global__ void __launch_bounds__(block_threads) identity_kernel(std::int64_t batch, std::int64_t n, T* y) {
  for (std::int64_t i = global_thread(); i < batch * n * n; i += grid_threads())
    y[i] = i / n % n == i % n ? T(1) : T(0);
}

/// The sum of all threads' values, which every thread gets. The order of the additions is always the same.
template <class T>
__device__ T block_sum(T value) {
  __shared__ T room[block_threads];
  __syncthreads();  // the last sum may still be read
  room[thread()] = value;
  __syncthreads();
  for (int half = block_threads / 2; half > 0; half /= 2) {
    if (thread() < half) room[thread()] += room[thread() + half];
    __syncthreads();
  }
  return room[0];
}
template <class T>
__device__ T dot(const T* a, const T* b, std::int64_t n) {
  T sum = 0;
  for (std::int64_t i = thread(); i < n; i += block_threads) sum += a[i] * b[i];
  return block_sum(sum);
}
/// (a, b) becomes (c a - s b, s a + c b).
template <class T>
__device__ void rotate(T* a, T* b, std::int64_t n, T c, T s) {
  for (std::int64_t i = thread(); i < n; i += block_threads) {
    const T first = a[i], second = b[i];
    a[i] = c * first - s * second;
    b[i] = s * first + c * second;
  }
}
template <class T>
__device__ void exchange(T* a, T* b, std::int64_t n) {
  for (std::int64_t i = thread(); i < n; i += block_threads) {
    const T first = a[i];
    a[i] = b[i];
    b[i] = first;
  }
}

template <class T>
inline constexpr T rounding = sizeof(T) == 4 ? T(0x1p-24) : T(0x1p-53);

/// Rotates all pairs of columns until each is orthogonal to all others (Hestenes, Inversion of matrices by
/// biorthogonalization, 1958). Returns false if that does not converge.
template <class T>
__device__ bool make_orthogonal(T* columns, T* right, std::int64_t n, std::int64_t length) {
  constexpr int sweeps = 60;
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    bool rotated = false;
    for (std::int64_t p = 0; p + 1 < n; ++p) {
      for (std::int64_t q = p + 1; q < n; ++q) {
        T *a = columns + p * length, *b = columns + q * length;
        const T alpha = dot(a, a, length), beta = dot(b, b, length), gamma = dot(a, b, length);
        if (math::abs(gamma) <= T(4) * rounding<T> * math::sqrt(alpha) * math::sqrt(beta)) continue;
        rotated = true;
        const T zeta = (beta - alpha) / (T(2) * gamma);
        const T size = T(1) / (math::abs(zeta) + math::sqrt(T(1) + zeta * zeta)), t = zeta < T(0) ? -size : size;
        const T c = T(1) / math::sqrt(T(1) + t * t);
        rotate(a, b, length, c, c * t);
        rotate(right + p * n, right + q * n, n, c, c * t);
        __syncthreads();
      }
    }
    if (!rotated) return true;
  }
  return false;
}

/// Makes a column of norm 1 that is orthogonal to the first `known` ones: it subtracts their components from a unit
/// vector. Some unit vector leaves enough: the squared norms of what all of them leave add up to length - known.
template <class T>
__device__ void complete(T* columns, std::int64_t known, std::int64_t length) {
  T* column = columns + known * length;
  for (std::int64_t unit = 0; unit < length; ++unit) {
    for (std::int64_t i = thread(); i < length; i += block_threads) column[i] = i == unit ? T(1) : T(0);
    __syncthreads();
    for (int twice = 0; twice < 2; ++twice) {
      for (std::int64_t k = 0; k < known; ++k) {
        const T part = dot(column, columns + k * length, length);
        for (std::int64_t i = thread(); i < length; i += block_threads) column[i] -= part * columns[k * length + i];
        __syncthreads();
      }
    }
    const T rest = dot(column, column, length);
    if (rest * static_cast<T>(2 * length) < T(1)) continue;
    for (std::int64_t i = thread(); i < length; i += block_threads) column[i] /= math::sqrt(rest);
    __syncthreads();
    return;
  }
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    decompose_kernel(std::int64_t batch, std::int64_t n, std::int64_t length, T* all_columns, T* all_right,
                     T* all_values, unsigned long long* refused) {
  for (std::int64_t i = blockIdx.x; i < batch; i += gridDim.x) {
    T *columns = all_columns + i * n * length, *right = all_right + i * n * n, *values = all_values + i * n;
    for (std::int64_t k = thread(); k < n * n; k += block_threads) right[k] = k / n == k % n ? T(1) : T(0);
    T zero = 0;
    for (std::int64_t k = thread(); k < n * length; k += block_threads) zero += columns[k] - columns[k];
    if (block_sum(zero) != T(0)) {  // inf - inf and NaN - NaN are NaN
      for (std::int64_t k = thread(); k < n * length; k += block_threads) columns[k] = T(0) / T(0);
      for (std::int64_t k = thread(); k < n * n; k += block_threads) right[k] = T(0) / T(0);
      for (std::int64_t k = thread(); k < n; k += block_threads) values[k] = T(0) / T(0);
      __syncthreads();
      continue;
    }
    if (!make_orthogonal(columns, right, n, length) && thread() == 0)
      atomicMin(refused, static_cast<unsigned long long>(i));
    for (std::int64_t k = 0; k < n; ++k) {
      const T norm = math::sqrt(dot(columns + k * length, columns + k * length, length));
      if (thread() == 0) values[k] = norm;
      __syncthreads();
    }
    for (std::int64_t k = 0; k < n; ++k) {
      std::int64_t next = k;
      for (std::int64_t other = k + 1; other < n; ++other)
        if (values[other] > values[next]) next = other;
      __syncthreads();
      if (next != k) {
        exchange(columns + k * length, columns + next * length, length);
        exchange(right + k * n, right + next * n, n);
        if (thread() == 0) {
          const T other = values[k];
          values[k] = values[next];
          values[next] = other;
        }
      }
      __syncthreads();
      // A column that depends on the others has only rounding errors left, and no direction: `complete` replaces it.
      if (values[k] > values[0] * static_cast<T>(length) * rounding<T>) {
        for (std::int64_t j = thread(); j < length; j += block_threads) columns[k * length + j] /= values[k];
      }
      __syncthreads();
    }
    for (std::int64_t k = 0; k < n; ++k)
      if (!(values[k] > values[0] * static_cast<T>(length) * rounding<T>)) complete(columns, k, length);
  }
}

unsigned blocks_of(std::int64_t batch) { return blocks_for(batch * block_threads); }

}  // namespace

void cholesky(Stream stream, Type type, std::int64_t batch, std::int64_t n, void* a, unsigned long long* refused) {
  with_float_type(type, [&](auto t) {
    cholesky_kernel<<<blocks_of(batch), block_threads, 0, stream>>>(batch, n, as(a, t), refused);
  });
}

void solve(Stream stream, Type type, std::int64_t batch, std::int64_t n, std::int64_t columns, void* a, void* b,
           unsigned long long* refused) {
  with_float_type(type, [&](auto t) {
    solve_kernel<<<blocks_of(batch), block_threads, 0, stream>>>(batch, n, columns, as(a, t), as(b, t), refused);
  });
}

void solve_triangular(Stream stream, Type type, std::int64_t batch, std::int64_t n, std::int64_t columns, bool adjoint,
                      const void* l, void* b, unsigned long long* refused) {
  with_float_type(type, [&](auto t) {
    triangular_kernel<<<blocks_for(batch * columns), block_threads, 0, stream>>>(batch, n, columns, adjoint, as(l, t),
                                                                                 as(b, t), refused);
  });
}

void identity(Stream stream, Type type, std::int64_t batch, std::int64_t n, void* y) {
  with_float_type(type, [&](auto t) {
    identity_kernel<<<blocks_for(batch * n * n), block_threads, 0, stream>>>(batch, n, as(y, t));
  });
}

void decompose(Stream stream, Type type, std::int64_t batch, std::int64_t n, std::int64_t length, void* columns,
               void* right, void* values, unsigned long long* refused) {
  with_float_type(type, [&](auto t) {
    decompose_kernel<<<blocks_of(batch), block_threads, 0, stream>>>(batch, n, length, as(columns, t), as(right, t),
                                                                     as(values, t), refused);
  });
}

}  // namespace tapestry::gpu
