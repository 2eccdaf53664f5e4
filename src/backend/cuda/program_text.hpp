#pragma once

#include <cmath>
#include <string>

#include "backend/cuda/program_pieces.hpp"

namespace tapestry::gpu {

/// A program, and what else the text of its kernel depends on. The shapes of the arrays are not part of that.
struct ProgramKernel {
  const Program& program;
  std::span<const Tensor> inputs;  ///< only their types matter
  const ProgramForm& form;
};

/// Whether an instruction's number is a parameter of the kernel; otherwise it is +0.
inline bool has_number(const Program::Instruction& instruction) {
  return instruction.number != 0 || std::signbit(instruction.number);
}

/// The text of the kernel `program` in CUDA C++, which includes kernels/program.cuh. The kernel's parameters are the
/// inputs, the outputs, the number of elements, the instructions' numbers and, if arrays are located, their layout.
std::string text_of(const ProgramKernel& kernel);

/// A key of the text: kernels with the same signature have the same text. It is faster to make than the text.
std::string signature_of(const ProgramKernel& kernel);

}  // namespace tapestry::gpu
