#pragma once

#include "backend/cuda/kernels/layout.hpp"
#include "backend/functors.hpp"

namespace tapestry::gpu {

/// The elements that one kernel of an elementwise function computes. If `flat`, n is any, and each array is contiguous
/// and aligned to vectors (of 16 bytes for the largest type) or, if an input, one element that is broadcast. Otherwise
/// `layout` gives the offsets of the elements: y is operand 0, and the inputs follow.
struct Elements {
  std::int64_t n = 0;
  void* y = nullptr;
  const void* x[max_operands - 1] = {};
  bool flat = true;
  std::int32_t step[max_operands - 1] = {};  ///< if flat: 1, or 0 for an input of one element
  Layout layout;
};

/// Starts the kernel of a function for an element type; `number` is the op's number.
using Launch = void (*)(Stream stream, const Elements& elements, double number);

/// The kernel of a function for an element type (of b for Ternary::select); null if the function is not defined for it.
Launch unary_kernel(Unary f, Type type);
Launch binary_kernel(Binary f, Type type);
Launch ternary_kernel(Ternary f, Type type);
/// The kernel that converts between types. From floats to integers, it rounds towards zero and clamps to the type's
/// range, and NaN becomes 0. From integers to integers, it wraps. To bool, it computes x != 0.
Launch convert_kernel(Type from, Type to);
/// The kernel that copies elements of 1, 2, 4 or 8 bytes.
Launch move_kernel(std::int64_t element_bytes);

/// Copies of fewer than 2^31 elements of one size, which one kernel makes.
struct Copies {
  /// As many as the 4 KiB of a kernel's arguments hold.
  static constexpr int capacity = 16;
  struct Copy {
    const void* x;
    void* y;
    std::uint32_t n;
    LayoutOf<2> layout;  ///< offsets of the elements in y (operand 0) and in x
  };
  int count = 0;
  std::uint32_t largest = 0;  ///< elements of the largest copy
  Copy copy[capacity];
};
/// Makes Copies of elements of 1, 2, 4 or 8 bytes.
void copy_each(Stream stream, std::int64_t element_bytes, const Copies& copies);

/// A copy that transposes a batch of matrices: y[b, r, c] = x[b, r, c], where x is contiguous along r, and y along c.
struct Transposition {
  const void* x = nullptr;
  void* y = nullptr;
  std::int64_t rows = 1, columns = 1, batch = 1;
  std::int64_t x_column = 0, y_row = 0;  ///< strides in elements
  Layout layout;                         ///< offsets of the matrices in y (operand 0) and in x
};
/// Copies a Transposition of elements of 1, 2, 4 or 8 bytes.
void transpose(Stream stream, std::int64_t element_bytes, const Transposition& transposition);

/// y[i] = start + i * step for i < n, converted to y's type.
void iota(Stream stream, Type type, double start, double step, void* y, std::int64_t n);

/// Lowers *first to the smallest i for which the integer x[i] is 0 or, if `negative`, is negative. x is the only input
/// of `elements`, whose y is not used.
void find_refused(Stream stream, Type type, const Elements& elements, bool negative, unsigned long long* first);

}  // namespace tapestry::gpu
