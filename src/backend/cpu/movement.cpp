#include "backend/cpu/kernels/movement.hpp"

#include <algorithm>
#include <cstring>

#include "backend/cpu/cpu_backend.hpp"
#include "backend/cpu/pieces.hpp"
#include "core/make_tensor.hpp"

namespace tapestry::host {

const MovementTable& movement_kernels() {
  static const MovementTable& table = TAPESTRY_PICK_LEVEL(movement_table);
  return table;
}

void CpuBackend::copy(const Tensor& x, const Tensor& y) {
  if (x.dtype() == y.dtype()) return copy_pieces(x, y);
  const auto convert =
      movement_kernels().cast[static_cast<std::size_t>(x.dtype())][static_cast<std::size_t>(y.dtype())];
  const std::size_t size = size_of(y.dtype());
  const Tensor* inputs[] = {&x};
  for_each_piece(y, inputs, [&](const Piece& piece) {
    convert(piece.input[0], piece.y, piece.step[0] == 1 ? piece.n : 1);
    if (piece.step[0] == 0) movement_kernels().fill(size)(piece.y, piece.y + size, piece.n - 1);
  });
}

bool CpuBackend::join(const Tensors& parts, int axis, const Tensor& y) {
  // To make a view takes as long as to copy this many elements of a part; of more, threads copy some each.
  constexpr std::int64_t most_elements = 4096;
  const auto fits = [&](const Tensor& each) { return each.is_contiguous() && each.dtype() == y.dtype(); };
  if (y.size() > most_elements || !fits(y) || !std::all_of(parts.begin(), parts.end(), fits)) return false;
  if (y.size() == 0) return true;
  std::size_t rows = 1;
  for (int i = 0; i < axis; ++i) rows *= static_cast<std::size_t>(y.shape().sizes()[i]);
  const std::size_t row_bytes = detail::nbytes(y) / rows;
  auto* to = static_cast<std::byte*>(y.impl().data);
  for (const Tensor& part : parts) {
    const std::size_t bytes = detail::nbytes(part) / rows;
    const auto* from = static_cast<const std::byte*>(part.impl().data);
    for (std::size_t row = 0; row < rows; ++row) std::memcpy(to + row * row_bytes, from + row * bytes, bytes);
    to += bytes;
  }
  return true;
}

}  // namespace tapestry::host
