// Volumes: convolutions, pooling, and their gradients.

#include <algorithm>

#include "io/tensorflow/foreign_windows.hpp"

namespace tapestry::io {
namespace {

void require_volumes(const ForeignNode& n, const Shape& shape) {
  if (n.node.attr_or<std::string>("data_format", "NDHWC") != "NDHWC") lack(n, "'data_format'");
  if (shape.rank() != 5) n.node.refuse(detail::join("its input is no volume: ", shape));
}

/// A sum of convolutions of images, one for each depth of the filter.
Tensor convolved(const ForeignNode& n, const Tensor& x, const Tensor& filter) {
  const auto strides = for_axes(n, "strides", 5), rates = for_axes(n, "dilations", 5);
  const auto size = [&](int axis) { return x.shape().sizes()[axis]; };
  const Track depth = track(n, size(1), filter.shape().sizes()[0], strides[1], rates[1]);
  const std::int64_t channels = filter.shape().sizes()[3];
  if (channels < 1 || size(4) % channels != 0)
    n.node.refuse(detail::join("its filter for ", channels, " channels does not fit the input's ", size(4)));
  const Conv2dOptions options{.strides = {strides[2], strides[3]},
                              .padding = n.node.attr<std::string>("padding").c_str(),
                              .dilations = {rates[2], rates[3]},
                              .groups = size(4) / channels};
  const Tensor bordered = pad(x, {{}, {depth.before, depth.after}, {}, {}, {}});
  Tensor sum;
  for (std::int64_t k = 0; k < depth.window; ++k) {
    const Tensor images = reshape(gather(bordered, depth.places_of(k), 1), {-1, size(2), size(3), size(4)});
    const Tensor part = conv2d(images, squeeze(slice(filter, {k, 0, 0, 0, 0}, {1, -1, -1, -1, -1}), 0), options);
    sum = bool(sum) ? sum + part : part;
  }
  const Shape& image = sum.shape();
  return reshape(sum, {-1, depth.count, image.sizes()[1], image.sizes()[2], image.sizes()[3]});
}

Tensors read_conv(const ForeignNode& n) {
  require_volumes(n, n.in(0).shape());
  require_rank(n, 1, 5);
  require_one_type(n);
  return n.composed([&] { return convolved(n, n.in(0), n.in(1)); });
}

/// The sizes of an input that only tells these: a list of them, or in the old form a tensor that has them.
Shape sizes_of(const ForeignNode& n, std::size_t input) {
  return n.node.def().op.ends_with("V2") ? n.shape(input) : n.in(input).shape();
}

Tensors read_conv_gradient_by_volume(const ForeignNode& n) {
  const Shape sizes = sizes_of(n, 0);
  require_volumes(n, sizes);
  require_rank(n, 1, 5);
  require_rank(n, 2, 5);
  return n.composed([&] {
    return gradients_of({shape_only(n, sizes, n.in(2).dtype())},
                        [&](const Tensors& x) { return Tensors{convolved(n, x[0], n.in(1)) * n.in(2)}; });
  });
}

Tensors read_conv_gradient_by_filter(const ForeignNode& n) {
  const Shape sizes = sizes_of(n, 1);
  require_volumes(n, n.in(0).shape());
  require_volumes(n, sizes);
  require_rank(n, 2, 5);
  return n.composed([&] {
    return gradients_of({shape_only(n, sizes, n.in(2).dtype())},
                        [&](const Tensors& filter) { return Tensors{convolved(n, n.in(0), filter[0]) * n.in(2)}; });
  });
}

/// Volumes are pooled first as images, then along their depth.
Tensor pooled(const ForeignNode& n, const Tensor& x, bool largest) {
  const auto window = for_axes(n, "ksize", 5), strides = for_axes(n, "strides", 5);
  const char* padding = n.node.attr<std::string>("padding").c_str();
  const Shape& shape = x.shape();
  const std::int64_t depth = shape.sizes()[1], channels = shape.sizes()[4];
  const auto pool = [&](const Tensor& images, const Pool2dOptions& options) {
    return largest ? max_pool2d(images, options) : avg_pool2d(images, options);
  };
  const Tensor images = pool(reshape(x, {-1, shape.sizes()[2], shape.sizes()[3], channels}),
                             {{window[2], window[3]}, {strides[2], strides[3]}, padding});
  const std::int64_t height = images.shape().sizes()[1], width = images.shape().sizes()[2];
  const Tensor whole =
      pool(reshape(images, {-1, depth, product(height, width), channels}), {{window[1], 1}, {strides[1], 1}, padding});
  return reshape(whole, {-1, whole.shape().sizes()[1], height, width, channels});
}

Tensors read_pool(const ForeignNode& n) {
  require_volumes(n, n.in(0).shape());
  return n.composed([&] { return pooled(n, n.in(0), n.node.def().op == "MaxPool3D"); });
}

Tensors read_average_pool_3d_gradient(const ForeignNode& n) {
  const Shape sizes = n.shape(0);
  require_volumes(n, sizes);
  return n.composed([&] {
    return gradients_of({shape_only(n, sizes, n.in(1).dtype())},
                        [&](const Tensors& x) { return Tensors{pooled(n, x[0], false) * n.in(1)}; });
  });
}

Tensors read_largest_gradient(const ForeignNode& n) {
  require_volumes(n, n.in(0).shape());
  return n.composed([&] {
    return gradients_of({n.in(0)}, [&](const Tensors& x) { return Tensors{pooled(n, x[0], true) * n.in(2)}; });
  });
}

}  // namespace

ForeignOps foreign_volumes() {
  ForeignOps ops{
      {.name = "AvgPool3D", .inputs = 1, .lacks_sizes = lacks_element_sizes, .outputs = {like(0)}, .read = read_pool},
      {.name = "AvgPool3DGrad",
       .inputs = 2,
       .values = {0},
       .lacks_sizes = lacks_any_size,
       .outputs = {like(1)},
       .read = read_average_pool_3d_gradient},
      {.name = "Conv3D", .inputs = 2, .lacks_sizes = lacks_element_sizes, .outputs = {like(0)}, .read = read_conv},
      {.name = "MaxPool3D", .inputs = 1, .lacks_sizes = lacks_element_sizes, .outputs = {like(0)}, .read = read_pool},
      {.name = "MaxPool3DGrad",
       .inputs = 3,
       .lacks_sizes = lacks_any_size,
       .outputs = {like(0)},
       .read = read_largest_gradient},
  };
  const auto add = [&](std::string_view name, std::vector<std::size_t> values, Tensors (*read)(const ForeignNode&)) {
    ops.push_back({.name = name,
                   .inputs = 3,
                   .values = std::move(values),
                   .lacks_sizes = lacks_any_size,
                   .outputs = {like(2)},
                   .read = read});
  };
  add("Conv3DBackpropFilter", {}, read_conv_gradient_by_filter);
  add("Conv3DBackpropFilterV2", {1}, read_conv_gradient_by_filter);
  add("Conv3DBackpropInput", {}, read_conv_gradient_by_volume);
  add("Conv3DBackpropInputV2", {0}, read_conv_gradient_by_volume);
  return ops;
}

}  // namespace tapestry::io
