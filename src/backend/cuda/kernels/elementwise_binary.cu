#include "backend/cuda/kernels/elementwise.cuh"
#include "backend/cuda/kernels/formulas.hpp"
#include "backend/cuda/kernels/kernel.cuh"

namespace tapestry::gpu {

namespace {

/// The kernel of `find_refused`. A position is the element's number in `layout` or in the flat array.
template <class T, bool negative>
__global__ void __launch_bounds__(block_threads)
    find_kernel(const T* x, int step, bool flat, const __grid_constant__ Layout layout, std::int64_t n,
                unsigned long long* first) {
  for (std::int64_t i = global_thread(); i < n; i += grid_threads()) {
    std::int32_t offset[2] = {};
    if (!flat) layout.locate(static_cast<std::uint32_t>(i), offset);
    const T value = x[flat ? i * step : offset[1]];
    if (negative ? value < T(0) : value == T(0)) atomicMin(first, static_cast<unsigned long long>(i));
  }
}

template <class T>
void find(Stream stream, const Elements& e, bool negative, unsigned long long* first) {
  const auto kernel = negative ? find_kernel<T, true> : find_kernel<T, false>;
  kernel<<<blocks_for(e.n), block_threads, 0, stream>>>(static_cast<const T*>(e.x[0]), e.step[0], e.flat, e.layout, e.n,
                                                        first);
}

}  // namespace

Launch binary_kernel(Binary f, Type type) {
  static constexpr auto table = binary_table<Launch, Kernel>();
  return table.at(f, type);
}

void find_refused(Stream stream, Type type, const Elements& elements, bool negative, unsigned long long* first) {
  if (type == Type::u8) return find<std::uint8_t>(stream, elements, negative, first);
  if (type == Type::i32) return find<std::int32_t>(stream, elements, negative, first);
  find<std::int64_t>(stream, elements, negative, first);
}

}  // namespace tapestry::gpu
