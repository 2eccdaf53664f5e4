#pragma once

// How a window moves over NHWC images: what convolution and pooling share.

#include "ops/support.hpp"
#include "tapestry/ops/nn.hpp"

namespace tapestry {

/// [1, height, width, 1]: TensorFlow's form of a stride, a dilation or a window. Throws InvalidArgumentError below 1.
Ints four(std::string_view what, const Size2d& size);

/// The attributes of an op that moves a window: those of a convolution, and those of pooling.
std::vector<OpAttr> conv_attrs();
std::vector<OpAttr> pool_attrs();

/// Throws InvalidArgumentError unless the window's attributes have the form that the functions below expect.
void check_window_attrs(const Call& call);

/// The window of a call, of the given size, over an image of a known shape. The attributes "strides", "dilations",
/// "padding" and "explicit_paddings" give the rest.
Window2d window_of(const Call& call, const Shape& image, const Size2d& window);

/// The shape of the result, with the image's channels; sizes may be unknown. Throws InvalidArgumentError when the
/// window does not fit into the image.
Shape window_output(const Call& call, const Shape& image, const Size2d& window);

}  // namespace tapestry
