#pragma once

#include <cstdint>

#include "backend/cpu/levels.hpp"

namespace tapestry::host {

/// A tile of a product, rows x columns elements that fit the processor's registers: c = a b, or c += a b if
/// `accumulate`. a[i, p] is at a[i * a_row + p * a_column], b[p, j] at b[p * b_row + j], c[i, j] at c[i * c_row + j].
template <class T>
struct GemmTile {
  const T* a;
  std::int64_t a_row, a_column;
  const T* b;
  std::int64_t b_row;
  T* c;
  std::int64_t c_row;
  std::int64_t depth;    ///< the number of products that an element sums, p < depth
  std::int64_t in_last;  ///< the columns in the tile's last register; nothing behind them is read or written
  bool accumulate;
};

/// A matrix times a vector: y[i * y_step] = sum over p of matrix[i, p] * x[p], or += if `accumulate`.
template <class T>
struct Gemv {
  const T* matrix;
  std::int64_t stride;  ///< between rows for `by_rows`, between columns for `by_columns`; the other one is 1
  const T* x;
  T* y;
  std::int64_t y_step;
  std::int64_t rows, depth;
  bool accumulate;
};

// An element's products are summed in one of two orders, which the sizes decide, never a layout, a tile or a thread:
//
// * in slices: the products of each slice by fused multiply-adds in the order of p, then the slices' sums in order. The
//   fewest slices of at most `deepest_slice` products are taken, all but the last of them equally deep.
// * in lanes: the p-th product belongs to the partial sum p % gemv_lanes, and the partial sums are added as a balanced
//   tree. This suits products with a vector, and those of many rows and few columns, which would fill few lanes of a
//   register.
constexpr std::int64_t deepest_slice = 512, gemv_lanes = 16;
constexpr std::int64_t slice_depth(std::int64_t k) {
  const std::int64_t slices = (k + deepest_slice - 1) / deepest_slice;
  return (k + slices - 1) / slices;
}
constexpr bool sums_in_lanes(std::int64_t m, std::int64_t n, std::int64_t k) {
  constexpr std::int64_t few = 4, many = 32, deep = 64;
  return ((m == 1 || n == 1) && k > gemv_lanes) || (n <= few && m >= many && k > deep);
}

constexpr int most_tile_rows = 8, most_tile_registers = 3;

/// Matrix products on one processor level. All levels give the same bits.
template <class T>
struct GemmKernels {
  using Tile = void (*)(const GemmTile<T>&);
  using Vector = void (*)(const Gemv<T>&);
  using Pack = void (*)(const T* from, std::int64_t step, std::int64_t depth, std::int64_t panels, T* to);
  int rows;       ///< of the largest tile; 0 on a level without fused multiply-adds, which has no kernels
  int registers;  ///< across the largest tile
  int lanes;      ///< the elements of a register
  /// How many panels, of `rows` rows of a, may read b in place where all its rows meet in one set of a cache.
  int panels_in_one_set;
  Tile tile[most_tile_rows][most_tile_registers];  ///< tile[r - 1][n - 1] has r rows and n registers across
  /// Copies what the largest tile reads of a and of b at each step of the depth, adjacent elements, to adjacent memory:
  /// for several tiles that lie side by side, first all that one tile reads.
  Pack pack_a, pack_b;
  Vector by_rows, by_columns;
};

struct GemmTable {
  GemmKernels<float> f32;
  GemmKernels<double> f64;
};
TAPESTRY_KERNEL_TABLE(GemmTable, gemm_table)

}  // namespace tapestry::host
