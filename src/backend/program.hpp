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
/// "exp": its name in functors.hpp.
TAPESTRY_API std::string to_string(const ElementFunction& function);

/// What an elementwise op does with each element of its inputs.
struct Elementwise {
  ElementFunction function;
  std::array<std::uint8_t, 3> inputs{0, 1, 2};  ///< the op's inputs in the order of the function's operands
  double number = 0;                            ///< the op's number: the slope of leaky_relu
};
using Operands = std::array<const Tensor*, 3>;
/// y = the function of the operands, by the family that has it.
void run(Backend& backend, const ElementFunction& function, const Operands& x, double number, const Tensor& y);

/// Several elementwise functions in a row, computed together: instead of a tensor in memory, what stands between them
/// needs only a block in the cache at a time.
///
/// The operands of the instructions are numbered: first the program's inputs, then its outputs, then registers, which
/// serve several values one after the other. All results have the shape of the outputs, to which inputs are broadcast.
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
/// The inputs of a program one of which is a product; the others in their order.
using ProgramInputs = SmallVector<Tensor, Program::max_operands>;
ProgramInputs with_product(std::span<const Tensor> others, std::size_t place, const Tensor& product);

/// "y0 = multiply(x0, x1); r0 = tanh(y0)"
std::string to_string(const Program& program);

}  // namespace tapestry
