#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>

#include "backend/cuda/kernels/layout.hpp"
#include "backend/program.hpp"

namespace tapestry::gpu {

/// Where an array has the elements i, i + 1, ... of a program that a thread computes at once.
enum class Access : std::uint8_t {
  flat,     ///< side by side, from its i-th on
  scalar,   ///< it has one element for all
  row,      ///< side by side, from where its layout tells
  column,   ///< there it has one element for all of them
  strided,  ///< from there on in steps
};
inline bool is_located(Access access) { return access != Access::flat && access != Access::scalar; }

/// How the arrays of a program lie: with the program this makes the text of its kernel, whatever their sizes are.
struct ProgramForm {
  int width = 1;  ///< how many elements a thread computes at once
  /// Of the inputs, and then of the outputs, which have more than one element if the program has.
  std::array<Access, Program::max_operands> access{};
};

/// What one kernel of a program goes over.
struct ProgramPiece {
  ProgramForm form;
  std::int64_t n = 0;
  std::array<void*, Program::max_operands> data{};  ///< of the inputs and the outputs
  LayoutOf<Program::max_operands> layout;           ///< of those arrays that are located, in their order
};

/// Calls `body` for pieces that make up all of the program: one, unless there are more than 2^31 elements and arrays
/// that are not flat. Without elements there is none.
void for_each_piece(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                    const std::function<void(const ProgramPiece&)>& body);

}  // namespace tapestry::gpu
