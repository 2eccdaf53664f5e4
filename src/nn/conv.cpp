#include "tapestry/nn/conv.hpp"

#include <cmath>

#include "nn/initial.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::nn {
namespace {

Shape weight_shape(std::int64_t in, std::int64_t out, Size2d window, std::int64_t groups, Where where) {
  require_positive(in, "Conv2D", "in", where);
  require_positive(out, "Conv2D", "out", where);
  require_positive(window.height, "Conv2D", "the window's height", where);
  require_positive(window.width, "Conv2D", "the window's width", where);
  require_positive(groups, "Conv2D", "groups", where);
  if (in % groups != 0 || out % groups != 0)
    throw InvalidArgumentError(
        detail::join("Conv2D: ", groups, " groups do not divide ", in, " and ", out, " channels"), where);
  return {out, in / groups, window.height, window.width};
}

/// What PyTorch's Conv2d starts from.
double bound_of(const Shape& weight) {
  return 1 /
         std::sqrt(static_cast<double>(weight[1]) * static_cast<double>(weight[2]) * static_cast<double>(weight[3]));
}

Tensor initial_weight(const Shape& shape) { return uniform_within(bound_of(shape), shape); }

}  // namespace

Conv2D::Conv2D(std::int64_t in, std::int64_t out, Size2d window, const Conv2DOptions& options, Where where)
    : weight(initial_weight(weight_shape(in, out, window, options.groups, where)), "weight"), options_(options) {
  if (options.bias) bias.emplace(uniform_within(bound_of(weight.shape()), {out}), "bias");
}

Tensor Conv2D::forward(const Tensor& x) const {
  const Tensor filter = transpose(weight, {2, 3, 1, 0});
  const Tensor y = conv2d(x, filter,
                          {.strides = options_.stride,
                           .padding = options_.padding,
                           .dilations = options_.dilation,
                           .groups = options_.groups});
  return bias ? y + *bias : y;
}

Tensor MaxPool2D::forward(const Tensor& x) const {
  return max_pool2d(x, {.window = window_, .strides = options_.stride, .padding = options_.padding});
}

Tensor AvgPool2D::forward(const Tensor& x) const {
  return avg_pool2d(x, {.window = window_, .strides = options_.stride, .padding = options_.padding});
}

}  // namespace tapestry::nn
