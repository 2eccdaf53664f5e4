#pragma once

#include <cstdint>
#include <span>

#include "backend/cpu/threads.hpp"
#include "backend/program.hpp"

namespace tapestry::host {

/// A block of a matrix.
struct Part {
  std::int64_t row, column, rows, columns;
};
using RunPart = FunctionRef<void(const Part&)>;

/// Calls `use` with a function that runs the program on a part of its outputs, which are matrices, in this thread.
void in_parts(const Program& program, std::span<const Tensor> inputs, std::span<const Tensor> outputs,
              FunctionRef<void(RunPart)> use);

}  // namespace tapestry::host
