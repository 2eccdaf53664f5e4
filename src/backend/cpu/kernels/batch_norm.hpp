#pragma once

#include <cstdint>

#include "backend/cpu/levels.hpp"

namespace tapestry::host {

/// The kernels of batch_norm.cpp over `rows` rows of `width` elements, at distance `stride`. The statistics have one
/// element for each of the `width` columns. Sums are added to what is there, in T, so rows should be some hundred at
/// most.
template <class T>
struct BatchNormKernels {
  /// total += sum(x)
  void (*sum)(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t width, T* total);
  /// total += sum((x - mean)^2)
  void (*squares)(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t width, const T* mean, T* total);
  /// y = (x - mean) * factor + offset
  void (*normalize)(const T* x, std::int64_t rows, std::int64_t stride, std::int64_t width, const T* mean,
                    const T* factor, const T* offset, T* y);
  /// of_g += sum(g), of_products += sum(g * (x - mean))
  void (*products)(const T* x, const T* g, std::int64_t rows, std::int64_t stride, std::int64_t width, const T* mean,
                   T* of_g, T* of_products);
  /// dx = (g - level - (x - mean) * slope) * factor
  void (*gradient)(const T* x, const T* g, std::int64_t rows, std::int64_t stride, std::int64_t width, const T* mean,
                   const T* level, const T* slope, const T* factor, T* dx);
};
struct BatchNormTable {
  BatchNormKernels<float> f32;
  BatchNormKernels<double> f64;
};
TAPESTRY_KERNEL_TABLE(BatchNormTable, batch_norm_table)

}  // namespace tapestry::host
