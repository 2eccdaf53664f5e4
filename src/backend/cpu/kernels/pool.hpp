#pragma once

#include <cstdint>

#include "backend/cpu/levels.hpp"

namespace tapestry::host {

/// A run of windows side by side: window i reads the elements x[taps[k] + i * step + c] for its `count` taps k and each
/// channel c, and has the results y[i * distance + c].
struct WindowRun {
  std::int64_t windows, step, channels, distance;
  const std::int64_t* taps;
  std::int64_t count;
};

/// The kernels of pool.cpp.
template <class T>
struct PoolKernels {
  /// The largest elements; without taps -inf.
  void (*max)(const WindowRun& run, const T* x, T* y);
  /// The sums, divided by the number of taps.
  void (*average)(const WindowRun& run, const T* x, T* y);
  /// Adds g to dx at the first tap whose x is y or NaN; dx has the offsets of x.
  void (*max_grad)(const WindowRun& run, const T* x, const T* y, const T* g, T* dx);
  /// Adds g, divided by the number of taps, to dx at each tap.
  void (*average_grad)(const WindowRun& run, const T* g, T* dx);
};
struct PoolTable {
  PoolKernels<float> f32;
  PoolKernels<double> f64;
};
TAPESTRY_KERNEL_TABLE(PoolTable, pool_table)

}  // namespace tapestry::host
