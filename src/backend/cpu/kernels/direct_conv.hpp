#pragma once

#include <cstdint>

#include "backend/cpu/kernels/window_run.hpp"
#include "backend/cpu/levels.hpp"

namespace tapestry::host {

/// The kernels of direct_conv.cpp, for images with `in` channels and results with `out`.
template <class T>
struct DirectConvKernels {
  /// y[i, :] = the sum over the taps and channels of x * filter[place, channel, :].
  void (*convolve)(const WindowRun& run, std::int64_t in, std::int64_t out, const T* x, const T* filter, T* y);
  /// dfilter[place, channel, :] += the sum over the windows of x * g[i, :].
  void (*grad_filter)(const WindowRun& run, std::int64_t in, std::int64_t out, const T* x, const T* g, T* dfilter);
};
struct DirectConvTable {
  DirectConvKernels<float> f32;
  DirectConvKernels<double> f64;
};
TAPESTRY_KERNEL_TABLE(DirectConvTable, direct_conv_table)

}  // namespace tapestry::host
