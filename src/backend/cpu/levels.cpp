#include "backend/cpu/levels.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tapestry/error.hpp"

namespace tapestry::host {
namespace {

#define TAPESTRY_LEVEL(level, ...) Level::level,

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

constexpr Level compiled_levels[] = {TAPESTRY_LEVELS(TAPESTRY_LEVEL)};

Level detect() {
#ifdef __x86_64__
  const char* wanted = std::getenv("TAPESTRY_CPU_LEVEL");
  const std::string_view name = wanted && *wanted ? wanted : "v4";
  if (name != "v2" && name != "v3" && name != "v4")
    throw InvalidArgumentError(
        detail::join("The environment variable TAPESTRY_CPU_LEVEL must be v2, v3 or v4, but is \"", name, "\""));
  const Level most = std::min(best_level(), name == "v2" ? Level::v2 : name == "v3" ? Level::v3 : Level::v4);
#else
  const Level most = Level::portable;
#endif
  Level found = most;
  for (const Level level : compiled_levels)
    if (level <= most) found = level;
  return found;
}

}  // namespace

Level cpu_level() {
  static const Level level = detect();
  return level;
}

FailedPreconditionError no_kernels() {
  const auto name = [](Level level) { return detail::join(" v", static_cast<int>(level) + 1); };
  std::string names;
  for (const Level level : compiled_levels) names += name(level);
  return FailedPreconditionError(detail::join("Tapestry is built for processors of x86-64's", names,
                                              " (option cpu_levels); this one, or TAPESTRY_CPU_LEVEL, is of",
                                              name(cpu_level())));
}

}  // namespace tapestry::host
