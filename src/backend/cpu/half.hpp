#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "backend/cpu/kernels/movement.hpp"
#include "backend/cpu/pieces.hpp"

namespace tapestry::host {

/// The type in which a kernel computes elements of a type.
constexpr DType computed_in(DType dtype) { return is_half(dtype) ? float32 : dtype; }

/// Calls `compute`, which knows no half types, for a piece of an elementwise function that has operands of such types.
/// They pass through float32, one block in the first-level cache at a time.
template <class Compute>
void through_float32(const Piece& piece, std::span<const DType> inputs, DType result, const Compute& compute) {
  constexpr std::int64_t block = 512;
  alignas(64) float room[max_inputs + 1][block];
  const auto& cast = movement_kernels().cast;
  const auto at = [](DType dtype) { return static_cast<std::size_t>(dtype); };
  const auto bytes = [](DType dtype) { return static_cast<std::int64_t>(size_of(dtype)); };
  for (std::int64_t begin = 0; begin < piece.n; begin += block) {
    Piece part = piece;
    part.n = std::min(block, piece.n - begin);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      part.input[i] += begin * piece.step[i] * bytes(inputs[i]);
      if (!is_half(inputs[i])) continue;
      cast[at(inputs[i])][at(float32)](part.input[i], room[i], piece.step[i] == 0 ? 1 : part.n);
      part.input[i] = reinterpret_cast<const std::byte*>(room[i]);
    }
    std::byte* const y = piece.y + begin * bytes(result);
    part.y = is_half(result) ? reinterpret_cast<std::byte*>(room[max_inputs]) : y;
    compute(part);
    if (is_half(result)) cast[at(float32)][at(result)](part.y, y, part.n);
  }
}

}  // namespace tapestry::host
