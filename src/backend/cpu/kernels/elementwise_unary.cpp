#include <cstddef>

#include "backend/cpu/kernels/elementwise.hpp"
#include "backend/cpu/kernels/math.hpp"

namespace tapestry::host::TAPESTRY_KERNEL_LEVEL {
namespace {

namespace formula {
#define TAPESTRY_FORMULA(name, expression)                         \
  struct name {                                                    \
    template <class T>                                             \
    static TAPESTRY_INLINE auto apply(T x, [[maybe_unused]] T p) { \
      return expression;                                           \
    }                                                              \
  };
TAPESTRY_UNARY_FLOAT(TAPESTRY_FORMULA)
TAPESTRY_UNARY_NUMBER(TAPESTRY_FORMULA)
TAPESTRY_UNARY_PREDICATE(TAPESTRY_FORMULA)
TAPESTRY_UNARY_LOGICAL(TAPESTRY_FORMULA)
#undef TAPESTRY_FORMULA
}  // namespace formula

template <class F, class T, class Result = T>
void row(const void* from, void* to, std::int64_t n, double number) {
  const auto* x = static_cast<const T*>(from);
  auto* y = static_cast<Result*>(to);
  const T p = static_cast<T>(number);
  TAPESTRY_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) y[i] = static_cast<Result>(F::template apply<T>(x[i], p));
}

/// sin, cos and tan of floats: math.hpp computes those of usual angles, libm those of huge ones.
template <class F>
void trigonometric_row(const void* from, void* to, std::int64_t n, double) {
  constexpr std::int64_t block = 1024;
  const auto* x = static_cast<const float*>(from);
  auto* y = static_cast<float*>(to);
  for (std::int64_t begin = 0; begin < n; begin += block) {
    const std::int64_t end = begin + block < n ? begin + block : n;
    bool usual = true;
    for (std::int64_t i = begin; i < end; ++i) usual &= math::abs(x[i]) <= math::trigonometric_limit;
    if (usual) {
      row<F, float>(x + begin, y + begin, end - begin, 0);
      continue;
    }
    for (std::int64_t i = begin; i < end; ++i)
      y[i] = math::abs(x[i]) <= math::trigonometric_limit ? F::template apply<float>(x[i], 0)
                                                          : static_cast<float>(F::template apply<double>(x[i], 0));
  }
}

constexpr UnaryTable make_table() {
  UnaryTable table{};
  const auto at = [&table](Unary f, DType dtype) -> UnaryRow& {
    return table.rows[static_cast<std::size_t>(f)][static_cast<std::size_t>(dtype)];
  };
#define TAPESTRY_FLOAT(name, expression)                \
  at(Unary::name, float32) = row<formula::name, float>; \
  at(Unary::name, float64) = row<formula::name, double>;
#define TAPESTRY_NUMBER(name, expression)                    \
  TAPESTRY_FLOAT(name, expression)                           \
  at(Unary::name, uint8) = row<formula::name, std::uint8_t>; \
  at(Unary::name, int32) = row<formula::name, std::int32_t>; \
  at(Unary::name, int64) = row<formula::name, std::int64_t>;
#define TAPESTRY_PREDICATE(name, expression)                  \
  at(Unary::name, float32) = row<formula::name, float, bool>; \
  at(Unary::name, float64) = row<formula::name, double, bool>;
#define TAPESTRY_LOGICAL(name, expression) at(Unary::name, boolean) = row<formula::name, bool>;
  TAPESTRY_UNARY_FLOAT(TAPESTRY_FLOAT)
  TAPESTRY_UNARY_NUMBER(TAPESTRY_NUMBER)
  TAPESTRY_UNARY_PREDICATE(TAPESTRY_PREDICATE)
  TAPESTRY_UNARY_LOGICAL(TAPESTRY_LOGICAL)
#undef TAPESTRY_FLOAT
#undef TAPESTRY_NUMBER
#undef TAPESTRY_PREDICATE
#undef TAPESTRY_LOGICAL
  at(Unary::sin, float32) = trigonometric_row<formula::sin>;
  at(Unary::cos, float32) = trigonometric_row<formula::cos>;
  at(Unary::tan, float32) = trigonometric_row<formula::tan>;
  return table;
}

}  // namespace

constexpr UnaryTable unary_table = make_table();

}  // namespace tapestry::host::TAPESTRY_KERNEL_LEVEL
