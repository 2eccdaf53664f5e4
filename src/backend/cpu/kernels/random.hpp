#pragma once

#include <cstdint>

#include "backend/cpu/levels.hpp"

namespace tapestry::host {

/// The values of Distribution, whose header is too large for kernel files.
enum class RandomKind : std::uint8_t { uniform, normal, truncated_normal, bernoulli };

/// Fills y with `n` numbers from the blocks of `key` from `counter` on. `a` and `b` are those of Backend::random; `top`
/// is the largest number below b.
template <class T>
using RandomFloats = void (*)(RandomKind kind, std::uint64_t key, std::uint64_t counter, T a, T b, T top, T* y,
                              std::int64_t n);
/// Fills y with n uniform integers in [a, a + range).
template <class T>
using RandomWhole = void (*)(std::uint64_t key, std::uint64_t counter, std::int64_t a, std::uint64_t range, T* y,
                             std::int64_t n);

/// The number of elements that one block of the generator makes.
template <class T>
constexpr std::int64_t elements_per_block = sizeof(T) == 4 ? 4 : 2;
constexpr std::int64_t whole_per_block = 2;

struct RandomTable {
  RandomFloats<float> f32;
  RandomFloats<double> f64;
  RandomWhole<std::int32_t> i32;
  RandomWhole<std::int64_t> i64;
};
TAPESTRY_KERNEL_TABLE(RandomTable, random_table)

}  // namespace tapestry::host
