#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>

#include "backend/cuda/kernels/elementwise.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry::gpu {

/// An array for kernels: memory, bytes of an element, shape and strides. Shapes are broadcast from the right.
struct View {
  void* data = nullptr;
  std::int64_t element_bytes = 1;
  Shape shape;
  std::array<std::int64_t, Shape::max_rank> stride{};  ///< in elements

  View() = default;
  explicit View(const Tensor& tensor);
};

/// Calls `body` for pieces that together are all of y = f(inputs...). There is only one, unless the arrays are not flat
/// and 32-bit indices do not reach all elements. Without elements there is none.
void for_each_piece(const View& y, std::span<const View> inputs, const std::function<void(const Elements&)>& body);

/// The transposition that copies a piece; nothing if the copy is no transposition, or is too small to gain from tiles.
std::optional<Transposition> transposition_of(const Elements& elements);

}  // namespace tapestry::gpu
