#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>

#include "backend/cuda/kernels/layout.hpp"
#include "backend/program.hpp"

namespace tapestry::gpu {

/// How an array stores the elements i, i + 1, ... of a program that one thread computes at once.
enum class Access : std::uint8_t {
  flat,     ///< contiguously, from its i-th element on
  scalar,   ///< one element for the whole program
  row,      ///< contiguously, from the offset that the layout gives
  column,   ///< one element for all of them, at that offset
  strided,  ///< with a stride, from that offset on
};
inline bool is_located(Access access) { return access != Access::flat && access != Access::scalar; }

/// How the arrays of a program are stored. The text of its kernel depends on this, on the program and on its inputs'
/// types, but not on sizes.
struct ProgramForm {
  int width = 1;  ///< elements that a thread computes at once
  /// The inputs' accesses, then the outputs'. An output is never `scalar`: one of a single element is `flat`.
  std::array<Access, Program::max_operands> access{};
};

/// The elements that one kernel of a program computes.
struct ProgramPiece {
  ProgramForm form;
  std::int64_t n = 0;
  std::array<void*, Program::max_operands> data{};  ///< of the inputs and the outputs
  LayoutOf<Program::max_operands> layout;           ///< of the located arrays, in their order
};

/// Calls `body` for pieces that together are all of the program. There is only one, unless an array is neither flat nor
/// scalar and 32-bit indices do not reach all elements. Without elements there is none.
void for_each_piece(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                    const std::function<void(const ProgramPiece&)>& body);

}  // namespace tapestry::gpu
