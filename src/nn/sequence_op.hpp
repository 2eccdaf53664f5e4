#pragma once

#include "ops/support.hpp"
#include "tapestry/control_flow.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry {

// What the ops of whole recurrent layers share (lstm_sequence.cpp, gru_sequence.cpp).

/// Writes a program down, one instruction after the other.
class ProgramWriter {
 public:
  ProgramWriter(DType dtype, int inputs, int outputs, int registers)
      : dtype_(dtype), program_{.instructions = {}, .inputs = inputs, .outputs = outputs, .registers = registers} {}

  int input(int i) const { return i; }
  int output(int i) const { return program_.inputs + i; }
  int temporary(int i) const { return program_.inputs + program_.outputs + i; }

  void add(int result, ElementFunction function, int a, int b = 0) {
    program_.instructions.push_back({.function = function,
                                     .operands = {static_cast<std::uint8_t>(a), static_cast<std::uint8_t>(b)},
                                     .result = static_cast<std::uint8_t>(result),
                                     .dtype = dtype_});
  }
  const Program& program() const { return program_; }

 private:
  DType dtype_;
  Program program_;
};

/// The columns of one gate in a matrix [batch, gates * hidden] of all gates.
Tensor of_gate(const Tensor& z, std::int64_t gate, std::int64_t gate_count);
/// The transposed weight [hidden, gates * hidden], made once and not in the product of each step.
Tensor turned_weight(Backend& backend, const Tensor& weight);
/// The states before each step, [batch, time, hidden], from the first state and the states after each step.
Tensor states_before(Backend& backend, const Tensor& first, const Tensor& after);

/// Calls `f` for each step with the carried tensors and the step's element of each sequence, whose axis 0 is time. It
/// returns the next carried tensors and outputs, which are stacked. The steps are unrolled where their number is known,
/// and otherwise a loop of the graph.
Tensors go_through(const detail::FlatFunction& f, const Tensors& carried, const Tensors& sequences, bool reverse);
/// Batch and time change places.
Tensor by_time(const Tensor& x);
/// y (1 - y), the derivative of a sigmoid whose result is y.
Tensor steepness(const Tensor& y);
/// Zeros in the shape of x, which take no memory.
Tensor nothing_like(const Tensor& x);
/// Zeros for a weight [gates * hidden, hidden], whose sizes may be known in part.
Tensor zeros_of_weight(const Tensor& weight, std::int64_t gate_count);

}  // namespace tapestry
