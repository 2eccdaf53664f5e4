#include "backend/program.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "backend/cpu/compiled_program.hpp"
#include "backend/cpu/cpu_backend.hpp"
#include "backend/cpu/half.hpp"
#include "backend/cpu/kernels/elementwise.hpp"
#include "backend/cpu/kernels/movement.hpp"
#include "backend/cpu/kernels/reduce.hpp"
#include "backend/cpu/pieces.hpp"
#include "backend/cpu/tiles.hpp"
#include "backend/strided_loop.hpp"
#include "core/make_tensor.hpp"

namespace tapestry::host {
namespace {

/// The size of all blocks of a task together, where the instructions run one after another. It fits the first-level
/// cache.
constexpr std::int64_t cache_bytes = 24 << 10;
/// Results of at least this size do not stay in the second-level cache. The inputs of the next block are then
/// prefetched while a block is computed.
constexpr std::int64_t far_bytes = 4 << 20;
constexpr std::int64_t line_bytes = 64;   ///< of the caches
constexpr std::int64_t most_tasks = 256;  ///< enough for any number of threads to share evenly
constexpr std::int64_t smallest_block = 128, largest_block = 512;
/// The most elements of a block of compiled code, which needs memory only for inputs that are gathered; and the fewest
/// elements of a result for which it is worth looking for the code.
constexpr std::int64_t largest_compiled_block = 4096, smallest_compiled = 1024;
/// The memory for the blocks of one thread's task.
constexpr std::int64_t room_bytes = std::int64_t{64} << 10;
constexpr std::size_t max_operands = Program::max_operands, max_instructions = Program::max_instructions;

/// How the elements of the outputs, in their order, are cut into blocks, and where those of the operands in memory, the
/// inputs and then the outputs, are. Axes along which all of these continue without a gap are merged.
class Grid {
  using Loop = StridedLoop<max_operands>;
  using Axis = Loop::Axis;

 public:
  struct Extent {
    std::int64_t rows, columns;
  };

  Grid(std::span<const Tensor> inputs, std::span<const Tensor> outputs, std::int64_t block_elements)
      : loop_(outputs[0].shape()) {
    for (const std::span<const Tensor> tensors : {inputs, outputs})
      for (const Tensor& each : tensors) loop_.add(each);
    loop_.join_axes();
    loop_.pad_axes(2);
    const std::int64_t width = columns().size, height = rows().size;
    // A long row is cut into equal blocks, so that the last one is not a stub.
    const std::int64_t parts = (width + block_elements - 1) / block_elements;
    extent_ = {1, (width + parts - 1) / parts};
    if (parts == 1) {
      const bool by_row = width >= shortest_lone_row && some_rows_have_gaps();
      extent_.rows = by_row ? 1 : std::min(height, std::max<std::int64_t>(block_elements / width, 1));
    } else {
      extent_.columns = std::min(width, (extent_.columns + 63) / 64 * 64);
    }
    column_blocks_ = (width + extent_.columns - 1) / extent_.columns;
    row_blocks_ = (height + extent_.rows - 1) / extent_.rows;
    count_ = column_blocks_ * row_blocks_;
    for (int i = 0; i < loop_.axes - 2; ++i) count_ *= loop_.axis[i].size;
  }

  std::int64_t count() const { return count_; }
  std::int64_t elements() const { return extent_.rows * extent_.columns; }

  std::int64_t row_stride(int operand) const { return rows().stride[operand]; }
  std::int64_t column_stride(int operand) const { return columns().stride[operand]; }

  /// Whether an operand's elements of a block can be used in place: they are contiguous, or one element is repeated.
  bool is_in_place(int operand) const { return has_plain_columns(operand) && (extent_.rows == 1 || joins(operand)); }
  /// Whether every block reads the same elements of an input; a smaller block reads the first of them.
  bool is_same_everywhere(int input) const {
    for (int i = 0; i < loop_.axes - 1; ++i)
      if (loop_.axis[i].stride[input] != 0) return false;
    return column_blocks_ == 1;
  }

  struct Block {
    Extent size;
    std::int64_t first;                             ///< its first element in the outputs
    std::int64_t column;                            ///< its first column
    std::array<std::int64_t, max_operands> offset;  ///< of each operand's first element
  };
  /// Moves from the block before `index` to that of `index`. Most are in the same row, which needs no division.
  void advance(std::int64_t index, Block& block) const {
    const std::int64_t done = block.column + extent_.columns;
    if (done >= columns().size) return find(index, block);
    block.column = done;
    block.first += extent_.columns;
    block.size.columns = std::min(extent_.columns, columns().size - done);
    for (int i = 0; i < loop_.operands; ++i) block.offset[i] += extent_.columns * column_stride(i);
  }
  void find(std::int64_t index, Block& block) const {
    const std::int64_t column = index % column_blocks_ * extent_.columns;
    index /= column_blocks_;
    const std::int64_t row = index % row_blocks_ * extent_.rows;
    index /= row_blocks_;
    block.size = {std::min(extent_.rows, rows().size - row), std::min(extent_.columns, columns().size - column)};
    place(row, column, index, block);
  }

  /// Calls `each(block, is_whole)` for blocks that make up `count` elements of the outputs from `first` on. Those that
  /// are not whole are parts of rows.
  template <class F>
  void for_each_block(std::int64_t first, std::int64_t count, F each) const {
    const std::int64_t width = columns().size, height = rows().size;
    Block block;
    for (const std::int64_t end = first + count; first < end; first += block.size.rows * block.size.columns) {
      const std::int64_t column = first % width, row = first / width % height, left = end - first;
      const bool is_whole = column == 0 && left >= width && extent_.columns == width;
      if (is_whole) {
        block.size = {std::min({extent_.rows, left / width, height - row}), width};
      } else {
        block.size = {1, std::min({extent_.columns, width - column, left})};
      }
      place(row, column, first / width / height, block);
      each(block, is_whole);
    }
  }

  /// Whether each of the blocks that make up a multiple of `count` elements from `first` on has a multiple of them.
  bool has_blocks_of(std::int64_t count, std::int64_t first) const {
    if (extent_.columns % count != 0) return false;
    const bool is_one_row = loop_.axes == 2 && rows().size == 1;
    return is_one_row || (columns().size % count == 0 && first % count == 0);
  }

  /// Calls `each` for the blocks of one tile of outputs that are matrices.
  template <class F>
  void for_each_block(const Tile& tile, std::int64_t width, F each) const {
    const bool whole_rows = tile.columns == width;
    Block block;
    const auto visit = [&](std::int64_t row, std::int64_t column, Extent size) {
      block.size = size;
      block.first = row * columns().size + column;
      for (int i = 0; i < loop_.operands; ++i) block.offset[i] = row * row_stride(i) + column * column_stride(i);
      each(block);
    };
    if (columns().size != width) {  // the matrix is one row here
      const std::int64_t lines = whole_rows ? 1 : tile.rows;
      const std::int64_t length = whole_rows ? tile.rows * width : tile.columns;
      for (std::int64_t line = 0; line < lines; ++line) {
        const std::int64_t first = (tile.row + line) * width + tile.column;
        for (std::int64_t i = 0; i < length; i += extent_.columns)
          visit(0, first + i, {1, std::min(extent_.columns, length - i)});
      }
      return;
    }
    const std::int64_t step = whole_rows ? extent_.rows : 1;
    for (std::int64_t i = 0; i < tile.rows; i += step)
      for (std::int64_t j = 0; j < tile.columns; j += extent_.columns)
        visit(tile.row + i, tile.column + j,
              {std::min(step, tile.rows - i), std::min(extent_.columns, tile.columns - j)});
  }

 private:
  /// The fewest elements of a row that make a block by themselves, if this saves copying some of its operands.
  static constexpr std::int64_t shortest_lone_row = 256;

  bool has_plain_columns(int operand) const { return column_stride(operand) == 0 || column_stride(operand) == 1; }
  /// Whether an operand's rows, whose elements have this distance, continue each other.
  bool joins(int operand) const { return row_stride(operand) == column_stride(operand) * columns().size; }
  bool some_rows_have_gaps() const {
    for (int i = 0; i < loop_.operands; ++i)
      if (column_stride(i) == 1 && row_stride(i) != 0 && !joins(i)) return true;
    return false;
  }
  const Axis& columns() const { return loop_.last(); }
  const Axis& rows() const { return loop_.axis[loop_.axes - 2]; }

  /// Gives a block its place: `index` is its position along all axes but the last two.
  void place(std::int64_t row, std::int64_t column, std::int64_t index, Block& block) const {
    block.column = column;
    block.first = row * columns().size + column;
    for (int i = 0; i < loop_.operands; ++i) block.offset[i] = row * row_stride(i) + column * column_stride(i);
    std::int64_t behind = rows().size * columns().size;
    for (int axis = loop_.axes - 3; axis >= 0; --axis) {
      const std::int64_t position = index % loop_.axis[axis].size;
      index /= loop_.axis[axis].size;
      block.first += position * behind;
      behind *= loop_.axis[axis].size;
      for (int i = 0; i < loop_.operands; ++i) block.offset[i] += position * loop_.axis[axis].stride[i];
    }
  }

  Loop loop_;
  Extent extent_{};
  std::int64_t column_blocks_ = 0, row_blocks_ = 0, count_ = 0;
};

using Operands = std::array<Operand, max_operands>;

/// An instruction with its kernel.
struct BoundInstruction {
  enum class Kind : std::uint8_t { unary, binary, ternary, convert };
  Kind kind;
  std::uint8_t result;
  bool half;  ///< whether one of the following types is a half type
  DType result_type;
  std::array<DType, 3> types;  ///< of the operands
  std::array<std::uint8_t, 3> operands;
  union {
    UnaryRow unary;
    BinaryRow binary;
    TernaryRow ternary;
    void (*convert)(const void* x, void* y, std::int64_t n);
  };
  double number;

  void run(const Operands& values, std::int64_t n) const {
    const Operand &a = values[operands[0]], &b = values[operands[1]], &c = values[operands[2]];
    const Piece piece{{a.data, b.data, c.data}, {a.stride, b.stride, c.stride}, values[result].data, n};
    if (kind == Kind::convert) {
      convert(a.data, piece.y, computed(piece));
      repeat(piece, size_of(result_type));
    } else if (half) {
      through_float32(piece, {types.data(), 1 + static_cast<std::size_t>(kind)}, result_type,
                      [this](const Piece& part) { compute(part); });
    } else {
      compute(piece);
    }
  }

 private:
  /// Computes a piece without half types.
  void compute(const Piece& p) const {
    if (kind == Kind::binary) return binary(p.input[0], p.step[0], p.input[1], p.step[1], p.y, p.n, number);
    if (kind == Kind::ternary)
      return ternary(p.input[0], p.step[0], p.input[1], p.step[1], p.input[2], p.step[2], p.y, p.n);
    unary(p.input[0], p.y, computed(p), number);
    repeat(p, size_of(computed_in(result_type)));
  }
  /// The number of results to compute: 1 for an operand that is one repeated element. `repeat` then copies the result.
  static std::int64_t computed(const Piece& piece) { return piece.step[0] == 1 ? piece.n : 1; }
  static void repeat(const Piece& piece, std::size_t size) {
    if (computed(piece) < piece.n) movement_kernels().fill(size)(piece.y, piece.y + size, piece.n - 1);
  }
};

/// `types` are those of the program's operands.
BoundInstruction bound_to_kernel(const Program::Instruction& instruction,
                                 const std::array<DType, max_operands>& types) {
  BoundInstruction bound{};
  bound.operands = instruction.operands;
  bound.result = instruction.result;
  bound.result_type = instruction.dtype;
  bound.number = instruction.number;
  bound.half = is_half(instruction.dtype);
  for (int i = 0; i < operands_of(instruction.function); ++i) {
    bound.types[i] = types[instruction.operands[i]];
    bound.half = bound.half || is_half(bound.types[i]);
  }
  const auto type = static_cast<std::size_t>(computed_in(bound.types[0])),
             result = static_cast<std::size_t>(computed_in(instruction.dtype));
  if (const Unary* f = std::get_if<Unary>(&instruction.function)) {
    bound.kind = BoundInstruction::Kind::unary;
    bound.unary = unary_kernels().rows[static_cast<std::size_t>(*f)][type];
  } else if (const Binary* g = std::get_if<Binary>(&instruction.function)) {
    bound.kind = BoundInstruction::Kind::binary;
    bound.binary = binary_kernels().rows[static_cast<std::size_t>(*g)][type];
  } else if (const Ternary* h = std::get_if<Ternary>(&instruction.function)) {
    bound.kind = BoundInstruction::Kind::ternary;
    bound.ternary = ternary_kernels().rows[static_cast<std::size_t>(*h)][result];
  } else {
    bound.kind = BoundInstruction::Kind::convert;
    bound.convert =
        movement_kernels().cast[static_cast<std::size_t>(bound.types[0])][static_cast<std::size_t>(instruction.dtype)];
  }
  return bound;
}

/// A program with its tensors. It runs the program's code if it could be compiled, else the kernels of the single ops.
class Machine {
 public:
  /// `apart`: the output that goes to the memory of a workspace; -1 for none.
  Machine(const Program& program, std::span<const Tensor> inputs, std::span<const Tensor> outputs, int apart = -1)
      : Machine(program, inputs, outputs, apart, outputs[0].size() >= smallest_compiled && may_be_compiled()) {}

  void run() const {
    // Several instructions are worth another thread for fewer elements than one addition is.
    const std::int64_t elements = std::max<std::int64_t>(task_elements / static_cast<std::int64_t>(count_), 2048);
    const std::int64_t grain = std::max({elements / grid_.elements(), grid_.count() / most_tasks, std::int64_t{1}});
    parallel_for(grid_.count(), grain, [&](std::int64_t begin, std::int64_t end) { run_blocks(begin, end); });
  }

  void run(const Tile& tile) const {
    const std::int64_t width = outputs_[0].shape().sizes().back();
    if (tile.rows * tile.columns == outputs_[0].size()) return run();  // no other thread works on it
    Workspace workspace(*this);
    grid_.for_each_block(tile, width, [&](const Grid::Block& block) {
      if (tile.columns != width) workspace.gathered_rows = 0;  // other columns of inputs that are the same everywhere
      run_block(block, workspace);
    });
    if (stream_) finish_streaming();
  }

  std::int64_t run(const Stripe& stripe, std::byte* to, std::int64_t to_stride, bool only_sum) const {
    if (only_sum) return may_add_up(stripe) ? add_up(stripe, to) : 0;
    Workspace workspace(*this);
    const std::int64_t size = element_size(outputs_[static_cast<std::size_t>(apart_)]);
    const bool has_gaps = stripe.stride != stripe.columns || to_stride != stripe.columns;
    const std::int64_t rows = has_gaps ? stripe.rows : 1, columns = stripe.rows / rows * stripe.columns;
    bool was_whole = true;
    for (std::int64_t row = 0; row < rows; ++row) {
      workspace.apart = to + row * to_stride * size;
      workspace.apart_first = stripe.first + row * stripe.stride;
      grid_.for_each_block(workspace.apart_first, columns, [&](const Grid::Block& block, bool is_whole) {
        if (!is_whole || !was_whole) workspace.gathered_rows = 0;  // parts of rows differ in inputs that are the same
        was_whole = is_whole;
        run_block(block, workspace);
      });
    }
    if (stream_) finish_streaming();
    return stripe.rows * stripe.columns;
  }

 private:
  Machine(const Program& program, std::span<const Tensor> inputs, std::span<const Tensor> outputs, int apart,
          bool try_code)
      : inputs_(inputs),
        outputs_(outputs),
        have_gaps_(!are_contiguous(outputs)),
        apart_(apart),
        count_(program.instructions.size()),
        operands_(program.operands()),
        element_bytes_(largest_element(program, inputs)),
        block_elements_(try_code ? compiled_block() : interpreted_block()),
        grid_(inputs, outputs, block_elements_) {
    const auto bytes = static_cast<std::int64_t>(detail::nbytes(outputs[0]));
    stream_ = bytes >= streaming_bytes && (apart < 0 || outputs.size() > 1) && !have_gaps_;
    if (try_code) {
      code_ = compiled(program, inputs, single(), apart);
      if (code_) return;
      block_elements_ = interpreted_block();
      grid_ = Grid(inputs, outputs, block_elements_);
    }
    far_ = bytes >= far_bytes;
    std::array<DType, max_operands> types{};
    for (std::size_t i = 0; i < inputs.size(); ++i) types[i] = inputs[i].dtype();
    for (std::size_t i = 0; i < count_; ++i) {
      const Program::Instruction& each = program.instructions[i];
      instructions_[i] = bound_to_kernel(each, types);
      types[each.result] = each.dtype;
    }
  }

  std::int64_t compiled_block() const {
    const auto copied = static_cast<std::int64_t>(inputs_.size() + (have_gaps_ ? outputs_.size() : 0));
    return std::min(room_bytes / (copied * element_bytes_) / smallest_block * smallest_block, largest_compiled_block);
  }
  /// The elements of a block whose instructions run one after another, with memory for all operands.
  std::int64_t interpreted_block() const {
    return std::clamp(cache_bytes / (operands_ * element_bytes_) / smallest_block * smallest_block, smallest_block,
                      largest_block);
  }

  /// Bit i says that input i is one element, which is repeated throughout a block.
  std::uint64_t single() const {
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const int operand = static_cast<int>(i);
      if (grid_.is_in_place(operand) && grid_.column_stride(operand) == 0) bits |= std::uint64_t{1} << i;
    }
    return bits;
  }

  static std::int64_t largest_element(const Program& program, std::span<const Tensor> inputs) {
    std::size_t largest = 1;
    for (const Tensor& input : inputs) largest = std::max(largest, size_of(input.dtype()));
    for (const Program::Instruction& each : program.instructions) largest = std::max(largest, size_of(each.dtype));
    return static_cast<std::int64_t>(largest);
  }

  /// The memory for the blocks of one thread's task.
  struct Workspace {
    explicit Workspace(const Machine& machine) {
      const std::int64_t stride = machine.block_elements_ * machine.element_bytes_;
      std::int64_t used = 0;
      for (int i = 0; i < machine.operands_; ++i) {
        operands[i] = {nullptr, 1};
        if (machine.needs_buffer(i)) operands[i].data = room + stride * used++;
      }
    }
    Workspace(const Workspace&) = delete;
    Workspace& operator=(const Workspace&) = delete;

    static_assert(cache_bytes <= room_bytes && Program::max_operands * smallest_block * 8 <= room_bytes);
    alignas(64) std::byte room[room_bytes];
    Operands operands;
    std::int64_t gathered_rows = 0;  ///< of the inputs that are the same everywhere
    std::byte* apart = nullptr;      ///< where the output that goes apart is stored, from the element `apart_first` on
    std::int64_t apart_first = 0;
  };

  /// Whether the elements of rows can be added to lanes while they are in registers.
  bool may_add_up(const Stripe& stripe) const {
    return code_ && code_->sum && !stream_ && stripe.columns % lane_count() == 0 && stripe.stride % lane_count() == 0 &&
           grid_.has_blocks_of(lane_count(), stripe.first);
  }
  std::int64_t lane_count() const { return row_lane_bytes / element_size(outputs_[static_cast<std::size_t>(apart_)]); }

  /// Adds up the elements of each row, and returns the number of a row's lanes.
  std::int64_t add_up(const Stripe& stripe, std::byte* lanes) const {
    Workspace workspace(*this);
    for (std::int64_t row = 0; row < stripe.rows; ++row, lanes += row_lane_bytes) {
      clear(lanes);
      grid_.for_each_block(stripe.first + row * stripe.stride, stripe.columns, [&](const Grid::Block& block, bool) {
        workspace.gathered_rows = 0;
        find_inputs(block, 0, workspace.operands);
        workspace.apart = lanes;  // for every block
        workspace.apart_first = block.first;
        find_outputs(block, workspace);
        code_->sum(workspace.operands.data(), block.size.rows * block.size.columns);
      });
    }
    return lane_count();
  }
  /// The kernels begin with the first elements. These plus -0 are the same bits, which they are not with 0.
  void clear(std::byte* lanes) const {
    detail::visit_dtype(outputs_[static_cast<std::size_t>(apart_)].dtype(), [&]<class T>() {
      if constexpr (std::is_floating_point_v<T>) std::fill_n(reinterpret_cast<T*>(lanes), lane_count(), T(-0.0));
    });
  }

  void run_blocks(std::int64_t begin, std::int64_t end) const {
    Workspace workspace(*this);
    Grid::Block block;
    grid_.find(begin, block);
    run_block(block, workspace);
    for (std::int64_t index = begin + 1; index < end; ++index) {
      grid_.advance(index, block);
      run_block(block, workspace);
    }
    if (stream_) finish_streaming();
  }

  void run_block(const Grid::Block& block, Workspace& workspace) const {
    const std::int64_t n = block.size.rows * block.size.columns;
    find_inputs(block, workspace.gathered_rows, workspace.operands);
    workspace.gathered_rows = std::max(workspace.gathered_rows, block.size.rows);
    find_outputs(block, workspace);
    if (code_) {
      run_code(n, workspace.operands);
    } else {
      if (far_) fetch_behind(n, workspace.operands);
      for (std::size_t i = 0; i < count_; ++i) instructions_[i].run(workspace.operands, n);
    }
    if (have_gaps_) spread_outputs(block, workspace.operands);
    if (stream_ && !code_) stream_outputs(block, n, workspace.operands);
  }

  void run_code(std::int64_t n, const Operands& operands) const {
    const auto* const outputs = operands.data() + inputs_.size();
    const bool stream = stream_ && std::all_of(outputs, outputs + outputs_.size(), [](const Operand& operand) {
                          return reinterpret_cast<std::uintptr_t>(operand.data) % line_bytes == 0;
                        });
    code_->run(stream ? code_->stream : code_->store, operands.data(), n);
  }

  /// Prefetches the inputs' elements behind those of the block. Most of them belong to the next block.
  void fetch_behind(std::int64_t n, const Operands& operands) const {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (operands[i].stride == 0 || needs_buffer(static_cast<int>(i))) continue;
      const std::int64_t bytes = n * static_cast<std::int64_t>(size_of(inputs_[i].dtype()));
      for (std::int64_t ahead = 0; ahead < bytes; ahead += line_bytes)
        __builtin_prefetch(operands[i].data + bytes + ahead);
    }
  }

  bool needs_buffer(int operand) const {
    const int inputs = static_cast<int>(inputs_.size()), outputs = static_cast<int>(outputs_.size());
    if (operand < inputs + outputs && !grid_.is_in_place(operand)) return true;
    if (operand < inputs || code_ || operand == inputs + apart_) return false;
    return stream_ || operand >= inputs + outputs;
  }

  /// `gathered` is the number of rows that have been gathered of the inputs that are the same everywhere.
  void find_inputs(const Grid::Block& block, std::int64_t gathered, Operands& operands) const {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const detail::TensorImpl& input = inputs_[i].impl();
      const int operand = static_cast<int>(i);
      const std::size_t size = size_of(input.dtype);
      auto* const first = static_cast<std::byte*>(input.data) + block.offset[i] * static_cast<std::int64_t>(size);
      if (grid_.is_in_place(operand)) {
        operands[i] = {first, grid_.column_stride(operand)};
      } else if (block.size.rows > gathered || !grid_.is_same_everywhere(operand)) {
        gather(first, operand, size, block.size, operands[i].data);
      }
    }
  }

  /// Copies an input's elements of a block to `to`, without gaps.
  void gather(const std::byte* first, int operand, std::size_t size, Grid::Extent extent, std::byte* to) const {
    const std::int64_t row = grid_.row_stride(operand), column = grid_.column_stride(operand);
    const std::int64_t rows = row == 0 ? 1 : extent.rows;
    movement_kernels().move(size)(first, row, column, to, extent.columns, 1, rows, extent.columns);
    // A repeated row has been copied once. What is there is doubled until the block is full.
    const std::int64_t bytes = extent.rows * extent.columns * static_cast<std::int64_t>(size);
    for (std::int64_t done = rows * extent.columns * static_cast<std::int64_t>(size); done < bytes; done *= 2)
      std::memcpy(to + done, to, static_cast<std::size_t>(std::min(done, bytes - done)));
  }

  void find_outputs(const Grid::Block& block, Workspace& workspace) const {
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const std::size_t operand = inputs_.size() + i;
      if (static_cast<int>(i) == apart_) {
        workspace.operands[operand].data =
            workspace.apart + (block.first - workspace.apart_first) * element_size(outputs_[i]);
      } else if (!needs_buffer(static_cast<int>(operand))) {
        workspace.operands[operand].data = address(outputs_[i], block.offset[operand]);
      }
    }
  }
  /// Copies the outputs' elements of a block that have been computed without gaps.
  void spread_outputs(const Grid::Block& block, const Operands& operands) const {
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const std::size_t place = inputs_.size() + i;
      const int operand = static_cast<int>(place);
      if (grid_.is_in_place(operand)) continue;
      movement_kernels().move(size_of(outputs_[i].dtype()))(
          operands[place].data, block.size.columns, 1, address(outputs_[i], block.offset[place]),
          grid_.row_stride(operand), grid_.column_stride(operand), block.size.rows, block.size.columns);
    }
  }
  void stream_outputs(const Grid::Block& block, std::int64_t n, const Operands& operands) const {
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      if (static_cast<int>(i) != apart_)
        movement_kernels().stream(operands[inputs_.size() + i].data, address(outputs_[i], block.first),
                                  n * element_size(outputs_[i]));
  }
  static std::int64_t element_size(const Tensor& tensor) {
    return static_cast<std::int64_t>(size_of(tensor.impl().dtype));
  }
  static std::byte* address(const Tensor& output, std::int64_t element) {
    const detail::TensorImpl& impl = output.impl();
    return static_cast<std::byte*>(impl.data) + element * element_size(output);
  }

  std::span<const Tensor> inputs_, outputs_;
  bool have_gaps_;  ///< some outputs
  int apart_;
  std::size_t count_;
  int operands_;
  std::int64_t element_bytes_, block_elements_;
  Grid grid_;
  bool far_ = false, stream_ = false;
  std::shared_ptr<const CompiledProgram> code_;
  std::array<BoundInstruction, max_instructions> instructions_;
};

/// Whether the elements of an input are those of the outputs, in their order, or one that is repeated.
bool is_in_order(const Tensor& input, std::int64_t count) {
  const std::int64_t size = input.size();
  return size == 1 || (size == count && input.is_contiguous());
}

/// Runs a program on tensors of up to `smallest_block` elements, without dividing them into blocks. A loop of a graph
/// over numbers does little else, and so does a network that computes a single example.
void run_at_once(const Program& program, std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                 std::int64_t count) {
  constexpr std::int64_t largest = 8;
  alignas(64) std::array<std::byte, largest * smallest_block * Program::max_operands> room;
  std::array<DType, max_operands> types;
  Operands operands;
  std::size_t next = 0;
  for (const std::span<const Tensor> tensors : {inputs, outputs})
    for (const Tensor& each : tensors) {
      types[next] = each.dtype();
      operands[next++] = {static_cast<std::byte*>(each.impl().data), each.size() == count ? 1 : 0};
    }
  std::byte* free = room.data();
  for (; next < static_cast<std::size_t>(program.operands()); ++next, free += largest * count)
    operands[next] = {free, 1};
  for (const Program::Instruction& each : program.instructions) {
    bound_to_kernel(each, types).run(operands, count);
    types[each.result] = each.dtype;
  }
}

}  // namespace

void in_tiles(const Program& program, std::span<const Tensor> inputs, std::span<const Tensor> outputs,
              FunctionRef<void(RunTile)> use) {
  const Machine machine(program, inputs, outputs);
  use([&](const Tile& tile) { machine.run(tile); });
}

void in_stripes(const Program& program, std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                std::size_t apart, FunctionRef<void(RunStripe)> use) {
  const Machine machine(program, inputs, outputs, static_cast<int>(apart));
  use([&](const Stripe& stripe, std::byte* to, std::int64_t to_stride, bool only_sum) {
    return machine.run(stripe, to, to_stride, only_sum);
  });
}

void CpuBackend::program(const Program& program, std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  const std::int64_t count = outputs[0].size();
  if (count == 0) return;
  const bool at_once =
      count <= smallest_block && are_contiguous(outputs) &&
      std::all_of(inputs.begin(), inputs.end(), [&](const Tensor& each) { return is_in_order(each, count); });
  at_once ? run_at_once(program, inputs, outputs, count) : Machine(program, inputs, outputs).run();
}

}  // namespace tapestry::host
