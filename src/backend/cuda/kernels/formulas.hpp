#pragma once

// The functions of functors.hpp as types F with F::apply<A, T>(a, b, c, p). A is the type of the first operand. T is
// that of the others, of the op's number p, and of the result unless that is bool. Operands that a function does not
// have are 0.

#include "backend/cuda/kernels/math.hpp"
#include "backend/functors.hpp"

namespace tapestry::gpu {

#define TAPESTRY_FORMULA(name, expression)                           \
  struct name {                                                      \
    template <class, class T>                                        \
    static TAPESTRY_HD auto apply(T x, T, T, [[maybe_unused]] T p) { \
      return expression;                                             \
    }                                                                \
  };
namespace unary {
TAPESTRY_UNARY_FLOAT(TAPESTRY_FORMULA)
TAPESTRY_UNARY_NUMBER(TAPESTRY_FORMULA)
TAPESTRY_UNARY_PREDICATE(TAPESTRY_FORMULA)
TAPESTRY_UNARY_LOGICAL(TAPESTRY_FORMULA)
}  // namespace unary
#undef TAPESTRY_FORMULA

#define TAPESTRY_FORMULA(name, expression)                             \
  struct name {                                                        \
    template <class, class T>                                          \
    static TAPESTRY_HD auto apply(T a, T b, T, [[maybe_unused]] T p) { \
      return expression;                                               \
    }                                                                  \
  };
namespace binary {
TAPESTRY_BINARY_NUMBER(TAPESTRY_FORMULA)
TAPESTRY_BINARY_FLOAT(TAPESTRY_FORMULA)
TAPESTRY_BINARY_COMPARE(TAPESTRY_FORMULA)
TAPESTRY_BINARY_LOGICAL(TAPESTRY_FORMULA)
}  // namespace binary
#undef TAPESTRY_FORMULA

#define TAPESTRY_FORMULA(name, expression)         \
  struct name {                                    \
    template <class A, class T>                    \
    static TAPESTRY_HD T apply(A a, T b, T c, T) { \
      return expression;                           \
    }                                              \
  };
namespace ternary {
TAPESTRY_TERNARY_NUMBER(TAPESTRY_FORMULA)
TAPESTRY_TERNARY_SELECT(TAPESTRY_FORMULA)
}  // namespace ternary
#undef TAPESTRY_FORMULA

/// An entry for every function and element type (of b for Ternary::select); null if the function is not defined for it.
template <class Entry, int functions>
struct FormulaTable {
  Entry entries[functions][type_count] = {};

  template <class Function>
  constexpr Entry& at(Function f, Type type) {
    return entries[static_cast<int>(f)][static_cast<int>(type)];
  }
  template <class Function>
  constexpr Entry at(Function f, Type type) const {
    return entries[static_cast<int>(f)][static_cast<int>(type)];
  }
};

// The tables with an entry for each formula: `Make<inputs, F, A, T, Y>::value` for a function F of `inputs` operands
// with results of type Y.

#define TAPESTRY_ENTRY(name, type, A, T, Y) \
  table.at(Function::name, Type::type) = Make<inputs, list::name, A, T, Y>::value;
#define TAPESTRY_FLOAT(name, expression)         \
  TAPESTRY_ENTRY(name, f32, float, float, float) \
  TAPESTRY_ENTRY(name, f64, double, double, double)
#define TAPESTRY_WHOLE(name, expression)                              \
  TAPESTRY_ENTRY(name, u8, std::uint8_t, std::uint8_t, std::uint8_t)  \
  TAPESTRY_ENTRY(name, i32, std::int32_t, std::int32_t, std::int32_t) \
  TAPESTRY_ENTRY(name, i64, std::int64_t, std::int64_t, std::int64_t)
#define TAPESTRY_NUMBER(name, expression) TAPESTRY_FLOAT(name, expression) TAPESTRY_WHOLE(name, expression)
#define TAPESTRY_PREDICATE(name, expression)    \
  TAPESTRY_ENTRY(name, f32, float, float, bool) \
  TAPESTRY_ENTRY(name, f64, double, double, bool)
#define TAPESTRY_LOGICAL(name, expression) TAPESTRY_ENTRY(name, b8, bool, bool, bool)
#define TAPESTRY_COMPARE(name, expression)                    \
  TAPESTRY_LOGICAL(name, expression)                          \
  TAPESTRY_PREDICATE(name, expression)                        \
  TAPESTRY_ENTRY(name, u8, std::uint8_t, std::uint8_t, bool)  \
  TAPESTRY_ENTRY(name, i32, std::int32_t, std::int32_t, bool) \
  TAPESTRY_ENTRY(name, i64, std::int64_t, std::int64_t, bool)
#define TAPESTRY_SELECT(name, expression)                     \
  TAPESTRY_LOGICAL(name, expression)                          \
  TAPESTRY_ENTRY(name, u8, bool, std::uint8_t, std::uint8_t)  \
  TAPESTRY_ENTRY(name, i32, bool, std::int32_t, std::int32_t) \
  TAPESTRY_ENTRY(name, i64, bool, std::int64_t, std::int64_t) \
  TAPESTRY_ENTRY(name, f32, bool, float, float)               \
  TAPESTRY_ENTRY(name, f64, bool, double, double)

template <class Entry, template <int, class, class, class, class> class Make>
constexpr auto unary_table() {
  using Function = Unary;
  namespace list = unary;
  constexpr int inputs = 1;
  FormulaTable<Entry, static_cast<int>(Unary::logical_not) + 1> table;
  TAPESTRY_UNARY_FLOAT(TAPESTRY_FLOAT)
  TAPESTRY_UNARY_NUMBER(TAPESTRY_NUMBER)
  TAPESTRY_UNARY_PREDICATE(TAPESTRY_PREDICATE)
  TAPESTRY_UNARY_LOGICAL(TAPESTRY_LOGICAL)
  return table;
}

template <class Entry, template <int, class, class, class, class> class Make>
constexpr auto binary_table() {
  using Function = Binary;
  namespace list = binary;
  constexpr int inputs = 2;
  FormulaTable<Entry, static_cast<int>(Binary::logical_or) + 1> table;
  TAPESTRY_BINARY_NUMBER(TAPESTRY_NUMBER)
  TAPESTRY_BINARY_FLOAT(TAPESTRY_FLOAT)
  TAPESTRY_BINARY_COMPARE(TAPESTRY_COMPARE)
  TAPESTRY_BINARY_LOGICAL(TAPESTRY_LOGICAL)
  return table;
}

template <class Entry, template <int, class, class, class, class> class Make>
constexpr auto ternary_table() {
  using Function = Ternary;
  namespace list = ternary;
  constexpr int inputs = 3;
  FormulaTable<Entry, static_cast<int>(Ternary::select) + 1> table;
  TAPESTRY_TERNARY_NUMBER(TAPESTRY_NUMBER)
  TAPESTRY_TERNARY_SELECT(TAPESTRY_SELECT)
  return table;
}

#undef TAPESTRY_ENTRY
#undef TAPESTRY_FLOAT
#undef TAPESTRY_WHOLE
#undef TAPESTRY_NUMBER
#undef TAPESTRY_PREDICATE
#undef TAPESTRY_LOGICAL
#undef TAPESTRY_COMPARE
#undef TAPESTRY_SELECT

}  // namespace tapestry::gpu
