#pragma once

#include <cstdint>

#include "backend/cpu/levels.hpp"
#include "backend/functors.hpp"
#include "tapestry/dtype.hpp"

namespace tapestry::host {

// The loops of the elementwise families over n contiguous elements; y may be an operand itself. The `step` of an
// operand is 1, or 0 where one element is repeated. `p` is the op's number. The tables are indexed by function and by
// DType of the operands (of y for Ternary::select). A function that a type does not have is null.

using UnaryRow = void (*)(const void* x, void* y, std::int64_t n, double p);
using BinaryRow = void (*)(const void* a, std::int64_t a_step, const void* b, std::int64_t b_step, void* y,
                           std::int64_t n, double p);
using TernaryRow = void (*)(const void* a, std::int64_t a_step, const void* b, std::int64_t b_step, const void* c,
                            std::int64_t c_step, void* y, std::int64_t n);

inline constexpr int dtype_count = static_cast<int>(DType::float64) + 1;
inline constexpr int unary_count = static_cast<int>(Unary::logical_not) + 1;
inline constexpr int binary_count = static_cast<int>(Binary::logical_or) + 1;
inline constexpr int ternary_count = static_cast<int>(Ternary::select) + 1;

struct UnaryTable {
  UnaryRow rows[unary_count][dtype_count];
};
struct BinaryTable {
  BinaryRow rows[binary_count][dtype_count];
  /// Whether b contains an integer for which there is no result: 0 for floor_mod and floor_divide, a negative one for
  /// power.
  bool (*contains_zero[dtype_count])(const void* b, std::int64_t n);
  bool (*contains_negative[dtype_count])(const void* b, std::int64_t n);
};
struct TernaryTable {
  TernaryRow rows[ternary_count][dtype_count];
};

TAPESTRY_KERNEL_TABLE(UnaryTable, unary_table)
TAPESTRY_KERNEL_TABLE(BinaryTable, binary_table)
TAPESTRY_KERNEL_TABLE(TernaryTable, ternary_table)

/// The tables of this processor.
const UnaryTable& unary_kernels();
const BinaryTable& binary_kernels();
const TernaryTable& ternary_kernels();

}  // namespace tapestry::host
