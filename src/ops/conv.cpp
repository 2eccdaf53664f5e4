#include "ops/window.hpp"
#include "tapestry/ops/nn.hpp"

TAPESTRY_OP_FAMILY(conv)

namespace tapestry {
namespace {

Size2d filter_size(const Shape& filter) { return {filter[0], filter[1]}; }

void require_image_and_filter(const Tensor& x, const Tensor& filter) {
  require_type(x, float_types);
  require_type(filter, float_types);
  if (x.rank() != 4) throw InvalidArgumentError(detail::join("input must be 4-dimensional: ", x.shape()));
  if (filter.rank() != 4) throw InvalidArgumentError(detail::join("filter must be 4-dimensional: ", filter.shape()));
}

Specs infer_conv2d(const Call& call) {
  const Tensor &x = call.input(0), &filter = call.input(1);
  require_image_and_filter(x, filter);
  const auto groups = attr_or<std::int64_t>(call, "groups", 1);
  const std::int64_t in = x.shape().back(), filter_in = filter.shape()[2], out = filter.shape()[3];
  if (filter.shape()[0] == 0 || filter.shape()[1] == 0)
    throw InvalidArgumentError(detail::join("filter must not have zero elements: ", filter.shape()));
  if (in >= 0 && filter_in >= 0 && in != filter_in * groups) {
    const bool channels_first = x.shape()[1] == filter_in * groups;
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
  return {{x.dtype(), shape}};
}

Window2d conv_window(const Call& call, const Shape& image, const Shape& filter) {
  Window2d window = window_of(call, image, filter_size(filter));
  window.groups = attr_or<std::int64_t>(call, "groups", 1);
  return window;
}

// A convolution is linear in the image and in the filter. So there are three ops, each the gradient of the others: the
// convolution itself, and its gradients, which take, in place of the result, a tensor of its shape.
Tensor backprop_input(const Call& call, const Tensor& x_like, const Tensor& filter, const Tensor& g);
Tensor backprop_filter(const Call& call, const Tensor& x, const Tensor& filter_like, const Tensor& g);

TAPESTRY_OP(conv2d_op){{.name = "Conv2D",
                        .attrs = {"strides", "padding", "explicit_paddings", "dilations", "groups"},
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
                        .needs = needs_inputs}};

Tensor convolve(const Call& call, const Tensor& x, const Tensor& filter) {
  return apply(conv2d_op, {x, filter}, call.attrs());
}

TAPESTRY_OP(conv2d_backprop_input_op){
    {.name = "Conv2DBackpropInput",
     .attrs = {"strides", "padding", "explicit_paddings", "dilations", "groups"},
     .infer = [](const Call& call) -> Specs {
       require_image_and_filter(call.input(0), call.input(1));
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
     .needs = Needs{6, 0},
     .shape_inputs = 1}};

TAPESTRY_OP(conv2d_backprop_filter_op){
    {.name = "Conv2DBackpropFilter",
     .attrs = {"strides", "padding", "explicit_paddings", "dilations", "groups"},
     .infer = [](const Call& call) -> Specs {
       require_image_and_filter(call.input(0), call.input(1));
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
     .needs = Needs{5, 0},
     .shape_inputs = 2}};

Tensor backprop_input(const Call& call, const Tensor& x_like, const Tensor& filter, const Tensor& g) {
  return apply(conv2d_backprop_input_op, {x_like, filter, g}, call.attrs());
}
Tensor backprop_filter(const Call& call, const Tensor& x, const Tensor& filter_like, const Tensor& g) {
  return apply(conv2d_backprop_filter_op, {x, filter_like, g}, call.attrs());
}

}  // namespace

Tensor conv2d(In x, In filter, const Conv2dOptions& options, std::string_view name) {
  return blaming(conv2d_op.name, x.where(), [&] {
    if (options.groups < 1)
      throw InvalidArgumentError(detail::join("'groups' must be at least 1, but is ", options.groups));
    return apply(conv2d_op, {x, filter},
                 {{"strides", four("strides", options.strides)},
                  {"padding", options.padding.scheme()},
                  {"explicit_paddings", options.padding.widths()},
                  {"dilations", four("dilations", options.dilations)},
                  {"groups", options.groups}},
                 name);
  });
}

}  // namespace tapestry
