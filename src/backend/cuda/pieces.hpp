#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>

#include "backend/cuda/kernels/elementwise.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry::gpu {

/// An array for kernels: its memory, the bytes of one element, and its form. Shapes are broadcast from the right.
struct View {
  void* data = nullptr;
  std::int64_t element_bytes = 1;
  Shape shape;
  std::array<std::int64_t, Shape::max_rank> stride{};  ///< in elements

  View() = default;
  explicit View(const Tensor& tensor);
};

/// Calls `body` for pieces that make up all of y = f(inputs...), each within reach of 32-bit indices: one piece, unless
/// there are more than 2^31 elements, or inputs that are spread as far. Without elements there is none.
void for_each_piece(const View& y, std::span<const View> inputs, const std::function<void(const Elements&)>& body);

/// The transposition that a copy of a piece is; nothing where it is none, or too small to be worth tiles.
std::optional<Turn> turn_of(const Elements& elements);

}  // namespace tapestry::gpu
