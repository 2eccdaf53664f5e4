#include "backend/cpu/kernels/movement.hpp"

#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "backend/cpu/kernels/math.hpp"

namespace tapestry::host::TAPESTRY_KERNEL_LEVEL {
namespace {

template <int size>
struct Element;
template <>
struct Element<1> {
  using Type = std::uint8_t;
};
template <>
struct Element<2> {
  using Type = std::uint16_t;
};
template <>
struct Element<4> {
  using Type = std::uint32_t;
};
template <>
struct Element<8> {
  using Type = std::uint64_t;
};

// --- Transposition of small squares in registers -------------------------------------------------------------------

using Row4 [[gnu::vector_size(32), gnu::may_alias]] = std::uint32_t;
using Row8 [[gnu::vector_size(32), gnu::may_alias]] = std::uint64_t;  // also for pairs of 4 bytes
/// As they lie in memory. Not for references in templates, where clang forgets the alignment.
/// @{
using Row4InMemory [[gnu::vector_size(32), gnu::aligned(4), gnu::may_alias]] = std::uint32_t;
using Row8InMemory [[gnu::vector_size(32), gnu::aligned(4), gnu::may_alias]] = std::uint64_t;
/// @}

/// Interleaves the lower (high = false) or upper halves of each 16 bytes of two rows.
template <bool high>
TAPESTRY_INLINE void interleave(const Row4& a, const Row4& b, Row4& y) {
  if constexpr (high)
    y = __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
  else
    y = __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13);
}
template <bool high>
TAPESTRY_INLINE void interleave(const Row8& a, const Row8& b, Row8& y) {
  if constexpr (high)
    y = __builtin_shufflevector(a, b, 1, 5, 3, 7);
  else
    y = __builtin_shufflevector(a, b, 0, 4, 2, 6);
}
template <bool high>
TAPESTRY_INLINE void join_halves(const Row8& a, const Row8& b, void* y) {
  if constexpr (high)
    *static_cast<Row8InMemory*>(y) = __builtin_shufflevector(a, b, 2, 3, 6, 7);
  else
    *static_cast<Row8InMemory*>(y) = __builtin_shufflevector(a, b, 0, 1, 4, 5);
}

/// 8 x 8 elements of 4 bytes: pairs, then fours, then halves.
TAPESTRY_INLINE void transpose_square(const std::uint32_t* x, std::int64_t x_stride, std::uint32_t* y,
                                      std::int64_t y_stride) {
  Row4 row[8], pairs[8];
  for (int i = 0; i < 8; ++i) row[i] = *reinterpret_cast<const Row4InMemory*>(x + i * x_stride);
  for (int i = 0; i < 8; i += 2) {
    interleave<false>(row[i], row[i + 1], pairs[i]);
    interleave<true>(row[i], row[i + 1], pairs[i + 1]);
  }
  Row8 fours[8];  // of columns 0 and 4, 1 and 5, ... for rows 0 to 3, then for rows 4 to 7
  for (int i = 0; i < 8; i += 4)
    for (int k = 0; k < 2; ++k) {
      const auto upper = reinterpret_cast<const Row8&>(pairs[i + k]);
      const auto lower = reinterpret_cast<const Row8&>(pairs[i + k + 2]);
      interleave<false>(upper, lower, fours[i + 2 * k]);
      interleave<true>(upper, lower, fours[i + 2 * k + 1]);
    }
  for (int i = 0; i < 4; ++i) {
    join_halves<false>(fours[i], fours[i + 4], y + i * y_stride);
    join_halves<true>(fours[i], fours[i + 4], y + (i + 4) * y_stride);
  }
}

/// 4 x 4 elements of 8 bytes.
TAPESTRY_INLINE void transpose_square(const std::uint64_t* x, std::int64_t x_stride, std::uint64_t* y,
                                      std::int64_t y_stride) {
  Row8 row[4], pairs[4];
  for (int i = 0; i < 4; ++i) row[i] = *reinterpret_cast<const Row8InMemory*>(x + i * x_stride);
  for (int i = 0; i < 4; i += 2) {
    interleave<false>(row[i], row[i + 1], pairs[i]);
    interleave<true>(row[i], row[i + 1], pairs[i + 1]);
  }
  for (int i = 0; i < 2; ++i) {
    join_halves<false>(pairs[i], pairs[i + 2], y + i * y_stride);
    join_halves<true>(pairs[i], pairs[i + 2], y + (i + 2) * y_stride);
  }
}

/// 8 x 8 smaller elements.
template <class T>
TAPESTRY_INLINE void transpose_square(const T* x, std::int64_t x_stride, T* y, std::int64_t y_stride) {
  for (int r = 0; r < 8; ++r)
    for (int c = 0; c < 8; ++c) y[c * y_stride + r] = x[r * x_stride + c];
}

/// y[c * y_stride + r] = x[r * x_stride + c].
template <class T>
void transpose(const T* x, std::int64_t x_stride, T* y, std::int64_t y_stride, std::int64_t rows,
               std::int64_t columns) {
  constexpr std::int64_t side = sizeof(T) == 8 ? 4 : 8;
  const auto rest = [&](std::int64_t first_row, std::int64_t end_row, std::int64_t first, std::int64_t end) {
    for (std::int64_t c = first; c < end; ++c)
      for (std::int64_t r = first_row; r < end_row; ++r) y[c * y_stride + r] = x[r * x_stride + c];
  };
  const std::int64_t square_rows = rows / side * side, square_columns = columns / side * side;
  // The inner loop goes along the rows of x, so that consecutive squares use the whole of its cache lines.
  for (std::int64_t r = 0; r < square_rows; r += side)
    for (std::int64_t c = 0; c < square_columns; c += side)
      transpose_square(x + r * x_stride + c, x_stride, y + c * y_stride + r, y_stride);
  rest(0, square_rows, square_columns, columns);
  rest(square_rows, rows, 0, columns);
}

// --- Moving and filling --------------------------------------------------------------------------------------------

/// y[r * columns + c] = row[c]. What is there is doubled until y is full, because the rows may be short.
template <class T>
void repeat(const T* row, T* y, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t c = 0; c < columns; ++c) y[c] = row[c];
  for (std::int64_t done = columns, total = rows * columns; done < total;) {
    const std::int64_t n = done < total - done ? done : total - done;
    TAPESTRY_INDEPENDENT
    for (std::int64_t i = 0; i < n; ++i) y[done + i] = y[i];
    done += n;
  }
}

template <int size>
void move(const void* from, std::int64_t x_row, std::int64_t x_column, void* to, std::int64_t y_row,
          std::int64_t y_column, std::int64_t rows, std::int64_t columns) {
  using T = typename Element<size>::Type;
  const auto* x = static_cast<const T*>(from);
  auto* y = static_cast<T*>(to);
  if (x_row == 1 && y_column == 1 && x_column != 1) return transpose(x, x_column, y, y_row, columns, rows);
  if (x_column == 1 && y_row == 1 && y_column != 1) return transpose(x, x_row, y, y_column, rows, columns);
  if (x_row == 0 && x_column == 1 && y_row == columns && y_column == 1 && rows > 0) return repeat(x, y, rows, columns);
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* row = x + r * x_row;
    T* result = y + r * y_row;
    if (x_column == 1 && y_column == 1) {
      TAPESTRY_INDEPENDENT
      for (std::int64_t c = 0; c < columns; ++c) result[c] = row[c];
    } else if (x_column == 0 && y_column == 1) {
      const T value = *row;
      for (std::int64_t c = 0; c < columns; ++c) result[c] = value;
    } else {
      for (std::int64_t c = 0; c < columns; ++c) result[c * y_column] = row[c * x_column];
    }
  }
}

template <int size>
void fill(const void* from, void* to, std::int64_t n) {
  using T = typename Element<size>::Type;
  const T value = *static_cast<const T*>(from);
  auto* y = static_cast<T*>(to);
  for (std::int64_t i = 0; i < n; ++i) y[i] = value;
}

void stream(const void* from, void* to, std::int64_t bytes) {
  const auto* x = static_cast<const std::byte*>(from);
  auto* y = static_cast<std::byte*>(to);
  std::int64_t i = 0;
#ifdef __SSE2__
  const std::int64_t misaligned = -reinterpret_cast<std::uintptr_t>(y) % 64;
  const std::int64_t head = misaligned < bytes ? misaligned : bytes;
  for (; i < head; ++i) y[i] = x[i];
#if defined(__AVX512F__)
  for (; i + 64 <= bytes; i += 64) _mm512_stream_si512(reinterpret_cast<__m512i*>(y + i), _mm512_loadu_si512(x + i));
#elif defined(__AVX__)
  for (; i + 32 <= bytes; i += 32)
    _mm256_stream_si256(reinterpret_cast<__m256i*>(y + i), _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i)));
#else
  for (; i + 16 <= bytes; i += 16)
    _mm_stream_si128(reinterpret_cast<__m128i*>(y + i), _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i)));
#endif
#endif
  for (; i < bytes; ++i) y[i] = x[i];
}

// --- Conversion ----------------------------------------------------------------------------------------------------

template <class T>
struct Range;
template <>
struct Range<std::uint8_t> {
  static constexpr std::uint8_t low = 0, high = 0xff;
};
template <>
struct Range<std::int32_t> {
  static constexpr std::int32_t low = -0x7fffffff - 1, high = 0x7fffffff;
};
template <>
struct Range<std::int64_t> {
  static constexpr std::int64_t low = -0x7fffffffffffffff - 1, high = 0x7fffffffffffffff;
};

template <class T>
constexpr bool is_float = false;
template <>
constexpr bool is_float<float> = true;
template <>
constexpr bool is_float<double> = true;
template <class T>
constexpr bool is_bool = false;
template <>
constexpr bool is_bool<bool> = true;
template <class T>
constexpr bool is_whole = !is_float<T> && !is_bool<T> && !is_float16<T>;

template <class To, class From>
TAPESTRY_INLINE To convert(From x) {
  if constexpr (is_float16<From>) {
    return convert<To>(static_cast<float>(x));
  } else if constexpr (is_bool<To>) {
    return x != From(0);
  } else if constexpr (is_float<From> && is_whole<To>) {
    // The highest integer may round up to a float that is out of range.
    constexpr auto low = static_cast<From>(Range<To>::low), high = static_cast<From>(Range<To>::high);
    if (x != x) return To(0);
    return x >= high ? Range<To>::high : x <= low ? Range<To>::low : static_cast<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

template <class From, class To>
[[gnu::noinline]] void cast(const void* from, void* to, std::int64_t n) {
  const auto* x = static_cast<const From*>(from);
  auto* y = static_cast<To*>(to);
  TAPESTRY_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) y[i] = convert<To>(x[i]);
}

/// Casts through another type that holds all numbers of `From`, which saves a kernel.
template <class From, class Via, class To>
void cast_through(const void* from, void* to, std::int64_t n) {
  constexpr std::int64_t block = 512;
  const auto* x = static_cast<const From*>(from);
  auto* y = static_cast<To*>(to);
  Via room[block];
  for (std::int64_t i = 0; i < n; i += block) {
    const std::int64_t count = n - i < block ? n - i : block;
    cast<From, Via>(x + i, room, count);
    cast<Via, To>(room, y + i, count);
  }
}

template <class From, class To>
constexpr auto cast_kernel() {
  if constexpr (is_float16<From> && !is_float<To>) {
    return cast_through<From, float, To>;
  } else if constexpr (is_float16<To> && !is_float<From> && sizeof(From) < 8) {
    return cast_through<From, double, To>;
  } else {
    return cast<From, To>;
  }
}

template <class From>
constexpr void set_casts(void (*(&row)[dtype_count])(const void*, void*, std::int64_t)) {
  row[static_cast<std::size_t>(boolean)] = cast_kernel<From, bool>();
  row[static_cast<std::size_t>(uint8)] = cast_kernel<From, std::uint8_t>();
  row[static_cast<std::size_t>(int32)] = cast_kernel<From, std::int32_t>();
  row[static_cast<std::size_t>(int64)] = cast_kernel<From, std::int64_t>();
  row[static_cast<std::size_t>(float16)] = cast_kernel<From, float16_t>();
  row[static_cast<std::size_t>(bfloat16)] = cast_kernel<From, bfloat16_t>();
  row[static_cast<std::size_t>(float32)] = cast_kernel<From, float>();
  row[static_cast<std::size_t>(float64)] = cast_kernel<From, double>();
}

constexpr MovementTable make_table() {
  MovementTable table{.move_1 = move<1>,
                      .move_2 = move<2>,
                      .move_4 = move<4>,
                      .move_8 = move<8>,
                      .fill_1 = fill<1>,
                      .fill_2 = fill<2>,
                      .fill_4 = fill<4>,
                      .fill_8 = fill<8>,
                      .stream = stream,
                      .cast = {}};
  set_casts<bool>(table.cast[static_cast<std::size_t>(boolean)]);
  set_casts<std::uint8_t>(table.cast[static_cast<std::size_t>(uint8)]);
  set_casts<std::int32_t>(table.cast[static_cast<std::size_t>(int32)]);
  set_casts<std::int64_t>(table.cast[static_cast<std::size_t>(int64)]);
  set_casts<float16_t>(table.cast[static_cast<std::size_t>(float16)]);
  set_casts<bfloat16_t>(table.cast[static_cast<std::size_t>(bfloat16)]);
  set_casts<float>(table.cast[static_cast<std::size_t>(float32)]);
  set_casts<double>(table.cast[static_cast<std::size_t>(float64)]);
  return table;
}

}  // namespace

constexpr MovementTable movement_table = make_table();

}  // namespace tapestry::host::TAPESTRY_KERNEL_LEVEL
