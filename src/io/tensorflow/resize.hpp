#pragma once

#include "tapestry/tensor.hpp"

namespace tapestry::io {

/// Where TensorFlow takes the pixels of a resized image to lie in the old one.
enum class Centers : std::uint8_t {
  legacy,      ///< pixel i at i * scale
  half_pixel,  ///< pixel i at (i + 1/2) * scale, where the old one j is at j + 1/2
  corners,     ///< the first and the last where the old ones are
};

/// x in another size (at least 1, and so was the old one) along an axis: the next element, or, of float32, what lies
/// on the line between two neighbours.
Tensor resize_nearest(const Tensor& x, int axis, std::int64_t size, Centers centers);
Tensor resize_linear(const Tensor& x, int axis, std::int64_t size, Centers centers);

}  // namespace tapestry::io
