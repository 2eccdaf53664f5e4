// Convolutions, pooling, resizing.

#include <algorithm>
#include <limits>

#include "io/tensorflow/foreign_parts.hpp"
#include "io/tensorflow/foreign_windows.hpp"
#include "io/tensorflow/op_rules.hpp"

namespace tapestry::io {
namespace {

// ---- Windows --------------------------------------------------------------------------------------------------------

Tensors read_patches(const ForeignNode& n) {
  require_images(n);
  const auto sizes = for_axes(n, "ksizes", 4), strides = for_axes(n, "strides", 4), rates = for_axes(n, "rates", 4);
  const Shape& shape = n.in(0).shape();
  const Track rows = track(n, shape.sizes()[1], sizes[1], strides[1], rates[1]);
  const Track columns = track(n, shape.sizes()[2], sizes[2], strides[2], rates[2]);
  return n.composed([&] {
    const std::int64_t depth = product(product(rows.window, columns.window), shape.sizes()[3]);
    return reshape(windows(n.in(0), {rows, columns}, 0), {-1, rows.count, columns.count, depth});
  });
}

// ---- Convolutions ---------------------------------------------------------------------------------------------------

Tensors read_depthwise(const ForeignNode& n) {
  const Tensor &x = n.in(0), &filter = n.in(1);
  if (filter.shape().rank() != 4) n.node.refuse(detail::join("its filter has the shape ", filter.shape()));
  const Shape& sizes = filter.shape();
  const Attrs attrs = with_groups(n.node.direct_attrs(*rule_of("Conv2D")), std::max<std::int64_t>(sizes.sizes()[2], 1));
  return n.composed([&] {
    const Tensor grouped =
        reshape(filter, {sizes.sizes()[0], sizes.sizes()[1], 1, product(sizes.sizes()[2], sizes.sizes()[3])});
    return make_op(*rule_of("Conv2D"), n.node, {x, grouped}, attrs, n.where, "Conv2D")[0];
  });
}
bool lacks_filter_sizes(const NodeReader&, const Tensors& inputs) { return !inputs[1].shape().is_known(); }

/// The gradients of a convolution. The gradient for the image is also a layer, the transposed convolution.
Tensors read_conv_gradient(const ForeignNode& n) {
  const bool of_image = n.node.def().op == "Conv2DBackpropInput";
  const std::size_t sized = of_image ? 0 : 1;
  const Shape sizes = n.shape(sized);
  Tensors inputs = n.inputs;
  const DType dtype = n.in(2).dtype();
  const auto depth = [&](std::size_t i, int axis) {
    const Shape& shape = i == sized ? sizes : n.in(i).shape();
    return shape.rank() == 4 ? shape.sizes()[axis] : -1;
  };
  const std::int64_t in = depth(0, 3), filter_in = depth(1, 2);
  const std::int64_t groups = in > 0 && filter_in > 0 ? std::max<std::int64_t>(in / filter_in, 1) : 1;
  const Attrs attrs = with_groups(n.node.direct_attrs(*rule_of("Conv2D")), groups);
  return n.composed([&] {
    inputs[sized] = shape_only(n, sizes, dtype);
    return make_op(*rule_of(n.node.def().op), n.node, inputs, attrs, n.where, "Conv2D")[0];
  });
}

/// The gradients of a depthwise convolution are those of a convolution in groups.
Tensors read_depthwise_gradient(const ForeignNode& n) {
  const bool of_image = n.node.def().op == "DepthwiseConv2dNativeBackpropInput";
  const Shape filter = of_image ? n.in(1).shape() : n.shape(1);
  if (filter.rank() != 4) n.node.refuse(detail::join("its filter has the shape ", filter));
  const auto size = [&](int axis) { return filter.sizes()[axis]; };
  const Shape grouped{size(0), size(1), 1, product(size(2), size(3))};
  const Attrs attrs = with_groups(n.node.direct_attrs(*rule_of("Conv2D")), std::max<std::int64_t>(size(2), 1));
  const DType dtype = n.in(2).dtype();
  return n.composed([&] {
    const Tensors inputs = of_image ? Tensors{shape_only(n, n.shape(0), dtype), reshape(n.in(1), grouped), n.in(2)}
                                    : Tensors{n.in(0), shape_only(n, grouped, dtype), n.in(2)};
    const OpRule& rule = *rule_of(of_image ? "Conv2DBackpropInput" : "Conv2DBackpropFilter");
    const Tensor gradient = make_op(rule, n.node, inputs, attrs, n.where, "Conv2D")[0];
    return of_image ? gradient : reshape(gradient, filter);
  });
}

// ---- Pooling --------------------------------------------------------------------------------------------------------

Tensors read_average_gradient(const ForeignNode& n) {
  const Attrs attrs = n.node.direct_attrs(*rule_of("AvgPool"));
  return n.composed([&] {
    const Tensor like = shape_only(n, n.shape(0), n.in(1).dtype());
    return make_op(*rule_of("AvgPoolGrad"), n.node, {like, n.in(1)}, attrs, n.where, "AvgPool")[0];
  });
}

/// An op of pooling whose window and strides are its last two inputs.
Tensors read_pool_by_inputs(const ForeignNode& n) {
  require_nhwc(n);
  const std::size_t count = n.inputs.size() - 2;
  const Attrs attrs{{"ksize", Ints(n.numbers(count))},
                    {"strides", Ints(n.numbers(count + 1))},
                    {"padding", n.node.attr<std::string>("padding")},
                    {"explicit_paddings", Ints{}}};
  const std::string_view op = n.node.def().op;
  const Tensors inputs(n.inputs.begin(), n.inputs.begin() + static_cast<std::ptrdiff_t>(count));
  return make_op(*rule_of(op.substr(0, op.size() - 2)), n.node, inputs, attrs, n.where);
}

bool lacks_pool_sizes(const NodeReader& reader, const Tensors& inputs) {
  const bool counts_images = reader.attr_or<bool>("include_batch_in_index", false);
  return counts_images ? lacks_any_size(reader, inputs) : lacks_element_sizes(reader, inputs);
}

/// The largest element of each window, and its place in the flattened image.
Tensors read_pool_with_places(const ForeignNode& n) {
  require_images(n);
  const Tensor& x = n.in(0);
  const auto sizes = for_axes(n, "ksize", 4), strides = for_axes(n, "strides", 4);
  const Track rows = track(n, x.shape().sizes()[1], sizes[1], strides[1], 1);
  const Track columns = track(n, x.shape().sizes()[2], sizes[2], strides[2], 1);
  const std::int64_t width = x.shape().sizes()[2], channels = x.shape().sizes()[3];
  const DType dtype = dtype_of(n.node.attr_or<TypeCode>("Targmax", code_of(int64)));
  if (dtype != int32 && dtype != int64) n.node.refuse("its 'Targmax' is neither int32 nor int64");
  const Attrs attrs = n.node.direct_attrs(*rule_of("MaxPool"));
  return n.composed([&] {
    const auto from = [](const Track& along, const Shape& shape) {
      return reshape(arange(along.count, {.dtype = int64}) * along.stride - along.before, shape);
    };
    const Tensor place = argmax(windows(x, {rows, columns}, -std::numeric_limits<double>::infinity()), 3);
    const Tensor row = floor_divide(place, columns.window) + from(rows, {rows.count, 1, 1});
    const Tensor column = mod(place, columns.window) + from(columns, {columns.count, 1});
    Tensor flat = (row * width + column) * channels + arange(channels, {.dtype = int64});
    if (n.node.attr_or<bool>("include_batch_in_index", false)) {
      const std::int64_t images = x.shape().sizes()[0],
                         elements = x.shape().num_elements() / std::max<std::int64_t>(images, 1);
      flat = flat + reshape(arange(images, {.dtype = int64}) * elements, {-1, 1, 1, 1});
    }
    const Tensor values = make_op(*rule_of("MaxPool"), n.node, {x}, attrs, n.where, "MaxPool")[0];
    return Tensors{values, dtype == int64 ? flat : flat.cast(dtype)};
  });
}

/// The places follow from the input.
Tensors read_pool_with_places_gradient(const ForeignNode& n) {
  const Attrs attrs = n.node.direct_attrs(*rule_of("MaxPool"));
  return n.composed([&] {
    const Tensor pooled = make_op(*rule_of("MaxPool"), n.node, {n.in(0)}, attrs, n.where, "MaxPool")[0];
    return make_op(*rule_of("MaxPoolGrad"), n.node, {n.in(0), pooled, n.in(1)}, attrs, n.where, "MaxPoolGrad")[0];
  });
}

/// The sum over all axes but the last.
Tensors read_bias_gradient(const ForeignNode& n) {
  require_nhwc(n);
  if (n.in(0).shape().rank() < 1) n.node.refuse("its input is a scalar");
  Ints axes;
  for (int axis = 0; axis + 1 < n.in(0).shape().rank(); ++axis) axes.push_back(axis);
  return add_op(*rule_of("Sum")->entry, {n.in(0)}, {{"axis", axes}, {"keep_dims", false}}, n.name(), n.where);
}

// ---- Resizing -------------------------------------------------------------------------------------------------------

/// The images in the size that input 1 gives.
Tensor resized_images(const ForeignNode& n) {
  const std::vector<std::int64_t> sizes = n.numbers(1);
  if (sizes.size() != 2) n.node.refuse("it has not two sizes");
  const bool nearest = n.node.def().op == "ResizeNearestNeighbor";
  Tensor x = nearest ? Tensor(n.in(0)) : n.in(0).cast(float32);
  // The width comes first, as in TensorFlow.
  for (const int axis : {2, 1}) x = resized(x, axis, resize_taps(n, x.shape().sizes()[axis], sizes[axis - 1]));
  return x;
}

Tensors read_resize(const ForeignNode& n) {
  require_images(n);
  return n.composed([&] { return resized_images(n); });
}

/// What graphs that are optimized for inference have: images are resized, padded by their own pixels, and convolved.
Tensors read_padded_conv(const ForeignNode& n) {
  require_images(n);
  const bool resizes = n.node.def().op == "FusedResizeAndPadConv2D";
  const std::size_t paddings = resizes ? 2 : 1;
  const PadMode mode = mirror_mode(n);
  const Attrs attrs = n.node.direct_attrs(*rule_of("Conv2D"));
  return n.composed([&] {
    const Tensor x = resizes ? resized_images(n).cast(n.in(0).dtype()) : Tensor(n.in(0));
    const Tensor padded = pad(x, paddings_of(n, paddings), {.mode = mode});
    return make_op(*rule_of("Conv2D"), n.node, {padded, n.in(paddings + 1)}, attrs, n.where, "Conv2D")[0];
  });
}

}  // namespace

Taps resize_taps(const ForeignNode& n, std::int64_t from, std::int64_t to) {
  const std::string_view op = n.node.def().op;
  const bool is_fused = op == "FusedResizeAndPadConv2D";
  const bool align = n.node.attr_or<bool>(is_fused ? "resize_align_corners" : "align_corners", false);
  const bool half = n.node.attr_or<bool>("half_pixel_centers", false);
  if (align && half) n.node.refuse("its attributes make no sense");
  if (std::min(from, to) < 1 || std::max(from, to) > most_places)
    n.node.refuse(detail::join("it makes the size ", to, " of ", from));
  const PixelCenters centers = align  ? PixelCenters::align_corners
                               : half ? PixelCenters::half_pixel
                                      : PixelCenters::legacy;
  return op.starts_with("ResizeNearest")                ? nearest_taps(from, to, centers)
         : op.starts_with("ResizeBilinear") || is_fused ? linear_taps(from, to, centers)
         : op == "ResizeArea"                           ? area_taps(from, to, centers)
                                                        : cubic_taps(from, to, centers);
}

ForeignOps foreign_images() {
  return {
      {.name = "AvgPoolGrad", .inputs = 2, .values = {0}, .read = read_average_gradient},
      {.name = "BiasAddGrad", .inputs = 1, .lacks_sizes = lacks_rank, .read = read_bias_gradient},
      {.name = "Conv2DBackpropFilter", .inputs = 3, .values = {1}, .read = read_conv_gradient},
      {.name = "Conv2DBackpropInput", .inputs = 3, .values = {0}, .read = read_conv_gradient},
      {.name = "DepthwiseConv2dNative", .inputs = 2, .lacks_sizes = lacks_filter_sizes, .read = read_depthwise},
      {.name = "DepthwiseConv2dNativeBackpropFilter",
       .inputs = 3,
       .values = {1},
       .lacks_sizes = lacks_rank,
       .outputs = {like(2)},
       .read = read_depthwise_gradient},
      {.name = "DepthwiseConv2dNativeBackpropInput",
       .inputs = 3,
       .values = {0},
       .lacks_sizes = lacks_filter_sizes,
       .outputs = {like(2)},
       .read = read_depthwise_gradient},
      {.name = "ExtractImagePatches",
       .inputs = 1,
       .lacks_sizes = lacks_element_sizes,
       .outputs = {like(0)},
       .read = read_patches},
      {.name = "FusedPadConv2D",
       .inputs = 3,
       .values = {1},
       .lacks_sizes = lacks_image_sizes,
       .read = read_padded_conv},
      {.name = "FusedResizeAndPadConv2D",
       .inputs = 4,
       .values = {1, 2},
       .lacks_sizes = lacks_image_sizes,
       .read = read_padded_conv},
      {.name = "MaxPoolGradV2",
       .inputs = 5,
       .values = {3, 4},
       .lacks_sizes = lacks_rank,
       .outputs = {like(0)},
       .read = read_pool_by_inputs},
      {.name = "MaxPoolGradWithArgmax", .inputs = 3, .outputs = {like(0)}, .read = read_pool_with_places_gradient},
      {.name = "MaxPoolV2",
       .inputs = 3,
       .values = {1, 2},
       .lacks_sizes = lacks_rank,
       .outputs = {like(0)},
       .read = read_pool_by_inputs},
      {.name = "MaxPoolWithArgmax",
       .inputs = 1,
       .lacks_sizes = lacks_pool_sizes,
       .outputs = {like(0), told_by("Targmax", int64)},
       .read = read_pool_with_places},
      {.name = "ResizeArea",
       .inputs = 2,
       .values = {1},
       .lacks_sizes = lacks_image_sizes,
       .outputs = {typed(float32)},
       .read = read_resize},
      {.name = "ResizeBicubic",
       .inputs = 2,
       .values = {1},
       .lacks_sizes = lacks_image_sizes,
       .outputs = {typed(float32)},
       .read = read_resize},
      {.name = "ResizeBilinear", .inputs = 2, .values = {1}, .lacks_sizes = lacks_image_sizes, .read = read_resize},
      {.name = "ResizeNearestNeighbor",
       .inputs = 2,
       .values = {1},
       .lacks_sizes = lacks_image_sizes,
       .read = read_resize},
  };
}

}  // namespace tapestry::io
