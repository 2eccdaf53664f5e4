#pragma once

#include <cstdint>
#include <string_view>

#include "tapestry/ops/nn.hpp"

namespace tapestry {

/// @addtogroup nn_ops
/// @{

/// What a pixel of a resized image is made of.
enum class ResizeMethod : std::uint8_t {
  nearest,   ///< the nearest pixel
  bilinear,  ///< lines between two pixels in each direction
  bicubic,   ///< cubic curves through four pixels in each direction (R. Keys, 1981)
  area,      ///< the mean of the pixels that it covers
};
/// Which pixels of an image and of the resized one lie on each other.
enum class PixelCenters : std::uint8_t {
  half_pixel,     ///< both images cover the same area: pixel i is at (i + 1/2) * scale - 1/2
  legacy,         ///< pixel i is at i * scale: TensorFlow 1's default
  align_corners,  ///< the middles of the pixels in the corners
};
/// The options of `resize`.
struct ResizeOptions {
  ResizeMethod method = ResizeMethod::bilinear;     ///< what a pixel is made of
  PixelCenters centers = PixelCenters::half_pixel;  ///< which pixels lie on each other
};
/// Images [batch, height, width, channels] in another height and width, TensorFlow's `tf.image.resize` without
/// antialiasing. The nearest pixels keep the dtype; otherwise integers become float32. `bicubic` has the slope -1/2 and
/// leaves out pixels beyond the border with half pixels, and otherwise the slope -3/4, as TensorFlow has it. Throws
/// InvalidArgumentError for sizes below 1 and other shapes, and where height and width are not known.
TAPESTRY_API Tensor resize(In images, Size2d size, const ResizeOptions& options = {}, std::string_view name = {});
/// The same with default options and a name.
inline Tensor resize(In images, Size2d size, const NodeName auto& name) { return resize(images, size, {}, name); }

/// @}

}  // namespace tapestry
