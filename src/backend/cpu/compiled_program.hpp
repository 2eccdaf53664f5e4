#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/program.hpp"

namespace tapestry::host {

/// An operand's elements in the current block.
struct Operand {
  std::byte* data;
  std::int64_t stride;  ///< 1, or 0 where one element is repeated
};

/// A program as machine code for AVX-512 or AVX2. It computes a vector of elements at a time, keeps intermediate
/// results in registers, and gives the same bits as the kernels.
struct CompiledProgram {
  /// Computes n elements, n a positive multiple of `lanes`. `operands` are the inputs, then the outputs.
  using Code = void (*)(const Operand* operands, std::int64_t n);
  Code store;
  Code stream;  ///< writes floats past the caches, but for those of the near output; all must be aligned to 64 bytes
  /// Adds the elements of the near output to the lanes of a sum where they would be stored (see `row_lane_bytes`); n is
  /// a multiple of their number. Null if there is no near output, or if it does not consist of float32 or float64.
  Code sum;
  std::int64_t lanes;
  std::size_t inputs;
  std::vector<std::int64_t> element_bytes;  ///< of each input and output

  /// Computes any number of elements by one of the two.
  void run(Code code, const Operand* operands, std::int64_t n) const;
};

/// Whether `compiled` may return code: the processor has AVX2.
bool may_be_compiled();

/// The code of a program, which the first call compiles. Null if one of its functions has no vector code, as those of
/// libm and the division of whole numbers have none, or if the system gives no memory for code. Bit i of `single` says
/// that input i is one repeated element. `near` is an output that is read again at once, or -1.
std::shared_ptr<const CompiledProgram> compiled(const Program& program, std::span<const Tensor> inputs,
                                                std::uint64_t single, int near = -1);

}  // namespace tapestry::host
