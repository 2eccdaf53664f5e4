#pragma once

#include <vector>

#include "tapestry/ops/image.hpp"

namespace tapestry {

/// For each new element one old element, and the factor by which it counts; without factors it counts once.
struct Tap {
  std::vector<std::int32_t> places{};
  std::vector<float> factors{};
};
/// A resized axis is a sum of taps.
using Taps = std::vector<Tap>;

/// The taps from one size to another, both at least 1: the nearest element, linear interpolation between two
/// neighbours, cubic interpolation between four, or the mean of what the new element covers.
TAPESTRY_API Taps nearest_taps(std::int64_t from, std::int64_t to, PixelCenters centers);
TAPESTRY_API Taps linear_taps(std::int64_t from, std::int64_t to, PixelCenters centers);
TAPESTRY_API Taps cubic_taps(std::int64_t from, std::int64_t to, PixelCenters centers);
TAPESTRY_API Taps area_taps(std::int64_t from, std::int64_t to, PixelCenters centers);

/// Resizes x along an axis. Taps with factors need float32 or float64.
TAPESTRY_API Tensor resized(const Tensor& x, int axis, const Taps& taps);

}  // namespace tapestry
