#include "backend/cuda/program_pieces.hpp"

#include "backend/cuda/loop.hpp"

namespace tapestry::gpu {
namespace {

/// The most bytes that a thread has of one array at once, and of all arrays together, so that they stay in registers.
constexpr std::int64_t vector_bytes = 16, thread_bytes = 256;

using ProgramLoop = Loop<Program::max_operands>;

/// Whether an array's i-th element in memory is the loop's i-th element.
bool is_flat(const ProgramLoop& loop, int operand) {
  std::int64_t behind = 1;
  for (int i = loop.axes; i-- > 0; behind *= loop.axis[i].size)
    if (loop.axis[i].stride[operand] != behind) return false;
  return true;
}
bool is_one(const ProgramLoop& loop, int operand) {
  for (int i = 0; i < loop.axes; ++i)
    if (loop.axis[i].stride[operand] != 0) return false;
  return true;
}
bool is_flat_or_one(const ProgramLoop& loop) {
  for (int k = 0; k < loop.operands; ++k)
    if (!is_flat(loop, k) && !is_one(loop, k)) return false;
  return true;
}

/// Whether all vectors of `width` neighbours along the last axis are aligned, for all indices of the other axes.
bool has_vectors(const ProgramLoop& loop, int operand, std::int64_t width) {
  const auto address = reinterpret_cast<std::uintptr_t>(loop.data[operand]);
  if (address % (width * loop.bytes[operand]) != 0) return false;
  for (int i = 0; i + 1 < loop.axes; ++i)
    if (loop.axis[i].stride[operand] % width != 0) return false;
  return true;
}

/// How many elements a thread computes at once: as many as a vector of the largest type holds, halved until all arrays
/// together fit in `thread_bytes`. It is 1 if there are fewer elements, if a flat array is not aligned to vectors of
/// them, or if an array is neither flat nor scalar and the last axis is no multiple of them.
std::int64_t width_of(const ProgramLoop& loop) {
  std::int64_t largest = 1, sum = 0;
  for (int k = 0; k < loop.operands; ++k) {
    largest = std::max(largest, loop.bytes[k]);
    sum += loop.bytes[k];
  }
  std::int64_t width = vector_bytes / largest;
  while (width > 1 && width * sum > thread_bytes) width /= 2;
  if (loop.elements() < width) return 1;
  for (int k = 0; k < loop.operands; ++k) {
    if (is_one(loop, k)) continue;
    if (is_flat(loop, k) ? !has_vectors(loop, k, width) : loop.last().size % width != 0) return 1;
  }
  return width;
}

Access access_of(const ProgramLoop& loop, int operand, std::int64_t width, bool is_input) {
  // A single element is both: an input is then scalar, and an output flat.
  if (is_input && is_one(loop, operand)) return Access::scalar;
  if (is_flat(loop, operand)) return Access::flat;
  const std::int64_t stride = loop.last().stride[operand];
  if (stride == 0 || width == 1) return Access::column;
  return stride == 1 && has_vectors(loop, operand, width) ? Access::row : Access::strided;
}

ProgramPiece piece_of(const ProgramLoop& loop, int inputs) {
  ProgramPiece piece;
  piece.n = loop.elements();
  const std::int64_t width = width_of(loop);
  piece.form.width = static_cast<int>(width);
  for (int k = 0; k < loop.operands; ++k) {
    piece.data[k] = loop.data[k];
    piece.form.access[k] = access_of(loop, k, width, k < inputs);
  }
  const auto is_in_layout = [&](int k) { return is_located(piece.form.access[k]); };
  if (!is_flat_or_one(loop)) write_layout(loop, piece.layout, is_in_layout);
  return piece;
}

}  // namespace

void for_each_piece(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                    const std::function<void(const ProgramPiece&)>& body) {
  if (outputs[0].size() == 0) return;
  SmallVector<View, Program::max_operands> views;
  for (const Tensor& input : inputs) views.push_back(View(input));
  for (const Tensor& output : outputs) views.push_back(View(output));
  const int leader = static_cast<int>(inputs.size());
  ProgramLoop({views.data(), views.size()}, leader)
      .for_each_piece([](const ProgramLoop& loop) { return is_flat_or_one(loop) || loop.is_indexable(); },
                      [&](const ProgramLoop& loop) { body(piece_of(loop, leader)); });
}

}  // namespace tapestry::gpu
