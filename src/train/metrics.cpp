#include "tapestry/metrics.hpp"

#include <optional>

#include "autodiff/variable_cell.hpp"
#include "dispatch/recorder.hpp"
#include "graph/training.hpp"
#include "ops/checked_like.hpp"
#include "tapestry/ops.hpp"
#include "train/arguments.hpp"
#include "train/own_variable.hpp"

namespace tapestry::metrics {
namespace {

using detail::join;

Tensor no_sums(const Shape& shape) {
  const ExecuteNow now;
  return zeros(shape, {.dtype = float64});
}

/// What all updates have in common: their ops name the user's line, and no tape records them.
class UpdateScope {
 public:
  explicit UpdateScope(Where where) : site_(where) {}

 private:
  CallSiteScope site_;
  PauseRecording pause_;
};

/// The predictions, which must have the shape of the labels.
Tensor fitting(const Tensor& predictions, const Tensor& labels, Where where) {
  if (!agree(predictions.shape(), labels.shape()))
    throw InvalidArgumentError(
        join("Predictions of the shape ", predictions.shape(), " do not fit labels of the shape ", labels.shape()),
        where);
  return checked_like(predictions, labels);
}

void require_no_floats(std::string_view what, const Tensor& classes, Where where) {
  if (is_floating(classes.dtype()))
    throw InvalidArgumentError(
        join(what, " that are classes must be integers, but are ", to_string(classes.dtype()), classes.shape()), where);
}

/// Scores have one axis more than labels, the classes.
bool are_scores(const Tensor& predictions, const Tensor& labels) { return predictions.rank() == labels.rank() + 1; }

/// Probabilities [..., 1] are often meant where scores of classes are taken.
void require_several_classes(const Tensor& scores, const Tensor& labels, Where where) {
  if (scores.shape().sizes().back() != 1) return;
  throw InvalidArgumentError(
      join("Predictions ", scores.shape(), " for labels ", labels.shape(),
           " are scores of a single class; probabilities of one of two classes have the shape ", "of the labels"),
      where);
}

/// Scores [..., classes] become classes [...]; what is not scores must have the shape of the labels.
Tensor classes_of(const Tensor& predictions, const Tensor& labels, Where where) {
  require_no_floats("Labels", labels, where);
  const bool scores = are_scores(predictions, labels);
  if (scores)
    require_several_classes(predictions, labels, where);
  else
    require_no_floats("Predictions", predictions, where);
  return fitting(scores ? argmax(predictions, -1) : predictions, labels, where).cast(int64);
}

Tensor is_positive(const Tensor& labels) { return labels.dtype() == boolean ? labels : not_equal(labels, 0); }

/// The weights as float64 of the shape of `like`; ones when there are none.
Tensor weights_like(const Tensor& weights, const Tensor& like) {
  return weights ? broadcast_like(weights.cast(float64), like) : ones_like(like.cast(float64));
}

}  // namespace

// ---- Sums -----------------------------------------------------------------------------------------------------------

Metric::Metric(const std::string& name, const Shape& shape) : sums_(train::own_variable(name, no_sums(shape))) {}

Metric::Metric(const Metric& other) : sums_(train::own_variable(other.sums_.name(), other.sums_.cell()->load())) {}

Metric& Metric::operator=(const Metric& other) {
  set_sums(other.current(), {});
  return *this;
}

void Metric::reset(Where where) { set_sums(no_sums(sums_.shape()), where); }

/// The sums as they are when this runs: in a graph that is built by hand, those of now.
Tensor Metric::current() const { return detail::is_traced() ? sums_.value() : sums_.cell()->load(); }

void Metric::replace(const Tensor& sums) {
  if (detail::is_traced())
    sums_.assign(sums);
  else
    sums_.cell()->store(sums.to(sums_.device()));
}

void Metric::add(const Tensor& addend) {
  // A symbolic tensor has no device yet; sessions place what reads and changes the Variable.
  if (!addend.is_symbolic()) sums_.cell()->move_to(addend.device());
  sums_.assign_add(addend);
}

void Metric::set_sums(const Tensor& sums, Where where) {
  const CallSiteScope site(where);
  const PauseRecording pause;
  if (!sums || sums.dtype() != float64 || sums.shape() != sums_.shape())
    throw InvalidArgumentError(join("The sums of the metric '", sums_.name(), "' are float64", sums_.shape(), ", not ",
                                    sums ? join(sums.dtype(), sums.shape()) : "an empty Tensor"),
                               where);
  if (sums.is_symbolic() && !detail::is_traced())
    throw InvalidArgumentError(
        join("The sums of the metric '", sums_.name(), "' cannot be '", sums.name(), "', which has no value"), where);
  replace(sums);
}

void Metric::merge(const Metric& other, Where where) {
  std::optional<ExecuteNow> now;
  if (!detail::is_traced()) now.emplace();
  const CallSiteScope site(where);
  const PauseRecording pause;
  if (sums_.shape() != other.sums_.shape())
    throw InvalidArgumentError(join("The metrics '", sums_.name(), "' and '", other.sums_.name(),
                                    "' have different sums, ", sums_.shape(), " and ", other.sums_.shape()),
                               where);
  const Tensor sums = other.current();
  add(sums.is_symbolic() ? sums : sums.to(sums_.device()));
}

StateDict Metric::state_dict() const { return {{"sums", sums_.cell()->load()}}; }

void Metric::load_state_dict(const StateDict& state, Where where) {
  const auto found = state.find("sums");
  if (state.size() != 1 || found == state.end())
    throw InvalidArgumentError("The state of a metric is one tensor, 'sums'", where);
  set_sums(found->second, where);
}

// ---- Quotients ------------------------------------------------------------------------------------------------------

Mean::Mean(const std::string& name) : Metric(name, {2}) {}

void Mean::add_quotient(const Tensor& numerator, const Tensor& denominator) {
  add(stack({reduce_sum(numerator), reduce_sum(denominator)}));
}

Tensor Mean::result() const {
  const PauseRecording pause;
  const Tensor both = sums();
  return divide_no_nan(both(0), both(1));
}

void Mean::update(In values, const Tensor& weights) {
  const UpdateScope scope(values.where());
  const Tensor weight = weights_like(weights, values.tensor());
  add_quotient(values.tensor().cast(float64) * weight, weight);
}

void Accuracy::update(In labels, In predictions, const Tensor& weights) {
  const UpdateScope scope(predictions.where());
  const Tensor &x = predictions.tensor(), &y = labels.tensor();
  Tensor right;
  if (!are_scores(x, y) && is_floating(x.dtype())) {
    right = equal(greater(fitting(x, y, predictions.where()), threshold_).cast(int32), is_positive(y).cast(int32));
  } else {
    right = equal(classes_of(x, y, predictions.where()), y.cast(int64));
  }
  const Tensor weight = weights_like(weights, right);
  add_quotient(right.cast(float64) * weight, weight);
}

TopKAccuracy::TopKAccuracy(std::int64_t k, Where where) : Mean("top_k_accuracy"), k_(k) {
  train::require(k >= 1, "k", k, ">= 1", where);
}

void TopKAccuracy::update(In labels, In scores, const Tensor& weights) {
  const UpdateScope scope(scores.where());
  const Tensor &x = scores.tensor(), &y = labels.tensor();
  if (!are_scores(x, y))
    throw InvalidArgumentError(join("Scores of classes have one axis more than the labels, but their shapes are ",
                                    x.shape(), " and ", y.shape()),
                               scores.where());
  require_several_classes(x, y, scores.where());
  require_no_floats("Labels", y, scores.where());
  const Tensor at_label = take_along_axis(x, expand_dims(y, -1), -1);
  const Tensor larger = reduce_sum(greater(x, at_label).cast(int64), -1);
  const Tensor is_finite = squeeze(equal(at_label - at_label, 0.0), -1);
  const Tensor right = less(larger, k_) & is_finite;
  const Tensor weight = weights_like(weights, right);
  add_quotient(right.cast(float64) * weight, weight);
}

void Precision::update(In labels, In probabilities, const Tensor& weights) {
  const UpdateScope scope(probabilities.where());
  const Tensor predicted = greater(fitting(probabilities, labels, probabilities.where()), threshold_);
  const Tensor weight = weights_like(weights, predicted);
  add_quotient((predicted & is_positive(labels.tensor())).cast(float64) * weight, predicted.cast(float64) * weight);
}

void Recall::update(In labels, In probabilities, const Tensor& weights) {
  const UpdateScope scope(probabilities.where());
  const Tensor predicted = greater(fitting(probabilities, labels, probabilities.where()), threshold_);
  const Tensor positive = is_positive(labels.tensor());
  const Tensor weight = weights_like(weights, positive);
  add_quotient((positive & predicted).cast(float64) * weight, positive.cast(float64) * weight);
}

// ---- Tables ---------------------------------------------------------------------------------------------------------

AUC::AUC(const AUCOptions& options, Where where)
    : Metric("auc", (train::require(options.thresholds >= 2, "thresholds", options.thresholds, ">= 2", where),
                     Shape{2, options.thresholds - 1})),
      buckets_(options.thresholds - 1) {}

void AUC::update(In labels, In probabilities, const Tensor& weights) {
  const UpdateScope scope(probabilities.where());
  const Tensor &y = labels.tensor(), x = fitting(probabilities, y, probabilities.where());
  // Bucket i holds the probabilities in (i, i + 1] / buckets.
  const Tensor bucket =
      clip(ceil(x.cast(float64) * static_cast<double>(buckets_)) - 1.0, 0.0, static_cast<double>(buckets_ - 1));
  const Tensor at = bucket.cast(int64) + buckets_ * is_positive(y).cast(int64);
  const Tensor weight = weights_like(weights, x);
  const Tensor table = zeros({2 * buckets_}, {.dtype = float64, .device = x.device()});
  add(reshape(scatter_add(table, reshape(at, {-1}), reshape(weight, {-1})), {2, buckets_}));
}

Tensor AUC::result() const {
  const PauseRecording pause;
  // The rates of false and true positives at the thresholds 0, 1 / buckets, ..., and 1, where both are 0.
  const Tensor counts = cumsum(sums(), 1, {.reverse = true});
  const Tensor rates = pad(divide_no_nan(counts, counts(all, range(0, 1))), {{0, 0}, {0, 1}});
  const Tensor x = rates(0), y = rates(1);
  const auto before = range(0, buckets_), behind = range(1, buckets_ + 1);
  return reduce_sum((x(before) - x(behind)) * (y(before) + y(behind))) * 0.5;
}

ConfusionMatrix::ConfusionMatrix(std::int64_t classes, Where where)
    : Metric("confusion_matrix",
             (train::require(classes >= 1, "classes", classes, ">= 1", where), Shape{classes, classes})) {}

void ConfusionMatrix::update(In labels, In predictions, const Tensor& weights) {
  const UpdateScope scope(predictions.where());
  const Tensor &x = predictions.tensor(), &y = labels.tensor();
  const Tensor classes = classes_of(x, y, predictions.where());
  const Tensor at = stack({reshape(y.cast(int64), {-1}), reshape(classes, {-1})}, 1);
  const Tensor table = zeros(sums().shape(), {.dtype = float64, .device = x.device()});
  add(tensor_scatter_nd_add(table, at, reshape(weights_like(weights, y), {-1})));
}

}  // namespace tapestry::metrics
