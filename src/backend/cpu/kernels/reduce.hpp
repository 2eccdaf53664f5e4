#pragma once

#include <cstdint>

#include "backend/cpu/levels.hpp"

namespace tapestry::host {

/// The most columns that one call of a `columns` kernel takes. Their running results fit the first-level cache.
constexpr std::int64_t column_limit = 2048;
/// Rows with fewer columns than this and without gaps between them are taken several at a time.
constexpr std::int64_t narrow_columns = 64;

/// The elements of a row that a `rows` kernel reduces before it goes on to the next ones, and goes over to double.
constexpr std::int64_t row_block = 4096;

/// A kernel adds the elements of a block to lanes of so many bytes, element i to lane i mod lanes.
constexpr std::int64_t row_lane_bytes = 256;

/// A row whose elements are computed where they are reduced: `compute` gives n of them from `first` on, at most a
/// block, or instead lanes to which they have been added, if that is all of them, and sets n to their number.
struct ComputedRow {
  const void* (*compute)(const void* state, std::int64_t first, std::int64_t& n);
  const void* state;
};

/// Where a `columns` kernel is called for some of the rows after the other: memory for the running results, of the
/// elements' type. All calls but the last take a multiple of 4 rows, and the rows have gaps or are not narrow.
struct RowsSoFar {
  void* results = nullptr;  ///< none for all rows at once
  bool first = true, last = true;
};

/// One reduction, for one type of elements and one of results.
struct Reducer {
  /// y[j * y_step] = x[j * step + i * stride] reduced over all i < n, for j < rows. A sum is divided by `divisor`.
  /// `computed`: the only row, in the place of x, which has at least as many elements as there are lanes; or nullptr.
  void (*rows)(const void* x, std::int64_t n, std::int64_t stride, std::int64_t rows, std::int64_t step, void* y,
               std::int64_t y_step, std::int64_t divisor, const ComputedRow* computed);
  /// The same for j < columns, where j is the innermost axis in memory. Floats are added one after another, so for
  /// accuracy n should be some hundred at most.
  void (*columns)(const void* x, std::int64_t n, std::int64_t stride, std::int64_t columns, std::int64_t step, void* y,
                  std::int64_t y_step, std::int64_t divisor, RowsSoFar so_far);
};

/// The position of the first largest or smallest of n elements (the first NaN, if any).
struct ArgReducer {
  std::int64_t (*row)(const void* x, std::int64_t n);
  /// The same for each of `columns` adjacent columns of n elements at distance `stride`.
  void (*columns)(const void* x, std::int64_t n, std::int64_t stride, std::int64_t columns, std::int64_t* y);
};

/// A running sum or product along n elements at distance `stride` (which may be negative), for each of `columns`
/// adjacent columns. Exclusive: the i-th result leaves out x[i].
using Scanner = void (*)(const void* x, std::int64_t n, std::int64_t stride, std::int64_t columns, void* y,
                         bool exclusive);

/// The types of elements and results. Integers are added as unsigned ones, so that they wrap; a sum of bools is "any",
/// a product "all". Long sums and products of float32 go through float64.
enum class ReduceTypes : std::uint8_t { f32, f64, i32, i64, u8, boolean, f32_to_f64, f64_to_f32 };
constexpr int plain_types = 6;  ///< the first ones, whose results have the elements' own type
constexpr int reduce_types = 8;

struct ReduceTable {
  Reducer sum[reduce_types], prod[reduce_types], max[plain_types], min[plain_types];
  ArgReducer arg_max[plain_types], arg_min[plain_types];
  Scanner scan_sum[plain_types], scan_prod[plain_types];
};
TAPESTRY_KERNEL_TABLE(ReduceTable, reduce_table)

}  // namespace tapestry::host
