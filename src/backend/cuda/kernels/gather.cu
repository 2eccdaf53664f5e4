#include "backend/cuda/kernels/gather.hpp"
#include "backend/cuda/kernels/kernel.cuh"
#include "backend/cuda/kernels/vector.cuh"

namespace tapestry::gpu {
namespace {

__device__ std::int64_t index_at(const Indices& indices, std::int64_t i) {
  return indices.wide ? static_cast<const std::int64_t*>(indices.data)[i]
                      : static_cast<const std::int32_t*>(indices.data)[i];
}

/// rule(i) is the i-th position, made of one or several indices, or -1 if an index is out of range.
template <class Rule>
__global__ void __launch_bounds__(block_threads)
    resolve_kernel(Rule rule, std::int64_t count, std::int64_t* positions, unsigned long long* refused) {
  for (std::int64_t i = global_thread(); i < count; i += grid_threads()) {
    const std::int64_t position = rule(i);
    if (position < 0) atomicMin(refused, static_cast<unsigned long long>(i));
    positions[i] = position < 0 ? 0 : position;
  }
}

struct Plain {
  Indices indices;
  std::int64_t size;
  __device__ std::int64_t operator()(std::int64_t i) const {
    const std::int64_t index = index_at(indices, i);
    return index >= 0 && index < size ? index : -1;
  }
};
struct Leading {
  Indices indices;
  Coordinates coordinates;
  __device__ std::int64_t operator()(std::int64_t i) const {
    std::int64_t position = 0;
    for (int d = 0; d < coordinates.depth; ++d) {
      const std::int64_t index = index_at(indices, i * coordinates.depth + d);
      if (index < 0 || index >= coordinates.size[d]) return -1;
      position = position * coordinates.size[d] + index;
    }
    return position;
  }
};
struct Along {
  Indices indices;
  std::int64_t length, inner, size;
  __device__ std::int64_t operator()(std::int64_t i) const {
    const std::int64_t index = index_at(indices, i);
    const std::int64_t outer = i / (length * inner), column = i % inner;
    return index >= 0 && index < size ? (outer * size + index) * inner + column : -1;
  }
};

template <class Rule>
void start_resolve(Stream stream, const Rule& rule, std::int64_t* positions, unsigned long long* refused) {
  resolve_kernel<<<blocks_for(rule.indices.count), block_threads, 0, stream>>>(rule, rule.indices.count, positions,
                                                                               refused);
}

/// The number of neighbouring threads that share a slice: a power of two up to a warp.
int lanes_for(std::int64_t inner) {
  int lanes = 1;
  while (lanes < 32 && lanes < inner) lanes *= 2;
  return lanes;
}

/// 16 bytes, which a thread moves at once.
using Quad = Vector<std::uint32_t, 4>;

bool in_quads(std::int64_t element_bytes, std::int64_t inner, const void* x, const void* y) {
  const auto is_aligned = [](const void* data) { return reinterpret_cast<std::uintptr_t>(data) % sizeof(Quad) == 0; };
  return inner * element_bytes % static_cast<std::int64_t>(sizeof(Quad)) == 0 && is_aligned(x) && is_aligned(y);
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    gather_kernel(Slices s, int lanes, const std::int64_t* positions, std::int64_t count, const T* x, T* y) {
  const std::int64_t lane = threadIdx.x % lanes, step = grid_threads() / lanes;
  for (std::int64_t i = global_thread() / lanes; i < s.outer * count; i += step) {
    const std::int64_t position = positions[i % count];
    const T* from = x + (i / count * s.size + position) * s.inner;
    T* to = y + i * s.inner;
    for (std::int64_t c = lane; c < s.inner; c += lanes) to[c] = position < 0 ? T{} : from[c];
  }
}

template <class T>
void start_gather(Stream stream, Slices slices, const std::int64_t* positions, std::int64_t count, const void* x,
                  void* y) {
  const int lanes = lanes_for(slices.inner);
  gather_kernel<<<blocks_for(slices.outer * count * lanes), block_threads, 0, stream>>>(
      slices, lanes, positions, count, static_cast<const T*>(x), static_cast<T*>(y));
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    put_kernel(std::int64_t inner, int lanes, const std::int64_t* positions, std::int64_t count, const T* rows, T* y) {
  const std::int64_t lane = threadIdx.x % lanes, step = grid_threads() / lanes;
  for (std::int64_t i = global_thread() / lanes; i < count; i += step)
    for (std::int64_t c = lane; c < inner && positions[i] >= 0; c += lanes)
      y[positions[i] * inner + c] = rows[i * inner + c];
}

template <class T>
void start_put(Stream stream, std::int64_t inner, const std::int64_t* positions, std::int64_t count, const void* rows,
               void* y) {
  const int lanes = lanes_for(inner);
  put_kernel<<<blocks_for(count * lanes), block_threads, 0, stream>>>(inner, lanes, positions, count,
                                                                      static_cast<const T*>(rows), static_cast<T*>(y));
}

template <class T>
__device__ T sum(T a, T b) {
  return static_cast<T>(a + b);
}
__device__ bool sum(bool a, bool b) { return a || b; }

/// The sum of the updates [first, ...) with a key, in their order. Several are read at once.
template <class T>
__device__ T sum_of_run(const std::uint64_t* sorted, const std::uint32_t* order, std::int64_t first, std::int64_t count,
                        std::uint64_t key, const T* updates, std::int64_t stride) {
  constexpr int together = 8;
  T total = T(0);
  for (std::int64_t k = first; k < count && sorted[k] == key; k += together) {
    T next[together];
#pragma unroll
    for (int j = 0; j < together; ++j)
      next[j] = k + j < count && sorted[k + j] == key ? updates[order[k + j] * stride] : T(0);
#pragma unroll
    for (int j = 0; j < together; ++j)
      if (k + j < count && sorted[k + j] == key) total = sum(total, next[j]);
  }
  return total;
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    sum_runs_kernel(std::int64_t inner, int lanes, const std::uint64_t* sorted, const std::uint32_t* order,
                    std::int64_t count, const T* values, const unsigned long long* refused, std::int64_t* positions,
                    T* sums) {
  const bool refuses = *refused != ~0ULL;
  const std::int64_t lane = threadIdx.x % lanes, step = grid_threads() / lanes;
  for (std::int64_t i = global_thread() / lanes; i < count; i += step) {
    const std::uint64_t key = sorted[i];
    const bool is_first = !refuses && (i == 0 || sorted[i - 1] != key);
    if (lane == 0) positions[i] = is_first ? static_cast<std::int64_t>(key) : -1;
    for (std::int64_t c = lane; c < inner; c += lanes)
      sums[i * inner + c] = is_first ? sum_of_run(sorted, order, i, count, key, values + c, inner) : T(0);
  }
}

/// Uses no atomics: the threads of a row of y search for its updates, and add them in their order.
template <class T>
__global__ void __launch_bounds__(block_threads)
    add_kernel(Slices s, int lanes, const std::uint64_t* sorted, const std::uint32_t* order, std::int64_t count,
               const T* updates, T* y) {
  const std::int64_t lane = threadIdx.x % lanes, step = grid_threads() / lanes;
  for (std::int64_t i = global_thread() / lanes; i < s.outer * s.size; i += step) {
    const std::int64_t outer = i / s.size;
    const auto row = static_cast<std::uint64_t>(i % s.size);
    std::int64_t first = 0;
    for (std::int64_t end = count; first < end;) {
      const std::int64_t middle = (first + end) / 2;
      if (sorted[middle] < row) {
        first = middle + 1;
      } else {
        end = middle;
      }
    }
    for (std::int64_t c = lane; c < s.inner; c += lanes)
      y[i * s.inner + c] = sum_of_run(sorted, order, first, count, row, updates + outer * count * s.inner + c, s.inner);
  }
}

template <class T>
void start_add(Stream stream, Slices slices, const std::uint64_t* sorted, const std::uint32_t* order,
               std::int64_t count, const void* updates, void* y) {
  const int lanes = lanes_for(slices.inner);
  add_kernel<<<blocks_for(slices.outer * slices.size * lanes), block_threads, 0, stream>>>(
      slices, lanes, sorted, order, count, static_cast<const T*>(updates), static_cast<T*>(y));
}

}  // namespace

void resolve(Stream stream, Indices indices, std::int64_t size, std::int64_t* positions, unsigned long long* refused) {
  start_resolve(stream, Plain{indices, size}, positions, refused);
}
void resolve_coordinates(Stream stream, Indices indices, const Coordinates& coordinates, std::int64_t* positions,
                         unsigned long long* refused) {
  start_resolve(stream, Leading{indices, coordinates}, positions, refused);
}
void resolve_along(Stream stream, Indices indices, std::int64_t length, std::int64_t inner, std::int64_t size,
                   std::int64_t* positions, unsigned long long* refused) {
  start_resolve(stream, Along{indices, length, inner, size}, positions, refused);
}

void gather_slices(Stream stream, std::int64_t element_bytes, Slices slices, const std::int64_t* positions,
                   std::int64_t count, const void* x, void* y) {
  if (in_quads(element_bytes, slices.inner, x, y)) {
    slices.inner = slices.inner * element_bytes / 16;
    return start_gather<Quad>(stream, slices, positions, count, x, y);
  }
  const auto start = element_bytes == 8   ? start_gather<std::uint64_t>
                     : element_bytes == 4 ? start_gather<std::uint32_t>
                     : element_bytes == 2 ? start_gather<std::uint16_t>
                                          : start_gather<std::uint8_t>;
  start(stream, slices, positions, count, x, y);
}

void put_slices(Stream stream, std::int64_t element_bytes, std::int64_t inner, const std::int64_t* positions,
                std::int64_t count, const void* rows, void* y) {
  if (in_quads(element_bytes, inner, rows, y))
    return start_put<Quad>(stream, inner * element_bytes / 16, positions, count, rows, y);
  const auto start = element_bytes == 8   ? start_put<std::uint64_t>
                     : element_bytes == 4 ? start_put<std::uint32_t>
                     : element_bytes == 2 ? start_put<std::uint16_t>
                                          : start_put<std::uint8_t>;
  start(stream, inner, positions, count, rows, y);
}

void add_slices(Stream stream, Type type, Slices slices, const std::uint64_t* sorted, const std::uint32_t* order,
                std::int64_t count, const void* updates, void* y) {
  using Start = decltype(&start_add<float>);
  constexpr Start starts[type_count] = {
      nullptr, start_add<bool>, start_add<std::uint8_t>, start_add<std::int32_t>, start_add<std::int64_t>,
      nullptr, nullptr,         start_add<float>,        start_add<double>};
  starts[static_cast<int>(type)](stream, slices, sorted, order, count, updates, y);
}

void sum_runs(Stream stream, Type type, std::int64_t inner, const std::uint64_t* sorted, const std::uint32_t* order,
              std::int64_t count, const void* values, const unsigned long long* refused, std::int64_t* positions,
              void* sums) {
  const int lanes = lanes_for(inner);
  with_float_type(type, [&](auto t) {
    sum_runs_kernel<<<blocks_for(count * lanes), block_threads, 0, stream>>>(
        inner, lanes, sorted, order, count, as(values, t), refused, positions, as(sums, t));
  });
}

}  // namespace tapestry::gpu
