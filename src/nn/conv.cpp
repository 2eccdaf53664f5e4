#include "tapestry/nn/conv.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "dispatch/recorder.hpp"
#include "nn/bias.hpp"
#include "nn/features.hpp"
#include "nn/initial.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::nn {
namespace {

void check_sizes(std::string_view layer, std::int64_t in, std::int64_t out, Size2d window, std::int64_t groups,
                 Where where) {
  require_positive(in, layer, "in", where);
  require_positive(out, layer, "out", where);
  require_positive(window.height, layer, "the window's height", where);
  require_positive(window.width, layer, "the window's width", where);
  require_positive(groups, layer, "groups", where);
  if (in % groups != 0 || out % groups != 0)
    throw InvalidArgumentError(
        detail::join(layer, ": ", groups, " groups do not divide ", in, " and ", out, " channels"), where);
}

Shape weight_shape(std::int64_t in, std::int64_t out, Size2d window, std::int64_t groups, Where where) {
  check_sizes("Conv2D", in, out, window, groups, where);
  return Shape({out, in / groups, window.height, window.width}, where);
}

Shape sequence_weight_shape(std::int64_t in, std::int64_t out, std::int64_t window, std::int64_t groups, Where where) {
  require_positive(window, "Conv1D", "the window", where);
  check_sizes("Conv1D", in, out, window, groups, where);
  return Shape({out, in / groups, window}, where);
}

Shape transposed_weight_shape(std::int64_t in, std::int64_t out, Size2d window, std::int64_t groups, Where where) {
  check_sizes("ConvTranspose2D", in, out, window, groups, where);
  return Shape({in, out / groups, window.height, window.width}, where);
}

Shape transposed_sequence_shape(std::int64_t in, std::int64_t out, std::int64_t window, std::int64_t groups,
                                Where where) {
  require_positive(window, "ConvTranspose1D", "the window", where);
  check_sizes("ConvTranspose1D", in, out, window, groups, where);
  return Shape({in, out / groups, window}, where);
}

/// A sequence as an image of one row. The error names what the layer takes; `channels` is -1 for any number.
Tensor as_row(const Tensor& x, std::int64_t channels) {
  if (x.shape().has_rank() && x.rank() != 3)
    throw InvalidArgumentError(
        detail::join("x must be [batch, time, ", channels < 0 ? "channels" : std::to_string(channels),
                     "], but its shape is ", x.shape()),
        CallSiteScope::current());
  return expand_dims(channels < 0 ? x : with_features(x, channels, "batch, time"), 1);
}

/// The bound of the initial weights and biases, that of PyTorch's layers.
double bound_of(const Shape& weight) {
  double count = 1;
  for (int axis = 1; axis < weight.rank(); ++axis) count *= static_cast<double>(weight[axis]);
  return 1 / std::sqrt(count);
}

/// "1, 8, {3, 3}": channels and window, as the constructor takes them.
std::string text_of(std::int64_t in, std::int64_t out, const Shape& weight) {
  return detail::join(in, ", ", out, ", {", weight[2], ", ", weight[3], "}");
}

Tensor initial_weight(const Shape& shape, Where where) { return uniform_within(bound_of(shape), shape, where); }

}  // namespace

Conv2D::Conv2D(std::int64_t in, std::int64_t out, Size2d window, const Conv2DOptions& options, Where where)
    : weight(initial_weight(weight_shape(in, out, window, options.groups, where), where), "weight"), options_(options) {
  if (options.bias) bias.emplace(uniform_within(bound_of(weight.shape()), {out}, where), "bias");
}

std::string Conv2D::size_text() const {
  const Shape& shape = weight.shape();
  return text_of(shape[1] * options_.groups, shape[0], shape);
}

Tensor Conv2D::forward(const Tensor& x) const {
  const Tensor filter = transpose(weight, {2, 3, 1, 0});
  const Tensor y = conv2d(x, filter,
                          {.strides = options_.stride,
                           .padding = options_.padding,
                           .dilations = options_.dilation,
                           .groups = options_.groups});
  return with_bias(y, bias);
}

Conv1D::Conv1D(std::int64_t in, std::int64_t out, std::int64_t window, const Conv1DOptions& options, Where where)
    : weight(initial_weight(sequence_weight_shape(in, out, window, options.groups, where), where), "weight"),
      options_(options) {
  if (options.bias) bias.emplace(uniform_within(bound_of(weight.shape()), {out}, where), "bias");
}

std::string Conv1D::size_text() const {
  const Shape& shape = weight.shape();
  return detail::join(shape[1] * options_.groups, ", ", shape[0], ", ", shape[2]);
}

Tensor Conv1D::forward(const Tensor& x) const {
  const std::int64_t in = weight.shape()[1] * options_.groups;
  const Tensor filter = expand_dims(transpose(weight, {2, 1, 0}), 0);
  const Tensor y = conv2d(as_row(x, in), filter,
                          {.strides = {1, options_.stride},
                           .padding = options_.padding,
                           .dilations = {1, options_.dilation},
                           .groups = options_.groups});
  return with_bias(squeeze(y, 1), bias);
}

ConvTranspose2D::ConvTranspose2D(std::int64_t in, std::int64_t out, Size2d window,
                                 const ConvTranspose2DOptions& options, Where where)
    : weight(initial_weight(transposed_weight_shape(in, out, window, options.groups, where), where), "weight"),
      options_(options) {
  if (options.bias) bias.emplace(uniform_within(bound_of(weight.shape()), {out}, where), "bias");
}

std::string ConvTranspose2D::size_text() const {
  const Shape& shape = weight.shape();
  return text_of(shape[0], shape[1] * options_.groups, shape);
}

Tensor ConvTranspose2D::forward(const Tensor& x) const {
  const Tensor filter = transpose(weight, {2, 3, 1, 0});
  const Tensor y = conv2d_transpose(x, filter,
                                    {.strides = options_.stride,
                                     .padding = options_.padding,
                                     .output_padding = options_.output_padding,
                                     .dilations = options_.dilation,
                                     .groups = options_.groups});
  return with_bias(y, bias);
}

ConvTranspose1D::ConvTranspose1D(std::int64_t in, std::int64_t out, std::int64_t window,
                                 const ConvTranspose1DOptions& options, Where where)
    : weight(initial_weight(transposed_sequence_shape(in, out, window, options.groups, where), where), "weight"),
      options_(options) {
  if (options.bias) bias.emplace(uniform_within(bound_of(weight.shape()), {out}, where), "bias");
}

std::string ConvTranspose1D::size_text() const {
  const Shape& shape = weight.shape();
  return detail::join(shape[0], ", ", shape[1] * options_.groups, ", ", shape[2]);
}

Tensor ConvTranspose1D::forward(const Tensor& x) const {
  const Tensor filter = expand_dims(transpose(weight, {2, 1, 0}), 0);
  const Tensor y = conv2d_transpose(as_row(x, weight.shape()[0]), filter,
                                    {.strides = {1, options_.stride},
                                     .padding = options_.padding,
                                     .output_padding = {0, options_.output_padding},
                                     .dilations = {1, options_.dilation},
                                     .groups = options_.groups});
  return with_bias(squeeze(y, 1), bias);
}

Tensor MaxPool1D::forward(const Tensor& x) const {
  const std::int64_t stride = options_.stride == 0 ? window_ : options_.stride;
  return squeeze(
      max_pool2d(as_row(x, -1), {.window = {1, window_}, .strides = {1, stride}, .padding = options_.padding}), 1);
}

Tensor AvgPool1D::forward(const Tensor& x) const {
  const std::int64_t stride = options_.stride == 0 ? window_ : options_.stride;
  return squeeze(
      avg_pool2d(as_row(x, -1), {.window = {1, window_}, .strides = {1, stride}, .padding = options_.padding}), 1);
}

Upsample::Upsample(Size2d factor, const UpsampleOptions& options, Where where) : factor_(factor), options_(options) {
  require_positive(factor.height, "Upsample", "the factor of the height", where);
  require_positive(factor.width, "Upsample", "the factor of the width", where);
}

Tensor Upsample::forward(const Tensor& x) const {
  if (options_.method == ResizeMethod::nearest && options_.centers != PixelCenters::align_corners) {
    if (x.rank() != 4)
      throw InvalidArgumentError(
          detail::join("x must be [batch, height, width, channels], but its shape is ", x.shape()), {},
          CallSiteScope::current());
    return repeat(repeat(x, factor_.height, 1), factor_.width, 2);  // also of sizes that are not known
  }
  const Shape& shape = x.shape();
  if (x.rank() != 4 || !shape[1].is_known() || !shape[2].is_known())
    throw InvalidArgumentError(
        detail::join("x must be [batch, height, width, channels] of known height and width, but its shape is ", shape),
        {}, CallSiteScope::current());
  return resize(x, {shape[1] * factor_.height, shape[2] * factor_.width},
                {.method = options_.method, .centers = options_.centers});
}

Tensor MaxPool2D::forward(const Tensor& x) const {
  return max_pool2d(x, {.window = window_, .strides = options_.stride, .padding = options_.padding});
}

Tensor AvgPool2D::forward(const Tensor& x) const {
  return avg_pool2d(x, {.window = window_, .strides = options_.stride, .padding = options_.padding});
}

namespace {

/// x, which must have the axes of images or of sequences.
const Tensor& with_axes(const Tensor& x, int rank) {
  if (x.rank() != rank)
    throw InvalidArgumentError(detail::join("x must be [batch, ", rank == 4 ? "height, width" : "time",
                                            ", channels], but its shape is ", x.shape()),
                               {}, CallSiteScope::current());
  return x;
}

}  // namespace

Tensor GlobalAvgPool2D::forward(const Tensor& x) const { return reduce_mean(with_axes(x, 4), {1, 2}); }
Tensor GlobalMaxPool2D::forward(const Tensor& x) const { return reduce_max(with_axes(x, 4), {1, 2}); }
Tensor GlobalAvgPool1D::forward(const Tensor& x) const { return reduce_mean(with_axes(x, 3), 1); }
Tensor GlobalMaxPool1D::forward(const Tensor& x) const { return reduce_max(with_axes(x, 3), 1); }

AdaptiveAvgPool2D::AdaptiveAvgPool2D(Size2d parts, Where where) : parts_(parts) {
  require_positive(std::min(parts.height, parts.width), "AdaptiveAvgPool2D", "the number of parts", where);
}
Tensor AdaptiveAvgPool2D::forward(const Tensor& x) const { return adaptive_avg_pool2d(x, parts_); }

AdaptiveMaxPool2D::AdaptiveMaxPool2D(Size2d parts, Where where) : parts_(parts) {
  require_positive(std::min(parts.height, parts.width), "AdaptiveMaxPool2D", "the number of parts", where);
}
Tensor AdaptiveMaxPool2D::forward(const Tensor& x) const { return adaptive_max_pool2d(x, parts_); }

AdaptiveAvgPool1D::AdaptiveAvgPool1D(std::int64_t parts, Where where) : parts_(parts) {
  require_positive(parts, "AdaptiveAvgPool1D", "the number of parts", where);
}
Tensor AdaptiveAvgPool1D::forward(const Tensor& x) const {
  return squeeze(adaptive_avg_pool2d(as_row(x, -1), {1, parts_}), 1);
}

AdaptiveMaxPool1D::AdaptiveMaxPool1D(std::int64_t parts, Where where) : parts_(parts) {
  require_positive(parts, "AdaptiveMaxPool1D", "the number of parts", where);
}
Tensor AdaptiveMaxPool1D::forward(const Tensor& x) const {
  return squeeze(adaptive_max_pool2d(as_row(x, -1), {1, parts_}), 1);
}

// ---- Volumes

namespace {

Shape volume_weight_shape(std::int64_t in, std::int64_t out, Size3d window, std::int64_t groups, Where where) {
  require_positive(window.depth, "Conv3D", "the window's depth", where);
  check_sizes("Conv3D", in, out, {window.height, window.width}, groups, where);
  return Shape({out, in / groups, window.depth, window.height, window.width}, where);
}

}  // namespace

Conv3D::Conv3D(std::int64_t in, std::int64_t out, Size3d window, const Conv3DOptions& options, Where where)
    : weight(initial_weight(volume_weight_shape(in, out, window, options.groups, where), where), "weight"),
      options_(options) {
  if (options.bias) bias.emplace(uniform_within(bound_of(weight.shape()), {out}, where), "bias");
}

std::string Conv3D::size_text() const {
  const Shape& shape = weight.shape();
  return detail::join(shape[1] * options_.groups, ", ", shape[0], ", {", shape[2], ", ", shape[3], ", ", shape[4], "}");
}

Tensor Conv3D::forward(const Tensor& x) const {
  const Tensor y = conv3d(x, transpose(weight, {2, 3, 4, 1, 0}),
                          {.strides = options_.stride,
                           .padding = options_.padding,
                           .dilations = options_.dilation,
                           .groups = options_.groups});
  return with_bias(y, bias);
}

Tensor MaxPool3D::forward(const Tensor& x) const {
  return max_pool3d(x, {.window = window_, .strides = options_.stride, .padding = options_.padding});
}

Tensor AvgPool3D::forward(const Tensor& x) const {
  return avg_pool3d(x, {.window = window_, .strides = options_.stride, .padding = options_.padding});
}

}  // namespace tapestry::nn
