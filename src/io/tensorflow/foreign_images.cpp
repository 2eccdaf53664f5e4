// Convolutions, pooling, resizing.

#include <algorithm>
#include <limits>

#include "io/tensorflow/foreign_parts.hpp"
#include "io/tensorflow/op_rules.hpp"
#include "io/tensorflow/resize.hpp"

namespace tapestry::io {
namespace {

// ---- Windows --------------------------------------------------------------------------------------------------------

/// How a window moves along one axis.
struct Track {
  std::int64_t count;          ///< its positions
  std::int64_t before, after;  ///< the border
  std::int64_t window, stride, rate;

  /// For each position and each element of the window the place in the axis, the border included.
  Tensor places() const {
    std::vector<std::int64_t> list;
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t k = 0; k < window; ++k) list.push_back(i * stride + k * rate);
    return vector_of(list, int32);
  }
  /// For each position the place of one element of the window.
  Tensor places_of(std::int64_t element) const {
    std::vector<std::int64_t> list;
    for (std::int64_t i = 0; i < count; ++i) list.push_back(i * stride + element * rate);
    return vector_of(list, int32);
  }
};

Track track(const ForeignNode& n, std::int64_t size, std::int64_t window, std::int64_t stride, std::int64_t rate) {
  const auto& padding = n.node.attr<std::string>("padding");
  if (padding != "SAME" && padding != "VALID") n.node.refuse("its padding is " + padding);
  if (std::min({window, stride, rate}) < 1 || std::max({window, stride, rate}) > most_blocks)
    n.node.refuse(detail::join("it has a window of ", window, ", the stride ", stride, " and the rate ", rate));
  const std::int64_t reach = (window - 1) * rate + 1;
  Track made{0, 0, 0, window, stride, rate};
  made.count = padding == "SAME" ? (size + stride - 1) / stride : (size - reach) / stride + 1;
  if ((padding == "VALID" && size < reach) || product(std::max<std::int64_t>(made.count, 1), window) > most_places)
    n.node.refuse(detail::join("its window of ", reach, " does not fit the size ", size));
  const std::int64_t missing = std::max<std::int64_t>((made.count - 1) * stride + reach - size, 0);
  if (padding == "SAME") {
    made.before = missing / 2;
    made.after = missing - missing / 2;
  }
  return made;
}

/// The attribute of that name: one number for each axis, those of the batch and of the channels 1.
std::vector<std::int64_t> for_axes(const ForeignNode& n, std::string_view name, std::size_t rank) {
  const std::vector<std::int64_t> none(rank, 1);
  std::vector<std::int64_t> list = n.node.attr_or<ListDef>(name, {.ints = none}).ints;
  if (list.size() != rank || list.front() != 1 || list.back() != 1)
    n.node.refuse(detail::join("its '", name, "' are not for ", rank, " axes"));
  return list;
}

/// The windows over images: [batch, rows, columns, elements of the window, channels].
Tensor windows(const Tensor& x, const Track& rows, const Track& columns, double border) {
  const std::int64_t channels = x.shape().sizes()[3];
  const std::vector<Padding> widths{{}, {rows.before, rows.after}, {columns.before, columns.after}, {}};
  const Tensor bordered = pad(x, widths, {.value = border});
  const Tensor picked = gather(gather(bordered, rows.places(), 1), columns.places(), 2);
  const Tensor parts = reshape(picked, {-1, rows.count, rows.window, columns.count, columns.window, channels});
  return reshape(transpose(parts, {0, 1, 3, 2, 4, 5}),
                 {-1, rows.count, columns.count, product(rows.window, columns.window), channels});
}

Tensors read_patches(const ForeignNode& n) {
  require_images(n);
  const auto sizes = for_axes(n, "ksizes", 4), strides = for_axes(n, "strides", 4), rates = for_axes(n, "rates", 4);
  const Shape& shape = n.in(0).shape();
  const Track rows = track(n, shape.sizes()[1], sizes[1], strides[1], rates[1]);
  const Track columns = track(n, shape.sizes()[2], sizes[2], strides[2], rates[2]);
  return n.composed([&] {
    const std::int64_t depth = product(product(rows.window, columns.window), shape.sizes()[3]);
    return reshape(windows(n.in(0), rows, columns, 0), {-1, rows.count, columns.count, depth});
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

/// A convolution of volumes: a sum of convolutions of images, one for each depth of the filter.
Tensors read_conv3d(const ForeignNode& n) {
  if (n.node.attr_or<std::string>("data_format", "NDHWC") != "NDHWC") lack(n, "'data_format'");
  require_rank(n, 0, 5);
  require_rank(n, 1, 5);
  require_one_type(n);
  const Tensor &x = n.in(0), &filter = n.in(1);
  const auto strides = for_axes(n, "strides", 5), rates = for_axes(n, "dilations", 5);
  const auto size = [&](int axis) { return x.shape().sizes()[axis]; };
  const Track depth = track(n, size(1), filter.shape().sizes()[0], strides[1], rates[1]);
  const Conv2dOptions options{.strides = {strides[2], strides[3]},
                              .padding = n.node.attr<std::string>("padding").c_str(),
                              .dilations = {rates[2], rates[3]}};
  return n.composed([&] {
    const Tensor bordered = pad(x, {{}, {depth.before, depth.after}, {}, {}, {}});
    Tensor sum;
    for (std::int64_t k = 0; k < depth.window; ++k) {
      const Tensor images = reshape(gather(bordered, depth.places_of(k), 1), {-1, size(2), size(3), size(4)});
      const Tensor part = conv2d(images, squeeze(slice(filter, {k, 0, 0, 0, 0}, {1, -1, -1, -1, -1}), 0), options);
      sum = bool(sum) ? sum + part : part;
    }
    const Shape& image = sum.shape();
    return reshape(sum, {-1, depth.count, image.sizes()[1], image.sizes()[2], image.sizes()[3]});
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
    const Tensor place = argmax(windows(x, rows, columns, -std::numeric_limits<double>::infinity()), 3);
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

/// Volumes are pooled first as images, then along their depth.
Tensors read_pool3d(const ForeignNode& n) {
  if (n.node.attr_or<std::string>("data_format", "NDHWC") != "NDHWC") lack(n, "'data_format'");
  require_rank(n, 0, 5);
  const auto window = for_axes(n, "ksize", 5), strides = for_axes(n, "strides", 5);
  const char* padding = n.node.attr<std::string>("padding").c_str();
  const Shape& shape = n.in(0).shape();
  const std::int64_t depth = shape.sizes()[1], channels = shape.sizes()[4];
  const auto pooled = [&](const Tensor& x, const Pool2dOptions& options) {
    return n.node.def().op == "MaxPool3D" ? max_pool2d(x, options) : avg_pool2d(x, options);
  };
  return n.composed([&] {
    const Tensor images = pooled(reshape(n.in(0), {-1, shape.sizes()[2], shape.sizes()[3], channels}),
                                 {{window[2], window[3]}, {strides[2], strides[3]}, padding});
    const std::int64_t height = images.shape().sizes()[1], width = images.shape().sizes()[2];
    const Tensor whole = pooled(reshape(images, {-1, depth, product(height, width), channels}),
                                {{window[1], 1}, {strides[1], 1}, padding});
    return reshape(whole, {-1, whole.shape().sizes()[1], height, width, channels});
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

Tensors read_resize(const ForeignNode& n) {
  require_images(n);
  const std::vector<std::int64_t> sizes = n.numbers(1);
  if (sizes.size() != 2) n.node.refuse("it has not two sizes");
  return n.composed([&] {
    const bool nearest = n.node.def().op == "ResizeNearestNeighbor";
    Tensor x = nearest ? Tensor(n.in(0)) : n.in(0).cast(float32);
    // The width comes first, as in TensorFlow.
    for (const int axis : {2, 1}) x = resized(x, axis, resize_taps(n, x.shape().sizes()[axis], sizes[axis - 1]));
    return x;
  });
}

}  // namespace

Taps resize_taps(const ForeignNode& n, std::int64_t from, std::int64_t to) {
  const bool align = n.node.attr_or<bool>("align_corners", false);
  const bool half = n.node.attr_or<bool>("half_pixel_centers", false);
  if (align && half) n.node.refuse("its attributes make no sense");
  if (std::min(from, to) < 1 || std::max(from, to) > most_places)
    n.node.refuse(detail::join("it makes the size ", to, " of ", from));
  const Centers centers = align ? Centers::corners : half ? Centers::half_pixel : Centers::legacy;
  const std::string_view op = n.node.def().op;
  return op.starts_with("ResizeNearest")    ? nearest_taps(from, to, centers)
         : op.starts_with("ResizeBilinear") ? linear_taps(from, to, centers)
                                            : cubic_taps(from, to, centers);
}

ForeignOps foreign_images() {
  return {
      {.name = "AvgPool3D", .inputs = 1, .lacks_sizes = lacks_element_sizes, .outputs = {like(0)}, .read = read_pool3d},
      {.name = "AvgPoolGrad", .inputs = 2, .values = {0}, .read = read_average_gradient},
      {.name = "BiasAddGrad", .inputs = 1, .lacks_sizes = lacks_rank, .read = read_bias_gradient},
      {.name = "Conv2DBackpropFilter", .inputs = 3, .values = {1}, .read = read_conv_gradient},
      {.name = "Conv2DBackpropInput", .inputs = 3, .values = {0}, .read = read_conv_gradient},
      {.name = "Conv3D", .inputs = 2, .lacks_sizes = lacks_element_sizes, .outputs = {like(0)}, .read = read_conv3d},
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
      {.name = "MaxPool3D", .inputs = 1, .lacks_sizes = lacks_element_sizes, .outputs = {like(0)}, .read = read_pool3d},
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
