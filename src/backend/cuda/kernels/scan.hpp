#pragma once

#include "backend/cuda/kernels/kernel.hpp"

namespace tapestry::gpu {

/// A contiguous array [outer, length, inner] that is scanned along the middle axis.
struct ScanShape {
  std::int64_t outer, length, inner;
  bool exclusive, reverse;
};

/// Writes the running sums, or products, of x to y. Those of bool are "any" and "all" so far. See Backend::scan.
void scan(Stream stream, bool product, Type type, const ScanShape& shape, const void* x, void* y);

}  // namespace tapestry::gpu
