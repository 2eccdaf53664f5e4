#pragma once

#include "backend/cuda/kernels/kernel.hpp"

namespace tapestry::gpu {

/// An array without gaps, [outer, length, inner], that is scanned along the middle axis.
struct ScanShape {
  std::int64_t outer, length, inner;
  bool exclusive, reverse;
};

/// Running sums, or products, from x to y; of bool they are "any" and "all" so far. See Backend::scan.
void scan(Stream stream, bool product, Type type, const ScanShape& shape, const void* x, void* y);

}  // namespace tapestry::gpu
