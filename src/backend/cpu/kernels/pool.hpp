#pragma once

#include <cstdint>

#include "backend/cpu/kernels/window_run.hpp"
#include "backend/cpu/levels.hpp"

namespace tapestry::host {

/// Some neighbouring channels. The results of neighbouring windows are at distance `stride`.
struct Channels {
  std::int64_t count, stride;
};

/// The kernels of pool.cpp.
template <class T>
struct PoolKernels {
  /// The largest elements; without taps -inf.
  void (*max)(const WindowRun& run, Channels channels, const T* x, T* y);
  /// The sums, divided by the number of taps.
  void (*average)(const WindowRun& run, Channels channels, const T* x, T* y);
  /// Adds g to dx at the first tap whose x is y or NaN; dx has the offsets of x.
  void (*max_grad)(const WindowRun& run, Channels channels, const T* x, const T* y, const T* g, T* dx);
  /// The same where windows share no elements: sets dx at all taps.
  void (*apart_max_grad)(const WindowRun& run, Channels channels, const T* x, const T* y, const T* g, T* dx);
  /// Adds g, divided by the number of taps, to dx at each tap.
  void (*average_grad)(const WindowRun& run, Channels channels, const T* g, T* dx);
};
struct PoolTable {
  PoolKernels<float> f32;
  PoolKernels<double> f64;
};
TAPESTRY_KERNEL_TABLE(PoolTable, pool_table)

}  // namespace tapestry::host
