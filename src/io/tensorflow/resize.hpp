#pragma once

#include <vector>

#include "tapestry/tensor.hpp"

namespace tapestry::io {

/// Which position in the old image TensorFlow gives to a pixel of the resized one.
enum class Centers : std::uint8_t {
  legacy,      ///< pixel i at i * scale
  half_pixel,  ///< pixel i at (i + 1/2) * scale, where the old pixel j is at j + 1/2
  corners,     ///< the first and the last pixel where those of the old image are
};

/// For each new element one old element, and the factor by which it counts; without factors it counts once.
struct Tap {
  std::vector<std::int32_t> places{};
  std::vector<float> factors{};
};
/// A resized axis is a sum of taps.
using Taps = std::vector<Tap>;

/// The taps from one size to another, both at least 1: the nearest element, linear interpolation between two
/// neighbours, cubic interpolation between four.
TAPESTRY_API Taps nearest_taps(std::int64_t from, std::int64_t to, Centers centers);
TAPESTRY_API Taps linear_taps(std::int64_t from, std::int64_t to, Centers centers);
TAPESTRY_API Taps cubic_taps(std::int64_t from, std::int64_t to, Centers centers);

/// Resizes x along an axis. Taps with factors need float32.
TAPESTRY_API Tensor resized(const Tensor& x, int axis, const Taps& taps);

}  // namespace tapestry::io
