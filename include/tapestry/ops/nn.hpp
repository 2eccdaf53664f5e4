#pragma once

#include <string>

#include "tapestry/ops/arguments.hpp"
#include "tapestry/ops/reduce.hpp"

namespace tapestry {

/// @addtogroup nn_ops
/// What neural networks are made of, in all float types; whole numbers become float32. Images are NHWC: [batch,
/// height, width, channels].
/// @{

// ---- Softmax and losses

/// exp(x) / sum(exp(x)) along an axis, without overflow: positive and summing to 1.
TAPESTRY_API Tensor softmax(In x, std::int64_t axis = -1, std::string_view name = {});
/// Along the last axis, with a name.
inline Tensor softmax(In x, const NodeName auto& name) { return softmax(x, -1, name); }
/// log(softmax(x)) without loss of digits.
TAPESTRY_API Tensor log_softmax(In x, std::int64_t axis = -1, std::string_view name = {});
/// Along the last axis, with a name.
inline Tensor log_softmax(In x, const NodeName auto& name) { return log_softmax(x, -1, name); }

// The losses take the labels first, in TensorFlow's order, and give one number per example: their mean is
// `reduce_mean(softmax_cross_entropy(labels, logits))`.

/// -sum(labels * log_softmax(logits)) over the last axis: [..., classes] twice gives [...]. The labels are
/// distributions over the classes, such as one-hot rows; they need not sum to 1.
TAPESTRY_API Tensor softmax_cross_entropy(In labels, In logits, std::string_view name = {});
/// -log_softmax(logits) at the label: labels [...] (int32 or int64) and logits [..., classes] give [...]. Throws
/// InvalidArgumentError for a label outside [0, classes).
TAPESTRY_API Tensor sparse_softmax_cross_entropy(In labels, In logits, std::string_view name = {});
/// -(labels * log(p) + (1 - labels) * log(1 - p)) with p = sigmoid(logits), accurate for logits of any size. Of one
/// shape, element by element.
TAPESTRY_API Tensor sigmoid_cross_entropy(In labels, In logits, std::string_view name = {});

// ---- Convolution and pooling

/// A size, stride or dilation of a window over an image: one number for both directions, or {vertical, horizontal}.
struct Size2d {
  std::int64_t height;  ///< vertical, in rows
  std::int64_t width;   ///< horizontal, in columns
  /// The same in both directions.
  template <AxisNumber T>
  constexpr Size2d(T both) : height(static_cast<std::int64_t>(both)), width(height) {}  // NOLINT: one for both
  /// Height, then width.
  constexpr Size2d(std::int64_t vertical, std::int64_t horizontal) : height(vertical), width(horizontal) {}
};

/// What a window finds outside an image: nothing ("VALID": windows lie within the image), as much as makes the output
/// ceil(input / stride) ("SAME": the odd row goes to the bottom, the odd column to the right), or explicit widths.
class TAPESTRY_API Padding2d {
 public:
  /// "VALID" or "SAME"; throws InvalidArgumentError for anything else.
  Padding2d(const char* scheme, Where where = Where::here());  // NOLINT(google-explicit-constructor): its name
  /// So many rows and columns of zeros on each side.
  template <AxisNumber T>
  Padding2d(T all_sides)  // NOLINT(google-explicit-constructor): one number for all sides
      : Padding2d(all_sides, all_sides, all_sides, all_sides) {}
  /// So many rows above and below the image, and columns on its left and right.
  Padding2d(std::int64_t top, std::int64_t bottom, std::int64_t left, std::int64_t right)
      : scheme_("EXPLICIT"), widths_{0, 0, top, bottom, left, right, 0, 0} {}

  /// "SAME", "VALID" or "EXPLICIT".
  const std::string& scheme() const { return scheme_; }
  /// TensorFlow's `explicit_paddings`: two numbers for each of the four axes; empty unless explicit.
  const Ints& widths() const { return widths_; }

 private:
  std::string scheme_;
  Ints widths_;
};

/// How the filter goes over the image.
struct Conv2dOptions {
  Size2d strides = 1;           ///< from one place of the filter to the next
  Padding2d padding = "VALID";  ///< zeros around the image
  Size2d dilations = 1;         ///< distance of neighbouring elements of the filter in the image
  std::int64_t groups = 1;      ///< input and output channels are cut into that many parts, convolved separately
};
/// Cross-correlation, TensorFlow's conv2d: x [batch, height, width, in] with a filter [height, width, in / groups, out]
/// gives [batch, out height, out width, out]. Throws InvalidArgumentError when channels do not fit, and when the filter
/// is larger than the image.
TAPESTRY_API Tensor conv2d(In x, In filter, const Conv2dOptions& options = {}, std::string_view name = {});
/// The same with a name and the defaults.
inline Tensor conv2d(In x, In filter, const NodeName auto& name) { return conv2d(x, filter, {}, name); }

/// How the filter goes over the result.
struct Conv2dTransposeOptions {
  Size2d strides = 1;           ///< from one place of the filter in the result to the next
  Padding2d padding = "VALID";  ///< that of the convolution; here it is what is cut off the result
  Size2d output_padding = 0;    ///< rows below and columns to the right that no window need reach; less than a stride
  Size2d dilations = 1;         ///< distance of neighbouring elements of the filter in the result
  std::int64_t groups = 1;      ///< input and output channels are cut into that many parts, treated separately
};
/// The transpose of `conv2d`, by which images grow: each element of x [batch, height, width, in] adds its multiple of
/// the filter [height, width, out / groups, in] to the result, a stride further on than its neighbour. The result,
/// [batch, out height, out width, out], is an image of which `conv2d` by the same filter and options makes one of x's
/// size: out height is (height - 1) * stride + (window - 1) * dilation + 1 + output_padding without what the padding
/// cuts off, or, for "SAME", height * stride. Throws InvalidArgumentError when channels do not fit, when nothing is
/// left, and when the filter's sizes are not known.
TAPESTRY_API Tensor conv2d_transpose(In x, In filter, const Conv2dTransposeOptions& options = {},
                                     std::string_view name = {});
/// The same with a name and the defaults.
inline Tensor conv2d_transpose(In x, In filter, const NodeName auto& name) {
  return conv2d_transpose(x, filter, {}, name);
}

/// How the window goes over the image.
struct Pool2dOptions {
  Size2d window = 2;            ///< its size
  Size2d strides = 0;           ///< 0: the window's size, so that windows tile the image
  Padding2d padding = "VALID";  ///< explicit widths must be smaller than the window
};
/// The largest element, or the mean, of each window of each channel. The border never wins a maximum and does not count
/// in a mean. Of several largest elements the first gets the gradient.
/// @{
TAPESTRY_API Tensor max_pool2d(In x, const Pool2dOptions& options = {}, std::string_view name = {});
inline Tensor max_pool2d(In x, const NodeName auto& name) { return max_pool2d(x, {}, name); }
TAPESTRY_API Tensor avg_pool2d(In x, const Pool2dOptions& options = {}, std::string_view name = {});
inline Tensor avg_pool2d(In x, const NodeName auto& name) { return avg_pool2d(x, {}, name); }
/// @}

// ---- Normalization

/// What `moments` gives.
struct Moments {
  Tensor mean;      ///< of the dtype that `reduce_mean` gives
  Tensor variance;  ///< the population's: divided by the number of elements
};
/// Mean and variance along axes: what `batch_norm` takes while training is `moments(x, {0, 1, 2})` for images and
/// `moments(x, 0)` for rows.
TAPESTRY_API Moments moments(In x, const Axes& axes = {}, const ReduceOptions& options = {},
                             std::string_view name = {});

/// (x - mean) / sqrt(variance + epsilon) * scale + offset, TensorFlow's batch_normalization: the tensors broadcast to
/// x, usually [channels] each. An empty Tensor as offset or scale leaves it out.
TAPESTRY_API Tensor batch_norm(In x, In mean, In variance, In offset, In scale, double epsilon = 1e-3,
                               std::string_view name = {});
/// The same with a name and an epsilon of 1e-3.
inline Tensor batch_norm(In x, In mean, In variance, In offset, In scale, const NodeName auto& name) {
  return batch_norm(x, mean, variance, offset, scale, 1e-3, name);
}

/// What `layer_norm` can be told.
struct LayerNormOptions {
  double epsilon = 1e-5;  ///< added to the variance
};
/// x normalized to mean 0 and variance 1 along its last axis, then times scale plus offset, which broadcast to x
/// (usually [features] each); Ba, Kiros and Hinton 2016. An empty Tensor as scale or offset leaves it out.
TAPESTRY_API Tensor layer_norm(In x, In scale, In offset, const LayerNormOptions& options = {},
                               std::string_view name = {});
/// The same with a name and the defaults.
inline Tensor layer_norm(In x, In scale, In offset, const NodeName auto& name) {
  return layer_norm(x, scale, offset, {}, name);
}

// ---- Layers

/// x with each element set to 0 with probability `rate`, and the others divided by 1 - rate, so that means stay; x
/// itself for a rate of 0. Draws from the global random stream. Throws InvalidArgumentError unless 0 <= rate < 1.
TAPESTRY_API Tensor dropout(In x, double rate, std::string_view name = {});
/// The rows of params [rows, ...] at the ids (int32 or int64): the result's shape is that of ids, then [...]. Throws
/// InvalidArgumentError for an id outside [0, rows).
TAPESTRY_API Tensor embedding_lookup(In params, In ids, std::string_view name = {});
/// x [..., channels] plus a bias [channels].
TAPESTRY_API Tensor bias_add(In x, In bias, std::string_view name = {});

/// @}

}  // namespace tapestry
