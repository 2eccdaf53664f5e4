#include <algorithm>

#include "ops/batching.hpp"
#include "ops/window.hpp"
#include "tapestry/ops/array.hpp"
#include "tapestry/ops/nn.hpp"

TAPESTRY_OP_FAMILY(conv)

namespace tapestry {
namespace {

Size2d filter_size(const Shape& filter) { return {filter.sizes()[0], filter.sizes()[1]}; }

void require_image_and_filter(const Tensor& x, const Tensor& filter) {
  require_type(x, float_types);
  require_type(filter, float_types);
  if (rank_of(x) != 4) throw InvalidArgumentError(detail::join("input must be 4-dimensional: ", x.shape()));
  if (rank_of(filter) != 4) throw InvalidArgumentError(detail::join("filter must be 4-dimensional: ", filter.shape()));
}

/// The shape of the convolution of an image with a filter by the attributes of a call.
Shape convolved_shape(const Call& call, const Tensor& x, const Tensor& filter) {
  require_image_and_filter(x, filter);
  check_window_attrs(call);
  const auto groups = attr_or<std::int64_t>(call, "groups", 1);
  if (groups < 1) throw InvalidArgumentError(detail::join("groups must be at least 1, but are ", groups));
  const std::int64_t in = x.shape().sizes().back(), filter_in = filter.shape().sizes()[2],
                     out = filter.shape().sizes()[3];
  if (filter.shape().sizes()[0] == 0 || filter.shape().sizes()[1] == 0)
    throw InvalidArgumentError(detail::join("filter must not have zero elements: ", filter.shape()));
  const std::int64_t due = filter_in < 0 ? -1 : multiply_sizes(filter_in, groups);
  if (in >= 0 && due >= 0 && in != due) {
    const bool channels_first = x.shape().sizes()[1] == due;
    throw InvalidArgumentError(
        detail::join("input depth must be groups times the filter's: ", in, " vs. ", groups, " * ", filter_in,
                     channels_first ? detail::join(". Are these channels first? tp::transpose(x, {0, 2, 3, 1}) makes ",
                                                   x.shape(), " an image as it must be")
                                    : ""));
  }
  if (out >= 0 && out % groups != 0)
    throw InvalidArgumentError(
        detail::join("output depth must be evenly divisible by number of groups: ", out, " vs ", groups));
  Shape shape = window_output(call, x.shape(), filter_size(filter.shape()));
  shape.set(3, out);
  return shape;
}

Specs infer_conv2d(const Call& call) {
  return {{call.input(0).dtype(), convolved_shape(call, call.input(0), call.input(1))}};
}

/// The third input of the gradients has the shape of the convolution of the first two.
void require_convolved(const Call& call) {
  require_same_shape(call.input(2).shape(), convolved_shape(call, call.input(0), call.input(1)));
}

Window2d conv_window(const Call& call, const Shape& image, const Shape& filter) {
  Window2d window = window_of(call, image, filter_size(filter));
  window.groups = attr_or<std::int64_t>(call, "groups", 1);
  return window;
}

// A convolution is linear in the image and in the filter, so there are three ops, each the gradient of the others: the
// convolution, and its gradients with respect to the image and to the filter. The gradients take a tensor in the shape
// of the convolution as their third input.
Tensor backprop_input(const Call& call, const Tensor& x_like, const Tensor& filter, const Tensor& g);
Tensor backprop_filter(const Call& call, const Tensor& x, const Tensor& filter_like, const Tensor& g);

TAPESTRY_OP(conv2d_op){{
    .name = "Conv2D",
    .attrs = conv_attrs(),
    .infer = infer_conv2d,
    .forward =
        [](Backend& backend, const Call& call) {
          const Tensor &x = call.input(0), &filter = call.input(1);
          backend.conv2d(x, filter, conv_window(call, x.shape(), filter.shape()), call.output());
        },
    .gradient = [](const Call& call, const Tensor& g) -> Tensors {
      const Tensor &x = call.input(0), &filter = call.input(1);
      return wanted(
          call, [&] { return backprop_input(call, x, filter, g); },
          [&] { return backprop_filter(call, x, filter, g); });
    },
    .promotion = floating_type,
    .needs = needs_inputs,
    .precision = Precision::low,
    .batch = batch_of_images<2>,
}};

Tensor convolve(const Call& call, const Tensor& x, const Tensor& filter) {
  return apply(conv2d_op, {x, filter}, call.attrs());
}

TAPESTRY_OP(conv2d_backprop_input_op){{
    .name = "Conv2DBackpropInput",
    .attrs = conv_attrs(),
    .infer = [](const Call& call) -> Specs {
      require_convolved(call);
      return {{call.input(2).dtype(), call.input(0).shape()}};
    },
    .forward =
        [](Backend& backend, const Call& call) {
          const Tensor &x_like = call.input(0), &filter = call.input(1), &g = call.input(2);
          backend.conv2d_grad_input(g, filter, conv_window(call, x_like.shape(), filter.shape()), call.output());
        },
    .gradient = [](const Call& call, const Tensor& u) -> Tensors {
      const Tensor &filter = call.input(1), &g = call.input(2);
      return wanted(
          call, [] { return Tensor(); }, [&] { return backprop_filter(call, u, filter, g); },
          [&] { return convolve(call, u, filter); });
    },
    .promotion = floating_type,
    .needs = Needs{6, 0},
    .precision = Precision::low,
    .shape_inputs = 1,
    .batch = batch_of_images<2>,
}};

TAPESTRY_OP(conv2d_backprop_filter_op){{
    .name = "Conv2DBackpropFilter",
    .attrs = conv_attrs(),
    .infer = [](const Call& call) -> Specs {
      require_convolved(call);
      return {{call.input(2).dtype(), call.input(1).shape()}};
    },
    .forward =
        [](Backend& backend, const Call& call) {
          const Tensor &x = call.input(0), &filter_like = call.input(1), &g = call.input(2);
          backend.conv2d_grad_filter(x, g, conv_window(call, x.shape(), filter_like.shape()), call.output());
        },
    .gradient = [](const Call& call, const Tensor& u) -> Tensors {
      const Tensor &x = call.input(0), &g = call.input(2);
      return wanted(
          call, [&] { return backprop_input(call, x, u, g); }, [] { return Tensor(); },
          [&] { return convolve(call, x, u); });
    },
    .promotion = floating_type,
    .needs = Needs{5, 0},
    .shape_inputs = 2,
}};

Tensor backprop_input(const Call& call, const Tensor& x_like, const Tensor& filter, const Tensor& g) {
  return apply(conv2d_backprop_input_op, {x_like, filter, g}, call.attrs());
}
Tensor backprop_filter(const Call& call, const Tensor& x, const Tensor& filter_like, const Tensor& g) {
  return apply(conv2d_backprop_filter_op, {x, filter_like, g}, call.attrs());
}

/// The attributes for the options of a convolution or of its transpose.
template <class Options>
Attrs attrs_of(const Options& options) {
  if (options.groups < 1)
    throw InvalidArgumentError(detail::join("'groups' must be at least 1, but is ", options.groups));
  return {{"strides", four("strides", options.strides)},
          {"padding", options.padding.scheme()},
          {"explicit_paddings", options.padding.widths()},
          {"dilations", four("dilations", options.dilations)},
          {"groups", options.groups}};
}

/// A transposed convolution makes an axis of an image grow to size * stride + beyond.
struct Growth {
  std::int64_t size, stride, beyond = 0;

  std::int64_t result() const { return add_sizes(multiply_sizes(size, stride), beyond); }
};

/// Takes from an output_padding what is no less than a stride: zeros behind the image make the result as much larger.
Tensor with_zeros_behind(const Tensor& image, const Shape& filter, Conv2dTransposeOptions& options) {
  std::vector<Padding> paddings(4);
  const auto take = [&](int axis, std::int64_t& more, std::int64_t stride, std::int64_t dilation) {
    if (image.shape().sizes()[axis] == 0 || filter.sizes()[axis - 1] < 1)
      throw InvalidArgumentError("x must not be empty, and the filter's height and width must be known");
    if (more < 0 || more >= std::max(stride, dilation))
      throw InvalidArgumentError(detail::join("output_padding must be at least 0 and less than the stride or the ",
                                              "dilation, but is ", more, " for ", stride, " and ", dilation));
    if (options.padding.scheme() == "SAME" && more > 0)
      throw InvalidArgumentError("\"SAME\" leaves no room for output_padding");
    paddings[static_cast<std::size_t>(axis)].after = more / stride;
    more %= stride;
  };
  take(1, options.output_padding.height, options.strides.height, options.dilations.height);
  take(2, options.output_padding.width, options.strides.width, options.dilations.width);
  return paddings[1].after + paddings[2].after > 0 ? pad(image, paddings) : image;
}

Growth growth_along(int axis, const Shape& image, const Shape& filter, const Conv2dTransposeOptions& options) {
  const auto along = [axis](const Size2d& both) { return axis == 1 ? both.height : both.width; };
  const std::int64_t stride = along(options.strides), more = along(options.output_padding);
  const std::int64_t window = filter.sizes()[axis - 1];
  if (options.padding.scheme() == "SAME") return {image.sizes()[axis], stride};
  const Ints& widths = options.padding.widths();
  const auto first = static_cast<std::size_t>(2 * axis);
  const std::int64_t cut = widths.empty() ? 0 : add_sizes(widths[first], widths[first + 1]);
  const std::int64_t reach = add_sizes(multiply_sizes(window - 1, along(options.dilations)), 1 + more);
  const Growth growth{image.sizes()[axis], stride, reach - stride - cut};
  if (growth.size > 0 && growth.result() < 1)
    throw InvalidArgumentError(detail::join("The padding leaves nothing of ", growth.result() + cut, " pixels"));
  return growth;
}

/// A tensor that has the size of the result along an axis. Its elements do not matter.
Tensor grown(const Tensor& image, int axis, const Growth& growth) {
  const Tensor y = repeat(image, growth.stride, axis);
  if (growth.beyond < 0) {
    const RangeIndex kept = range(0, growth.beyond);
    return axis == 1 ? y(all, kept) : y(all, all, kept);
  }
  std::vector<Padding> paddings(4);
  paddings[axis].after = growth.beyond;
  return pad(y, paddings);
}

/// A tensor in the shape of the result. Its elements do not matter.
Tensor like_transposed(const Tensor& image, const Growth& height, const Growth& width, std::int64_t channels) {
  const auto first = range(0, 1);
  if (height.size > 0 && width.size > 0)  // a view, which takes no memory
    return broadcast_to(image(all, first, first, first), {-1, height.result(), width.result(), channels});
  return broadcast_to(grown(grown(image(all, all, all, first), 1, height), 2, width), {-1, -1, -1, channels});
}

}  // namespace

Tensor conv2d(In x, In filter, const Conv2dOptions& options, std::string_view name) {
  const std::string_view plain = detail::plain_name(name, detail::Worded::padding, x.where());
  return blaming(conv2d_op.name, x.where(), [&] { return apply(conv2d_op, {x, filter}, attrs_of(options), plain); });
}

Tensor conv2d_transpose(In x, In filter, const Conv2dTransposeOptions& options, std::string_view name) {
  detail::plain_name(name, detail::Worded::padding, x.where());
  return blaming("conv2d_transpose", x.where(), [&] {
    const Attrs attrs = attrs_of(options);
    const Tensor given = as_floats(x), weights = as_floats(filter);
    require_image_and_filter(given, weights);
    Conv2dTransposeOptions rest = options;
    const Tensor image = with_zeros_behind(given, weights.shape(), rest);
    const Growth height = growth_along(1, image.shape(), weights.shape(), rest);
    const Growth width = growth_along(2, image.shape(), weights.shape(), rest);
    const std::int64_t channels = weights.shape().sizes()[2];
    if (channels < 0) throw InvalidArgumentError("The filter's output channels must be known");
    const Tensor result_like = like_transposed(image, height, width, multiply_sizes(channels, options.groups));
    return apply(conv2d_backprop_input_op, {result_like, weights, image}, attrs, name);
  });
}

}  // namespace tapestry
