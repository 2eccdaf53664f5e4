#pragma once

#include "tapestry/nn/layer.hpp"
#include "tapestry/ops/image.hpp"
#include "tapestry/ops/volume.hpp"

namespace tapestry::nn {

/// @addtogroup layers
/// Images are NHWC, [batch, height, width, channels], as for all ops of the library. PyTorch's images are NCHW;
/// `tp::transpose(x, {0, 2, 3, 1})` converts them. Weights have PyTorch's layout nevertheless.
/// @{

/// How the window moves over the image, and whether there is a bias.
struct Conv2DOptions {
  /// The distance between neighbouring positions of the window.
  Size2d stride = 1;
  /// The border of zeros: PyTorch's number, such as 1, or "SAME".
  Padding2d padding = "VALID";
  /// The distance in the image between neighbouring elements of the window.
  Size2d dilation = 1;
  /// The number of groups into which input and output channels are divided. Each group is convolved separately.
  std::int64_t groups = 1;
  /// Whether a number is added to each output channel.
  bool bias = true;
};

/// Cross-correlation, `tp::conv2d`: [batch, height, width, in] gives [batch, out height, out width, out]. It equals
/// PyTorch's Conv2d in the weight's shape, names and initial values, which are uniform in [-b, b), b = 1 / sqrt(in /
/// groups * window).
class TAPESTRY_API Conv2D : public Layer {
 public:
  /// Throws InvalidArgumentError for a size below 1, and when the groups do not divide the channels.
  Conv2D(std::int64_t in, std::int64_t out, Size2d window, const Conv2DOptions& options = {},
         Where where = Where::here());

  Parameter weight;               ///< [out, in / groups, height, width]
  std::optional<Parameter> bias;  ///< [out]
  TAPESTRY_FIELDS(weight, bias)
  /// The channels and the window, such as "1, 8, {3, 3}".
  std::string size_text() const override;

 private:
  Tensor forward(const Tensor& x) const override;
  Conv2DOptions options_;
};

/// The zeros around a sequence: "VALID", "SAME", a number of them at both ends, or one for the start and one for the
/// end. `{(window - 1) * dilation, 0}` makes a convolution causal.
class Padding1d : public Padding2d {
 public:
  /// "VALID" or "SAME"; throws InvalidArgumentError for anything else.
  Padding1d(const char* scheme, Where where = Where::here())  // NOLINT(google-explicit-constructor): its name
      : Padding2d(scheme, where) {}
  /// The same number of zeros at both ends.
  template <AxisNumber T>
  Padding1d(T both_ends)  // NOLINT(google-explicit-constructor): one number for both ends
      : Padding2d(0, both_ends) {}
  /// The numbers of zeros at the start and at the end.
  Padding1d(std::int64_t start, std::int64_t end) : Padding2d(0, 0, start, end) {}
};

/// How the window moves over the sequence, and whether there is a bias.
struct Conv1DOptions {
  /// The distance between neighbouring positions of the window.
  std::int64_t stride = 1;
  /// The zeros around the sequence: PyTorch's number, such as 1, "SAME", or `{2, 0}` at start and end.
  Padding1d padding = "VALID";
  /// The distance in the sequence between neighbouring elements of the window.
  std::int64_t dilation = 1;
  /// The number of groups into which input and output channels are divided. Each group is convolved separately.
  std::int64_t groups = 1;
  /// Whether a number is added to each output channel.
  bool bias = true;
};

/// Cross-correlation along time: [batch, time, in] gives [batch, out time, out]. It equals PyTorch's Conv1d in the
/// weight's shape, names and initial values, which are uniform in [-b, b), b = 1 / sqrt(in / groups * window).
class TAPESTRY_API Conv1D : public Layer {
 public:
  /// Throws InvalidArgumentError for a size below 1, and when the groups do not divide the channels.
  Conv1D(std::int64_t in, std::int64_t out, std::int64_t window, const Conv1DOptions& options = {},
         Where where = Where::here());

  Parameter weight;               ///< [out, in / groups, window]
  std::optional<Parameter> bias;  ///< [out]
  TAPESTRY_FIELDS(weight, bias)
  /// The channels and the window, such as "1, 8, 3".
  std::string size_text() const override;

 private:
  Tensor forward(const Tensor& x) const override;
  Conv1DOptions options_;
};

/// How the window moves over the result, and whether there is a bias.
struct ConvTranspose2DOptions {
  /// The distance in the result between neighbouring positions of the window.
  Size2d stride = 1;
  /// The border that is cut off the result: PyTorch's number, such as 1, or "SAME", with which the image grows by the
  /// stride.
  Padding2d padding = "VALID";
  /// Additional rows below and columns on the right.
  Size2d output_padding = 0;
  /// The distance in the result between neighbouring elements of the window.
  Size2d dilation = 1;
  /// The number of groups into which input and output channels are divided. Each group is treated separately.
  std::int64_t groups = 1;
  /// Whether a number is added to each output channel.
  bool bias = true;
};

/// The transpose of a convolution, `tp::conv2d_transpose`, which enlarges images: [batch, height, width, in] gives
/// [batch, out height, out width, out]. It equals PyTorch's ConvTranspose2d in the weight's shape, names and initial
/// values, which are uniform in [-b, b), b = 1 / sqrt(out / groups * window).
class TAPESTRY_API ConvTranspose2D : public Layer {
 public:
  /// Throws InvalidArgumentError for a size below 1, and when the groups do not divide the channels.
  ConvTranspose2D(std::int64_t in, std::int64_t out, Size2d window, const ConvTranspose2DOptions& options = {},
                  Where where = Where::here());

  Parameter weight;               ///< [in, out / groups, height, width]
  std::optional<Parameter> bias;  ///< [out]
  TAPESTRY_FIELDS(weight, bias)
  /// The channels and the window, such as "8, 1, {3, 3}".
  std::string size_text() const override;

 private:
  Tensor forward(const Tensor& x) const override;
  ConvTranspose2DOptions options_;
};

/// How the window moves over the result, and whether there is a bias.
struct ConvTranspose1DOptions {
  /// The distance in the result between neighbouring positions of the window.
  std::int64_t stride = 1;
  /// What is cut off both ends of the result: PyTorch's number, such as 1, or "SAME", with which the sequence grows by
  /// the stride.
  Padding1d padding = "VALID";
  /// Additional elements at the end.
  std::int64_t output_padding = 0;
  /// The distance in the result between neighbouring elements of the window.
  std::int64_t dilation = 1;
  /// The number of groups into which input and output channels are divided. Each group is treated separately.
  std::int64_t groups = 1;
  /// Whether a number is added to each output channel.
  bool bias = true;
};

/// The transpose of a convolution along time, which enlarges sequences: [batch, time, in] gives [batch, out time, out].
/// It equals PyTorch's ConvTranspose1d in the weight's shape, names and initial values, which are uniform in [-b, b), b
/// = 1 / sqrt(out / groups * window).
class TAPESTRY_API ConvTranspose1D : public Layer {
 public:
  /// Throws InvalidArgumentError for a size below 1, and when the groups do not divide the channels.
  ConvTranspose1D(std::int64_t in, std::int64_t out, std::int64_t window, const ConvTranspose1DOptions& options = {},
                  Where where = Where::here());

  Parameter weight;               ///< [in, out / groups, window]
  std::optional<Parameter> bias;  ///< [out]
  TAPESTRY_FIELDS(weight, bias)
  /// The channels and the window, such as "8, 1, 3".
  std::string size_text() const override;

 private:
  Tensor forward(const Tensor& x) const override;
  ConvTranspose1DOptions options_;
};

/// How the window moves over the image.
struct Pool2DOptions {
  Size2d stride = 0;            ///< by default 0, the window's size, so that windows do not overlap
  Padding2d padding = "VALID";  ///< PyTorch's number, such as 1, or "SAME"
};

/// The largest element of each window in each channel: PyTorch's MaxPool2d.
class TAPESTRY_API MaxPool2D : public Layer {
 public:
  /// The window is {height, width}, or one number for both.
  explicit MaxPool2D(Size2d window, const Pool2DOptions& options = {}) : window_(window), options_(options) {}
  TAPESTRY_FIELDS()

 private:
  Tensor forward(const Tensor& x) const override;
  Size2d window_;
  Pool2DOptions options_;
};

/// The mean of each window in each channel. The border does not count: PyTorch's AvgPool2d with count_include_pad =
/// false.
class TAPESTRY_API AvgPool2D : public Layer {
 public:
  /// The window is {height, width}, or one number for both.
  explicit AvgPool2D(Size2d window, const Pool2DOptions& options = {}) : window_(window), options_(options) {}
  TAPESTRY_FIELDS()

 private:
  Tensor forward(const Tensor& x) const override;
  Size2d window_;
  Pool2DOptions options_;
};

/// The mean of each channel over the whole image: [batch, height, width, channels] gives [batch, channels]. Keras'
/// GlobalAveragePooling2D; PyTorch's AdaptiveAvgPool2d(1) followed by Flatten.
class TAPESTRY_API GlobalAvgPool2D : public Layer {
 public:
  TAPESTRY_FIELDS()

 private:
  Tensor forward(const Tensor& x) const override;
};

/// How the window moves over the sequence.
struct Pool1DOptions {
  std::int64_t stride = 0;      ///< by default 0, the window's size, so that windows do not overlap
  Padding1d padding = "VALID";  ///< PyTorch's number, such as 1, or "SAME"
};

/// The largest element of each window of a sequence [batch, time, channels]: PyTorch's MaxPool1d.
class TAPESTRY_API MaxPool1D : public Layer {
 public:
  /// The window is a number of steps.
  explicit MaxPool1D(std::int64_t window, const Pool1DOptions& options = {}) : window_(window), options_(options) {}
  TAPESTRY_FIELDS()

 private:
  Tensor forward(const Tensor& x) const override;
  std::int64_t window_;
  Pool1DOptions options_;
};

/// The mean of each window of a sequence [batch, time, channels]. What is around it does not count: PyTorch's AvgPool1d
/// with count_include_pad = false.
class TAPESTRY_API AvgPool1D : public Layer {
 public:
  /// The window is a number of steps.
  explicit AvgPool1D(std::int64_t window, const Pool1DOptions& options = {}) : window_(window), options_(options) {}
  TAPESTRY_FIELDS()

 private:
  Tensor forward(const Tensor& x) const override;
  std::int64_t window_;
  Pool1DOptions options_;
};

/// The largest element of each channel over the whole image: [batch, height, width, channels] gives [batch, channels].
/// Keras' GlobalMaxPooling2D.
class TAPESTRY_API GlobalMaxPool2D : public Layer {
 public:
  TAPESTRY_FIELDS()

 private:
  Tensor forward(const Tensor& x) const override;
};

/// The mean of each channel over time: [batch, time, channels] gives [batch, channels]. Keras' GlobalAveragePooling1D.
class TAPESTRY_API GlobalAvgPool1D : public Layer {
 public:
  TAPESTRY_FIELDS()

 private:
  Tensor forward(const Tensor& x) const override;
};

/// The largest element of each channel over time: [batch, time, channels] gives [batch, channels]. Keras'
/// GlobalMaxPooling1D.
class TAPESTRY_API GlobalMaxPool1D : public Layer {
 public:
  TAPESTRY_FIELDS()

 private:
  Tensor forward(const Tensor& x) const override;
};

/// The means of that many parts of an image, `tp::adaptive_avg_pool2d`: PyTorch's AdaptiveAvgPool2d.
class TAPESTRY_API AdaptiveAvgPool2D : public Layer {
 public:
  /// The parts are {vertical, horizontal}, or one number for both. Throws InvalidArgumentError for fewer than 1.
  explicit AdaptiveAvgPool2D(Size2d parts, Where where = Where::here());
  TAPESTRY_FIELDS()

 private:
  Tensor forward(const Tensor& x) const override;
  Size2d parts_;
};

/// The largest elements of that many parts of an image, `tp::adaptive_max_pool2d`: PyTorch's AdaptiveMaxPool2d.
class TAPESTRY_API AdaptiveMaxPool2D : public Layer {
 public:
  /// The parts are {vertical, horizontal}, or one number for both. Throws InvalidArgumentError for fewer than 1.
  explicit AdaptiveMaxPool2D(Size2d parts, Where where = Where::here());
  TAPESTRY_FIELDS()

 private:
  Tensor forward(const Tensor& x) const override;
  Size2d parts_;
};

/// The means of that many parts of a sequence [batch, time, channels]: PyTorch's AdaptiveAvgPool1d.
class TAPESTRY_API AdaptiveAvgPool1D : public Layer {
 public:
  /// Throws InvalidArgumentError for fewer than 1.
  explicit AdaptiveAvgPool1D(std::int64_t parts, Where where = Where::here());
  TAPESTRY_FIELDS()

 private:
  Tensor forward(const Tensor& x) const override;
  std::int64_t parts_;
};

/// The largest elements of that many parts of a sequence [batch, time, channels]: PyTorch's AdaptiveMaxPool1d.
class TAPESTRY_API AdaptiveMaxPool1D : public Layer {
 public:
  /// Throws InvalidArgumentError for fewer than 1.
  explicit AdaptiveMaxPool1D(std::int64_t parts, Where where = Where::here());
  TAPESTRY_FIELDS()

 private:
  Tensor forward(const Tensor& x) const override;
  std::int64_t parts_;
};

/// How the window moves over the volume, and whether there is a bias.
struct Conv3DOptions {
  /// The distance between neighbouring positions of the window.
  Size3d stride = 1;
  /// The border of zeros: PyTorch's number, such as 1, or "SAME".
  Padding3d padding = "VALID";
  /// The distance in the volume between neighbouring elements of the window.
  Size3d dilation = 1;
  /// The number of groups into which input and output channels are divided. Each group is convolved separately.
  std::int64_t groups = 1;
  /// Whether a number is added to each output channel.
  bool bias = true;
};

/// Cross-correlation of volumes, `tp::conv3d`: [batch, depth, height, width, in] gives [batch, out depth, out height,
/// out width, out]. It equals PyTorch's Conv3d in the weight's shape, names and initial values, which are uniform in
/// [-b, b), b = 1 / sqrt(in / groups * window).
class TAPESTRY_API Conv3D : public Layer {
 public:
  /// Throws InvalidArgumentError for a size below 1, and when the groups do not divide the channels.
  Conv3D(std::int64_t in, std::int64_t out, Size3d window, const Conv3DOptions& options = {},
         Where where = Where::here());

  Parameter weight;               ///< [out, in / groups, depth, height, width]
  std::optional<Parameter> bias;  ///< [out]
  TAPESTRY_FIELDS(weight, bias)
  /// The channels and the window, such as "1, 8, {3, 3, 3}".
  std::string size_text() const override;

 private:
  Tensor forward(const Tensor& x) const override;
  Conv3DOptions options_;
};

/// How the window moves over the volume.
struct Pool3DOptions {
  Size3d stride = 0;            ///< by default 0, the window's size, so that windows do not overlap
  Padding3d padding = "VALID";  ///< PyTorch's number, such as 1, or "SAME"
};

/// The largest element of each window in each channel of volumes: PyTorch's MaxPool3d.
class TAPESTRY_API MaxPool3D : public Layer {
 public:
  /// The window is {depth, height, width}, or one number for all.
  explicit MaxPool3D(Size3d window, const Pool3DOptions& options = {}) : window_(window), options_(options) {}
  TAPESTRY_FIELDS()

 private:
  Tensor forward(const Tensor& x) const override;
  Size3d window_;
  Pool3DOptions options_;
};

/// The mean of each window in each channel of volumes. The border does not count: PyTorch's AvgPool3d with
/// count_include_pad = false.
class TAPESTRY_API AvgPool3D : public Layer {
 public:
  /// The window is {depth, height, width}, or one number for all.
  explicit AvgPool3D(Size3d window, const Pool3DOptions& options = {}) : window_(window), options_(options) {}
  TAPESTRY_FIELDS()

 private:
  Tensor forward(const Tensor& x) const override;
  Size3d window_;
  Pool3DOptions options_;
};

/// What a pixel of a resized image is made of, and which pixels lie on each other.
struct UpsampleOptions {
  ResizeMethod method = ResizeMethod::nearest;      ///< what a pixel is made of
  PixelCenters centers = PixelCenters::half_pixel;  ///< which pixels lie on each other
};

/// Images whose height and width are multiplied by whole numbers: see `tp::resize`. PyTorch's Upsample, for which
/// `align_corners = True` is PixelCenters::align_corners; its "bicubic" has another slope.
class TAPESTRY_API Upsample : public Layer {
 public:
  /// Throws InvalidArgumentError for a factor below 1.
  explicit Upsample(Size2d factor, const UpsampleOptions& options = {}, Where where = Where::here());
  TAPESTRY_FIELDS()

 private:
  Tensor forward(const Tensor& x) const override;
  Size2d factor_;
  UpsampleOptions options_;
};

/// @}

}  // namespace tapestry::nn
