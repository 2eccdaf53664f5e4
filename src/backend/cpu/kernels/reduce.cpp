#include "backend/cpu/kernels/reduce.hpp"

#include <cstddef>
#include <cstdint>

#include "backend/cpu/kernels/lanes.hpp"

namespace tapestry::host::TAPESTRY_KERNEL_LEVEL {
namespace {

using std::int64_t;

struct Product {
  template <class V>
  [[gnu::always_inline]] static V combine(V a, V b) {
    return static_cast<V>(a * b);
  }
};

struct Min {
  template <class V>
  [[gnu::always_inline]] static V combine(V a, V b) {
    return ((b < a) | (b != b)) ? b : a;
  }
};

/// The "and" of bools, as bytes of 0 and 1.
struct And {
  template <class V>
  [[gnu::always_inline]] static V combine(V a, V b) {
    return static_cast<V>(a & b);
  }
};

template <class T>
constexpr T largest() {
  if constexpr (static_cast<T>(0.5) != T(0)) {
    return static_cast<T>(__builtin_inf());
  } else if constexpr (static_cast<T>(-1) > T(0)) {
    return static_cast<T>(-1);
  } else {
    return static_cast<T>((std::uint64_t{1} << (8 * sizeof(T) - 1)) - 1);
  }
}
template <class T>
constexpr T smallest() {
  if constexpr (static_cast<T>(0.5) != T(0)) {
    return -largest<T>();
  } else if constexpr (static_cast<T>(-1) > T(0)) {
    return T(0);
  } else {
    return -largest<T>() - 1;
  }
}
template <class Op, class T>
constexpr T identity = __is_same(Op, Max)   ? smallest<T>()
                       : __is_same(Op, Min) ? largest<T>()
                       : __is_same(Op, Sum) ? T(0)
                                            : T(1);

/// The type in which scans, and the results of blocks, are accumulated.
template <class Op, class T>
struct WideOf {
  using type = T;
};
template <>
struct WideOf<Sum, float> {
  using type = double;
};
template <>
struct WideOf<Product, float> {
  using type = double;
};

template <class Op, class Out, class Wide>
[[gnu::always_inline]] inline Out finish(Wide total, int64_t divisor) {
  if constexpr (__is_same(Op, Sum)) {
    if (divisor != 1) {
      if constexpr (static_cast<Out>(0.5) != Out(0)) {
        return static_cast<Out>(static_cast<double>(total) / static_cast<double>(divisor));
      } else {
        return static_cast<Out>(static_cast<Out>(total) / divisor);
      }
    }
  }
  return static_cast<Out>(total);
}

/// The number of elements of a block. They are gathered if they are not contiguous.
constexpr int64_t block = row_block;
static_assert(block == sum_block && row_lane_bytes == lane_bytes);

/// Not inlined: one copy per type of these rarely used loops, instead of one per reduction.
template <class T>
[[gnu::noinline]] void gather(const T* x, int64_t count, int64_t stride, T* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = x[i * stride];
}
template <class T>
[[gnu::noinline]] void fill(T* to, int64_t count, T value) {
  for (int64_t i = 0; i < count; ++i) to[i] = value;
}
template <class T>
[[gnu::noinline]] void scatter(const T* from, int64_t count, int64_t stride, T* y) {
  for (int64_t i = 0; i < count; ++i) y[i * stride] = from[i];
}

/// A contiguous array of `count` elements at distance `stride`: x itself, or the buffer, to which they are copied.
template <class T>
[[gnu::always_inline]] inline const T* side_by_side(const T* x, int64_t count, int64_t stride, T* buffer) {
  if (stride == 1) return x;
  gather(x, count, stride, buffer);
  return buffer;
}

template <class Op, class T>
[[gnu::always_inline]] inline T reduce_block(const T* x, int64_t n) {
  using V = typename Register<T>::type;
  // The processor's own prefetching ends with each page of 4 KiB. Without this, long rows take a tenth longer.
  constexpr int64_t ahead = 4096 / sizeof(T);
  const auto vector = [x](int64_t i) {
    __builtin_prefetch(x + i + ahead);
    return load<V>(x + i);
  };
  return reduce_lanes<Op>(n, identity<Op, T>, vector, [x](int64_t i) { return x[i]; });
}
/// The same, as one function for all callers that read long rows: there the time of a call does not count.
template <class Op, class T>
[[gnu::noinline]] T reduce_long_block(const T* x, int64_t n) {
  return reduce_block<Op>(x, n);
}

template <class Op, class T, class Out>
void reduce_rows(const void* x, int64_t n, int64_t stride, int64_t rows, int64_t step, void* y, int64_t y_step,
                 int64_t divisor, const ComputedRow* computed) {
  using Wide = typename WideOf<Op, T>::type;
  if (n < lane_count<T> / 4) {  // too short for the lanes
    for (int64_t j = 0; j < rows; ++j) {
      const T* row = static_cast<const T*>(x) + j * step;
      T total = identity<Op, T>;
      for (int64_t i = 0; i < n; ++i) total = Op::combine(total, row[i * stride]);
      static_cast<Out*>(y)[j * y_step] = finish<Op, Out>(static_cast<Wide>(total), divisor);
    }
    return;
  }
  T buffer[block];
  for (int64_t j = 0; j < rows; ++j) {
    const T* row = static_cast<const T*>(x) + j * step;
    const auto elements = [&](int64_t i, int64_t& count) {
      return computed ? static_cast<const T*>(computed->compute(computed->state, i, count))
                      : side_by_side(row + i * stride, count, stride, buffer);
    };
    int64_t first = n < block ? n : block;
    const T* const start = elements(0, first);
    Wide total = reduce_block<Op>(start, first);
    for (int64_t i = block; i < n; i += block) {
      int64_t count = n - i < block ? n - i : block;
      const T* const next = elements(i, count);
      const T part = reduce_long_block<Op>(next, count);
      total = Op::combine(total, static_cast<Wide>(part));
    }
    static_cast<Out*>(y)[j * y_step] = finish<Op, Out>(total, divisor);
  }
}

/// Combines x[i * stride + j], i < n, into sums[j]. Not inlined: one copy for each of its many calls would be large.
template <class Op, class T>
[[gnu::noinline]] void take_rows(const T* x, int64_t n, int64_t stride, int64_t columns, T* sums) {
  using V = typename Register<T>::type;
  constexpr int width = register_bytes / sizeof(T);
  const auto four = [](const auto& row) {
    return Op::combine(Op::combine(row(0), row(1)), Op::combine(row(2), row(3)));
  };
  int64_t i = 0;
  for (; i + 4 <= n; i += 4, x += 4 * stride) {  // four at once: the sums are loaded and stored a quarter as often
    int64_t j = 0;
    for (; j + width <= columns; j += width) {
      const V rows = four([&](int r) { return load<V>(x + r * stride + j); });
      store(Op::combine(load<V>(sums + j), rows), sums + j);
    }
    for (; j < columns; ++j) sums[j] = Op::combine(sums[j], four([&](int r) { return x[r * stride + j]; }));
  }
  for (; i < n; ++i, x += stride)
    for (int64_t j = 0; j < columns; ++j) sums[j] = Op::combine(sums[j], x[j]);
}

template <class Op, class T, class Out>
void reduce_columns(const void* x, int64_t n, int64_t stride, int64_t columns, int64_t step, void* y, int64_t y_step,
                    int64_t divisor, RowsSoFar so_far) {
  T own[column_limit], buffer[column_limit];
  T* sums = so_far.results ? static_cast<T*>(so_far.results) : own;
  const T* from = static_cast<const T*>(x);
  // Several narrow rows make one that is long enough for the registers.
  const int64_t group = step == 1 && stride == columns && columns < narrow_columns ? narrow_columns / columns : 1;
  const int64_t wide = group * columns;
  if (so_far.first) fill(sums, wide, identity<Op, T>);
  // NOLINTBEGIN(clang-analyzer-core.CallAndMessage): there is a group, so sums has been set as far as it is read
  if (step == 1) {
    take_rows<Op>(from, n / group, stride * group, wide, sums);
    const T* rest = from + n / group * wide;
    take_rows<Op>(rest, 1, 0, n % group * columns, sums);
    for (int64_t g = 1; g < group; ++g) take_rows<Op>(sums + g * columns, 1, 0, columns, sums);
  } else {
    for (int64_t i = 0; i < n; ++i)
      take_rows<Op>(side_by_side(from + i * stride, columns, step, buffer), 1, 0, columns, sums);
  }
  if (!so_far.last) return;
  Out results[column_limit];
  Out* to = y_step == 1 ? static_cast<Out*>(y) : results;
  if constexpr (sizeof(T) == sizeof(Out) && !__is_same(Op, Sum)) {
    __builtin_memcpy(to, sums, static_cast<std::size_t>(columns) * sizeof(T));  // the same bits
  } else {
    for (int64_t j = 0; j < columns; ++j) to[j] = finish<Op, Out>(sums[j], divisor);
  }
  if (y_step != 1) scatter(results, columns, y_step, static_cast<Out*>(y));
  // NOLINTEND(clang-analyzer-core.CallAndMessage)
}

template <class Op, class T, class Out>
constexpr Reducer reducer = {reduce_rows<Op, T, Out>, reduce_columns<Op, T, Out>};

/// Whether b is better than the best so far. A NaN is better than any number.
template <class Op, class T>
[[gnu::always_inline]] inline bool beats(T b, T best) {
  const bool better = __is_same(Op, Max) ? b > best : b < best;
  return better | ((b != b) & (best == best));
}

template <class Op, class T>
int64_t arg_row(const void* x, int64_t n) {
  const T* row = static_cast<const T*>(x);
  // First the block with the best element is found, at the speed of a maximum; then it is searched.
  int64_t start = 0;
  T best = reduce_long_block<Op>(row, n < block ? n : block);
  for (int64_t i = block; i < n; i += block) {
    const T part = reduce_long_block<Op>(row + i, n - i < block ? n - i : block);
    if (beats<Op>(part, best)) {
      best = part;
      start = i;
    }
  }
  int64_t i = start;
  if (best != best) {
    while (row[i] == row[i]) ++i;
  } else {
    while (row[i] != best) ++i;
  }
  return i;
}

template <class Op, class T>
void arg_columns(const void* x, int64_t n, int64_t stride, int64_t columns, int64_t* y) {
  T best[column_limit];
  const T* row = static_cast<const T*>(x);
  for (int64_t j = 0; j < columns; ++j) {
    best[j] = row[j];
    y[j] = 0;
  }
  for (int64_t i = 1; i < n; ++i) {
    row += stride;
    for (int64_t j = 0; j < columns; ++j) {
      const bool better = beats<Op>(row[j], best[j]);
      best[j] = better ? row[j] : best[j];
      y[j] = better ? i : y[j];
    }
  }
}

template <class Op, class T>
constexpr ArgReducer arg_reducer = {arg_row<Op, T>, arg_columns<Op, T>};

template <class Op, class T>
void scan(const void* x, int64_t n, int64_t stride, int64_t columns, void* y, bool exclusive) {
  using Wide = typename WideOf<Op, T>::type;
  if (columns == 1) {
    Wide total = identity<Op, T>;
    for (int64_t i = 0; i < n; ++i) {
      const Wide before = total;
      total = Op::combine(before, static_cast<Wide>(static_cast<const T*>(x)[i * stride]));
      static_cast<T*>(y)[i * stride] = static_cast<T>(exclusive ? before : total);
    }
    return;
  }
  Wide totals[column_limit];
  for (int64_t j = 0; j < columns; ++j) totals[j] = identity<Op, T>;
  for (int64_t i = 0; i < n; ++i) {
    const T* from = static_cast<const T*>(x) + i * stride;
    T* to = static_cast<T*>(y) + i * stride;
    for (int64_t j = 0; j < columns; ++j) {
      const Wide before = totals[j];
      totals[j] = Op::combine(before, static_cast<Wide>(from[j]));
      to[j] = static_cast<T>(exclusive ? before : totals[j]);
    }
  }
}

using i32 = std::int32_t;
using i64 = std::int64_t;
using u8 = std::uint8_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

}  // namespace

const ReduceTable reduce_table = {
    .sum = {reducer<Sum, float, float>, reducer<Sum, double, double>, reducer<Sum, u32, i32>, reducer<Sum, u64, i64>,
            reducer<Sum, u8, u8>, reducer<Max, u8, u8>, reducer<Sum, float, double>, reducer<Sum, double, float>},
    .prod = {reducer<Product, float, float>, reducer<Product, double, double>, reducer<Product, u32, i32>,
             reducer<Product, u64, i64>, reducer<Product, u8, u8>, reducer<And, u8, u8>,
             reducer<Product, float, double>, reducer<Product, double, float>},
    .max = {reducer<Max, float, float>, reducer<Max, double, double>, reducer<Max, i32, i32>, reducer<Max, i64, i64>,
            reducer<Max, u8, u8>, reducer<Max, u8, u8>},
    .min = {reducer<Min, float, float>, reducer<Min, double, double>, reducer<Min, i32, i32>, reducer<Min, i64, i64>,
            reducer<Min, u8, u8>, reducer<And, u8, u8>},
    .arg_max = {arg_reducer<Max, float>, arg_reducer<Max, double>, arg_reducer<Max, i32>, arg_reducer<Max, i64>,
                arg_reducer<Max, u8>, arg_reducer<Max, u8>},
    .arg_min = {arg_reducer<Min, float>, arg_reducer<Min, double>, arg_reducer<Min, i32>, arg_reducer<Min, i64>,
                arg_reducer<Min, u8>, arg_reducer<Min, u8>},
    .scan_sum = {scan<Sum, float>, scan<Sum, double>, scan<Sum, u32>, scan<Sum, u64>, scan<Sum, u8>, scan<Max, u8>},
    .scan_prod = {scan<Product, float>, scan<Product, double>, scan<Product, u32>, scan<Product, u64>,
                  scan<Product, u8>, scan<And, u8>},
};

}  // namespace tapestry::host::TAPESTRY_KERNEL_LEVEL
