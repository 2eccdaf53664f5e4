#pragma once

#include <string_view>
#include <vector>

#include "io/tensorflow/foreign_parts.hpp"

/// Windows that move over images and volumes.

namespace tapestry::io {

/// How a window moves along one axis.
struct Track {
  std::int64_t count;          ///< its positions
  std::int64_t before, after;  ///< the border
  std::int64_t window, stride, rate;

  /// For each position and each element of the window the place in the axis, the border included.
  Tensor places() const;
};

/// The track of a window along an axis of that size, by the node's padding.
Track track(const ForeignNode& n, std::int64_t size, std::int64_t window, std::int64_t stride, std::int64_t rate);

/// The attribute of that name: one number for each axis, those of the batch and of the channels 1.
std::vector<std::int64_t> for_axes(const ForeignNode& n, std::string_view name, std::size_t rank);

/// The windows over images, or over volumes, by a track for each axis: [batch, rows, columns, elements of the window,
/// channels].
Tensor windows(const Tensor& x, const std::vector<Track>& tracks, double border);

}  // namespace tapestry::io
