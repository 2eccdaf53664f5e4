#pragma once

#include <cstdint>

#include "backend/cpu/levels.hpp"

namespace tapestry::host {

/// The most neighbours that one call of a `columns` kernel takes: their running results lie in the first-level cache.
constexpr std::int64_t column_limit = 2048;
/// Rows with fewer columns than this and without gaps between them are taken several at a time.
constexpr std::int64_t narrow_columns = 64;

/// One way of reducing, for one type of elements and one of results.
struct Reducer {
  /// y[j * y_step] = x[j * step + i * stride] over all i < n, for j < rows. A sum is divided by `divisor`.
  void (*rows)(const void* x, std::int64_t n, std::int64_t stride, std::int64_t rows, std::int64_t step, void* y,
               std::int64_t y_step, std::int64_t divisor);
  /// The same where j runs fastest in memory, for j < columns. Floats are added one after another, so that for accuracy
  /// n should stay below some hundred.
  void (*columns)(const void* x, std::int64_t n, std::int64_t stride, std::int64_t columns, std::int64_t step, void* y,
                  std::int64_t y_step, std::int64_t divisor);
};

/// Position of the first largest or smallest of n elements (the first NaN, if any).
struct ArgReducer {
  std::int64_t (*row)(const void* x, std::int64_t n);
  /// For each of `columns` neighbours, along n elements at distance `stride`.
  void (*columns)(const void* x, std::int64_t n, std::int64_t stride, std::int64_t columns, std::int64_t* y);
};

/// A running sum or product along n elements at distance `stride` (which may be negative), for each of `columns`
/// neighbours. Exclusive: the i-th result leaves out x[i].
using Scanner = void (*)(const void* x, std::int64_t n, std::int64_t stride, std::int64_t columns, void* y,
                         bool exclusive);

/// Elements and results. Whole numbers are added as unsigned ones, so that they wrap; a sum of bools is "any", a
/// product "all". Long sums of floats go through doubles.
enum class ReduceTypes : std::uint8_t { f32, f64, i32, i64, u8, boolean, f32_to_f64, f64_to_f32 };
constexpr int plain_types = 6;  ///< results of the elements' own type
constexpr int reduce_types = 8;

struct ReduceTable {
  Reducer sum[reduce_types], prod[reduce_types], max[plain_types], min[plain_types];
  ArgReducer arg_max[plain_types], arg_min[plain_types];
  Scanner scan_sum[plain_types], scan_prod[plain_types];
};
TAPESTRY_KERNEL_TABLE(ReduceTable, reduce_table)

}  // namespace tapestry::host
