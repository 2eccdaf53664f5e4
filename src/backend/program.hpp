#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "backend/functors.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry {

class Backend;

/// y = x, converted to y's dtype.
struct Convert {
  friend bool operator==(Convert, Convert) = default;
};
using ElementFunction = std::variant<Convert, Unary, Binary, Ternary>;

/// How many operands a function has.
inline int operands_of(const ElementFunction& function) {
  constexpr int counts[] = {1, 1, 2, 3};
  return counts[function.index()];
}
/// The function's name in functors.hpp, such as "exp", or "convert".
TAPESTRY_API std::string to_string(const ElementFunction& function);

/// What an elementwise op does with each element of its inputs.
struct Elementwise {
  ElementFunction function;
  std::array<std::uint8_t, 3> inputs{0, 1, 2};  ///< the op's inputs in the order of the function's operands
  double number = 0;                            ///< the op's number: the slope of leaky_relu
};
using Operands = std::array<const Tensor*, 3>;
/// Computes y = function(x) by the family of the function.
void run(Backend& backend, const ElementFunction& function, const Operands& x, double number, const Tensor& y);

/// Several elementwise functions that are computed together. An intermediate result needs only a block in the cache at
/// a time, not a tensor in memory.
///
/// The operands of the instructions are numbered: first the program's inputs, then its outputs, then registers, which
/// may hold several values one after another. All results have the shape of the outputs; inputs are broadcast to it.
/// The outputs may have gaps between their elements.
struct Program {
  static constexpr int max_operands = 64;
  static constexpr int max_instructions = 64;

  struct Instruction {
    ElementFunction function;
    std::array<std::uint8_t, 3> operands{};
    std::uint8_t result = 0;       ///< may be an operand of the same element size
    DType dtype = DType::unknown;  ///< of the result
    double number = 0;
  };
  std::vector<Instruction> instructions;
  int inputs = 0, outputs = 0, registers = 0;

  int operands() const { return inputs + outputs + registers; }
  bool is_register(int operand) const { return operand >= inputs + outputs; }
};
using ProgramInputs = SmallVector<Tensor, Program::max_operands>;
/// Whether all elements of each tensor lie in their order and without gaps.
TAPESTRY_API bool are_contiguous(std::span<const Tensor> tensors);
/// The inputs of a program: `others` in their order, with `product` inserted as number `place`.
ProgramInputs with_product(std::span<const Tensor> others, std::size_t place, const Tensor& product);

/// The instructions as text: "y0 = multiply(x0, x1); r0 = tanh(y0)".
std::string to_string(const Program& program);

}  // namespace tapestry
