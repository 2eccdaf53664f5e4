#include "tapestry/nn/losses.hpp"

#include "dispatch/recorder.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::losses {
namespace {

using detail::join;

void require_same_shape(const Tensor& targets, const Tensor& predictions) {
  if (!agree(targets.shape(), predictions.shape()))
    throw InvalidArgumentError(join("Targets and predictions must have the same shape, but have ", targets.shape(),
                                    " and ", predictions.shape()));
}

Tensor reduced(const Tensor& elements, Reduction reduction) {
  if (reduction == Reduction::none) return elements;
  if (reduction == Reduction::mean) return reduce_mean(elements);
  if (reduction == Reduction::sum || elements.rank() == 0) return reduce_sum(elements);
  if (!elements.shape().has_rank()) throw InvalidArgumentError("Reduction::batch_mean needs a known number of axes");
  Ints within_example;
  for (int axis = 1; axis < elements.rank(); ++axis) within_example.push_back(axis);
  return reduce_mean(reduce_sum(elements, within_example));
}

/// A loss of elements that are made of targets and predictions of one shape.
template <class F>
Tensor elementwise(std::string_view name, const In& targets, const In& predictions, Reduction reduction, F element) {
  return blaming(name, predictions.where(), [&] {
    require_same_shape(targets, predictions);
    return reduced(element(targets.tensor(), predictions.tensor()), reduction);
  });
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
    const Tensor distance = abs(p - t), near = minimum(distance, options.delta);
    return near * (distance - 0.5 * near);
  });
}

Tensor cross_entropy(In targets, In logits, const CrossEntropyOptions& options) {
  const double smoothing = options.label_smoothing;
  if (!(smoothing >= 0 && smoothing <= 1))
    throw InvalidArgumentError(join("label_smoothing must be in [0, 1], but is ", smoothing), "cross_entropy",
                               logits.where());
  return blaming("cross_entropy", logits.where(), [&] {
    const bool are_labels = !is_floating(targets->dtype());
    Tensor loss = are_labels ? sparse_softmax_cross_entropy(targets, logits) : softmax_cross_entropy(targets, logits);
    if (smoothing > 0) loss = (1 - smoothing) * loss - smoothing * reduce_mean(log_softmax(logits), -1);
    return reduced(loss, options.reduction);
  });
}

Tensor nll(In labels, In log_probabilities, const LossOptions& options) {
  return blaming("nll", log_probabilities.where(), [&] {
    const Tensor picked = take_along_axis(log_probabilities, expand_dims(labels, -1), -1);
    return reduced(-squeeze(picked, -1), options.reduction);
  });
}

Tensor binary_cross_entropy_with_logits(In targets, In logits, const LossOptions& options) {
  return elementwise("binary_cross_entropy_with_logits", targets, logits, options.reduction,
                     [](const Tensor& t, const Tensor& z) { return sigmoid_cross_entropy(t, z); });
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
    require_same_shape(a, b);
    constexpr double least = 1e-8;
    const Tensor squared_lengths = reduce_sum(square(a), -1) * reduce_sum(square(b), -1);
    return reduce_sum(a * b, -1) * rsqrt(maximum(squared_lengths, least * least));
  });
}

Tensor cosine_embedding(In targets, In a, In b, const CosineEmbeddingOptions& options) {
  return blaming("cosine_embedding", a.where(), [&] {
    const Tensor cosine = cosine_similarity(a, b);
    require_same_shape(targets, cosine);
    const Tensor elements = tapestry::where(greater(targets, 0), 1 - cosine, relu(cosine - options.margin));
    return reduced(elements, options.reduction);
  });
}

}  // namespace tapestry::losses
