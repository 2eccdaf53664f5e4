#include <cstddef>

#include "backend/cpu/kernels/elementwise.hpp"
#include "backend/cpu/kernels/math.hpp"

namespace tapestry::host::TAPESTRY_KERNEL_LEVEL {
namespace {

namespace formula {
#define TAPESTRY_FORMULA(name, expression)          \
  struct name {                                     \
    template <class A, class T>                     \
    static TAPESTRY_INLINE T apply(A a, T b, T c) { \
      return expression;                            \
    }                                               \
  };
TAPESTRY_TERNARY_NUMBER(TAPESTRY_FORMULA)
TAPESTRY_TERNARY_SELECT(TAPESTRY_FORMULA)
#undef TAPESTRY_FORMULA
}  // namespace formula

template <class F, class A, class T, bool each_a, bool each_b, bool each_c>
void loop(const A* a, const T* b, const T* c, T* y, std::int64_t n) {
  if (n == 0) return;
  const A first_a = *a;  // y may only be an operand of step 1: the loop changes no repeated element
  const T first_b = *b, first_c = *c;
  TAPESTRY_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i)
    y[i] = F::template apply<A, T>(each_a ? a[i] : first_a, each_b ? b[i] : first_b, each_c ? c[i] : first_c);
}

template <class F, class A, class T>
void row(const void* first, std::int64_t a_step, const void* second, std::int64_t b_step, const void* third,
         std::int64_t c_step, void* to, std::int64_t n) {
  constexpr void (*loops[])(const A*, const T*, const T*, T*, std::int64_t) = {
      loop<F, A, T, false, false, false>, loop<F, A, T, false, false, true>, loop<F, A, T, false, true, false>,
      loop<F, A, T, false, true, true>,   loop<F, A, T, true, false, false>, loop<F, A, T, true, false, true>,
      loop<F, A, T, true, true, false>,   loop<F, A, T, true, true, true>};
  loops[4 * a_step + 2 * b_step + c_step](static_cast<const A*>(first), static_cast<const T*>(second),
                                          static_cast<const T*>(third), static_cast<T*>(to), n);
}

constexpr TernaryTable make_table() {
  TernaryTable table{};
  const auto at = [&table](Ternary f, DType dtype) -> TernaryRow& {
    return table.rows[static_cast<std::size_t>(f)][static_cast<std::size_t>(dtype)];
  };
#define TAPESTRY_NUMBER(name, expression)                                    \
  at(Ternary::name, uint8) = row<formula::name, std::uint8_t, std::uint8_t>; \
  at(Ternary::name, int32) = row<formula::name, std::int32_t, std::int32_t>; \
  at(Ternary::name, int64) = row<formula::name, std::int64_t, std::int64_t>; \
  at(Ternary::name, float32) = row<formula::name, float, float>;             \
  at(Ternary::name, float64) = row<formula::name, double, double>;
#define TAPESTRY_SELECT(name, expression)                            \
  at(Ternary::name, boolean) = row<formula::name, bool, bool>;       \
  at(Ternary::name, uint8) = row<formula::name, bool, std::uint8_t>; \
  at(Ternary::name, int32) = row<formula::name, bool, std::int32_t>; \
  at(Ternary::name, int64) = row<formula::name, bool, std::int64_t>; \
  at(Ternary::name, float32) = row<formula::name, bool, float>;      \
  at(Ternary::name, float64) = row<formula::name, bool, double>;
  TAPESTRY_TERNARY_NUMBER(TAPESTRY_NUMBER)
  TAPESTRY_TERNARY_SELECT(TAPESTRY_SELECT)
#undef TAPESTRY_NUMBER
#undef TAPESTRY_SELECT
  return table;
}

}  // namespace

constexpr TernaryTable ternary_table = make_table();

}  // namespace tapestry::host::TAPESTRY_KERNEL_LEVEL
