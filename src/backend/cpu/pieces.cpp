#include "backend/cpu/pieces.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "backend/cpu/kernels/movement.hpp"
#include "backend/strided_loop.hpp"
#include "core/make_tensor.hpp"

namespace tapestry::host {
namespace {

/// The size of an operand's block. Four of them fit the first-level cache.
constexpr std::int64_t block_bytes = 8192;
/// Rows with fewer contiguous elements than this are not worth a call each.
constexpr std::int64_t short_row = 64;
/// The columns of a block when an input is transposed: enough for whole cache lines of y, and so few that the block has
/// many rows, along which the input's elements are close.
constexpr std::int64_t transposed_columns = 32;

/// The operands are y, then the inputs.
using Loop = StridedLoop<max_inputs + 1>;

/// The loop over y: at least two axes, the one with the smallest stride of y last.
Loop plan(const Tensor& y, std::span<const Tensor* const> inputs) {
  Loop loop(y.shape());
  loop.add(y);
  for (const Tensor* input : inputs) loop.add(*input);
  if (!y.is_contiguous()) loop.sort_axes([](const Loop::Axis& axis) { return std::abs(axis.stride[0]); });
  loop.join_axes();
  loop.pad_axes(2);
  if (loop.last().size == 1) loop.last().stride[0] = 1;  // a single element counts as contiguous
  return loop;
}

/// How an elementwise loop over at least one element is cut into blocks of the last two axes, and which operands a
/// block can use in place.
class Tiling {
 public:
  /// The position of a block in a loop over the blocks.
  struct Position {
    std::array<std::int64_t, Shape::max_rank> index{};  ///< along each axis, counted in blocks
    std::array<std::byte*, max_inputs + 1> pointer;     ///< first element of each operand
  };

  Tiling(const Tensor& y, std::span<const Tensor* const> inputs) : loop_(plan(y, inputs)) {
    std::size_t largest = 1;
    std::int64_t read_bytes = 0;
    for (int i = 0; i < loop_.operands; ++i) {
      const Tensor& tensor = i == 0 ? y : *inputs[i - 1];
      base_[i] = static_cast<std::byte*>(tensor.impl().data);
      size_[i] = size_of(tensor.dtype());
      largest = std::max(largest, size_of(tensor.dtype()));
      if (i > 0) read_bytes += tensor.size() * size_[i];
    }
    block_elements_ = block_bytes / static_cast<std::int64_t>(largest);
    stream_ = loop_.elements() * size_[0] >= streaming_bytes && columns().stride[0] == 1;
    stream_rows_ = stream_ && read_bytes < streaming_bytes;
    choose_extents();
    for (int i = 0; i < loop_.operands; ++i) in_place_[i] = usable_in_place(i);
    count_ = 1;
    for (int i = 0; i < loop_.axes; ++i) {
      blocks_[i] = (loop_.axis[i].size + extent_[i] - 1) / extent_[i];
      count_ *= blocks_[i];
    }
  }

  std::int64_t count() const { return count_; }
  std::int64_t elements() const { return extent_[loop_.axes - 1] * extent_[loop_.axes - 2]; }

  /// Calls `each(position)` for the blocks [begin, end).
  template <class F>
  void run(std::int64_t begin, std::int64_t end, F&& each) const {
    Position at_block{.pointer = base_};
    std::int64_t rest = begin;
    for (int i = loop_.axes - 1; i >= 0; --i) {
      at_block.index[i] = rest % blocks_[i];
      rest /= blocks_[i];
      advance(at_block, i, at_block.index[i]);
    }
    for (std::int64_t block = begin; block < end; ++block) {
      each(at_block);
      for (int i = loop_.axes - 1; i >= 0; --i) {
        advance(at_block, i, 1);
        if (++at_block.index[i] < blocks_[i]) break;
        advance(at_block, i, -blocks_[i]);
        at_block.index[i] = 0;
      }
    }
    if (stream_) finish_streaming();
  }

  void compute(const Position& block, FunctionRef<void(const Piece&)> body) const {
    Room room[max_inputs + 1];
    const Extent size = extent(block);
    Piece piece;
    piece.n = size.rows * size.columns;
    for (int i = 1; i < loop_.operands; ++i) {
      if (!in_place_[i]) gather(block, i, size, room[i]);
      piece.input[i - 1] = in_place_[i] ? block.pointer[i] : room[i].bytes;
      piece.step[i - 1] = in_place_[i] ? columns().stride[i] : 1;
    }
    piece.y = in_place_[0] ? block.pointer[0] : room[0].bytes;
    body(piece);
    if (!in_place_[0]) put(room[0].bytes, block, size);
  }

  void copy(const Position& block) const {
    const Extent size = extent(block);
    if (!stream_ || columns().stride[1] == 0) {
      move(0)(block.pointer[1], rows().stride[1], columns().stride[1], block.pointer[0], rows().stride[0],
              columns().stride[0], size.rows, size.columns);
    } else if (in_place_[1]) {
      put(block.pointer[1], block, size);
    } else {
      Room room;
      gather(block, 1, size, room);
      put(room.bytes, block, size);
    }
  }

 private:
  struct Extent {
    std::int64_t rows, columns;
  };
  struct alignas(64) Room {
    std::byte bytes[block_bytes];
  };

  const Loop::Axis& columns() const { return loop_.last(); }
  const Loop::Axis& rows() const { return loop_.axis[loop_.axes - 2]; }

  bool neighbours(int operand) const {
    const std::int64_t stride = columns().stride[operand];
    return stride == 1 || (stride == 0 && operand > 0);
  }

  void choose_extents() {
    extent_.fill(1);
    std::int64_t& row_extent = extent_[loop_.axes - 2];
    std::int64_t& column_extent = extent_[loop_.axes - 1];
    int scattered = -1;
    for (int i = loop_.operands - 1; i >= 0; --i)
      if (!neighbours(i)) scattered = i;
    const std::int64_t n = columns().size;
    if (scattered < 0 && (n >= short_row || rows().size == 1)) {
      column_extent = std::min(n, stream_rows_ ? block_elements_ : task_elements);
      return;
    }
    const bool transposed = scattered > 0 && make_rows_nearest(scattered);
    column_extent = std::min(n, transposed ? transposed_columns : block_elements_);
    row_extent = std::min(rows().size, std::max<std::int64_t>(block_elements_ / column_extent, 1));
  }

  /// Makes the axis along which an input's elements are closest the rows of the blocks. Returns false when it is the
  /// columns.
  bool make_rows_nearest(int operand) {
    int nearest = loop_.axes - 1;
    const auto distance = [&](int i) { return std::abs(loop_.axis[i].stride[operand]); };
    for (int i = loop_.axes - 2; i >= 0; --i)
      if (distance(i) > 0 && distance(i) < distance(nearest)) nearest = i;
    if (nearest == loop_.axes - 1) return false;
    std::swap(loop_.axis[nearest], loop_.axis[loop_.axes - 2]);
    return true;
  }

  bool usable_in_place(int operand) const {
    if (!neighbours(operand) || (operand == 0 && stream_rows_)) return false;
    const std::int64_t width = extent_[loop_.axes - 1];
    if (extent_[loop_.axes - 2] == 1) return true;
    const std::int64_t stride = rows().stride[operand];
    return columns().stride[operand] == 0 ? stride == 0 : width == columns().size && stride == width;
  }

  void advance(Position& block, int axis, std::int64_t blocks) const {
    for (int i = 0; i < loop_.operands; ++i)
      block.pointer[i] += loop_.axis[axis].stride[i] * extent_[axis] * blocks * size_[i];
  }

  Extent extent(const Position& block) const {
    const auto along = [&](int i) { return std::min(extent_[i], loop_.axis[i].size - block.index[i] * extent_[i]); };
    return {along(loop_.axes - 2), along(loop_.axes - 1)};
  }

  Move move(int operand) const { return movement_kernels().move(size_[operand]); }

  /// Copies an input's elements of the block to `room`, without gaps.
  void gather(const Position& block, int operand, Extent size, Room& room) const {
    move(operand)(block.pointer[operand], rows().stride[operand], columns().stride[operand], room.bytes, size.columns,
                  1, size.rows, size.columns);
  }

  /// Copies the elements at x to the block of y.
  void put(const std::byte* x, const Position& block, Extent size) const {
    const std::int64_t row = rows().stride[0], width = size.columns * size_[0];
    if (!stream_) {
      move(0)(x, size.columns, 1, block.pointer[0], row, columns().stride[0], size.rows, size.columns);
    } else if (size.rows == 1 || row == size.columns) {
      movement_kernels().stream(x, block.pointer[0], size.rows * width);
    } else {
      for (std::int64_t r = 0; r < size.rows; ++r)
        movement_kernels().stream(x + r * width, block.pointer[0] + r * row * size_[0], width);
    }
  }

  Loop loop_;
  bool stream_ = false;
  /// Whether blocks that could be computed in place are streamed, too. This pays only if little memory is read: a
  /// streamed block is waited for, while ordinary stores are written back during the next blocks.
  bool stream_rows_ = false;
  std::int64_t block_elements_ = 0, count_ = 0;
  std::array<std::byte*, max_inputs + 1> base_{};
  std::array<std::int64_t, max_inputs + 1> size_{};  ///< bytes of an element
  std::array<bool, max_inputs + 1> in_place_{};
  std::array<std::int64_t, Shape::max_rank> extent_{};  ///< of a block along each axis
  std::array<std::int64_t, Shape::max_rank> blocks_{};  ///< number along each axis
};

void for_each_tile(const Tensor& y, std::span<const Tensor* const> inputs, const auto& each) {
  if (std::find(y.shape().sizes().begin(), y.shape().sizes().end(), 0) != y.shape().sizes().end()) return;
  const Tiling tiling(y, inputs);
  const std::int64_t grain = std::max<std::int64_t>(task_elements / tiling.elements(), 1);
  parallel_for(tiling.count(), grain, [&](std::int64_t begin, std::int64_t end) {
    tiling.run(begin, end, [&](const Tiling::Position& tile) { each(tiling, tile); });
  });
}

}  // namespace

void for_each_piece(const Tensor& y, std::span<const Tensor* const> inputs, FunctionRef<void(const Piece&)> body) {
  for_each_tile(y, inputs, [&](const Tiling& tiling, const Tiling::Position& tile) { tiling.compute(tile, body); });
}

void copy_pieces(const Tensor& x, const Tensor& y) {
  // What is small takes longer to plan than to copy.
  if (const std::size_t bytes = detail::nbytes(y);
      bytes <= block_bytes && x.is_contiguous() && y.is_contiguous() && x.shape() == y.shape()) {
    if (bytes > 0) std::memmove(y.impl().data, x.impl().data, bytes);
    return;
  }
  const Tensor* inputs[] = {&x};
  for_each_tile(y, inputs, [](const Tiling& tiling, const Tiling::Position& tile) { tiling.copy(tile); });
}

}  // namespace tapestry::host
