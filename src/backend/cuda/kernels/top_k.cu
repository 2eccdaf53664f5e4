#include "backend/cuda/kernels/convert.hpp"
#include "backend/cuda/kernels/kernel.cuh"
#include "backend/cuda/kernels/top_k.hpp"

namespace tapestry::gpu {
namespace {

template <std::size_t bytes>
struct Bits;
template <>
struct Bits<1> {
  using Type = std::uint8_t;
};
template <>
struct Bits<4> {
  using Type = std::uint32_t;
};
template <>
struct Bits<8> {
  using Type = std::uint64_t;
};

/// An unsigned number that orders as x does.
template <class T>
__device__ auto ordered(T x) {
  using Number = typename Bits<sizeof(T)>::Type;
  constexpr Number sign = Number{1} << (8 * sizeof(T) - 1);
  if constexpr (is_float<T>) {
    if (x != x) return static_cast<Number>(~Number{0});
    const auto bits = __builtin_bit_cast(Number, x + T(0));  // -0 + 0 is 0
    return static_cast<Number>((bits & sign) != 0 ? ~bits : bits | sign);
  } else {
    const auto bits = static_cast<Number>(x);
    return static_cast<Number>(T(-1) < T(0) ? bits ^ sign : bits);
  }
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    order_kernel(bool largest, const T* x, std::int64_t count, std::uint64_t* keys) {
  for (std::int64_t i = global_thread(); i < count; i += grid_threads()) {
    auto key = ordered(x[i]);
    if (largest) key = static_cast<decltype(key)>(~key);
    keys[i] = key;
  }
}

template <class T>
void start_order(Stream stream, bool largest, const void* x, std::int64_t count, std::uint64_t* keys) {
  order_kernel<<<blocks_for(count), block_threads, 0, stream>>>(largest, static_cast<const T*>(x), count, keys);
}

__global__ void __launch_bounds__(block_threads)
    row_kernel(const std::uint32_t* order, std::uint32_t n, std::int64_t count, std::uint64_t* keys) {
  for (std::int64_t i = global_thread(); i < count; i += grid_threads()) keys[i] = order[i] / n;
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    take_kernel(const T* x, const std::uint32_t* order, std::int64_t rows, std::int64_t n, std::int64_t k, T* values,
                void* indices, bool wide) {
  for (std::int64_t i = global_thread(); i < rows * k; i += grid_threads()) {
    const std::int64_t row = i / k, from = order[row * n + i % k];
    values[i] = x[from];
    if (wide) {
      static_cast<std::int64_t*>(indices)[i] = from - row * n;
    } else {
      static_cast<std::int32_t*>(indices)[i] = static_cast<std::int32_t>(from - row * n);
    }
  }
}

template <class T>
void start_take(Stream stream, const void* x, const std::uint32_t* order, std::int64_t rows, std::int64_t n,
                std::int64_t k, void* values, void* indices, bool wide) {
  take_kernel<<<blocks_for(rows * k), block_threads, 0, stream>>>(static_cast<const T*>(x), order, rows, n, k,
                                                                  static_cast<T*>(values), indices, wide);
}

}  // namespace

void order_keys(Stream stream, Type type, bool largest, const void* x, std::int64_t count, std::uint64_t* keys) {
  using Start = decltype(&start_order<float>);
  constexpr Start starts[type_count] = {nullptr,
                                        start_order<std::uint8_t>,  // bools are bytes of 0 and 1
                                        start_order<std::uint8_t>,
                                        start_order<std::int32_t>,
                                        start_order<std::int64_t>,
                                        nullptr,
                                        nullptr,
                                        start_order<float>,
                                        start_order<double>};
  starts[static_cast<int>(type)](stream, largest, x, count, keys);
}

int key_bits(Type type) {
  constexpr int bits[type_count] = {0, 8, 8, 32, 64, 0, 0, 32, 64};
  return bits[static_cast<int>(type)];
}

void row_keys(Stream stream, const std::uint32_t* order, std::int64_t n, std::int64_t count, std::uint64_t* keys) {
  row_kernel<<<blocks_for(count), block_threads, 0, stream>>>(order, static_cast<std::uint32_t>(n), count, keys);
}

void take_first(Stream stream, std::int64_t element_bytes, const void* x, const std::uint32_t* order, std::int64_t rows,
                std::int64_t n, std::int64_t k, void* values, void* indices, bool wide) {
  const auto start = element_bytes == 8   ? start_take<std::uint64_t>
                     : element_bytes == 4 ? start_take<std::uint32_t>
                                          : start_take<std::uint8_t>;
  start(stream, x, order, rows, n, k, values, indices, wide);
}

}  // namespace tapestry::gpu
