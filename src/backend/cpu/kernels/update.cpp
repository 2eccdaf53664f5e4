#include "backend/cpu/kernels/update.hpp"

#include "backend/cpu/kernels/elementwise.hpp"
#include "backend/cpu/kernels/math.hpp"

namespace tapestry::host::TAPESTRY_KERNEL_LEVEL {
namespace {

#define TAPESTRY_FORMULA(name, slot_count, statements)                                                       \
  struct name {                                                                                              \
    static constexpr int slots = slot_count;                                                                 \
    template <class T>                                                                                       \
    static TAPESTRY_INLINE void apply(const T* p, T& v, T g, [[maybe_unused]] T& s, [[maybe_unused]] T& t) { \
      statements;                                                                                            \
    }                                                                                                        \
  };
TAPESTRY_UPDATES(TAPESTRY_FORMULA)
#undef TAPESTRY_FORMULA

template <class F, class T>
void row(const double* numbers, std::int64_t number_count, void* variable, const void* gradient, void* first,
         void* second, std::int64_t n) {
  T p[max_update_numbers] = {};
  for (std::int64_t i = 0; i < number_count; ++i) p[i] = static_cast<T>(numbers[i]);
  auto* v = static_cast<T*>(variable);
  const auto* g = static_cast<const T*>(gradient);
  auto* s = static_cast<T*>(first);
  auto* t = static_cast<T*>(second);
  TAPESTRY_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) {
    T none{};
    F::template apply<T>(p, v[i], g[i], F::slots > 0 ? s[i] : none, F::slots > 1 ? t[i] : none);
  }
}

}  // namespace

#define TAPESTRY_FLOAT32(name, slots, statements) row<name, float>,
#define TAPESTRY_FLOAT64(name, slots, statements) row<name, double>,
constexpr UpdateTable update_table = {{TAPESTRY_UPDATES(TAPESTRY_FLOAT32)}, {TAPESTRY_UPDATES(TAPESTRY_FLOAT64)}};
#undef TAPESTRY_FLOAT32
#undef TAPESTRY_FLOAT64

}  // namespace tapestry::host::TAPESTRY_KERNEL_LEVEL
