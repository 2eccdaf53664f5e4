#pragma once

// What tensor cores make of float32 operands.

#include <bit>
#include <cmath>
#include <cstdint>

namespace emulator {

/// To a mantissa of so many bits, halves away from 0: TF32 has 10, bfloat16 7.
inline double rounded(float x, int bits) {
  if (!std::isfinite(x)) return static_cast<double>(x);
  const std::uint32_t unit = 1U << (23 - bits);
  return static_cast<double>(std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) + unit / 2) & ~(unit - 1)));
}

}  // namespace emulator
