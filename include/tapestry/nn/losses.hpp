#pragma once

#include <optional>

#include "tapestry/op.hpp"

namespace tapestry::losses {

/// @addtogroup losses
/// The difference between predictions and targets. The targets come first, as for the op `tp::softmax_cross_entropy`
/// and similar ops. By default a loss is the mean over its elements, a scalar. These are PyTorch's losses of the same
/// names, except where noted.
///
/// Unless a function says otherwise, targets and predictions must have the same shape; another shape throws
/// InvalidArgumentError. Unlike operators, losses do not broadcast, because [n] and [n,1] would give n^2 differences.
/// @{

/// How the elements of a loss are reduced.
enum class Reduction {
  mean,        ///< their mean, a scalar
  sum,         ///< their sum, a scalar
  none,        ///< the elements themselves
  batch_mean,  ///< their sum, divided by the size of the first axis
};
/// The options of losses that have no others.
struct LossOptions {
  Reduction reduction = Reduction::mean;  ///< how the elements are reduced
};

// ---- Numbers

/// (prediction - target)^2
TAPESTRY_API Tensor mse(In targets, In predictions, const LossOptions& options = {});
/// |prediction - target|
TAPESTRY_API Tensor l1(In targets, In predictions, const LossOptions& options = {});

/// The options of `huber`.
struct HuberOptions {
  double delta = 1;                       ///< the largest difference that is squared; positive
  Reduction reduction = Reduction::mean;  ///< how the elements are reduced
};
/// With d = |prediction - target|: d^2 / 2 up to delta, and delta (d - delta / 2) beyond. (P. Huber, "Robust estimation
/// of a location parameter", 1964.) PyTorch's smooth_l1_loss of a beta is this with delta = beta, divided by beta. For
/// 1, the default of both, they are equal.
TAPESTRY_API Tensor huber(In targets, In predictions, const HuberOptions& options = {});

/// The options of `gaussian_nll`.
struct GaussianNLLOptions {
  bool full = false;                      ///< whether to add log(2 pi) / 2
  double epsilon = 1e-6;                  ///< the least variance
  Reduction reduction = Reduction::mean;  ///< how the elements are reduced
};
/// (log(variance) + (prediction - target)^2 / variance) / 2, for predictions that are normal distributions. The
/// variances, which must not be negative, have the shape of the predictions, or 1 as the size of their last axis. A
/// variance below epsilon counts as epsilon and has no gradient.
TAPESTRY_API Tensor gaussian_nll(In targets, In predictions, In variances, const GaussianNLLOptions& options = {});

/// The options of `poisson_nll`.
struct PoissonNLLOptions {
  bool log_input = true;                  ///< whether predictions are logarithms
  double epsilon = 1e-8;                  ///< what is added to predictions that are none, before their logarithm
  Reduction reduction = Reduction::mean;  ///< how the elements are reduced
};
/// exp(prediction) - target * prediction, or prediction - target * log(prediction): for targets that are counts,
/// without the term that does not depend on the predictions.
TAPESTRY_API Tensor poisson_nll(In targets, In predictions, const PoissonNLLOptions& options = {});

// ---- Classes

/// The options of `cross_entropy`.
struct CrossEntropyOptions {
  /// The fraction of each target that is spread evenly over the classes; in [0, 1].
  double label_smoothing = 0;
  /// The weight of each class, [classes]; empty: 1. An element of the loss is the sum over the classes of weight *
  /// target * -log(p). For labels, the mean is divided by the sum of the weights of the labels, as in PyTorch, and not
  /// by their number.
  Tensor class_weights = {};
  /// A label that is ignored: its element is 0 and does not count in the mean, which is NaN if there are no other
  /// labels. It need not be a class. PyTorch's default is -100; here every label counts by default. It cannot be used
  /// with distributions.
  std::optional<std::int64_t> ignore_index = {};
  /// How the elements are reduced.
  Reduction reduction = Reduction::mean;
};
/// -sum(target * log_softmax(logits)) over the classes, which are the last axis of the logits [..., classes]. The
/// targets are either labels, int32 or int64 [...], or distributions, floats [..., classes]. There is one element for
/// each example.
TAPESTRY_API Tensor cross_entropy(In targets, In logits, const CrossEntropyOptions& options = {});

/// The options of `nll`.
struct NLLOptions {
  Tensor class_weights = {};                      ///< as in CrossEntropyOptions
  std::optional<std::int64_t> ignore_index = {};  ///< as in CrossEntropyOptions
  Reduction reduction = Reduction::mean;          ///< how the elements are reduced
};
/// -log_probabilities at the labels: labels [...] (int32 or int64) and log_probabilities [..., classes].
TAPESTRY_API Tensor nll(In labels, In log_probabilities, const NLLOptions& options = {});

/// The options of `binary_cross_entropy_with_logits`.
struct BinaryCrossEntropyOptions {
  /// The weight of a target of 1, relative to a target of 0; empty: 1. It broadcasts to the targets: it may be, for
  /// example, a number for each element of their last axis.
  Tensor pos_weight = {};
  /// How the elements are reduced.
  Reduction reduction = Reduction::mean;
};
/// -(pos_weight target log(p) + (1 - target) log(1 - p)) with p = sigmoid(logit), for targets in [0, 1].
TAPESTRY_API Tensor binary_cross_entropy_with_logits(In targets, In logits,
                                                     const BinaryCrossEntropyOptions& options = {});
/// target (log(target) - log_prediction), element by element, for targets that are probabilities. The divergence of
/// distributions is this with Reduction::batch_mean.
TAPESTRY_API Tensor kl_divergence(In targets, In log_predictions, const LossOptions& options = {});
/// max(0, 1 - target * prediction), for targets -1 and 1: the loss of support vector machines. (Not in PyTorch.)
TAPESTRY_API Tensor hinge(In targets, In predictions, const LossOptions& options = {});

// ---- Directions

/// The cosine of the angle between vectors along the last axis: a and b [..., n] give [...]. Each vector is divided by
/// its length, or by 1e-8 if that is more, as in PyTorch. This is not a loss itself; `cosine_embedding` uses it.
TAPESTRY_API Tensor cosine_similarity(In a, In b);

/// The options of `cosine_embedding`.
struct CosineEmbeddingOptions {
  double margin = 0;                      ///< the cosine below which different vectors have no loss; in [-1, 1]
  Reduction reduction = Reduction::mean;  ///< how the elements are reduced
};
/// 1 - cosine where the target is 1, and max(0, cosine - margin) where it is -1: targets [...] and vectors [..., n].
TAPESTRY_API Tensor cosine_embedding(In targets, In a, In b, const CosineEmbeddingOptions& options = {});

/// The options of `triplet_margin`.
struct TripletMarginOptions {
  double margin = 1;                      ///< by how much the other vector is to be farther away
  Reduction reduction = Reduction::mean;  ///< how the elements are reduced
};
/// max(0, |anchor - positive| - |anchor - negative| + margin) with Euclidean distances along the last axis: three
/// tensors [..., n]. As in PyTorch, 1e-6 is added to each difference.
TAPESTRY_API Tensor triplet_margin(In anchors, In positives, In negatives, const TripletMarginOptions& options = {});

/// @}

}  // namespace tapestry::losses
