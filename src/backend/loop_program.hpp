#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/program.hpp"

namespace tapestry {

/// A loop whose condition and body are elementwise functions of values of few elements, and elements of tables. Its
/// program computes from the values of an iteration whether it runs, and the values of the next one.
///
/// The program has no outputs. Its inputs are the carried values, then the elements that the iteration takes from
/// sequences, then what is the same in all iterations.
struct LoopProgram {
  static constexpr std::size_t most_inputs = 64, most_operands = 255;
  static constexpr std::int64_t most_elements = 16;

  Program program{};
  /// What an instruction does that has no function.
  struct Special {
    enum class Kind : std::uint8_t {
      none,
      look_up,  ///< the element of operand 0 whose number is operand 1; an input of `number` elements, which stays
      element,  ///< the element `number` of a value of several
      reduce    ///< all elements of such a value, by the ReduceFunction `number`
    };
    Kind kind = Kind::none;
    std::int64_t number = 0;
  };
  std::vector<Special> special{};  ///< by instruction
  std::vector<DType> dtypes{};     ///< of the inputs
  std::uint64_t single = 0;        ///< bit i: input i is one element; otherwise it has as many as all such values
  std::int64_t elements = 1;       ///< of the values that have several; elements of sequences and stacks have one
  std::size_t carried = 0, sequences = 0;
  int condition = -1;                   ///< the operand that says whether an iteration runs; -1 for none
  std::vector<std::uint8_t> results{};  ///< the operands that are the new carried values, then elements of stacks
};

/// The code of such a loop.
class LoopCode {
 public:
  /// Where an operand is, and how many bytes further on it is in the next iteration.
  struct Place {
    std::byte* data;
    std::int64_t step;
  };

  LoopCode() = default;
  virtual ~LoopCode() = default;
  LoopCode(const LoopCode&) = delete;
  LoopCode& operator=(const LoopCode&) = delete;

  /// Runs up to `count` iterations, at least 1. `places` are those of the inputs, whose carried values change, and of
  /// the stacks' elements. Returns how many have run: fewer than `count` if the condition did not hold, or a function
  /// of the next iteration would throw.
  virtual std::int64_t run(std::span<const Place> places, std::int64_t count) const = 0;
};

}  // namespace tapestry
