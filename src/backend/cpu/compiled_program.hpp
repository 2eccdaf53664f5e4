#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "backend/program.hpp"

namespace tapestry::host {

/// Where the elements of an operand lie that belong to the current block.
struct Operand {
  std::byte* data;
  std::int64_t stride;  ///< 1, or 0 for one element that stands for all
};

/// Operands of a program that is compiled: each has a register of its own, and the functions need some for themselves.
inline constexpr int most_compiled_operands = 20;

/// A program as machine code for AVX-512, which keeps what stands between its inputs and outputs in registers, 16
/// elements at a time. Its bits are those of the kernels.
struct CompiledProgram {
  /// Computes n elements: the inputs and the outputs, in their order.
  using Code = void (*)(const Operand* operands, std::int64_t n);
  Code store;
  Code stream;  ///< past the caches, to outputs that lie at multiples of 64 bytes
};

/// Whether it is worth asking for the code: the processor has AVX-512, everything is float32, and no function is a
/// selection or a conversion.
bool may_be_compiled(const Program& program, std::span<const Tensor> inputs);

/// The code of a program, made when it is first asked for; null where the program has a function that is not known
/// there, and where the system gives no memory for code. Bit i of `single` says that input i is one element that stands
/// for all.
std::shared_ptr<const CompiledProgram> compiled(const Program& program, std::uint64_t single);

}  // namespace tapestry::host
