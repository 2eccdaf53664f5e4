#pragma once

#include "io/onnx/onnx_ops.hpp"

namespace tapestry::io {

/// How a window moves over the axes of an image behind its batch and its channels, of which ONNX has one, two or three.
struct OnnxWindows {
  std::vector<std::int64_t> size{}, strides{}, dilations{}, before{}, after{};
  bool is_same = false;  ///< the widths are those of TensorFlow's "SAME", as sizes are not known

  std::size_t axes() const { return size.size(); }
  std::int64_t reach(std::size_t axis) const { return (size[axis] - 1) * dilations[axis] + 1; }
};

/// The windows of a convolution or of a pool. Throws for attributes that do not fit the image.
OnnxWindows onnx_windows(const OnnxCall& c, const std::vector<std::int64_t>& kernel);
/// Whether the widths of the border depend on sizes that are not known.
bool onnx_windows_lack(const OnnxCall& c);

/// ONNX's images are [batch, channels, height, width]: the channels at the end, and back.
Tensor onnx_channels_last(const Tensor& x);
Tensor onnx_channels_first(const Tensor& x);

/// A border of an image with the channels last.
Tensor onnx_bordered(const Tensor& image, const OnnxWindows& w, double value);

}  // namespace tapestry::io
