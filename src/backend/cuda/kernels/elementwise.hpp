#pragma once

#include "backend/cuda/kernels/layout.hpp"
#include "backend/functors.hpp"

namespace tapestry::gpu {

/// What one kernel of an elementwise function goes over. Flat: all arrays lie without gaps from addresses that allow
/// vectors of 16 bytes, or are one element that stands for all, and n is any. Otherwise `layout` tells where the
/// elements lie: y's first (operand 0), then those of the inputs.
struct Elements {
  std::int64_t n = 0;
  void* y = nullptr;
  const void* x[max_operands - 1] = {};
  bool flat = true;
  std::int32_t step[max_operands - 1] = {};  ///< flat: 1, or 0 for an input of one element
  Layout layout;
};

/// Starts the kernel of a function for an element type; `number` is the op's number.
using Launch = void (*)(Stream stream, const Elements& elements, double number);

/// The kernel of a function of elements of a type (of b's type for Ternary::select); null where there is no such
/// function.
Launch unary_kernel(Unary f, Type type);
Launch binary_kernel(Binary f, Type type);
Launch ternary_kernel(Ternary f, Type type);
/// Between types: floats are cut towards zero, into the type's range (NaN: 0); whole numbers wrap; to bool: x != 0.
Launch convert_kernel(Type from, Type to);
/// Elements of 1, 2, 4 or 8 bytes as they are.
Launch move_kernel(std::int64_t element_bytes);

/// Matrices that are copied and transposed: y[b, r, c] = x[b, r, c], where neighbours in memory are neighbours along
/// the rows in x and along the columns in y.
struct Turn {
  const void* x = nullptr;
  void* y = nullptr;
  std::int64_t rows = 1, columns = 1, batch = 1;
  std::int64_t x_column = 0, y_row = 0;  ///< distances in elements
  Layout layout;                         ///< of the batch: y's matrices (operand 0) and x's
};
/// Elements of 1, 2, 4 or 8 bytes.
void turn(Stream stream, std::int64_t element_bytes, const Turn& turn);

/// y[i] = start + i * step for i < n, converted to y's type.
void iota(Stream stream, Type type, double start, double step, void* y, std::int64_t n);

/// Lowers *first to the smallest i for which x[i] is 0, or negative where that is asked for. Whole numbers; `x` is the
/// only input of `elements`, whose y is not used.
void find_refused(Stream stream, Type type, const Elements& elements, bool negative, unsigned long long* first);

}  // namespace tapestry::gpu
