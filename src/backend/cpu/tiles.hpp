#pragma once

#include <cstdint>
#include <span>

#include "backend/cpu/threads.hpp"
#include "backend/program.hpp"

namespace tapestry::host {

/// A rectangle of a matrix.
struct Tile {
  std::int64_t row, column, rows, columns;
};
using RunTile = FunctionRef<void(const Tile&)>;

/// Calls `use` with a function that runs the program on a tile of its outputs, which are matrices, in this thread.
void in_tiles(const Program& program, std::span<const Tensor> inputs, std::span<const Tensor> outputs,
              FunctionRef<void(RunTile)> use);

}  // namespace tapestry::host
