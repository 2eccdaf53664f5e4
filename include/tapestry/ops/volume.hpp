#pragma once

#include <array>
#include <string_view>

#include "tapestry/ops/nn.hpp"

namespace tapestry {

/// @addtogroup nn_ops
/// @{

/// The size, stride or dilation of a window over a volume: one number for all directions, or {depth, height, width}.
struct Size3d {
  std::int64_t depth;   ///< along the first axis of the volume
  std::int64_t height;  ///< vertical, in rows
  std::int64_t width;   ///< horizontal, in columns
  /// One number for all directions.
  template <AxisNumber T>
  constexpr Size3d(T every)  // NOLINT(google-explicit-constructor): one for all
      : depth(static_cast<std::int64_t>(every)), height(depth), width(depth) {}
  /// The depth, the height, the width.
  constexpr Size3d(std::int64_t deep, std::int64_t vertical, std::int64_t horizontal)
      : depth(deep), height(vertical), width(horizontal) {}
};

/// The border of a convolution or a pooling of volumes: see Padding2d.
class TAPESTRY_API Padding3d {
 public:
  /// "VALID" or "SAME"; throws InvalidArgumentError for anything else.
  Padding3d(const char* scheme, Where where = Where::here())  // NOLINT(google-explicit-constructor): its name
      : image_(scheme, where) {}
  /// A border of the same width on all sides.
  template <AxisNumber T>
  Padding3d(T all_sides)  // NOLINT(google-explicit-constructor): one number for all sides
      : Padding3d(all_sides, all_sides, all_sides) {}
  /// The widths at both ends of the depth, of the height and of the width.
  Padding3d(std::int64_t depth, std::int64_t vertical, std::int64_t horizontal)
      : image_(vertical, horizontal), depth_(depth) {}

  /// The border of each image of the volume.
  const Padding2d& image() const { return image_; }
  /// The number of images of zeros before and behind the volume; 0 for "SAME" and "VALID".
  std::int64_t depth() const { return depth_; }

 private:
  Padding2d image_;
  std::int64_t depth_ = 0;
};

/// How the filter moves over the volume.
struct Conv3dOptions {
  /// The distance between neighbouring positions of the filter.
  Size3d strides = 1;
  /// The border of zeros around the volume.
  Padding3d padding = "VALID";
  /// The distance in the volume between neighbouring elements of the filter.
  Size3d dilations = 1;
  /// The number of groups into which input and output channels are divided. Each group is convolved separately.
  std::int64_t groups = 1;
};
/// Cross-correlation, TensorFlow's conv3d: x [batch, depth, height, width, in] with a filter [depth, height, width, in
/// / groups, out] gives [batch, out depth, out height, out width, out]. Throws InvalidArgumentError when channels do
/// not fit, and when the filter is larger than the volume. A depth that a trace does not know takes "VALID", a number,
/// or the stride 1.
TAPESTRY_API Tensor conv3d(In x, In filter, const Conv3dOptions& options = {}, std::string_view name = {});

/// How the window moves over the volume.
struct Pool3dOptions {
  Size3d window = 2;            ///< the size of the window
  Size3d strides = 0;           ///< by default 0, the window's size, so that windows do not overlap
  Padding3d padding = "VALID";  ///< explicit widths must be smaller than the window
};
/// The largest element, or the mean, of each window in each channel of volumes [batch, depth, height, width, channels].
/// The border has no part in the maximum or in the mean.
/// @{
TAPESTRY_API Tensor max_pool3d(In x, const Pool3dOptions& options = {}, std::string_view name = {});
TAPESTRY_API Tensor avg_pool3d(In x, const Pool3dOptions& options = {}, std::string_view name = {});
/// @}

/// The largest element, or the mean, of each of `size` parts of images [batch, height, width, channels], PyTorch's
/// adaptive pools: of n parts of an axis of size s, part i goes from floor(i s / n) to ceil((i + 1) s / n). Throws
/// InvalidArgumentError for sizes below 1 and other shapes, and for parts of an axis whose size is not known.
/// @{
TAPESTRY_API Tensor adaptive_max_pool2d(In x, Size2d size, std::string_view name = {});
TAPESTRY_API Tensor adaptive_avg_pool2d(In x, Size2d size, std::string_view name = {});
/// @}

/// @}

}  // namespace tapestry
