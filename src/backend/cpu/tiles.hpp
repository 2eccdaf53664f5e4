#pragma once

#include <cstddef>
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

/// Rows of elements among the outputs of a program in row-major order: `columns` from `first` on, then as many `stride`
/// elements further on, and so on.
struct Stripe {
  std::int64_t first, rows, stride, columns;
};
/// Stores the elements of a stripe, and returns their number. If only the sums of its rows are needed, it stores the
/// lanes to which a kernel would add the elements of each row instead, without gaps between them, and returns the
/// number of a row's lanes; or it does nothing and returns 0.
using RunStripe = FunctionRef<std::int64_t(const Stripe&, std::byte* to, std::int64_t to_stride, bool only_sum)>;

/// Calls `use` with a function that runs the program on a stripe of its outputs, in this thread. The output number
/// `apart`, which needs no memory, is not stored in its place but in rows at `to`.
void in_stripes(const Program& program, std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                std::size_t apart, FunctionRef<void(RunStripe)> use);

}  // namespace tapestry::host
