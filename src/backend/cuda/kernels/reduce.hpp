#pragma once

#include "backend/cuda/kernels/layout.hpp"

namespace tapestry::gpu {

enum class ReduceKind : std::uint8_t { sum, prod, max, min, arg_max, arg_min };

/// How a reduction is spread over threads; it depends on shapes and strides alone, and so do the bits of the result.
struct Reduction {
  const void* x = nullptr;
  void* y = nullptr;
  std::int64_t outputs = 1, count = 1;  ///< results, and elements of each; less than 2^31
  Layout kept, reduced;                 ///< offsets in x: of each result's first element, and of a result's elements
  std::int64_t divisor = 1;             ///< of float results
  bool wide = true;                     ///< positions are int64, not int32
  int lanes = 1;                        ///< threads that share a result, a power of 2 up to `block_threads`
  bool along = false;       ///< neighbouring threads take neighbouring elements of a result, not neighbouring results
  std::int64_t splits = 1;  ///< blocks that share a result; their partial results are reduced by a second kernel
};

/// Bytes of a partial result.
std::size_t partial_bytes(ReduceKind kind, Type type);

/// Reduces elements of `type`; for bool, sum and max are "any", and prod and min are "all". The results have that type.
/// Those of arg_max and arg_min are positions along the only reduced axis: of the first NaN or, if there is none, of
/// the first largest or smallest element. `partial` has room for outputs * splits partial results if splits > 1.
void reduce(Stream stream, ReduceKind kind, Type type, const Reduction& reduction, void* partial);

}  // namespace tapestry::gpu
