#include "backend/cpu/kernels/pool.hpp"

#include <cstdint>

namespace tapestry::host::TAPESTRY_KERNEL_LEVEL {
namespace {

template <class T>
void take_gradient(const T* __restrict x, const T* __restrict y, T* __restrict left, T* __restrict dx, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const bool is_maximum = (x[i] == y[i]) | (x[i] != x[i]);
    dx[i] += is_maximum ? left[i] : T(0);
    left[i] = is_maximum ? T(0) : left[i];
  }
}

}  // namespace

const PoolTable pool_table = {.f32 = take_gradient<float>, .f64 = take_gradient<double>};

}  // namespace tapestry::host::TAPESTRY_KERNEL_LEVEL
