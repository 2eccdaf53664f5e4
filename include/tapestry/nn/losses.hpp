#pragma once

#include <optional>

#include "tapestry/op.hpp"

namespace tapestry::losses {

/// @addtogroup losses
/// How far predictions are from what they should be. The targets come first, as for the ops `tp::softmax_cross_entropy`
/// and its kin. Unless told otherwise a loss is the mean over its elements, a scalar, as in PyTorch, whose losses of
/// the same names these are. Targets and predictions must have the same shape, where nothing else is said: unlike
/// operators, losses do not broadcast, for [n] against [n,1] would be n^2 differences. Anything else throws
/// InvalidArgumentError.
/// @{

/// What becomes of the elements of a loss.
enum class Reduction {
  mean,        ///< their mean, a scalar
  sum,         ///< their sum, a scalar
  none,        ///< the elements themselves
  batch_mean,  ///< the sum, divided by the size of the first axis
};
/// For losses that have no other options.
struct LossOptions {
  Reduction reduction = Reduction::mean;  ///< of the elements
};

// ---- Numbers

/// (prediction - target)^2
TAPESTRY_API Tensor mse(In targets, In predictions, const LossOptions& options = {});
/// |prediction - target|
TAPESTRY_API Tensor l1(In targets, In predictions, const LossOptions& options = {});

/// Up to which difference `huber` squares.
struct HuberOptions {
  double delta = 1;                       ///< positive
  Reduction reduction = Reduction::mean;  ///< of the elements
};
/// With d = |prediction - target|: d^2 / 2 up to delta, and delta (d - delta / 2) beyond. (P. Huber, "Robust estimation
/// of a location parameter", 1964.) PyTorch's smooth_l1_loss of a beta is this with delta = beta, divided by beta; they
/// are the same for 1, the default of both.
TAPESTRY_API Tensor huber(In targets, In predictions, const HuberOptions& options = {});

// ---- Classes

/// How sure the targets are.
struct CrossEntropyOptions {
  double label_smoothing = 0;  ///< this part of each target is spread evenly over the classes; in [0, 1]
  /// [classes]: what each class counts; empty: 1. An element is the sum over the classes of weight * target *
  /// -log(p). Of labels, the mean is divided by the sum of the labels' weights, as PyTorch has it, not by their number.
  Tensor class_weights = {};
  /// Labels with this number, which need be none of a class, give 0 and do not count in the mean, which of such labels
  /// alone is NaN. PyTorch's default is -100; here every label counts by default. Not for distributions.
  std::optional<std::int64_t> ignore_index = {};
  Reduction reduction = Reduction::mean;  ///< of the elements
};
/// -sum(target * log_softmax(logits)) over the classes, which are the last axis of the logits. The targets are either
/// labels, int32 or int64 [...], for logits [..., classes], or distributions, floats [..., classes]. One element for
/// each example.
TAPESTRY_API Tensor cross_entropy(In targets, In logits, const CrossEntropyOptions& options = {});

/// Which labels count, and how much.
struct NLLOptions {
  Tensor class_weights = {};                      ///< as in CrossEntropyOptions
  std::optional<std::int64_t> ignore_index = {};  ///< as in CrossEntropyOptions
  Reduction reduction = Reduction::mean;          ///< of the elements
};
/// -log_probabilities at the labels: labels [...] (int32 or int64) and log_probabilities [..., classes].
TAPESTRY_API Tensor nll(In labels, In log_probabilities, const NLLOptions& options = {});

/// How much targets of 1 count.
struct BinaryCrossEntropyOptions {
  /// What a target of 1 counts, beside a target of 0, which counts 1: it broadcasts to the targets, such as a number
  /// for each of their last axis. Empty: 1.
  Tensor pos_weight = {};
  Reduction reduction = Reduction::mean;  ///< of the elements
};
/// -(pos_weight target log(p) + (1 - target) log(1 - p)) with p = sigmoid(logit), for targets in [0, 1].
TAPESTRY_API Tensor binary_cross_entropy_with_logits(In targets, In logits,
                                                     const BinaryCrossEntropyOptions& options = {});
/// target (log(target) - log_prediction), element by element, for targets that are probabilities; the divergence of
/// distributions is this with Reduction::batch_mean.
TAPESTRY_API Tensor kl_divergence(In targets, In log_predictions, const LossOptions& options = {});
/// max(0, 1 - target * prediction), for targets -1 and 1: a support vector machine's. (Not in PyTorch.)
TAPESTRY_API Tensor hinge(In targets, In predictions, const LossOptions& options = {});

// ---- Directions

/// The cosine of the angle between vectors along the last axis: [..., n] twice gives [...]. The product of the lengths,
/// by which the dot product is divided, counts as 1e-8 where it is less. Not a loss itself, but what `cosine_embedding`
/// is made of.
TAPESTRY_API Tensor cosine_similarity(In a, In b);

/// How far apart vectors have to be.
struct CosineEmbeddingOptions {
  double margin = 0;                      ///< in [-1, 1]
  Reduction reduction = Reduction::mean;  ///< of the elements
};
/// 1 - cosine where the target is 1, and max(0, cosine - margin) where it is -1: targets [...] and vectors [..., n].
TAPESTRY_API Tensor cosine_embedding(In targets, In a, In b, const CosineEmbeddingOptions& options = {});

/// @}

}  // namespace tapestry::losses
