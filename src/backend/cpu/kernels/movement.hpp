#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/elementwise.hpp"
#include "backend/cpu/levels.hpp"

namespace tapestry::host {

/// y[r * y_row + c * y_column] = x[r * x_row + c * x_column] for all r < rows, c < columns. Strides count elements.
/// Fast where one of x's and one of y's strides is 1, which includes a transposition.
using Move = void (*)(const void* x, std::int64_t x_row, std::int64_t x_column, void* y, std::int64_t y_row,
                      std::int64_t y_column, std::int64_t rows, std::int64_t columns);

struct MovementTable {
  Move move_1, move_2, move_4, move_8;  ///< for elements of this many bytes
  /// Sets all n elements of y to the one at x.
  void (*fill_1)(const void* x, void* y, std::int64_t n);
  void (*fill_2)(const void* x, void* y, std::int64_t n);
  void (*fill_4)(const void* x, void* y, std::int64_t n);
  void (*fill_8)(const void* x, void* y, std::int64_t n);
  /// Copies past the caches, for results that do not fit them: memory is written without being read first. A thread
  /// calls `finish_streaming` before it notifies another thread.
  void (*stream)(const void* x, void* y, std::int64_t bytes);
  /// cast[from][to]: floats are cut towards zero and to the integer type's range (NaN: 0); integers wrap; bool is
  /// x != 0.
  void (*cast[dtype_count][dtype_count])(const void* x, void* y, std::int64_t n);

  Move move(std::size_t size) const { return size == 8 ? move_8 : size == 4 ? move_4 : size == 2 ? move_2 : move_1; }
  auto fill(std::size_t size) const { return size == 8 ? fill_8 : size == 4 ? fill_4 : size == 2 ? fill_2 : fill_1; }
};

TAPESTRY_KERNEL_TABLE(MovementTable, movement_table)

const MovementTable& movement_kernels();

}  // namespace tapestry::host
