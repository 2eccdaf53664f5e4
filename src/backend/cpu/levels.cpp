#include "backend/cpu/levels.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace tapestry::host {
namespace {

#ifdef __x86_64__
// Clang 14 does not know the names of the levels here, so they are spelled out. Processors with AVX2 and BMI2 have the
// rest of v3 too.
Level best_level() {
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                  __builtin_cpu_supports("bmi2");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  return v4 ? Level::v4 : v3 ? Level::v3 : Level::v2;
}
#endif

Level detect() {
#ifdef __x86_64__
  const Level best = best_level();
  const char* wanted = std::getenv("TAPESTRY_CPU_LEVEL");
  const std::string_view name = wanted ? wanted : "";
  if (name == "v2") return Level::v2;
  if (name == "v3") return std::min(best, Level::v3);
  return best;
#else
  return Level::portable;
#endif
}

}  // namespace

Level cpu_level() {
  static const Level level = detect();
  return level;
}

}  // namespace tapestry::host
