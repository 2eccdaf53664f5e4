#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "backend/program.hpp"

namespace tapestry::host {

/// An operand's elements in the current block.
struct Operand {
  std::byte* data;
  std::int64_t stride;  ///< 1, or 0 where one element is repeated
};

/// The most operands of a program that is compiled. Each has a register of its own, and the functions need the others.
inline constexpr int most_compiled_operands = 20;

/// A program as machine code for AVX-512. It computes 16 elements at a time, keeps intermediate results in registers,
/// and gives the same bits as the kernels.
struct CompiledProgram {
  /// Computes n elements. `operands` are the inputs, then the outputs.
  using Code = void (*)(const Operand* operands, std::int64_t n);
  Code store;
  Code stream;  ///< writes past the caches; the outputs must be aligned to 64 bytes
};

/// Whether `compiled` may return code: the processor has AVX-512, everything is float32, every function is unary or
/// binary, and there are not too many operands.
bool may_be_compiled(const Program& program, std::span<const Tensor> inputs);

/// The code of a program, which the first call compiles. Null if the compiler does not know one of the functions, or if
/// the system gives no memory for code. Bit i of `single` says that input i is one repeated element.
std::shared_ptr<const CompiledProgram> compiled(const Program& program, std::uint64_t single);

}  // namespace tapestry::host
