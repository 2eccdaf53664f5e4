#include <cstddef>

#include "backend/cpu/kernels/elementwise.hpp"
#include "backend/cpu/kernels/math.hpp"

namespace tapestry::host::TAPESTRY_KERNEL_LEVEL {
namespace {

namespace formula {
#define TAPESTRY_FORMULA(name, expression)                              \
  struct name {                                                         \
    template <class T>                                                  \
    static TAPESTRY_INLINE auto apply(T a, T b, [[maybe_unused]] T p) { \
      return expression;                                                \
    }                                                                   \
  };
TAPESTRY_BINARY_NUMBER(TAPESTRY_FORMULA)
TAPESTRY_BINARY_FLOAT(TAPESTRY_FORMULA)
TAPESTRY_BINARY_COMPARE(TAPESTRY_FORMULA)
TAPESTRY_BINARY_LOGICAL(TAPESTRY_FORMULA)
#undef TAPESTRY_FORMULA
}  // namespace formula

template <class F, class T, class Result = T>
void row(const void* left, std::int64_t a_step, const void* right, std::int64_t b_step, void* to, std::int64_t n,
         double number) {
  const auto* a = static_cast<const T*>(left);
  const auto* b = static_cast<const T*>(right);
  auto* y = static_cast<Result*>(to);
  const T p = static_cast<T>(number);
  if (n <= 1) {
    if (n == 1) *y = static_cast<Result>(F::template apply<T>(*a, *b, p));
  } else if (a_step == 1 && b_step == 1) {
    TAPESTRY_INDEPENDENT
    for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<Result>(F::template apply<T>(a[i], b[i], p));
  } else if (a_step == 1) {
    const T scalar = *b;
    TAPESTRY_INDEPENDENT
    for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<Result>(F::template apply<T>(a[i], scalar, p));
  } else if (b_step == 1) {
    const T scalar = *a;
    TAPESTRY_INDEPENDENT
    for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<Result>(F::template apply<T>(scalar, b[i], p));
  } else {
    const auto value = static_cast<Result>(F::template apply<T>(*a, *b, p));
    for (std::int64_t i = 0; i < n; ++i) y[i] = value;
  }
}

template <class T>
bool contains_zero(const void* data, std::int64_t n) {
  const auto* b = static_cast<const T*>(data);
  bool found = false;
  for (std::int64_t i = 0; i < n; ++i) found |= b[i] == T(0);
  return found;
}
template <class T>
bool contains_negative(const void* data, std::int64_t n) {
  const auto* b = static_cast<const T*>(data);
  bool found = false;
  for (std::int64_t i = 0; i < n; ++i) found |= b[i] < T(0);
  return found;
}

constexpr BinaryTable make_table() {
  BinaryTable table{};
  const auto at = [&table](Binary f, DType dtype) -> BinaryRow& {
    return table.rows[static_cast<std::size_t>(f)][static_cast<std::size_t>(dtype)];
  };
#define TAPESTRY_FLOAT(name, expression)                 \
  at(Binary::name, float32) = row<formula::name, float>; \
  at(Binary::name, float64) = row<formula::name, double>;
#define TAPESTRY_NUMBER(name, expression)                     \
  TAPESTRY_FLOAT(name, expression)                            \
  at(Binary::name, uint8) = row<formula::name, std::uint8_t>; \
  at(Binary::name, int32) = row<formula::name, std::int32_t>; \
  at(Binary::name, int64) = row<formula::name, std::int64_t>;
#define TAPESTRY_COMPARE(name, expression)                          \
  at(Binary::name, boolean) = row<formula::name, bool>;             \
  at(Binary::name, uint8) = row<formula::name, std::uint8_t, bool>; \
  at(Binary::name, int32) = row<formula::name, std::int32_t, bool>; \
  at(Binary::name, int64) = row<formula::name, std::int64_t, bool>; \
  at(Binary::name, float32) = row<formula::name, float, bool>;      \
  at(Binary::name, float64) = row<formula::name, double, bool>;
#define TAPESTRY_LOGICAL(name, expression) at(Binary::name, boolean) = row<formula::name, bool>;
  TAPESTRY_BINARY_FLOAT(TAPESTRY_FLOAT)
  TAPESTRY_BINARY_NUMBER(TAPESTRY_NUMBER)
  TAPESTRY_BINARY_COMPARE(TAPESTRY_COMPARE)
  TAPESTRY_BINARY_LOGICAL(TAPESTRY_LOGICAL)
#undef TAPESTRY_FLOAT
#undef TAPESTRY_NUMBER
#undef TAPESTRY_COMPARE
#undef TAPESTRY_LOGICAL
  table.contains_zero[static_cast<std::size_t>(uint8)] = contains_zero<std::uint8_t>;
  table.contains_zero[static_cast<std::size_t>(int32)] = contains_zero<std::int32_t>;
  table.contains_zero[static_cast<std::size_t>(int64)] = contains_zero<std::int64_t>;
  table.contains_negative[static_cast<std::size_t>(int32)] = contains_negative<std::int32_t>;
  table.contains_negative[static_cast<std::size_t>(int64)] = contains_negative<std::int64_t>;
  return table;
}

}  // namespace

constexpr BinaryTable binary_table = make_table();

}  // namespace tapestry::host::TAPESTRY_KERNEL_LEVEL
