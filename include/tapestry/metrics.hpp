#pragma once

#include <cstdint>
#include <string>

#include "tapestry/op.hpp"
#include "tapestry/state_dict.hpp"
#include "tapestry/variable.hpp"

namespace tapestry::metrics {

/// @addtogroup metrics
/// @{

/// What is measured over many batches. Every metric has sums, which `update` adds to, and from which `result` computes
/// the metric of everything since the last `reset`. The names and definitions are those of Keras; labels
/// come before predictions, as in losses.
///
///     tp::metrics::Accuracy accuracy;
///     for (auto [x, y] : loader) accuracy.update(y, net(x));
///     std::cout << accuracy.result() << '\n';
///
/// Nothing waits for a device: the sums are where the values of the first update are. `update` is made of ops and can
/// be part of a trace; tapes do not record it. What replaces the sums, such as `reset`, is part of a trace,
/// too, but no node of a graph that is built by hand. Because the state is sums, the metric of several parts of the
/// data, such as those of the ranks of a distributed training, is that of the sum of their `sums`.
class TAPESTRY_API Metric {
 public:
  virtual ~Metric() = default;
  /// A copy has sums of its own.
  /// @{
  Metric(const Metric& other);
  Metric& operator=(const Metric& other);
  /// @}

  /// The metric, float64: a scalar, unless the class says otherwise. 0 before the first update.
  virtual Tensor result() const = 0;
  /// Forgets all updates.
  void reset(Where where = Where::here());

  /// The sums, float64.
  Tensor sums() const { return sums_; }
  /// Replaces the sums, for example by those of all ranks. Throws InvalidArgumentError for another dtype or shape.
  void set_sums(const Tensor& sums, Where where = Where::here());
  /// Adds the sums of another metric of the same class and options. Throws InvalidArgumentError for another shape.
  void merge(const Metric& other, Where where = Where::here());

  /// "sums", for checkpoints.
  StateDict state_dict() const;
  /// Restores such a state. Throws InvalidArgumentError unless it is that of such a metric.
  void load_state_dict(const StateDict& state, Where where = Where::here());

 protected:
  /// For derived classes: `name` is the name of the Variable that keeps the sums.
  Metric(const std::string& name, const Shape& shape);
  /// Adds to the sums, which go to the device of the first addend.
  void add(const Tensor& addend);

 private:
  Tensor current() const;
  void replace(const Tensor& sums);

  Variable sums_;
};

/// A weighted mean: the base of all metrics that are a quotient of two sums.
class TAPESTRY_API Mean : public Metric {
 public:
  /// A mean of nothing.
  Mean() : Mean("mean") {}
  /// Adds the elements of a tensor of any number type. Weights must have the same shape, or one that is broadcast to
  /// it.
  void update(In values, const Tensor& weights = {});
  /// The sum of the weighted values, divided by that of the weights.
  Tensor result() const override;

 protected:
  /// For derived classes.
  explicit Mean(const std::string& name);
  /// Adds a sum and that by which it is divided.
  void add_quotient(const Tensor& numerator, const Tensor& denominator);
};

/// At which prediction two classes are divided.
struct ThresholdOptions {
  double threshold = 0.5;  ///< predictions above it are the class 1
};

/// How often predictions are right. For labels [...] they are
///
/// * scores of classes, [..., classes], of which the largest must be at the label;
/// * probabilities [...] of a float type, which must be above the threshold where the label is not 0, and nowhere else;
/// * classes [...] of an integer type, which must equal the labels.
class TAPESTRY_API Accuracy final : public Mean {
 public:
  /// An accuracy of no predictions.
  explicit Accuracy(const ThresholdOptions& options = {}) : Mean("accuracy"), threshold_(options.threshold) {}
  /// Adds labels and predictions. Throws InvalidArgumentError when their shapes do not fit, and for labels of a float
  /// type that are compared with classes. Weights have the labels' shape, or one that is broadcast to it.
  void update(In labels, In predictions, const Tensor& weights = {});

 private:
  double threshold_;
};

/// How often the label is among the k largest scores. A score that equals that of the label does not count as larger;
/// a label whose score is not finite is not among them.
class TAPESTRY_API TopKAccuracy final : public Mean {
 public:
  /// Throws InvalidArgumentError unless k is positive.
  explicit TopKAccuracy(std::int64_t k = 5, Where where = Where::here());
  /// Adds labels [...] of an integer type and their scores [..., classes].
  void update(In labels, In scores, const Tensor& weights = {});

 private:
  std::int64_t k_;
};

/// How many of the predictions of class 1 are right: true positives / (true and false positives).
class TAPESTRY_API Precision final : public Mean {
 public:
  /// A precision of no predictions.
  explicit Precision(const ThresholdOptions& options = {}) : Mean("precision"), threshold_(options.threshold) {}
  /// Adds labels, which are not 0 for class 1, and probabilities of class 1 of the same shape.
  void update(In labels, In probabilities, const Tensor& weights = {});

 private:
  double threshold_;
};

/// How much of class 1 is found: true positives / (true positives and false negatives).
class TAPESTRY_API Recall final : public Mean {
 public:
  /// A recall of no predictions.
  explicit Recall(const ThresholdOptions& options = {}) : Mean("recall"), threshold_(options.threshold) {}
  /// Adds labels, which are not 0 for class 1, and probabilities of class 1 of the same shape.
  void update(In labels, In probabilities, const Tensor& weights = {});

 private:
  double threshold_;
};

/// How finely an AUC is computed.
struct AUCOptions {
  std::int64_t thresholds = 200;  ///< the number of points of the curve, at least 2; they are evenly distributed
};

/// The area under the ROC curve, by trapezoids: how often an example of class 1 gets a higher probability than one of
/// class 0.
class TAPESTRY_API AUC final : public Metric {
 public:
  /// Throws InvalidArgumentError for less than 2 thresholds.
  explicit AUC(const AUCOptions& options = {}, Where where = Where::here());
  /// Adds labels, which are not 0 for class 1, and probabilities of class 1 of the same shape. These are in [0, 1];
  /// others count as the nearer of the two.
  void update(In labels, In probabilities, const Tensor& weights = {});
  Tensor result() const override;

 private:
  std::int64_t buckets_;
};

/// How often each class is taken for each: element [i, j] counts the examples with the label i and the prediction j.
class TAPESTRY_API ConfusionMatrix final : public Metric {
 public:
  /// Throws InvalidArgumentError unless there is a class.
  explicit ConfusionMatrix(std::int64_t classes, Where where = Where::here());
  /// Adds labels [...] of an integer type, and predictions: classes [...] of an integer type, or scores [..., classes].
  /// Throws InvalidArgumentError for one that is no class.
  void update(In labels, In predictions, const Tensor& weights = {});
  /// The matrix, float64 [classes, classes].
  Tensor result() const override { return sums(); }
};

/// @}

}  // namespace tapestry::metrics
