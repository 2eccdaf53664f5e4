#pragma once

#include <cmath>
#include <string>

#include "backend/cuda/program_pieces.hpp"

namespace tapestry::gpu {

/// A program with what its kernel's text depends on, which is not the shapes of its arrays.
struct ProgramKernel {
  const Program& program;
  std::span<const Tensor> inputs;  ///< their types count
  const ProgramForm& form;
};

/// Whether an instruction's number is a parameter of the kernel; otherwise it is +0.
inline bool has_number(const Program::Instruction& instruction) {
  return instruction.number != 0 || std::signbit(instruction.number);
}

/// The kernel `program` as CUDA C++, over kernels/program.cuh. Its parameters: the inputs, the outputs, the number of
/// elements, the instructions' numbers, and if arrays are located, their layout.
std::string text_of(const ProgramKernel& kernel);

/// The same for kernels of the same text, and made faster than that.
std::string signature_of(const ProgramKernel& kernel);

}  // namespace tapestry::gpu
