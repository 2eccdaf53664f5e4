#include "backend/cuda/pieces.hpp"

#include "backend/cuda/loop.hpp"

namespace tapestry::gpu {
namespace {

constexpr std::int64_t vector_bytes = 16;

using PieceLoop = Loop<max_operands>;

/// Whether y and all inputs are contiguous and aligned to vectors; an input may also be one element that is broadcast.
bool is_flat(const PieceLoop& loop) {
  if (loop.axes > 1) return false;
  const std::int64_t width = vector_bytes / *std::max_element(loop.bytes.begin(), loop.bytes.begin() + loop.operands);
  for (int k = 0; k < loop.operands; ++k) {
    const std::int64_t step = loop.axes == 0 ? (k == 0 ? 1 : 0) : loop.axis[0].stride[k];
    const auto address = reinterpret_cast<std::uintptr_t>(loop.data[k]);
    if (step == 0 && k > 0) continue;
    if (step != 1 || address % (width * loop.bytes[k]) != 0) return false;
  }
  return true;
}

Elements elements_of(const PieceLoop& loop) {
  Elements elements;
  elements.n = loop.elements();
  elements.flat = is_flat(loop);
  elements.y = loop.data[0];
  for (int k = 1; k < loop.operands; ++k) {
    elements.x[k - 1] = loop.data[k];
    elements.step[k - 1] = loop.axes > 0 && loop.axis[0].stride[k] != 0 ? 1 : 0;
  }
  if (!elements.flat) write_layout(loop, elements.layout, [](int) { return true; });
  return elements;
}

}  // namespace

View::View(const Tensor& tensor)
    : data(tensor.impl().data),
      element_bytes(size_of(tensor.dtype())),
      shape(tensor.shape()),
      stride(tensor.impl().strides) {}

void for_each_piece(const View& y, std::span<const View> inputs, const std::function<void(const Elements&)>& body) {
  if (y.shape.size() == 0) return;
  std::array<View, max_operands> views{y};
  std::copy(inputs.begin(), inputs.end(), views.begin() + 1);
  PieceLoop({views.data(), inputs.size() + 1}, 0)
      .for_each_piece([](const PieceLoop& loop) { return is_flat(loop) || loop.is_indexable(); },
                      [&](const PieceLoop& loop) { body(elements_of(loop)); });
}

std::optional<Transposition> transposition_of(const Elements& elements) {
  constexpr std::uint32_t smallest = 16;
  const Layout& all = elements.layout;
  const int columns = all.axes - 1;
  if (elements.flat || all.axes < 2 || all.stride[0][columns] != 1 || all.size[columns].divisor < smallest)
    return std::nullopt;
  int rows = 0;
  while (rows < columns && (all.stride[1][rows] != 1 || all.size[rows].divisor < smallest)) ++rows;
  if (rows == columns) return std::nullopt;
  Transposition transposition;
  transposition.x = elements.x[0];
  transposition.y = elements.y;
  transposition.rows = all.size[rows].divisor;
  transposition.columns = all.size[columns].divisor;
  transposition.x_column = all.stride[1][columns];
  transposition.y_row = all.stride[0][rows];
  for (int i = 0; i < columns; ++i) {
    if (i == rows) continue;
    transposition.batch *= all.size[i].divisor;
    transposition.layout.size[transposition.layout.axes] = all.size[i];
    for (int k = 0; k < 2; ++k) transposition.layout.stride[k][transposition.layout.axes] = all.stride[k][i];
    ++transposition.layout.axes;
  }
  return transposition;
}

}  // namespace tapestry::gpu
