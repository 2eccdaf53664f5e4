#pragma once

#include <cstdint>

#include "backend/cpu/levels.hpp"

namespace tapestry::host {

/// The kernels of normalize.cpp over contiguous rows of n elements.
template <class T>
struct RowKernels {
  void (*softmax)(const T* x, std::int64_t rows, std::int64_t n, bool logarithm, T* y);
  void (*softmax_grad)(const T* y, const T* g, std::int64_t rows, std::int64_t n, bool logarithm, T* dx);
  void (*normalize)(const T* x, const T* scale, const T* offset, std::int64_t rows, std::int64_t n, double epsilon,
                    T* y, T* mean, T* rstd);
  /// Adds to dscale and doffset.
  void (*normalize_grad)(const T* x, const T* scale, const T* mean, const T* rstd, const T* g, std::int64_t rows,
                         std::int64_t n, T* dx, T* dscale, T* doffset);
};
struct NormalizeTable {
  RowKernels<float> f32;
  RowKernels<double> f64;
};
TAPESTRY_KERNEL_TABLE(NormalizeTable, normalize_table)

}  // namespace tapestry::host
