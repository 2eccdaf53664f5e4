#include "backend/cuda/kernels/convert.hpp"
#include "backend/cuda/kernels/elementwise.cuh"
#include "backend/cuda/kernels/kernel.cuh"

namespace tapestry::gpu {
namespace {

template <class To>
struct Convert {
  template <class From, class>
  static TAPESTRY_HD To apply(From x, From, From, From) {
    return convert<To>(x);
  }
};

/// Converts an array of From to one of To. `launch` takes a type of further operands, too, which is not used here.
template <class From, class To>
constexpr Launch conversion = launch<Convert<To>, 1, From, From, To>;

#define TAPESTRY_FROM(From)                                                                          \
  {                                                                                                  \
    nullptr, conversion<From, bool>, conversion<From, std::uint8_t>, conversion<From, std::int32_t>, \
        conversion<From, std::int64_t>, conversion<From, float16_t>, conversion<From, bfloat16_t>,   \
        conversion<From, float>, conversion<From, double>                                            \
  }
constexpr Launch conversions[type_count][type_count] = {
    {},
    TAPESTRY_FROM(bool),
    TAPESTRY_FROM(std::uint8_t),
    TAPESTRY_FROM(std::int32_t),
    TAPESTRY_FROM(std::int64_t),
    TAPESTRY_FROM(float16_t),
    TAPESTRY_FROM(bfloat16_t),
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

constexpr int tile = 32, tile_rows = block_threads / tile;

/// Transposes tiles in shared memory, so that x is read and y is written in whole cache lines. The extra column of
/// `room` puts the elements of a tile's column into different banks.
template <class T>
__global__ void __launch_bounds__(block_threads) transpose_kernel(const __grid_constant__ Transposition transposition) {
  __shared__ T room[tile][tile + 1];
  const int across = static_cast<int>(threadIdx.x) % tile, down = static_cast<int>(threadIdx.x) / tile;
  const std::int64_t tiles_down = (transposition.rows + tile - 1) / tile,
                     tiles_across = (transposition.columns + tile - 1) / tile;
  const std::int64_t tiles = tiles_down * tiles_across;
  for (std::int64_t place = blockIdx.x; place < tiles * transposition.batch; place += gridDim.x) {
    const std::int64_t row = place % tiles / tiles_across * tile, column = place % tiles_across * tile;
    std::int32_t first[2];
    transposition.layout.locate(static_cast<std::uint32_t>(place / tiles), first);
    const T* x = static_cast<const T*>(transposition.x) + first[1];
    T* y = static_cast<T*>(transposition.y) + first[0];
    for (int i = down; i < tile; i += tile_rows)
      if (row + across < transposition.rows && column + i < transposition.columns)
        room[i][across] = x[row + across + (column + i) * transposition.x_column];
    __syncthreads();
    for (int i = down; i < tile; i += tile_rows)
      if (row + i < transposition.rows && column + across < transposition.columns)
        y[(row + i) * transposition.y_row + column + across] = room[across][i];
    __syncthreads();
  }
}

template <class T>
void start_transpose(Stream stream, const Transposition& transposition) {
  const std::int64_t tiles =
      (transposition.rows + tile - 1) / tile * ((transposition.columns + tile - 1) / tile) * transposition.batch;
  transpose_kernel<T><<<blocks_for(tiles * block_threads), block_threads, 0, stream>>>(transposition);
}

template <class T>
__global__ void __launch_bounds__(block_threads) copies_kernel(const __grid_constant__ Copies copies) {
  const Copies::Copy& copy = copies.copy[blockIdx.y];
  const std::uint32_t grid = gridDim.x * block_threads;
  for (std::uint32_t i = blockIdx.x * block_threads + threadIdx.x; i < copy.n; i += grid) {
    std::int32_t offset[2];
    copy.layout.locate(i, offset);
    static_cast<T*>(copy.y)[offset[0]] = static_cast<const T*>(copy.x)[offset[1]];
  }
}

template <class T>
void start_copies(Stream stream, const Copies& copies) {
  const dim3 grid(blocks_for(copies.largest), static_cast<unsigned>(copies.count));
  copies_kernel<T><<<grid, block_threads, 0, stream>>>(copies);
}

template <class T>
__global__ void __launch_bounds__(block_threads) iota_kernel(double start, double step, T* y, std::int64_t n) {
  for (std::int64_t i = global_thread(); i < n; i += grid_threads())
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
         : element_bytes == 2 ? movement<std::uint16_t>
                              : movement<std::uint8_t>;
}

void transpose(Stream stream, std::int64_t element_bytes, const Transposition& transposition) {
  const auto start = element_bytes == 8   ? start_transpose<std::uint64_t>
                     : element_bytes == 4 ? start_transpose<std::uint32_t>
                     : element_bytes == 2 ? start_transpose<std::uint16_t>
                                          : start_transpose<std::uint8_t>;
  start(stream, transposition);
}

void copy_each(Stream stream, std::int64_t element_bytes, const Copies& copies) {
  const auto start = element_bytes == 8   ? start_copies<std::uint64_t>
                     : element_bytes == 4 ? start_copies<std::uint32_t>
                     : element_bytes == 2 ? start_copies<std::uint16_t>
                                          : start_copies<std::uint8_t>;
  start(stream, copies);
}

void iota(Stream stream, Type type, double start, double step, void* y, std::int64_t n) {
  using Start = void (*)(Stream, double, double, void*, std::int64_t);
  static constexpr Start starts[type_count] = {nullptr,
                                               start_iota<bool>,
                                               start_iota<std::uint8_t>,
                                               start_iota<std::int32_t>,
                                               start_iota<std::int64_t>,
                                               start_iota<float16_t>,
                                               start_iota<bfloat16_t>,
                                               start_iota<float>,
                                               start_iota<double>};
  starts[static_cast<int>(type)](stream, start, step, y, n);
}

}  // namespace tapestry::gpu
