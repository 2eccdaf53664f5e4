#include "tapestry/nn/losses.hpp"

#include <cmath>
#include <numbers>

#include "dispatch/recorder.hpp"
#include "ops/checked_like.hpp"
#include "ops/support.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::losses {
namespace {

using detail::join;

/// The targets, which must have the shape of the predictions.
Tensor fitting(const Tensor& targets, const Tensor& predictions) {
  if (!agree(targets.shape(), predictions.shape()))
    throw InvalidArgumentError(join("Targets and predictions must have the same shape, but have ", targets.shape(),
                                    " and ", predictions.shape()));
  return checked_like(targets, predictions);
}

void require_weights(const Tensor& pos_weight, const Tensor& targets) {
  if (!pos_weight.shape().has_rank() || !targets.shape().has_rank()) return;
  try {
    require_broadcast(pos_weight.shape(), targets.shape());
  } catch (const InvalidArgumentError&) {
    throw InvalidArgumentError(
        join("pos_weight ", pos_weight.shape(), " must broadcast to the targets ", targets.shape()));
  }
}

Tensor reduced(const Tensor& elements, Reduction reduction) {
  if (reduction == Reduction::none) return elements;
  if (reduction == Reduction::mean) return reduce_mean(elements);
  if (reduction == Reduction::sum || elements.shape().rank() == 0) return reduce_sum(elements);
  if (!elements.shape().has_rank()) throw InvalidArgumentError("Reduction::batch_mean needs a known number of axes");
  Ints within_example;
  for (int axis = 1; axis < elements.rank(); ++axis) within_example.push_back(axis);
  return reduce_mean(reduce_sum(elements, within_example));
}

/// A loss that is computed element by element from targets and predictions of one shape. Whole numbers become float32:
/// their differences and squares leave the range of their types.
template <class F>
Tensor elementwise(std::string_view name, const In& targets, const In& predictions, Reduction reduction, F element) {
  return blaming(name, predictions.where(), [&] {
    const Tensor t = fitting(targets, predictions);
    const Tensor& p = predictions.tensor();
    const bool has_floats = is_floating(t.dtype()) || is_floating(p.dtype());
    return reduced(has_floats ? element(t, p) : element(as_floats(t), as_floats(p)), reduction);
  });
}

// ---- Labels

std::string text_of(const Tensor& x) { return to_string(x.dtype()) + to_string(x.shape()); }

/// The shape of labels: that of the scores without the last axis, the classes.
Shape shape_of_labels(const Tensor& scores) {
  const auto sizes = scores.shape().sizes();
  return Shape(sizes.first(sizes.size() - 1));
}

bool are_labels(const Tensor& targets, const Tensor& scores) {
  return (targets.dtype() == int32 || targets.dtype() == int64) && agree(targets.shape(), shape_of_labels(scores));
}

/// Whether targets can be checked against these scores. The ops refuse scores without an axis of classes.
bool have_classes(const Tensor& scores) { return scores.shape().has_rank() && scores.rank() > 0; }

void require_labels_or_distributions(const Tensor& targets, const Tensor& logits) {
  if (!have_classes(logits) || targets.dtype() == DType::unknown || are_labels(targets, logits)) return;
  if (is_floating(targets.dtype()) && agree(targets.shape(), logits.shape())) return;
  throw InvalidArgumentError(join("The targets are ", text_of(targets), "; for logits ", logits.shape(),
                                  " they must be labels, int32 or int64 ", shape_of_labels(logits),
                                  ", or distributions, of a float type, ", logits.shape()));
}

void require_labels(const Tensor& labels, const Tensor& scores) {
  if (!have_classes(scores) || labels.dtype() == DType::unknown || are_labels(labels, scores)) return;
  throw InvalidArgumentError(join("The labels are ", text_of(labels), "; for log_probabilities ", scores.shape(),
                                  " they must be int32 or int64 ", shape_of_labels(scores)));
}

/// The weights, which must be one for each class.
Tensor checked_class_weights(const Tensor& weights, const Tensor& scores) {
  if (!weights || !scores.shape().has_rank() || scores.rank() == 0) return weights;
  const Dimension classes = scores.shape().back();
  if (!agree(weights.shape(), {classes}))
    throw InvalidArgumentError(
        join("class_weights must be [classes] = ", Shape{classes}, ", but are ", weights.shape()));
  return checked_like(weights, Shape{classes});
}

/// The labels of a classification loss: which ones count, and with what weight.
class Labels {
 public:
  Tensor classes;  ///< class 0 for ignored labels

  Labels(const Tensor& labels, const Tensor& class_weights, std::optional<std::int64_t> ignored)
      : classes(labels), class_weights_(class_weights) {
    if (!ignored) return;
    counts_ = not_equal(labels, *ignored);
    classes = where(counts_, labels, 0);
  }

  /// The elements, 0 where the label is ignored.
  Tensor kept(const Tensor& elements) const { return counts_ ? where(counts_, elements, 0) : elements; }

  /// The elements, each times the weight of its label; 0 where the label is ignored.
  Tensor weighted(const Tensor& elements) const {
    return kept(class_weights_ ? elements * gather(class_weights_, classes) : elements);
  }

  Tensor reduced(const Tensor& elements, Reduction reduction) const {
    if (reduction != Reduction::mean || (!counts_ && !class_weights_)) return losses::reduced(elements, reduction);
    return reduce_sum(elements) / reduce_sum(weighted(ones_like(elements)));
  }

 private:
  Tensor class_weights_, counts_;  ///< empty where all labels count the same
};

Tensor weighted_log_softmax(const Tensor& logits, const Tensor& class_weights) {
  return class_weights ? class_weights * log_softmax(logits) : log_softmax(logits);
}

Tensor of_distributions(const Tensor& targets, const Tensor& logits, const Tensor& class_weights,
                        const CrossEntropyOptions& options) {
  if (options.ignore_index) throw InvalidArgumentError("ignore_index is for labels; the targets are distributions");
  const double smoothing = options.label_smoothing;
  Tensor loss;
  if (class_weights) {
    loss = -reduce_sum(fitting(targets, logits) * weighted_log_softmax(logits, class_weights), -1);
  } else {
    loss = softmax_cross_entropy(targets, logits);
  }
  if (smoothing > 0)
    loss = (1 - smoothing) * loss - smoothing * reduce_mean(weighted_log_softmax(logits, class_weights), -1);
  return reduced(loss, options.reduction);
}

}  // namespace

Tensor mse(In targets, In predictions, const LossOptions& options) {
  return elementwise("mse", targets, predictions, options.reduction,
                     [](const Tensor& t, const Tensor& p) { return squared_difference(p, t); });
}

Tensor l1(In targets, In predictions, const LossOptions& options) {
  return elementwise("l1", targets, predictions, options.reduction,
                     [](const Tensor& t, const Tensor& p) { return abs(p - t); });
}

Tensor huber(In targets, In predictions, const HuberOptions& options) {
  if (!(options.delta > 0))
    throw InvalidArgumentError(join("delta must be positive, but is ", options.delta), "huber", predictions.where());
  return elementwise("huber", targets, predictions, options.reduction, [&](const Tensor& t, const Tensor& p) {
    // |p - t| would have no second derivative where both are equal.
    const Tensor distance = p - t, near = clip(distance, -options.delta, options.delta);
    return near * (distance - 0.5 * near);
  });
}

Tensor gaussian_nll(In targets, In predictions, In variances, const GaussianNLLOptions& options) {
  if (!(options.epsilon > 0))
    throw InvalidArgumentError(join("epsilon must be positive, but is ", options.epsilon), "gaussian_nll",
                               predictions.where());
  return elementwise("gaussian_nll", targets, predictions, options.reduction, [&](const Tensor& t, const Tensor& p) {
    if (variances->shape().has_rank() && p.shape().has_rank()) {
      Shape narrow = p.shape();
      if (narrow.rank() > 0) narrow.set(narrow.rank() - 1, 1);
      if (!agree(variances->shape(), p.shape()) && !agree(variances->shape(), narrow))
        throw InvalidArgumentError(
            join("variances must be ", p.shape(), " or ", narrow, ", but are ", variances->shape()));
    }
    const Tensor variance = maximum(as_floats(variances), options.epsilon);
    const Tensor elements = 0.5 * (log(variance) + squared_difference(p, t) / variance);
    return options.full ? elements + 0.5 * std::log(2 * std::numbers::pi) : elements;
  });
}

Tensor poisson_nll(In targets, In predictions, const PoissonNLLOptions& options) {
  return elementwise("poisson_nll", targets, predictions, options.reduction, [&](const Tensor& t, const Tensor& p) {
    return options.log_input ? exp(p) - t * p : p - t * log(p + options.epsilon);
  });
}

Tensor cross_entropy(In targets, In logits, const CrossEntropyOptions& options) {
  const double smoothing = options.label_smoothing;
  if (!(smoothing >= 0 && smoothing <= 1))
    throw InvalidArgumentError(join("label_smoothing must be in [0, 1], but is ", smoothing), "cross_entropy",
                               logits.where());
  return blaming("cross_entropy", logits.where(), [&] {
    require_labels_or_distributions(targets, logits);
    const Tensor class_weights = checked_class_weights(options.class_weights, logits);
    if (is_floating(targets->dtype())) return of_distributions(targets, logits, class_weights, options);
    const Labels labels(targets, class_weights, options.ignore_index);
    Tensor loss = labels.weighted(sparse_softmax_cross_entropy(labels.classes, logits));
    if (smoothing > 0) {
      const Tensor spread = labels.kept(reduce_mean(weighted_log_softmax(logits, class_weights), -1));
      loss = (1 - smoothing) * loss - smoothing * spread;
    }
    return labels.reduced(loss, options.reduction);
  });
}

Tensor nll(In labels, In log_probabilities, const NLLOptions& options) {
  return blaming("nll", log_probabilities.where(), [&] {
    require_labels(labels, log_probabilities);
    const Tensor class_weights = checked_class_weights(options.class_weights, log_probabilities);
    const Labels of(labels, class_weights, options.ignore_index);
    const Tensor picked = take_along_axis(log_probabilities, expand_dims(of.classes, -1), -1);
    return of.reduced(of.weighted(-squeeze(picked, -1)), options.reduction);
  });
}

Tensor binary_cross_entropy_with_logits(In targets, In logits, const BinaryCrossEntropyOptions& options) {
  const auto element = [&](const Tensor& t, const Tensor& z) {
    if (!options.pos_weight) return sigmoid_cross_entropy(t, z);
    require_weights(options.pos_weight, t);
    return (1 - t) * z + fitting(1 + (options.pos_weight - 1) * t, t) * softplus(-z);
  };
  return elementwise("binary_cross_entropy_with_logits", targets, logits, options.reduction, element);
}

Tensor kl_divergence(In targets, In log_predictions, const LossOptions& options) {
  return elementwise("kl_divergence", targets, log_predictions, options.reduction,
                     [](const Tensor& t, const Tensor& log_p) { return xlogy(t, t) - t * log_p; });
}

Tensor hinge(In targets, In predictions, const LossOptions& options) {
  return elementwise("hinge", targets, predictions, options.reduction,
                     [](const Tensor& t, const Tensor& p) { return relu(1 - t * p); });
}

Tensor cosine_similarity(In a, In b) {
  return blaming("cosine_similarity", a.where(), [&] {
    const Tensor given = fitting(a, b), x = widened(given), y = widened(b);
    constexpr double least = 1e-8;
    // Each vector is divided by its own length: the product of both lengths leaves the range of float32 sooner.
    const auto direction = [&](const Tensor& v) {
      return v * rsqrt(maximum(reduce_sum(square(v), -1, {.keep_dims = true}), least * least));
    };
    const Tensor cosine = reduce_sum(direction(x) * direction(y), -1);
    return b->dtype() == given.dtype() ? narrowed(cosine, given) : cosine;
  });
}

Tensor cosine_embedding(In targets, In a, In b, const CosineEmbeddingOptions& options) {
  if (!(options.margin >= -1 && options.margin <= 1))
    throw InvalidArgumentError(join("margin must be in [-1, 1], but is ", options.margin), "cosine_embedding",
                               a.where());
  return blaming("cosine_embedding", a.where(), [&] {
    const Tensor cosine = cosine_similarity(a, b);
    const Tensor is_alike = greater(fitting(targets, cosine), 0);
    const Tensor elements = tapestry::where(is_alike, 1 - cosine, relu(cosine - options.margin));
    return reduced(elements, options.reduction);
  });
}

Tensor triplet_margin(In anchors, In positives, In negatives, const TripletMarginOptions& options) {
  return blaming("triplet_margin", anchors.where(), [&] {
    const auto distance = [&](const Tensor& other) {
      return norm(as_floats(anchors) - as_floats(fitting(other, anchors)) + 1e-6, {.axis = -1});
    };
    return reduced(relu(distance(positives) - distance(negatives) + options.margin), options.reduction);
  });
}

}  // namespace tapestry::losses
