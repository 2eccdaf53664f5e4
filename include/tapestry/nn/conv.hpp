#pragma once

#include "tapestry/nn/layer.hpp"
#include "tapestry/ops/nn.hpp"

namespace tapestry::nn {

/// @addtogroup layers
/// Images are NHWC, [batch, height, width, channels], as for all ops of the library; those of PyTorch, NCHW, become so
/// by `tp::transpose(x, {0, 2, 3, 1})`. Weights have PyTorch's layout all the same.
/// @{

/// How the window goes over the image, and what is learnt.
struct Conv2DOptions {
  Size2d stride = 1;            ///< from one place of the window to the next
  Padding2d padding = "VALID";  ///< PyTorch's number, 1, or "SAME"
  Size2d dilation = 1;          ///< distance of neighbouring elements of the window in the image
  std::int64_t groups = 1;      ///< input and output channels are cut into that many parts, convolved separately
  bool bias = true;             ///< a number is added to each output channel
};

/// Cross-correlation, `tp::conv2d`: [batch, height, width, in] gives [batch, out height, out width, out]. PyTorch's
/// Conv2d in the weight's shape, names and initial values, which are uniform in [-b, b), b = 1 / sqrt(in / groups *
/// window).
class TAPESTRY_API Conv2D : public Layer {
 public:
  /// Throws InvalidArgumentError for a size below 1, and when the groups do not divide the channels.
  Conv2D(std::int64_t in, std::int64_t out, Size2d window, const Conv2DOptions& options = {},
         Where where = Where::here());

  Parameter weight;               ///< [out, in / groups, height, width]
  std::optional<Parameter> bias;  ///< [out]
  TAPESTRY_FIELDS(weight, bias)
  std::string size_text() const override;  ///< "1, 8, {3, 3}": channels and window

 private:
  Tensor forward(const Tensor& x) const override;
  Conv2DOptions options_;
};

/// How the window goes over the result, and what is learnt.
struct ConvTranspose2DOptions {
  Size2d stride = 1;            ///< from one place of the window in the result to the next
  Padding2d padding = "VALID";  ///< PyTorch's number, 1, or "SAME": the image grows by the stride
  Size2d output_padding = 0;    ///< rows below and columns to the right
  Size2d dilation = 1;          ///< distance of neighbouring elements of the window in the result
  std::int64_t groups = 1;      ///< input and output channels are cut into that many parts, treated separately
  bool bias = true;             ///< a number is added to each output channel
};

/// The transpose of a convolution, `tp::conv2d_transpose`, by which images grow: [batch, height, width, in] gives
/// [batch, out height, out width, out]. PyTorch's ConvTranspose2d in the weight's shape, names and initial values,
/// which are uniform in [-b, b), b = 1 / sqrt(out / groups * window).
class TAPESTRY_API ConvTranspose2D : public Layer {
 public:
  /// Throws InvalidArgumentError for a size below 1, and when the groups do not divide the channels.
  ConvTranspose2D(std::int64_t in, std::int64_t out, Size2d window, const ConvTranspose2DOptions& options = {},
                  Where where = Where::here());

  Parameter weight;               ///< [in, out / groups, height, width]
  std::optional<Parameter> bias;  ///< [out]
  TAPESTRY_FIELDS(weight, bias)
  std::string size_text() const override;  ///< "8, 1, {3, 3}": channels and window

 private:
  Tensor forward(const Tensor& x) const override;
  ConvTranspose2DOptions options_;
};

/// How the window goes over the image.
struct Pool2DOptions {
  Size2d stride = 0;            ///< 0: the window's size, so that windows tile the image
  Padding2d padding = "VALID";  ///< PyTorch's number, 1, or "SAME"
};

/// The largest element of each window of each channel: PyTorch's MaxPool2d.
class TAPESTRY_API MaxPool2D : public Layer {
 public:
  /// Of windows of that size, {height, width} or one number for both.
  explicit MaxPool2D(Size2d window, const Pool2DOptions& options = {}) : window_(window), options_(options) {}
  TAPESTRY_FIELDS()

 private:
  Tensor forward(const Tensor& x) const override;
  Size2d window_;
  Pool2DOptions options_;
};

/// The mean of each window of each channel. The border does not count: PyTorch's AvgPool2d with count_include_pad =
/// false.
class TAPESTRY_API AvgPool2D : public Layer {
 public:
  /// Of windows of that size, {height, width} or one number for both.
  explicit AvgPool2D(Size2d window, const Pool2DOptions& options = {}) : window_(window), options_(options) {}
  TAPESTRY_FIELDS()

 private:
  Tensor forward(const Tensor& x) const override;
  Size2d window_;
  Pool2DOptions options_;
};

/// The mean of each channel over the whole image: [batch, height, width, channels] gives [batch, channels]. Keras'
/// GlobalAveragePooling2D; PyTorch's AdaptiveAvgPool2d(1) and Flatten.
class TAPESTRY_API GlobalAvgPool2D : public Layer {
 public:
  TAPESTRY_FIELDS()

 private:
  Tensor forward(const Tensor& x) const override;
};

/// @}

}  // namespace tapestry::nn
