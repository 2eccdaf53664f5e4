#include "backend/cpu/kernels/movement.hpp"

#include "backend/cpu/cpu_backend.hpp"
#include "backend/cpu/pieces.hpp"

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

}  // namespace tapestry::host
