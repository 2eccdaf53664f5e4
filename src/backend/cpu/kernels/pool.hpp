#pragma once

#include <cstdint>

#include "backend/cpu/levels.hpp"

namespace tapestry::host {

/// The gradient of a maximum at one element of a window, over n channels. Where x is the maximum y, or NaN, it takes
/// what is left of the window's gradient: `left` is added to dx and becomes 0.
template <class T>
using TakeGradient = void (*)(const T* x, const T* y, T* left, T* dx, std::int64_t n);

struct PoolTable {
  TakeGradient<float> f32;
  TakeGradient<double> f64;
};
TAPESTRY_KERNEL_TABLE(PoolTable, pool_table)

}  // namespace tapestry::host
