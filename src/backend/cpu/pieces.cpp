#include "backend/cpu/pieces.hpp"

#include <algorithm>
#include <cstdlib>

#include "backend/cpu/kernels/movement.hpp"

namespace tapestry::host {
namespace {

/// Room for one operand's block; four of them fit the first-level cache.
constexpr std::int64_t block_bytes = 8192;
/// Rows of fewer neighbours than this are not worth a call each.
constexpr std::int64_t short_row = 64;
/// Columns of a block when an input is transposed: enough for whole cache lines of y, and few, so that its rows are
/// long.
constexpr std::int64_t transposed_columns = 32;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// The axes that several tensors of one broadcast shape share, as few as possible and y's nearest neighbours last. Axes
/// of one element are gone, and axes along which all tensors go on without a gap are one.
struct Axis {
  std::int64_t size = 1;
  std::array<std::int64_t, max_inputs + 1> stride{};  ///< y's, then the inputs'; 0 where an input is broadcast
};
struct Axes {
  std::array<Axis, Shape::max_rank> axis;
  int count = 0;  ///< at least one

  Axis& last() { return axis[at(count - 1)]; }
};

Axes common_axes(const Tensor& y, std::span<const Tensor* const> inputs) {
  Axes axes;
  const int rank = y.rank();
  std::array<Axis, Shape::max_rank> found;
  int count = 0;
  for (int i = 0; i < rank; ++i) {
    Axis axis{.size = y.shape().sizes()[i]};
    if (axis.size == 1) continue;
    axis.stride[0] = y.strides()[at(i)];
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      const int j = i - rank + inputs[k]->rank();
      if (j >= 0 && inputs[k]->shape().sizes()[j] != 1) axis.stride[k + 1] = inputs[k]->strides()[at(j)];
    }
    found[at(count++)] = axis;
  }
  const auto farther = [](const Axis& a, const Axis& b) { return std::abs(a.stride[0]) > std::abs(b.stride[0]); };
  if (!y.is_contiguous()) std::stable_sort(found.begin(), found.begin() + count, farther);
  for (int i = 0; i < count; ++i) {
    const Axis& inner = found[at(i)];
    const auto joins = [&](const Axis& outer) {
      for (std::size_t k = 0; k <= inputs.size(); ++k)
        if (outer.stride[k] != inner.stride[k] * inner.size) return false;
      return true;
    };
    if (axes.count > 0 && joins(axes.last())) {
      axes.last() = Axis{axes.last().size * inner.size, inner.stride};
    } else {
      axes.axis[at(axes.count++)] = inner;
    }
  }
  if (axes.count == 0) {
    axes.count = 1;
    axes.last().stride[0] = 1;
  }
  return axes;
}

/// How an elementwise loop over at least one element is cut into blocks of the last two axes, and which operands a
/// block can use where they are.
class Blocks {
 public:
  /// A block while a loop goes through them.
  struct Position {
    std::array<std::int64_t, Shape::max_rank> index{};  ///< along each axis, counted in blocks
    std::array<std::byte*, max_inputs + 1> pointer;     ///< first element of each operand
  };

  Blocks(const Tensor& y, std::span<const Tensor* const> inputs)
      : axes_(common_axes(y, inputs)), operands_(static_cast<int>(inputs.size()) + 1) {
    std::size_t largest = 1;
    std::int64_t read_bytes = 0;
    for (int i = 0; i < operands_; ++i) {
      const Tensor& tensor = i == 0 ? y : *inputs[at(i - 1)];
      base_[at(i)] = static_cast<std::byte*>(tensor.impl().data);
      size_[at(i)] = static_cast<std::int64_t>(size_of(tensor.dtype()));
      largest = std::max(largest, size_of(tensor.dtype()));
      if (i > 0) read_bytes += tensor.size() * size_[at(i)];
    }
    block_elements_ = block_bytes / static_cast<std::int64_t>(largest);
    std::int64_t elements = 1;
    for (int i = 0; i < axes_.count; ++i) elements *= axes_.axis[at(i)].size;
    stream_ = elements * size_[0] >= streaming_bytes && axes_.last().stride[0] == 1;
    stream_rows_ = stream_ && read_bytes < streaming_bytes;
    if (axes_.count == 1) add_outer_axis();
    choose_extents();
    for (int i = 0; i < operands_; ++i) in_place_[at(i)] = usable_in_place(i);
    count_ = 1;
    for (int i = 0; i < axes_.count; ++i) {
      blocks_[at(i)] = (axes_.axis[at(i)].size + extent_[at(i)] - 1) / extent_[at(i)];
      count_ *= blocks_[at(i)];
    }
  }

  std::int64_t count() const { return count_; }
  std::int64_t elements() const { return extent_[at(axes_.count - 1)] * extent_[at(axes_.count - 2)]; }

  /// Blocks [begin, end): `each(position)` for every one of them.
  template <class F>
  void run(std::int64_t begin, std::int64_t end, F&& each) const {
    Position at_block{.pointer = base_};
    std::int64_t rest = begin;
    for (int i = axes_.count - 1; i >= 0; --i) {
      at_block.index[at(i)] = rest % blocks_[at(i)];
      rest /= blocks_[at(i)];
      advance(at_block, i, at_block.index[at(i)]);
    }
    for (std::int64_t block = begin; block < end; ++block) {
      each(at_block);
      for (int i = axes_.count - 1; i >= 0; --i) {
        advance(at_block, i, 1);
        if (++at_block.index[at(i)] < blocks_[at(i)]) break;
        advance(at_block, i, -blocks_[at(i)]);
        at_block.index[at(i)] = 0;
      }
    }
    if (stream_) finish_streaming();
  }

  void compute(const Position& block, FunctionRef<void(const Piece&)> body) const {
    Room room[max_inputs + 1];
    const Extent size = extent(block);
    Piece piece;
    piece.n = size.rows * size.columns;
    for (int i = 1; i < operands_; ++i) {
      if (!in_place_[at(i)]) gather(block, i, size, room[i]);
      piece.input[at(i - 1)] = in_place_[at(i)] ? block.pointer[at(i)] : room[i].bytes;
      piece.step[at(i - 1)] = in_place_[at(i)] ? columns().stride[at(i)] : 1;
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

  const Axis& columns() const { return axes_.axis[at(axes_.count - 1)]; }
  const Axis& rows() const { return axes_.axis[at(axes_.count - 2)]; }

  void add_outer_axis() {
    axes_.axis[1] = axes_.axis[0];
    axes_.axis[0] = Axis();
    axes_.count = 2;
  }

  bool neighbours(int operand) const {
    const std::int64_t stride = columns().stride[at(operand)];
    return stride == 1 || (stride == 0 && operand > 0);
  }

  void choose_extents() {
    extent_.fill(1);
    std::int64_t& row_extent = extent_[at(axes_.count - 2)];
    std::int64_t& column_extent = extent_[at(axes_.count - 1)];
    int scattered = -1;
    for (int i = operands_ - 1; i >= 0; --i)
      if (!neighbours(i)) scattered = i;
    const std::int64_t n = columns().size;
    if (scattered < 0 && (n >= short_row || rows().size == 1)) {
      column_extent = std::min(n, stream_rows_ ? block_elements_ : task_elements);
      return;
    }
    const bool transposed = scattered > 0 && bring_near(scattered);
    column_extent = std::min(n, transposed ? transposed_columns : block_elements_);
    row_extent = std::min(rows().size, std::max<std::int64_t>(block_elements_ / column_extent, 1));
  }

  /// Makes the axis along which an input's elements lie closest the rows of the blocks. False when it is the columns'.
  bool bring_near(int operand) {
    int nearest = axes_.count - 1;
    const auto distance = [&](int i) { return std::abs(axes_.axis[at(i)].stride[at(operand)]); };
    for (int i = axes_.count - 2; i >= 0; --i)
      if (distance(i) > 0 && distance(i) < distance(nearest)) nearest = i;
    if (nearest == axes_.count - 1) return false;
    std::swap(axes_.axis[at(nearest)], axes_.axis[at(axes_.count - 2)]);
    return true;
  }

  bool usable_in_place(int operand) const {
    if (!neighbours(operand) || (operand == 0 && stream_rows_)) return false;
    const std::int64_t width = extent_[at(axes_.count - 1)];
    if (extent_[at(axes_.count - 2)] == 1) return true;
    const std::int64_t stride = rows().stride[at(operand)];
    return columns().stride[at(operand)] == 0 ? stride == 0 : width == columns().size && stride == width;
  }

  void advance(Position& block, int axis, std::int64_t blocks) const {
    for (int i = 0; i < operands_; ++i)
      block.pointer[at(i)] += axes_.axis[at(axis)].stride[at(i)] * extent_[at(axis)] * blocks * size_[at(i)];
  }

  Extent extent(const Position& block) const {
    const auto along = [&](int i) {
      return std::min(extent_[at(i)], axes_.axis[at(i)].size - block.index[at(i)] * extent_[at(i)]);
    };
    return {along(axes_.count - 2), along(axes_.count - 1)};
  }

  Move move(int operand) const { return movement_kernels().move(static_cast<std::size_t>(size_[at(operand)])); }

  /// An input's elements of the block, side by side.
  void gather(const Position& block, int operand, Extent size, Room& room) const {
    move(operand)(block.pointer[at(operand)], rows().stride[at(operand)], columns().stride[at(operand)], room.bytes,
                  size.columns, 1, size.rows, size.columns);
  }

  /// The block of y becomes the elements at x.
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

  Axes axes_;
  int operands_;
  bool stream_ = false;
  /// Whether also what could be computed in place is streamed. Where memory is read, too, a streamed block is waited
  /// for, while the usual stores are written back during the next ones.
  bool stream_rows_ = false;
  std::int64_t block_elements_ = 0, count_ = 0;
  std::array<std::byte*, max_inputs + 1> base_{};
  std::array<std::int64_t, max_inputs + 1> size_{};  ///< bytes of an element
  std::array<bool, max_inputs + 1> in_place_{};
  std::array<std::int64_t, Shape::max_rank> extent_{};  ///< of a block along each axis
  std::array<std::int64_t, Shape::max_rank> blocks_{};  ///< along each axis
};

void for_each_block(const Tensor& y, std::span<const Tensor* const> inputs, const auto& each) {
  if (std::find(y.shape().sizes().begin(), y.shape().sizes().end(), 0) != y.shape().sizes().end()) return;
  const Blocks blocks(y, inputs);
  const std::int64_t grain = std::max<std::int64_t>(task_elements / blocks.elements(), 1);
  parallel_for(blocks.count(), grain, [&](std::int64_t begin, std::int64_t end) {
    blocks.run(begin, end, [&](const Blocks::Position& block) { each(blocks, block); });
  });
}

}  // namespace

void for_each_piece(const Tensor& y, std::span<const Tensor* const> inputs, FunctionRef<void(const Piece&)> body) {
  for_each_block(y, inputs, [&](const Blocks& blocks, const Blocks::Position& block) { blocks.compute(block, body); });
}

void copy_pieces(const Tensor& x, const Tensor& y) {
  const Tensor* inputs[] = {&x};
  for_each_block(y, inputs, [](const Blocks& blocks, const Blocks::Position& block) { blocks.copy(block); });
}

}  // namespace tapestry::host
