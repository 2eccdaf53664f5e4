#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "backend/loop_program.hpp"
#include "graph/executable.hpp"

namespace tapestry::detail {

/// Writes a loop as a program, if its condition and its body are nothing but elementwise functions and reductions of
/// few elements, and lookups of single elements.
///
/// It follows what the steps of their plans read and write in memory, so it need not know what is a view of what. The
/// plans must be bound to the memory of the loop's values.
class LoopWriter {
 public:
  /// `values`: the carried values, an element of each sequence, and the operands.
  LoopWriter(const Tensors& values, std::size_t carried, std::size_t sequences);

  /// Adds what the condition, or the body, does.
  void add(const Executable::Repeated& function);
  void set_condition(const Tensor& result) { condition_ = read(result); }
  /// Adds the next of the body's results: those for the carried values, then those for the stacks.
  void add_result(const Tensor& result);

  /// The program; nothing if something else than such functions was added.
  std::optional<LoopProgram> program() const;
  /// An input of the program behind the carried values and the elements of sequences.
  struct Fixed {
    std::size_t operand;  ///< its number in `values`
    Tensor constant;      ///< empty for an operand
  };
  const std::vector<Fixed>& fixed() const { return fixed_; }

 private:
  /// A value of the program: an input, or if the number is below 0, the result of instruction -1 - number.
  using Number = int;
  struct Known {
    Number number;
    DType dtype;
    bool single;
  };
  struct Instruction {
    Program::Instruction what;
    std::array<Number, 3> operands;
    LoopProgram::Special special{};
  };
  struct Range {
    const std::byte *begin, *end;
  };

  void add(const Call& call);
  void add_functions(const Call& call);
  void add_lookup(const Call& call);
  void add_reduction(const Call& call, ReduceFunction function);
  Number add_special(LoopProgram::Special special, std::array<Number, 3> operands, DType dtype);
  /// The number of the element of a known value that a tensor is; nothing for other tensors.
  std::optional<Number> element_at(const Tensor& tensor);
  Number read(const Tensor& tensor);
  Fixed fixed_at(const Tensor& tensor);
  Number add_input(const Tensor& tensor, Fixed from);
  void write(const Tensor& tensor, Number number);
  bool is_single(const Tensor& tensor) const;
  bool fits(const Tensor& tensor) const;

  std::size_t carried_, sequences_;
  std::int64_t elements_ = 1;
  bool complete_ = true;
  std::vector<Known> inputs_;
  std::vector<Fixed> fixed_;
  std::vector<Instruction> instructions_;
  std::optional<Number> condition_;
  std::vector<Number> results_;
  std::vector<std::pair<const std::byte*, Known>> memory_;  ///< what was written to an address, the last one last
  std::vector<const std::byte*> values_;                    ///< the addresses of the loop's values
  std::vector<Range> taken_;                                ///< memory that is no constant
};

}  // namespace tapestry::detail
