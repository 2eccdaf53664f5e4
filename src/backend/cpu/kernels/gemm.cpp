#include "backend/cpu/kernels/gemm.hpp"

#ifdef __FMA__
#include <type_traits>
#include <utility>

#include <immintrin.h>

#include "backend/cpu/kernels/lanes.hpp"
#endif

namespace tapestry::host::TAPESTRY_KERNEL_LEVEL {

#ifdef __FMA__
namespace {

using std::int64_t;

template <class T>
using Vector = typename Register<T>::type;
template <class T>
constexpr int64_t width = register_bytes / static_cast<int>(sizeof(T));

// --- The instructions that differ between the levels ---------------------------------------------------------------

/// The first n elements of a register. Loads return 0 for the others.
template <class T>
struct First;

#ifdef __AVX512F__
constexpr bool masks_cost_nothing = true;
// Where the steps of the depth are pages apart, the processor does not look ahead by itself. A narrow tile has no time
// for it.
constexpr bool prefetches_left = true;
constexpr int sums_worth_unrolling = 100;  // no tile has as many
// Measured: a wide tile reads b from the second-level cache as fast as it multiplies; packing pays for 128 rows and
// more.
constexpr int panels_in_one_set = 16;
[[gnu::always_inline]] inline Vector<float> fma(Vector<float> a, Vector<float> b, Vector<float> c) {
  return _mm512_fmadd_ps(a, b, c);
}
[[gnu::always_inline]] inline Vector<double> fma(Vector<double> a, Vector<double> b, Vector<double> c) {
  return _mm512_fmadd_pd(a, b, c);
}
template <>
struct First<float> {
  __mmask16 mask;
  [[gnu::always_inline]] explicit First(int64_t n) : mask(static_cast<__mmask16>((1U << n) - 1)) {}
  [[gnu::always_inline]] Vector<float> load(const float* from) const { return _mm512_maskz_loadu_ps(mask, from); }
  [[gnu::always_inline]] void store(Vector<float> v, float* to) const { _mm512_mask_storeu_ps(to, mask, v); }
};
template <>
struct First<double> {
  __mmask8 mask;
  [[gnu::always_inline]] explicit First(int64_t n) : mask(static_cast<__mmask8>((1U << n) - 1)) {}
  [[gnu::always_inline]] Vector<double> load(const double* from) const { return _mm512_maskz_loadu_pd(mask, from); }
  [[gnu::always_inline]] void store(Vector<double> v, double* to) const { _mm512_mask_storeu_pd(to, mask, v); }
};
#else
constexpr bool masks_cost_nothing = false;  // the mask needs a register, and a masked store some forty operations
constexpr bool prefetches_left = false;     // it would cost more than it gains: tiles have half the work per step
constexpr int sums_worth_unrolling = 10;    // those of the two highest tiles
constexpr int panels_in_one_set = 2;        // measured
[[gnu::always_inline]] inline Vector<float> fma(Vector<float> a, Vector<float> b, Vector<float> c) {
  return _mm256_fmadd_ps(a, b, c);
}
[[gnu::always_inline]] inline Vector<double> fma(Vector<double> a, Vector<double> b, Vector<double> c) {
  return _mm256_fmadd_pd(a, b, c);
}
alignas(64) constexpr int first_bits[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
template <>
struct First<float> {
  __m256i mask;
  [[gnu::always_inline]] explicit First(int64_t n)
      : mask(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(first_bits + 8 - n))) {}
  [[gnu::always_inline]] Vector<float> load(const float* from) const { return _mm256_maskload_ps(from, mask); }
  [[gnu::always_inline]] void store(Vector<float> v, float* to) const { _mm256_maskstore_ps(to, mask, v); }
};
template <>
struct First<double> {
  __m256i mask;
  [[gnu::always_inline]] explicit First(int64_t n)
      : mask(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(first_bits + 8 - 2 * n))) {}
  [[gnu::always_inline]] Vector<double> load(const double* from) const { return _mm256_maskload_pd(from, mask); }
  [[gnu::always_inline]] void store(Vector<double> v, double* to) const { _mm256_maskstore_pd(to, mask, v); }
};
#endif

template <class T>
[[gnu::always_inline]] inline Vector<T> broadcast(T x) {
  return x - Vector<T>{};  // x + 0 would need an addition, which makes 0 of -0
}

// --- Matrix times matrix -------------------------------------------------------------------------------------------

/// A tile's sums stay in registers: `rows` times `registers` of them, besides one row of b and an element of a.
template <class T, int rows, int registers>
void tile(const GemmTile<T>& t) {
  constexpr int last = registers - 1;
  // c is not in the cache when a large product gets here.
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i)
    for (int v = 0; v < registers; ++v) __builtin_prefetch(t.c + i * t.c_row + v * width<T>, 1);
  const auto compute = [&](auto is_whole, auto load_last, auto store_last) __attribute__((always_inline)) {
    Vector<T> sum[rows][registers] = {};
    const T* a = t.a;
    const T* b = t.b;
    const int64_t a_row = t.a_row, a_column = t.a_column, b_row = t.b_row;
    const auto step = [&]() __attribute__((always_inline)) {
      if constexpr (registers > 1 && prefetches_left) __builtin_prefetch(a + 16 * a_column);
      Vector<T> right[registers];
#pragma GCC unroll 8
      for (int v = 0; v < last; ++v) right[v] = load<Vector<T>>(b + v * width<T>);
      right[last] = load_last(b + last * width<T>);
#pragma GCC unroll 8
      for (int i = 0; i < rows; ++i) {
        const Vector<T> left = broadcast(a[i * a_row]);
#pragma GCC unroll 8
        for (int v = 0; v < registers; ++v) sum[i][v] = fma(left, right[v], sum[i][v]);
      }
      a += a_column;
      b += b_row;
    };
    if constexpr (is_whole && rows * registers >= sums_worth_unrolling) {
#pragma GCC unroll 4
      for (int64_t p = 0; p < t.depth; ++p) step();
    } else {
      for (int64_t p = 0; p < t.depth; ++p) step();
    }
    T* c = t.c;
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
      if (t.accumulate) {
#pragma GCC unroll 8
        for (int v = 0; v < last; ++v) sum[i][v] = load<Vector<T>>(c + v * width<T>) + sum[i][v];
        sum[i][last] = load_last(c + last * width<T>) + sum[i][last];
      }
#pragma GCC unroll 8
      for (int v = 0; v < last; ++v) store(sum[i][v], c + v * width<T>);
      store_last(sum[i][last], c + last * width<T>);
      c += t.c_row;
    }
  };
  const First<T> in_last(t.in_last);
  if (masks_cost_nothing || t.in_last < width<T>) {
    compute(
        std::false_type(), [&](const T* from) __attribute__((always_inline)) { return in_last.load(from); },
        [&](Vector<T> v, T * to) __attribute__((always_inline)) { in_last.store(v, to); });
  } else {
    compute(
        std::true_type(), [](const T* from) __attribute__((always_inline)) { return load<Vector<T>>(from); },
        [](Vector<T> v, T * to) __attribute__((always_inline)) { store(v, to); });
  }
}

/// Packs panels of `count` adjacent elements per step of the depth, which lie side by side. Where the steps are pages
/// apart, the processor does not look ahead by itself, and lines that panels share do not stay in the cache: so these
/// are packed together.
template <class T, int count>
void pack(const T* from, int64_t step, int64_t depth, int64_t panels, T* to) {
  constexpr int64_t ahead = 16, line = 64 / static_cast<int64_t>(sizeof(T));
  const int64_t size = panels * count;
  for (int64_t p = 0; p < depth; ++p) {
    for (int64_t i = 0; i < size; i += line) __builtin_prefetch(from + ahead * step + i);
    __builtin_prefetch(from + ahead * step + size - 1);
    for (int64_t i = 0; i < panels; ++i) __builtin_memcpy(to + i * count * depth, from + i * count, count * sizeof(T));
    from += step;
    to += count;
  }
}

// --- Matrix times vector -------------------------------------------------------------------------------------------

template <class T>
constexpr int lane_registers = static_cast<int>(gemv_lanes / width<T>);

template <class T>
[[gnu::always_inline]] inline void put(T sum, T& y, bool accumulate) {
  y = accumulate ? y + sum : sum;
}

/// Each register holds groups of `size` lanes, one group per row. Returns the groups of a and then those of b, in each
/// of which the lower half has been added to the upper one.
template <class T, int size, std::size_t... i>
[[gnu::always_inline]] inline Vector<T> halve(const Vector<T>& a, const Vector<T>& b, std::index_sequence<i...>) {
  constexpr int half = size / 2;
  return __builtin_shufflevector(a, b, (static_cast<int>(i) / half * size + static_cast<int>(i) % half)...) +
         __builtin_shufflevector(a, b, (static_cast<int>(i) / half * size + static_cast<int>(i) % half + half)...);
}

/// Adds up the lanes of each of `count` registers, in the order of `fold`. The sums are the first lanes of the result.
template <class T, int count, int size = static_cast<int>(width<T>)>
[[gnu::always_inline]] inline Vector<T> fold_each(Vector<T>* values) {
  constexpr auto lanes = std::make_index_sequence<static_cast<std::size_t>(width<T>)>{};
  if constexpr (size == 2) {
    static_assert(count == 1);
    return halve<T, size>(values[0], values[0], lanes);
  } else {
#pragma GCC unroll 8
    for (int i = 0; i < count / 2; ++i) values[i] = halve<T, size>(values[2 * i], values[2 * i + 1], lanes);
    return fold_each<T, count / 2, size / 2>(values);
  }
}

/// Computes `rows` elements of y. Their rows of the matrix are read side by side, which hides the additions' latency.
template <class T, int rows>
[[gnu::always_inline]] inline void row_products(const Gemv<T>& g, int64_t first) {
  constexpr int count = lane_registers<T>;
  const T* matrix = g.matrix + first * g.stride;
  Vector<T> sum[rows][count] = {};
  int64_t p = 0;
  for (; p + gemv_lanes <= g.depth; p += gemv_lanes) {
#pragma GCC unroll 8
    for (int v = 0; v < count; ++v) {
      const Vector<T> x = load<Vector<T>>(g.x + p + v * width<T>);
#pragma GCC unroll 8
      for (int i = 0; i < rows; ++i)
        sum[i][v] = fma(load<Vector<T>>(matrix + i * g.stride + p + v * width<T>), x, sum[i][v]);
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < count; ++v, p += width<T>) {
    const int64_t left = g.depth - p;
    if (left <= 0) break;  // where no element is left, even a load of none may be slow: the page may not exist
    const First<T> rest(left > width<T> ? width<T> : left);
    const Vector<T> x = rest.load(g.x + p);
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) sum[i][v] = fma(rest.load(matrix + i * g.stride + p), x, sum[i][v]);
  }
  if constexpr (rows == 1) {
    put(fold<Sum, T>(sum[0], count), g.y[first * g.y_step], g.accumulate);
  } else {
    Vector<T> each[rows];
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 8
      for (int half = count / 2; half > 0; half /= 2)
#pragma GCC unroll 8
        for (int v = 0; v < half; ++v) sum[i][v] = sum[i][v] + sum[i][v + half];
      each[i] = sum[i][0];
    }
    T sums[width<T>];
    store(fold_each<T, rows>(each), sums);
    for (int i = 0; i < rows; ++i) put(sums[i], g.y[(first + i) * g.y_step], g.accumulate);
  }
}

template <class T>
void by_rows(const Gemv<T>& g) {
  constexpr int together = static_cast<int>(width<T> / 2);  // with eight registers of sums
  int64_t i = 0;
  for (; i + together <= g.rows; i += together) row_products<T, together>(g, i);
  for (; i < g.rows; ++i) row_products<T, 1>(g, i);
}

/// Adds to one lane, for `count` elements of y, the products of `terms` columns of the matrix, which are `step` apart.
template <class T, int terms>
[[gnu::always_inline]] inline void add_to_lane(const T* from, int64_t step, const T* x, bool is_first, int64_t ahead,
                                               int64_t count, T* lane) {
  Vector<T> factor[terms];
  for (int q = 0; q < terms; ++q) factor[q] = broadcast(x[q * gemv_lanes]);
  const auto add = [&](int64_t i, auto read) __attribute__((always_inline)) {
    Vector<T> sum = is_first ? Vector<T>{} : load<Vector<T>>(lane + i);
#pragma GCC unroll 4
    for (int q = 0; q < terms; ++q) {
      __builtin_prefetch(from + q * step + i + ahead);
      sum = fma(read(from + q * step + i), factor[q], sum);
    }
    store(sum, lane + i);
  };
  const int64_t whole = count / width<T> * width<T>;
  for (int64_t i = 0; i < whole; i += width<T>)
    add(
        i, [](const T* at) __attribute__((always_inline)) { return load<Vector<T>>(at); });
  if (whole < count) {
    const First<T> rest(count - whole);
    add(
        whole, [&](const T* at) __attribute__((always_inline)) { return rest.load(at); });
  }
}

/// Computes a strip of y. Its lanes are in the first-level cache, each as long as the strip.
template <class T, int strip>
[[gnu::always_inline]] inline void column_products(const Gemv<T>& g, int64_t first, int64_t count) {
  constexpr int64_t deep = 4;  // products that are added to a lane between reading and writing it
  alignas(64) T lanes[gemv_lanes][strip];
  const int64_t step = gemv_lanes * g.stride;
  for (int64_t begin = 0; begin < g.depth; begin += deep * gemv_lanes) {
    for (int64_t lane = 0; lane < gemv_lanes; ++lane) {
      const T* x = g.x + begin + lane;
      const T* from = g.matrix + first + (begin + lane) * g.stride;
      const int64_t left = g.depth - begin - lane;
      if (left > (deep - 1) * gemv_lanes) {
        add_to_lane<T, deep>(from, step, x, begin == 0, g.stride, count, lanes[lane]);
      } else {
        for (int64_t p = 0; p < left; p += gemv_lanes)
          add_to_lane<T, 1>(from + p * g.stride, step, x + p, begin + p == 0, g.stride, count, lanes[lane]);
      }
    }
  }
  for (int64_t i = 0; i < count; i += width<T>) {
    Vector<T> sum[gemv_lanes];
#pragma GCC unroll 16
    for (int lane = 0; lane < gemv_lanes; ++lane) sum[lane] = load<Vector<T>>(lanes[lane] + i);
#pragma GCC unroll 16
    for (int64_t half = gemv_lanes / 2; half > 0; half /= 2)
#pragma GCC unroll 16
      for (int64_t lane = 0; lane < half; ++lane) sum[lane] = sum[lane] + sum[lane + half];
    store(sum[0], lanes[0] + i);
  }
  for (int64_t i = 0; i < count; ++i) put(lanes[0][i], g.y[(first + i) * g.y_step], g.accumulate);
}

template <class T>
void by_columns(const Gemv<T>& g) {
  constexpr int strip = 1024 / static_cast<int>(sizeof(T));
  for (int64_t i = 0; i < g.rows; i += strip) column_products<T, strip>(g, i, g.rows - i < strip ? g.rows - i : strip);
}

// --- The tables ----------------------------------------------------------------------------------------------------

// 24 and 12 registers of sums, out of 32 and 16.
#ifdef __AVX512F__
constexpr int tile_rows = 8, tile_registers = 3;
#else
constexpr int tile_rows = 6, tile_registers = 2;
#endif

template <class T, int rows, int registers>
constexpr void set_tiles(GemmKernels<T>& kernels) {
  kernels.tile[rows - 1][registers - 1] = tile<T, rows, registers>;
  if constexpr (rows > 1) {
    set_tiles<T, rows - 1, registers>(kernels);
  } else if constexpr (registers > 1) {
    set_tiles<T, tile_rows, registers - 1>(kernels);
  }
}

template <class T>
constexpr GemmKernels<T> kernels() {
  GemmKernels<T> result{.rows = tile_rows,
                        .registers = tile_registers,
                        .lanes = static_cast<int>(width<T>),
                        .panels_in_one_set = panels_in_one_set,
                        .tile = {},
                        .pack_a = pack<T, tile_rows>,
                        .pack_b = pack<T, tile_registers* static_cast<int>(width<T>)>,
                        .by_rows = by_rows<T>,
                        .by_columns = by_columns<T>};
  set_tiles<T, tile_rows, tile_registers>(result);
  return result;
}

}  // namespace

constexpr GemmTable gemm_table = {.f32 = kernels<float>(), .f64 = kernels<double>()};
#else
constexpr GemmTable gemm_table = {};
#endif

}  // namespace tapestry::host::TAPESTRY_KERNEL_LEVEL
