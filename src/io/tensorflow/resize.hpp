#pragma once

#include "tapestry/tensor.hpp"

namespace tapestry::io {

/// Which position in the old image TensorFlow gives to a pixel of the resized one.
enum class Centers : std::uint8_t {
  legacy,      ///< pixel i at i * scale
  half_pixel,  ///< pixel i at (i + 1/2) * scale, where the old pixel j is at j + 1/2
  corners,     ///< the first and the last pixel where those of the old image are
};

/// Resizes x along an axis: by the nearest element, or, for float32, by linear interpolation between two neighbours.
/// Both sizes must be at least 1.
Tensor resize_nearest(const Tensor& x, int axis, std::int64_t size, Centers centers);
Tensor resize_linear(const Tensor& x, int axis, std::int64_t size, Centers centers);

}  // namespace tapestry::io
