#pragma once

#include <cstdint>

#include "backend/cpu/levels.hpp"

namespace tapestry::host {

/// One element of a window in the gradient of a maximum, over n channels. Where x is the maximum y, or NaN, it takes
/// what is left of the window's gradient: that goes from `left` to dx.
template <class T>
using TakeGradient = void (*)(const T* x, const T* y, T* left, T* dx, std::int64_t n);

struct PoolTable {
  TakeGradient<float> f32;
  TakeGradient<double> f64;
};
TAPESTRY_KERNEL_TABLE(PoolTable, pool_table)

}  // namespace tapestry::host
