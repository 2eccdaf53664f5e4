#include "tapestry/nn/conv.hpp"

#include <cmath>

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
  return {out, in / groups, window.height, window.width};
}

Shape sequence_weight_shape(std::int64_t in, std::int64_t out, std::int64_t window, std::int64_t groups, Where where) {
  require_positive(window, "Conv1D", "the window", where);
  check_sizes("Conv1D", in, out, window, groups, where);
  return {out, in / groups, window};
}

Shape transposed_weight_shape(std::int64_t in, std::int64_t out, Size2d window, std::int64_t groups, Where where) {
  check_sizes("ConvTranspose2D", in, out, window, groups, where);
  return {in, out / groups, window.height, window.width};
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
  if (x.shape().has_rank() && x.rank() != 3)
    throw InvalidArgumentError(detail::join("x must be [batch, time, ", in, "], but its shape is ", x.shape()),
                               CallSiteScope::current());
  // A sequence is an image of one row.
  const Tensor filter = expand_dims(transpose(weight, {2, 1, 0}), 0);
  const Tensor y = conv2d(expand_dims(with_features(x, in, "batch, time"), 1), filter,
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

Tensor MaxPool2D::forward(const Tensor& x) const {
  return max_pool2d(x, {.window = window_, .strides = options_.stride, .padding = options_.padding});
}

Tensor AvgPool2D::forward(const Tensor& x) const {
  return avg_pool2d(x, {.window = window_, .strides = options_.stride, .padding = options_.padding});
}

Tensor GlobalAvgPool2D::forward(const Tensor& x) const {
  if (x.rank() != 4)
    throw InvalidArgumentError(detail::join("x must be [batch, height, width, channels], but its shape is ", x.shape()),
                               {}, CallSiteScope::current());
  return reduce_mean(x, {1, 2});
}

}  // namespace tapestry::nn
