#include "backend/cuda/kernels/convert.hpp"
#include "backend/cuda/kernels/elementwise.cuh"

namespace tapestry::gpu {
namespace {

template <class To>
struct Convert {
  template <class From, class>
  static TAPESTRY_HD To apply(From x, From, From, From) {
    return convert<To>(x);
  }
};

/// Both are arrays of their own types; the kernel's second type is not used, and so stands for the first.
template <class From, class To>
constexpr Launch conversion = launch<Convert<To>, 1, From, From, To>;

#define TAPESTRY_FROM(From)                                                                          \
  {                                                                                                  \
    nullptr, conversion<From, bool>, conversion<From, std::uint8_t>, conversion<From, std::int32_t>, \
        conversion<From, std::int64_t>, conversion<From, float>, conversion<From, double>            \
  }
constexpr Launch conversions[type_count][type_count] = {
    {},
    TAPESTRY_FROM(bool),
    TAPESTRY_FROM(std::uint8_t),
    TAPESTRY_FROM(std::int32_t),
    TAPESTRY_FROM(std::int64_t),
    TAPESTRY_FROM(float),
    TAPESTRY_FROM(double),
};
#undef TAPESTRY_FROM

struct Move {
  template <class, class T>
  static TAPESTRY_HD T apply(T x, T, T, T) {
    return x;
  }
};
template <class T>
constexpr Launch movement = launch<Move, 1, T, T, T>;

template <class T>
__global__ void __launch_bounds__(block_threads) iota_kernel(double start, double step, T* y, std::int64_t n) {
  const std::int64_t grid = static_cast<std::int64_t>(gridDim.x) * block_threads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x; i < n; i += grid)
    y[i] = convert<T>(__dadd_rn(start, __dmul_rn(static_cast<double>(i), step)));  // rounded twice, as on the CPU
}

template <class T>
void start_iota(Stream stream, double start, double step, void* y, std::int64_t n) {
  iota_kernel<<<blocks_for(n), block_threads, 0, stream>>>(start, step, static_cast<T*>(y), n);
}

}  // namespace

Launch convert_kernel(Type from, Type to) { return conversions[static_cast<int>(from)][static_cast<int>(to)]; }

Launch move_kernel(std::int64_t element_bytes) {
  return element_bytes == 8   ? movement<std::uint64_t>
         : element_bytes == 4 ? movement<std::uint32_t>
                              : movement<std::uint8_t>;
}

void iota(Stream stream, Type type, double start, double step, void* y, std::int64_t n) {
  using Start = void (*)(Stream, double, double, void*, std::int64_t);
  static constexpr Start starts[type_count] = {nullptr,
                                               start_iota<bool>,
                                               start_iota<std::uint8_t>,
                                               start_iota<std::int32_t>,
                                               start_iota<std::int64_t>,
                                               start_iota<float>,
                                               start_iota<double>};
  starts[static_cast<int>(type)](stream, start, step, y, n);
}

}  // namespace tapestry::gpu
