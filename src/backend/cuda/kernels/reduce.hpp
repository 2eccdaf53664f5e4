#pragma once

#include "backend/cuda/kernels/layout.hpp"

namespace tapestry::gpu {

enum class ReduceKind : std::uint8_t { sum, prod, max, min, arg_max, arg_min };

/// How a reduction is spread over threads; it depends on shapes and strides alone, and so do the bits of the result.
struct Reduction {
  const void* x = nullptr;
  void* y = nullptr;
  std::int64_t outputs = 1, count = 1;  ///< results, and elements of each; less than 2^31
  Layout kept, reduced;                 ///< where x's elements lie: those of the results, and those of one result
  std::int64_t divisor = 1;             ///< of float results
  bool wide = true;                     ///< positions are int64, not int32
  int lanes = 1;                        ///< threads that share a result, a power of 2 up to `block_threads`
  bool along = false;       ///< neighbouring threads take neighbouring elements of a result, not neighbouring results
  std::int64_t splits = 1;  ///< blocks that share a result; their partial results are reduced by a second kernel
};

/// Bytes of a partial result.
std::size_t partial_bytes(ReduceKind kind, Type type);

/// Reduces elements of `type`: of bool, sum and max are "any", prod and min "all". The results are of that type, for
/// arg_max and arg_min positions along the only reduced axis: the first largest or smallest one's, or the first NaN's.
/// `partial` has room for outputs * splits partial results if there are several splits.
void reduce(Stream stream, ReduceKind kind, Type type, const Reduction& reduction, void* partial);

}  // namespace tapestry::gpu
