#pragma once

#include <string>

#include "tapestry/ops/arguments.hpp"
#include "tapestry/ops/reduce.hpp"

namespace tapestry {

/// @addtogroup nn_ops
/// Functions for neural networks, in all float types; integers become float32. Images are NHWC: [batch, height, width,
/// channels].
/// @{

// ---- Softmax and losses

/// exp(x) / sum(exp(x)) along an axis, without overflow. The elements are positive, and their sum is 1.
TAPESTRY_API Tensor softmax(In x, std::int64_t axis = -1, std::string_view name = {});
/// The same along the last axis, with a name.
inline Tensor softmax(In x, const NodeName auto& name) { return softmax(x, -1, name); }
/// log(softmax(x)) without loss of digits.
TAPESTRY_API Tensor log_softmax(In x, std::int64_t axis = -1, std::string_view name = {});
/// The same along the last axis, with a name.
inline Tensor log_softmax(In x, const NodeName auto& name) { return log_softmax(x, -1, name); }

// The losses take the labels first, in TensorFlow's order, and return one number for each example. The mean is
// `reduce_mean(softmax_cross_entropy(labels, logits))`.

/// -sum(labels * log_softmax(logits)) over the last axis: labels and logits [..., classes] give [...]. The labels are
/// distributions over the classes, such as one-hot rows; their sums need not be 1.
TAPESTRY_API Tensor softmax_cross_entropy(In labels, In logits, std::string_view name = {});
/// -log_softmax(logits) at the label: labels [...] (int32 or int64) and logits [..., classes] give [...]. Throws
/// InvalidArgumentError for a label outside [0, classes).
TAPESTRY_API Tensor sparse_softmax_cross_entropy(In labels, In logits, std::string_view name = {});
/// -(labels * log(p) + (1 - labels) * log(1 - p)) with p = sigmoid(logits), element by element, and accurate for logits
/// of any size. Labels and logits have the same shape.
TAPESTRY_API Tensor sigmoid_cross_entropy(In labels, In logits, std::string_view name = {});

/// The options of `ctc_loss`.
struct CTCLossOptions {
  std::int64_t blank = 0;      ///< the class that stands for no label; -1, the last one, is TensorFlow's op's
  bool zero_infinity = false;  ///< whether a sequence that is too short for its labels has the loss 0
};
/// The loss of connectionist temporal classification: -log of the probability of the labels, which is the sum over all
/// ways of writing them along the time, with blanks and repetitions between. Logits [time, batch, classes] and labels
/// [batch, longest] give [batch]; the lengths are [batch], all integers int32 or int64. Labels behind the length, which
/// may be any numbers, and logits behind the length have no part in it. A sequence that is too short for its labels
/// has probability 0: its loss is infinite, and its gradient 0. Throws InvalidArgumentError for lengths and labels out
/// of range, and for a label that is the blank. (A. Graves et al., "Connectionist temporal classification", 2006.)
TAPESTRY_API Tensor ctc_loss(In labels, In logits, In label_length, In logit_length, const CTCLossOptions& options = {},
                             std::string_view name = {});
/// The same with default options and a name.
inline Tensor ctc_loss(In labels, In logits, In label_length, In logit_length, const NodeName auto& name) {
  return ctc_loss(labels, logits, label_length, logit_length, {}, name);
}

/// The options of `ctc_greedy_decoder`.
struct CTCDecoderOptions {
  std::int64_t blank = 0;      ///< the class that stands for no label; negative ones count from the last
  bool merge_repeated = true;  ///< whether a class that follows itself counts once
};
/// The result of `ctc_greedy_decoder`.
struct CTCDecoded {
  Tensor labels;          ///< [batch, longest], -1 behind the length; int64
  Tensor lengths;         ///< [batch]; int64
  Tensor neg_sum_logits;  ///< minus the sum of the largest logits of each sequence: [batch]
};
/// The labels that the largest logits [time, batch, classes] tell, without blanks and repetitions. The lengths are
/// [batch], int32 or int64. Throws InvalidArgumentError for lengths and a blank out of range.
TAPESTRY_API CTCDecoded ctc_greedy_decoder(In logits, In logit_length, const CTCDecoderOptions& options = {},
                                           std::string_view name = {});

// ---- Convolution and pooling

/// The size, stride or dilation of a window over an image: one number for both directions, or {vertical, horizontal}.
struct Size2d {
  std::int64_t height;  ///< vertical, in rows
  std::int64_t width;   ///< horizontal, in columns
  /// One number for both directions.
  template <AxisNumber T>
  constexpr Size2d(T both) : height(static_cast<std::int64_t>(both)), width(height) {}  // NOLINT: one for both
  /// The height, then the width.
  constexpr Size2d(std::int64_t vertical, std::int64_t horizontal) : height(vertical), width(horizontal) {}
};

/// The border of a convolution or a pooling: none ("VALID": windows stay within the image), as much as gives the output
/// the size ceil(input / stride) ("SAME": an odd row goes to the bottom, an odd column to the right), or explicit
/// widths.
class TAPESTRY_API Padding2d {
 public:
  /// "VALID" or "SAME"; throws InvalidArgumentError for anything else.
  Padding2d(const char* scheme, Where where = Where::here());  // NOLINT(google-explicit-constructor): its name
  /// A border of the same width on all sides.
  template <AxisNumber T>
  Padding2d(T all_sides)  // NOLINT(google-explicit-constructor): one number for all sides
      : Padding2d(all_sides, all_sides, all_sides, all_sides) {}
  /// The numbers of rows both above and below the image, and of columns both on its left and on its right.
  Padding2d(std::int64_t vertical, std::int64_t horizontal) : Padding2d(vertical, vertical, horizontal, horizontal) {}
  /// The numbers of rows above and below the image, and of columns on its left and right.
  Padding2d(std::int64_t top, std::int64_t bottom, std::int64_t left, std::int64_t right)
      : scheme_("EXPLICIT"), widths_{0, 0, top, bottom, left, right, 0, 0} {}

  /// "SAME", "VALID" or "EXPLICIT".
  const std::string& scheme() const { return scheme_; }
  /// TensorFlow's `explicit_paddings`: two numbers for each of the four axes; empty for "SAME" and "VALID".
  const Ints& widths() const { return widths_; }

 private:
  std::string scheme_;
  Ints widths_;
};

/// How the filter moves over the image.
struct Conv2dOptions {
  /// The distance between neighbouring positions of the filter.
  Size2d strides = 1;
  /// The border of zeros around the image.
  Padding2d padding = "VALID";
  /// The distance in the image between neighbouring elements of the filter.
  Size2d dilations = 1;
  /// The number of groups into which input and output channels are divided. Each group is convolved separately.
  std::int64_t groups = 1;
};
/// Cross-correlation, TensorFlow's conv2d: x [batch, height, width, in] with a filter [height, width, in / groups, out]
/// gives [batch, out height, out width, out]. Throws InvalidArgumentError when channels do not fit, and when the filter
/// is larger than the image.
TAPESTRY_API Tensor conv2d(In x, In filter, const Conv2dOptions& options = {}, std::string_view name = {});
/// The same with default options and a name.
inline Tensor conv2d(In x, In filter, const NodeName auto& name) {
  return conv2d(x, filter, {}, detail::plain_name(name, detail::Worded::padding, x.where()));
}

/// How the filter moves over the result.
struct Conv2dTransposeOptions {
  /// The distance in the result between neighbouring positions of the filter.
  Size2d strides = 1;
  /// The border of the convolution, which here is cut off the result.
  Padding2d padding = "VALID";
  /// Additional rows below and columns on the right of the result, which no window needs to reach. It must be less than
  /// the stride or the dilation.
  Size2d output_padding = 0;
  /// The distance in the result between neighbouring elements of the filter.
  Size2d dilations = 1;
  /// The number of groups into which input and output channels are divided. Each group is treated separately.
  std::int64_t groups = 1;
};
/// The transpose of `conv2d`, which enlarges images: each element of x [batch, height, width, in] adds a multiple of
/// the filter [height, width, out / groups, in] to the result. Neighbouring elements add theirs at a distance of one
/// stride. The result, [batch, out height, out width, out], is an image from which `conv2d` with the same filter and
/// options makes one of x's size. The out height is (height - 1) * stride + (window - 1) * dilation + 1 +
/// output_padding minus the padding, or, for "SAME", height * stride. Throws InvalidArgumentError when channels do not
/// fit, when the result has no rows or columns left, and when the sizes of the filter are not known.
TAPESTRY_API Tensor conv2d_transpose(In x, In filter, const Conv2dTransposeOptions& options = {},
                                     std::string_view name = {});
/// The same with default options and a name.
inline Tensor conv2d_transpose(In x, In filter, const NodeName auto& name) {
  return conv2d_transpose(x, filter, {}, detail::plain_name(name, detail::Worded::padding, x.where()));
}

/// How the window moves over the image.
struct Pool2dOptions {
  Size2d window = 2;            ///< the size of the window
  Size2d strides = 0;           ///< by default 0, the window's size, so that windows do not overlap
  Padding2d padding = "VALID";  ///< explicit widths must be smaller than the window
};
/// The largest element, or the mean, of each window in each channel. The border has no part in the maximum or in the
/// mean. If several elements are the largest, the first gets the gradient.
/// @{
TAPESTRY_API Tensor max_pool2d(In x, const Pool2dOptions& options = {}, std::string_view name = {});
inline Tensor max_pool2d(In x, const NodeName auto& name) {
  return max_pool2d(x, {}, detail::plain_name(name, detail::Worded::padding, x.where()));
}
TAPESTRY_API Tensor avg_pool2d(In x, const Pool2dOptions& options = {}, std::string_view name = {});
inline Tensor avg_pool2d(In x, const NodeName auto& name) {
  return avg_pool2d(x, {}, detail::plain_name(name, detail::Worded::padding, x.where()));
}
/// @}

// ---- Normalization

/// The result of `moments`.
struct Moments {
  Tensor mean;      ///< of the same dtype as the result of `reduce_mean`
  Tensor variance;  ///< the variance of the population: divided by the number of elements
};
/// Mean and variance along axes. While training, `batch_norm` is called with `moments(x, {0, 1, 2})` for images and
/// `moments(x, 0)` for rows.
TAPESTRY_API Moments moments(In x, const Axes& axes = {}, const ReduceOptions& options = {},
                             std::string_view name = {});
/// The same with default options and a name.
/// @{
inline Moments moments(In x, const Axes& axes, const NodeName auto& name) { return moments(x, axes, {}, name); }
inline Moments moments(In x, const NodeName auto& name) { return moments(x, {}, {}, name); }
/// @}

/// (x - mean) / sqrt(variance + epsilon) * scale + offset: TensorFlow's batch_normalization. The tensors broadcast to
/// x; usually they are [channels] each. An empty Tensor as offset or scale leaves it out.
TAPESTRY_API Tensor batch_norm(In x, In mean, In variance, In offset, In scale, double epsilon = 1e-3,
                               std::string_view name = {});
/// The same with a name and an epsilon of 1e-3.
inline Tensor batch_norm(In x, In mean, In variance, In offset, In scale, const NodeName auto& name) {
  return batch_norm(x, mean, variance, offset, scale, 1e-3, name);
}

/// The result of `batch_norm_training`.
struct BatchNormTraining {
  Tensor y;         ///< the normalized x
  Tensor mean;      ///< of each channel: [channels]
  Tensor variance;  ///< of each channel, that of the population: [channels]
};
/// `batch_norm` with the moments of x [..., channels] itself, each channel's over all other axes. scale and offset are
/// [channels]. It is faster than `moments` and `batch_norm`: x is read once for both moments. Throws
/// InvalidArgumentError when the shapes do not fit, x has fewer than two axes, or there is one value per channel.
TAPESTRY_API BatchNormTraining batch_norm_training(In x, In scale, In offset, double epsilon = 1e-3,
                                                   std::string_view name = {});
/// The same with a name and an epsilon of 1e-3.
inline BatchNormTraining batch_norm_training(In x, In scale, In offset, const NodeName auto& name) {
  return batch_norm_training(x, scale, offset, 1e-3, name);
}

/// The parameter of `layer_norm`.
struct LayerNormOptions {
  double epsilon = 1e-5;  ///< a number that is added to the variance
};
/// x normalized to mean 0 and variance 1 along its last axis, then multiplied by scale, plus offset (Ba, Kiros and
/// Hinton 2016). Scale and offset broadcast to x; usually they are [features] each. An empty Tensor as scale or offset
/// leaves it out.
TAPESTRY_API Tensor layer_norm(In x, In scale, In offset, const LayerNormOptions& options = {},
                               std::string_view name = {});
/// The same with default options and a name.
inline Tensor layer_norm(In x, In scale, In offset, const NodeName auto& name) {
  return layer_norm(x, scale, offset, {}, name);
}

// ---- Layers

/// x with each element set to 0 with probability `rate`, and the others divided by 1 - rate, which keeps the mean. For
/// a rate of 0 it is x itself. Draws from the global random stream. Throws InvalidArgumentError unless 0 <= rate < 1.
TAPESTRY_API Tensor dropout(In x, double rate, std::string_view name = {});
/// The rows of params [rows, ...] at the ids (int32 or int64). The shape of the result is that of ids, then [...]. The
/// gradient of params is row-sparse (see `indexed_slices`), as it is with `gather` along axis 0. Throws
/// InvalidArgumentError for an id outside [0, rows).
TAPESTRY_API Tensor embedding_lookup(In params, In ids, std::string_view name = {});
/// x [..., channels] plus a bias [channels].
TAPESTRY_API Tensor bias_add(In x, In bias, std::string_view name = {});

/// @}

}  // namespace tapestry
