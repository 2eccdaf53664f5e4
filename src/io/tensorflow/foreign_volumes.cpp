// Volumes: convolutions, pooling, and their gradients.

#include "io/tensorflow/foreign_windows.hpp"

namespace tapestry::io {
namespace {

void require_volumes(const ForeignNode& n, const Shape& shape) {
  if (n.node.attr_or<std::string>("data_format", "NDHWC") != "NDHWC") lack(n, "'data_format'");
  if (shape.rank() != 5) n.node.refuse(detail::join("its input is no volume: ", shape));
}

Size3d size_of(const std::vector<std::int64_t>& for_axes) { return {for_axes[1], for_axes[2], for_axes[3]}; }

Tensor convolved(const ForeignNode& n, const Tensor& x, const Tensor& filter) {
  const std::int64_t channels = filter.shape().sizes()[3], given = x.shape().sizes()[4];
  if (channels < 1 || given % channels != 0)
    n.node.refuse(detail::join("its filter for ", channels, " channels does not fit the input's ", given));
  return conv3d(x, filter,
                {.strides = size_of(for_axes(n, "strides", 5)),
                 .padding = n.node.attr<std::string>("padding").c_str(),
                 .dilations = size_of(for_axes(n, "dilations", 5)),
                 .groups = given / channels});
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

Tensor pooled(const ForeignNode& n, const Tensor& x, bool largest) {
  const Pool3dOptions options{.window = size_of(for_axes(n, "ksize", 5)),
                              .strides = size_of(for_axes(n, "strides", 5)),
                              .padding = n.node.attr<std::string>("padding").c_str()};
  return largest ? max_pool3d(x, options) : avg_pool3d(x, options);
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

/// The windows along the three axes of space, their counts behind an unknown batch, and the elements of one.
struct Windows {
  std::vector<Track> tracks{};
  std::vector<std::int64_t> counts{-1};
  std::int64_t elements = 1;
};
Windows windows_in(const ForeignNode& n, const Shape& shape, const char* name_of_sizes) {
  const auto sizes = for_axes(n, name_of_sizes, 5), strides = for_axes(n, "strides", 5);
  Windows found;
  for (int axis = 1; axis < 4; ++axis) {
    const std::size_t i = static_cast<std::size_t>(axis);
    found.tracks.push_back(track(n, shape.sizes()[axis], sizes[i], strides[i], 1));
    found.counts.push_back(found.tracks.back().count);
    found.elements = product(found.elements, sizes[i]);
  }
  return found;
}

Tensors read_patches(const ForeignNode& n) {
  const Shape& shape = n.in(0).shape();
  require_volumes(n, shape);
  Windows found = windows_in(n, shape, "ksizes");
  found.counts.push_back(product(shape.sizes()[4], found.elements));
  return n.composed([&] { return reshape(windows(n.in(0), found.tracks, 0), found.counts); });
}

/// Each element that is the largest of a window has its gradient, also if there are several.
Tensors read_largest_gradient(const ForeignNode& n) {
  const Shape& shape = n.in(0).shape();
  require_volumes(n, shape);
  Windows found = windows_in(n, shape, "ksize");
  found.counts.insert(found.counts.end(), {found.elements, shape.sizes()[4]});
  return n.composed([&] {
    const auto in_windows = [&](const Tensor& x) { return reshape(windows(x, found.tracks, 0), found.counts); };
    const auto of_window = [](const Tensor& y) { return expand_dims(y, 4); };
    const Tensor largest = of_window(pooled(n, n.in(0), true)), g = of_window(n.in(2));
    const Tensor part = where(equal(in_windows(n.in(0)), largest), g, zeros_like(g));
    return gradients_of({n.in(0)}, [&](const Tensors& x) { return Tensors{in_windows(x[0]) * part}; });
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
      {.name = "ExtractVolumePatches",
       .inputs = 1,
       .lacks_sizes = lacks_element_sizes,
       .outputs = {like(0)},
       .read = read_patches},
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
