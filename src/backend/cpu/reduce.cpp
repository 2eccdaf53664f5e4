#include "backend/cpu/kernels/reduce.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include "backend/cpu/cpu_backend.hpp"
#include "backend/cpu/row_reduction.hpp"
#include "backend/cpu/threads.hpp"
#include "backend/cpu/tiles.hpp"
#include "backend/program.hpp"
#include "backend/strided_loop.hpp"
#include "core/make_tensor.hpp"

namespace tapestry::host {
namespace {

const ReduceTable& kernels() {
  static const ReduceTable& table = TAPESTRY_PICK_LEVEL(reduce_table);
  return table;
}

/// The fewest elements that one task reads; they take some ten microseconds.
constexpr std::int64_t task_elements = 32768;
/// Longer axes are reduced in chunks of this many elements (along memory) or rows (across it), and a further pass
/// reduces the results of the chunks. The bits of the result depend on these numbers.
constexpr std::int64_t row_chunk = 32768, column_chunk = 256;

struct Loop {
  std::int64_t size, x, y;  ///< number of elements, and the strides in the input and in the result
  bool reduced;
};
using LoopNest = SmallVector<Loop, Shape::max_rank + 2>;

/// The loops over x, as few as possible, the one with the smallest stride last. Reduced axes of negative stride are
/// reversed, and `first` moves to where they begin in memory.
LoopNest plan(const Tensor& x, std::uint32_t reduced, std::int64_t& first) {
  Strides result{};  // 0 along the reduced axes
  std::int64_t next = 1;
  for (int i = x.rank() - 1; i >= 0; --i) {
    if ((reduced >> i & 1) != 0) continue;
    result[i] = next;
    next *= x.shape().sizes()[i];
  }
  StridedLoop<2> loop(x.shape());
  loop.add(x);
  loop.add(x.shape(), result);
  for (int i = 0; i < loop.axes; ++i) {
    auto& [size, stride] = loop.axis[i];
    if (stride[0] >= 0 || stride[1] != 0) continue;
    first += (size - 1) * stride[0];
    stride[0] = -stride[0];
  }
  // An axis of stride 0 counts as the farthest one: reducing it across memory reads the same row again and again.
  loop.sort_axes([](const auto& axis) {
    return axis.stride[0] == 0 ? std::numeric_limits<std::int64_t>::max() : std::abs(axis.stride[0]);
  });
  loop.join_axes();
  LoopNest loops;
  for (int i = 0; i < loop.axes; ++i) {
    const auto& [size, stride] = loop.axis[i];
    loops.push_back({size, stride[0], stride[1], stride[1] == 0});
  }
  return loops;
}

/// Visits the positions of some axes in row-major order.
class Position {
 public:
  Position(const LoopNest& loops, std::int64_t start) : loops_(loops) {
    index_.resize(loops.size());
    for (std::size_t i = loops.size(); i-- > 0; start /= loops[i].size) move(i, start % loops[i].size);
  }
  std::int64_t x() const { return x_; }
  std::int64_t y() const { return y_; }
  std::int64_t index(std::size_t loop) const { return index_[loop]; }
  /// Advances by `count` positions, at most to the end of the last axis.
  void advance(std::int64_t count) {
    std::size_t i = loops_.size() - 1;
    for (move(i, count); i > 0 && index_[i] == loops_[i].size; --i) {
      move(i, -loops_[i].size);
      move(i - 1, 1);
    }
  }

 private:
  void move(std::size_t loop, std::int64_t count) {
    index_[loop] += count;
    x_ += count * loops_[loop].x;
    y_ += count * loops_[loop].y;
  }
  const LoopNest& loops_;
  Ints index_;
  std::int64_t x_ = 0, y_ = 0;
};

std::int64_t positions(const LoopNest& loops) {
  std::int64_t count = 1;
  for (const Loop& loop : loops) count *= loop.size;
  return count;
}

std::int64_t chunk_count(std::int64_t size, std::int64_t chunk) { return (size + chunk - 1) / chunk; }

/// What a pass reduces, and what it leaves.
struct PassPlan {
  Loop loop;           ///< the loop to reduce
  std::int64_t chunk;  ///< the number of its elements in a chunk
  bool along;          ///< whether it is the innermost in memory
  LoopNest left;       ///< the other loops, and the loop over the chunks if there are several
};

PassPlan next_pass(const LoopNest& loops) {
  // The innermost axis comes first if it is reduced; otherwise the longest one, which leaves the least for the next
  // pass.
  const Loop& inner = loops.back();
  const auto shorter = [](const Loop& a, const Loop& b) { return a.size * a.reduced < b.size * b.reduced; };
  const Loop* chosen = inner.reduced ? &inner : std::max_element(loops.begin(), loops.end(), shorter);
  PassPlan pass{*chosen, row_chunk, inner.reduced, loops};
  if (!pass.along) {
    // Narrow rows without gaps are added up several at a time (see the kernel), so a chunk may hold more of them.
    const bool narrow = inner.x == 1 && chosen->x == inner.size && inner.size < narrow_columns;
    pass.chunk = column_chunk * (narrow ? narrow_columns / inner.size : 1);
  }
  pass.left.erase(pass.left.begin() + (chosen - loops.begin()));
  const std::int64_t chunks = chunk_count(chosen->size, pass.chunk);
  if (chunks > 1) pass.left.insert(pass.left.end() - (pass.along ? 0 : 1), {chunks, chosen->x * pass.chunk, 0, true});
  return pass;
}

/// Reduces one axis of x, or of what a program computes, which has x's shape.
class Pass {
 public:
  Pass(const Reducer& kernel, const Tensor& x, std::int64_t first, const Tensor& y, std::int64_t divisor,
       const RunStripe* program, bool sums)
      : kernel_(kernel),
        program_(program),
        sums_(sums),
        x_bytes_(static_cast<std::int64_t>(size_of(x.dtype()))),
        y_bytes_(static_cast<std::int64_t>(size_of(y.dtype()))),
        x_(static_cast<const std::byte*>(x.impl().data) + first * x_bytes_),
        y_(static_cast<std::byte*>(y.impl().data)),
        divisor_(divisor) {}

  /// `loops` is pass.left with the strides of the pass's output.
  void run(const PassPlan& pass, LoopNest loops) const {
    const bool chunked = pass.loop.size > pass.chunk;
    if (pass.along) {
      if (loops.empty()) loops.push_back({1, 0, 0, false});
      rows(pass.loop, pass.chunk, loops);
    } else {
      const Loop inner = loops.back();
      loops.pop_back();
      if (!chunked) loops.push_back({1, 0, 0, false});
      loops.push_back({chunk_count(inner.size, column_limit), inner.x * column_limit, inner.y * column_limit, false});
      columns(pass.loop, pass.chunk, inner, loops);
    }
  }

 private:
  void rows(const Loop& loop, std::int64_t chunk, const LoopNest& loops) const {
    const std::size_t last = loops.size() - 1;  // if there are chunks, the loop over them
    const std::int64_t length = std::min(loop.size, chunk);
    const std::int64_t grain = std::max<std::int64_t>(1, task_elements / length);
    parallel_for(positions(loops), grain, [&](std::int64_t i, std::int64_t end) {
      const Tensor room = make_room();
      for (Position position(loops, i); i < end;) {
        std::int64_t run = std::min(loops[last].size - position.index(last), end - i), n = length;
        if (loop.size > chunk) {
          run = 1;
          n = std::min(chunk, loop.size - position.index(last) * chunk);
        }
        std::byte* const y = y_ + position.y() * y_bytes_;
        if (program_) {
          run = n > row_block ? 1 : std::min(run, room_elements / n);
          computed_rows(position.x(), n, run, detail::mutable_data<std::byte>(room), y, loops[last].y);
        } else {
          kernel_.rows(x_ + position.x() * x_bytes_, n, loop.x, run, loops[last].x, y, loops[last].y, divisor_,
                       nullptr);
        }
        position.advance(run);
        i += run;
      }
    });
  }

  /// Computes and reduces rows without gaps between them: one by blocks, or several that are not longer than a block.
  void computed_rows(std::int64_t first, std::int64_t n, std::int64_t rows, std::byte* room, std::byte* y,
                     std::int64_t y_step) const {
    if (n > row_block) return computed_row(first, n, room, y);
    const std::int64_t lanes = n >= shortest_added_up ? added_up({first, rows, n, n}, room) : 0;
    if (lanes > 0) return kernel_.rows(room, lanes, 1, rows, lanes, y, y_step, divisor_, nullptr);
    const std::int64_t most = row_block / n;  // which are in the first-level cache when they are reduced
    for (std::int64_t done = 0; done < rows; done += most) {
      const std::int64_t count = std::min(most, rows - done);
      (*program_)({first + done * n, 1, 0, count * n}, room, 0, false);
      kernel_.rows(room, n, 1, count, n, y + done * y_step * y_bytes_, y_step, divisor_, nullptr);
    }
  }
  void computed_row(std::int64_t first, std::int64_t n, std::byte* room, std::byte* y) const {
    // What surrounds the sum of a row drives memory that it needs out of the first-level cache, so it is done once for
    // all blocks.
    const std::int64_t lanes = added_up({first, n / row_block, row_block, row_block}, room);
    const auto compute = [&](std::int64_t from, std::int64_t& count) -> const void* {
      const bool is_whole = count == row_block;
      const std::int64_t sums = is_whole ? lanes : added_up({first + from, 1, 0, count}, room);
      count = sums > 0 ? sums : (*program_)({first + from, 1, 0, count}, room, 0, false);
      return is_whole && sums > 0 ? room + from / row_block * row_lane_bytes : room;
    };
    const ComputedRow row{[](const void* state, std::int64_t from, std::int64_t& count) {
                            return (*static_cast<const decltype(compute)*>(state))(from, count);
                          },
                          &compute};
    kernel_.rows(nullptr, n, 1, 1, n, y, 0, divisor_, &row);
  }
  /// If the reduction is a sum, adds up the elements of each row of a stripe in lanes, which `room` holds then, and
  /// returns the number of a row's lanes. Otherwise it does nothing and returns 0.
  std::int64_t added_up(const Stripe& stripe, std::byte* room) const {
    return sums_ ? (*program_)(stripe, room, 0, true) : 0;
  }

  /// The last two of `loops` go over the chunks and over the tiles that `inner` is cut into.
  void columns(const Loop& loop, std::int64_t chunk, const Loop& inner, const LoopNest& loops) const {
    const std::size_t last = loops.size() - 1;
    const std::int64_t unit = std::min(loop.size, chunk) * std::min(inner.size, column_limit);
    const std::int64_t grain = std::max<std::int64_t>(1, task_elements / unit);
    parallel_for(positions(loops), grain, [&](std::int64_t i, std::int64_t end) {
      const Tensor room = make_room();
      for (Position position(loops, i); i < end; ++i, position.advance(1)) {
        const std::int64_t n = std::min(chunk, loop.size - position.index(last - 1) * chunk);
        const std::int64_t width = std::min(column_limit, inner.size - position.index(last) * column_limit);
        std::byte* const y = y_ + position.y() * y_bytes_;
        if (program_) {
          computed_columns({position.x(), n, loop.x, width}, inner, room, y);
        } else {
          kernel_.columns(x_ + position.x() * x_bytes_, n, loop.x, width, inner.x, y, inner.y, divisor_, {});
        }
      }
    });
  }

  /// Computes and reduces as many rows at a time as the first-level cache has room for. Where rows have no gaps between
  /// them, they get none, for the kernel adds up narrow ones in another order than others; there is room for all of
  /// these.
  void computed_columns(const Stripe& tile, const Loop& inner, const Tensor& room, std::byte* y) const {
    const bool narrow = tile.columns < narrow_columns;
    const std::int64_t stride = narrow && tile.stride != tile.columns ? narrow_columns : tile.columns;
    const std::int64_t most = narrow ? tile.rows : std::max<std::int64_t>(row_block / stride / 4 * 4, 4);
    auto* const x = detail::mutable_data<std::byte>(room);
    for (std::int64_t done = 0; done < tile.rows; done += most) {
      const std::int64_t rows = std::min(most, tile.rows - done);
      (*program_)({tile.first + done * tile.stride, rows, tile.stride, tile.columns}, x, stride, false);
      kernel_.columns(x, rows, stride, tile.columns, 1, y, inner.y, divisor_,
                      {x + room_elements * x_bytes_, done == 0, done + rows == tile.rows});
    }
  }

  /// The most elements that a program computes at a time: all that `rows` reads, and all narrow rows of a chunk. Behind
  /// them is room for the running results of columns.
  static constexpr std::int64_t room_elements = row_chunk;
  /// The fewest elements of a row that are worth lanes of their own.
  static constexpr std::int64_t shortest_added_up = 1024;
  static_assert(room_elements >= task_elements && room_elements >= column_chunk * narrow_columns);
  Tensor make_room() const {
    return program_ ? detail::make_tensor(uint8, {(room_elements + column_limit) * x_bytes_}, cpu()) : Tensor();
  }

  const Reducer& kernel_;
  const RunStripe* program_;
  bool sums_;                       ///< whether it is a sum or a mean
  std::int64_t x_bytes_, y_bytes_;  ///< of an element
  const std::byte* x_;
  std::byte* y_;
  std::int64_t divisor_;
};

ReduceTypes plain_type(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return ReduceTypes::boolean;
    case DType::uint8:
      return ReduceTypes::u8;
    case DType::int32:
      return ReduceTypes::i32;
    case DType::int64:
      return ReduceTypes::i64;
    case DType::float32:
      return ReduceTypes::f32;
    default:
      return ReduceTypes::f64;
  }
}

const Reducer& reducer_of(ReduceFunction f, DType from, DType to) {
  const ReduceTable& table = kernels();
  const ReduceTypes types = from == to               ? plain_type(from)
                            : from == DType::float32 ? ReduceTypes::f32_to_f64
                                                     : ReduceTypes::f64_to_f32;
  const auto i = static_cast<std::size_t>(types);
  switch (f) {
    case ReduceFunction::sum:
    case ReduceFunction::mean:
      return table.sum[i];
    case ReduceFunction::prod:
      return table.prod[i];
    case ReduceFunction::max:
    case ReduceFunction::any_true:
      return table.max[i];
    default:
      return table.min[i];
  }
}

/// Whether partial results are kept as doubles.
bool is_float32_sum(ReduceFunction f, DType dtype) {
  return dtype == DType::float32 &&
         (f == ReduceFunction::sum || f == ReduceFunction::mean || f == ReduceFunction::prod);
}

/// A contiguous tensor as lines along one axis.
struct Lines {
  std::int64_t outer, length, inner;
};

Lines lines_along(const Shape& shape, int axis) {
  Lines lines{1, shape.sizes()[axis], 1};
  for (int i = 0; i < axis; ++i) lines.outer *= shape.sizes()[i];
  for (int i = axis + 1; i < shape.rank(); ++i) lines.inner *= shape.sizes()[i];
  return lines;
}

/// Calls body(outer, column, columns) for up to `column_limit` adjacent lines at a time.
template <class Body>
void for_tiles(const Lines& lines, const Body& body) {
  if (lines.outer * lines.length * lines.inner == 0) return;
  const std::int64_t tiles = chunk_count(lines.inner, column_limit);
  const std::int64_t tile_elements = lines.length * std::min(lines.inner, column_limit);
  const std::int64_t grain = std::max<std::int64_t>(1, task_elements / tile_elements);
  parallel_for(lines.outer * tiles, grain, [&](std::int64_t i, std::int64_t end) {
    for (; i < end; ++i) {
      const std::int64_t column = i % tiles * column_limit;
      body(i / tiles, column, std::min(column_limit, lines.inner - column));
    }
  });
}

bool is_small(const Tensor& x) { return x.size() <= task_elements; }

/// Reduces the last or the first axes of a small contiguous tensor by one call, which saves the planning. Returns false
/// for other tensors and axes.
bool reduce_at_once(ReduceFunction f, const Tensor& x, std::uint32_t reduced, const Tensor& y) {
  if (!x.is_contiguous() || !is_small(x)) return false;
  const int rank = x.rank();
  const std::int64_t columns = y.size(), n = x.size() / columns, divisor = f == ReduceFunction::mean ? n : 1;
  const auto all = static_cast<std::uint32_t>((1U << rank) - 1);
  const std::uint32_t kept = all & ~reduced;
  const Reducer& reducer = reducer_of(f, x.dtype(), y.dtype());
  if (columns == 1 || (kept & (kept + 1)) == 0) {
    reducer.rows(x.impl().data, n, 1, columns, n, y.impl().data, 1, divisor, nullptr);
    return true;
  }
  if ((reduced & (reduced + 1)) == 0 && n <= column_chunk && columns <= column_limit) {
    reducer.columns(x.impl().data, n, columns, columns, 1, y.impl().data, 1, divisor, {});
    return true;
  }
  return false;
}

/// `loops` are those over x, of which one at least is reduced, from the element `first` on. If there is a program, it
/// computes the elements of x, which has none.
void reduce_in_passes(ReduceFunction f, const Tensor& x, std::int64_t first, LoopNest loops, const Tensor& y,
                      const RunStripe* program) {
  const std::int64_t divisor = f == ReduceFunction::mean ? x.size() / y.size() : 1;
  const bool sums = f == ReduceFunction::sum || f == ReduceFunction::mean;
  const DType partial = is_float32_sum(f, x.dtype()) ? DType::float64 : x.dtype();
  for (Tensor from = x; from.id() != y.id();) {
    const PassPlan pass = next_pass(loops);
    // `packed` has the strides of this pass's input and output. `left` has those of the next pass's input.
    LoopNest left = pass.left, packed = pass.left;
    const bool last = std::none_of(left.begin(), left.end(), [](const Loop& loop) { return loop.reduced; });
    Tensor to = y;
    if (!last) {
      to = detail::make_tensor(partial, {positions(left)}, y.device());
      std::int64_t stride = 1;
      for (std::size_t i = left.size(); i-- > 0; stride *= left[i].size) left[i].x = packed[i].y = stride;
    }
    const Reducer& kernel = reducer_of(f, from.dtype(), to.dtype());
    Pass(kernel, from, first, to, last ? divisor : 1, program, sums).run(pass, packed);
    loops = left;
    from = to;
    first = 0;
    program = nullptr;
  }
}

}  // namespace

RowReduction row_reduction(ReduceFunction function, DType dtype) {
  using Rows = decltype(Reducer::rows);
  const auto row = [](const void* x, void* y, std::int64_t n, double kernel) {
    std::bit_cast<Rows>(kernel)(x, n, 1, 1, n, y, 1, 1, nullptr);
  };
  const auto mean = [](const void* x, void* y, std::int64_t n, double kernel) {
    std::bit_cast<Rows>(kernel)(x, n, 1, 1, n, y, 1, n, nullptr);
  };
  return {function == ReduceFunction::mean ? UnaryRow(mean) : UnaryRow(row),
          std::bit_cast<double>(reducer_of(function, dtype, dtype).rows)};
}

void CpuBackend::reduce(ReduceFunction f, const Tensor& x, std::uint32_t reduced, const Tensor& y) {
  if (is_half(x.dtype())) return Backend::reduce(f, x, reduced, y);
  if (y.size() == 0) return;
  if (x.size() == 0) {
    // The mean of no integers is their sum, 0, because integers have no NaN.
    const bool nan = f == ReduceFunction::mean && is_floating(x.dtype());
    reducer_of(f, x.dtype(), y.dtype()).rows(nullptr, 0, 1, y.size(), 0, y.impl().data, 1, nan ? 0 : 1, nullptr);
    return;
  }
  if (reduce_at_once(f, x, reduced, y)) return;
  std::int64_t first = 0;
  const LoopNest loops = plan(x, reduced, first);
  if (std::none_of(loops.begin(), loops.end(), [](const Loop& loop) { return loop.reduced; })) {
    std::array<std::int64_t, Shape::max_rank> strides{};
    std::size_t rank = 0;
    for (int i = 0; i < x.rank(); ++i)
      if ((reduced >> i & 1) == 0 || y.rank() == x.rank()) strides[rank++] = x.strides()[i];
    copy(detail::make_view(x, y.shape(), {strides.data(), rank}), y);
    return;
  }
  reduce_in_passes(f, x, first, loops, y, nullptr);
}

void CpuBackend::program_reduce(const Program& program, std::span<const Tensor> inputs, const Shape& shape,
                                const ReducedOutput& reduced, std::span<const Tensor> outputs) {
  const Tensor& y = outputs[reduced.output];
  ProgramInputs places(outputs.begin(), outputs.end());
  const Tensor x = places[reduced.output] = detail::make_symbolic(y.dtype(), shape);
  std::int64_t first = 0;
  const LoopNest loops = plan(x, reduced.axes, first);
  const bool is_reduced = std::any_of(loops.begin(), loops.end(), [](const Loop& loop) { return loop.reduced; });
  if (is_half(x.dtype()) || is_small(x) || !is_reduced)
    return Backend::program_reduce(program, inputs, shape, reduced, outputs);
  in_stripes(program, inputs, {places.data(), places.size()}, reduced.output,
             [&](RunStripe run) { reduce_in_passes(reduced.function, x, first, loops, y, &run); });
}

void CpuBackend::scan(Scan f, const Tensor& x, int axis, bool exclusive, bool reverse, const Tensor& y) {
  if (is_half(x.dtype())) return Backend::scan(f, x, axis, exclusive, reverse, y);
  const Tensor from = contiguous(x);
  const Lines lines = lines_along(x.shape(), axis);
  const auto type = static_cast<std::size_t>(plain_type(x.dtype()));
  const Scanner scanner = f == Scan::sum ? kernels().scan_sum[type] : kernels().scan_prod[type];
  const auto bytes = static_cast<std::int64_t>(size_of(x.dtype()));
  const std::int64_t start = reverse ? (lines.length - 1) * lines.inner : 0;
  for_tiles(lines, [&](std::int64_t outer, std::int64_t column, std::int64_t columns) {
    const std::int64_t place = (outer * lines.length * lines.inner + column + start) * bytes;
    scanner(static_cast<const std::byte*>(from.impl().data) + place, lines.length, reverse ? -lines.inner : lines.inner,
            columns, static_cast<std::byte*>(y.impl().data) + place, exclusive);
  });
}

void CpuBackend::arg_reduce(ArgReduce f, const Tensor& x, int axis, const Tensor& y) {
  if (is_half(x.dtype())) return Backend::arg_reduce(f, x, axis, y);
  const Tensor from = contiguous(x);
  const Lines lines = lines_along(x.shape(), axis);
  const auto type = static_cast<std::size_t>(plain_type(x.dtype()));
  const ArgReducer& reducer = f == ArgReduce::max ? kernels().arg_max[type] : kernels().arg_min[type];
  const auto bytes = static_cast<std::int64_t>(size_of(x.dtype()));
  for_tiles(lines, [&](std::int64_t outer, std::int64_t column, std::int64_t columns) {
    const auto* data =
        static_cast<const std::byte*>(from.impl().data) + (outer * lines.length * lines.inner + column) * bytes;
    std::int64_t found[column_limit];
    if (lines.inner == 1) {
      found[0] = reducer.row(data, lines.length);
    } else {
      reducer.columns(data, lines.length, lines.inner, columns, found);
    }
    const std::int64_t place = outer * lines.inner + column;
    if (y.dtype() == DType::int64) {
      std::copy_n(found, columns, detail::mutable_data<std::int64_t>(y) + place);
    } else {
      std::transform(found, found + columns, detail::mutable_data<std::int32_t>(y) + place,
                     [](std::int64_t i) { return static_cast<std::int32_t>(i); });
    }
  });
}

}  // namespace tapestry::host
