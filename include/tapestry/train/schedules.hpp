#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <vector>

#include "tapestry/detail/function.hpp"
#include "tapestry/error.hpp"
#include "tapestry/tensor.hpp"

namespace tapestry::train {

/// @addtogroup schedules
/// Schedules are values. Their constructors throw InvalidArgumentError for invalid arguments.
/// @{

/// The learning rate of an optimizer: a number, which is a constant schedule, or a function from the number of steps
/// that have been made (0 for the first step) to a number, such as those below.
///
/// A schedule that has a member `Tensor formula(const Tensor& step) const`, which makes the same of a float64 scalar by
/// ops, is written to files, and sent to servers. Those below have one.
class TAPESTRY_API LearningRate {
 public:
  /// A constant. Throws InvalidArgumentError for a negative, infinite or NaN rate.
  /// @{
  template <class T>
  requires std::is_arithmetic_v<T> LearningRate(T rate, Where where = Where::here())  // NOLINT: a number is a rate
      : LearningRate(static_cast<double>(rate), where) {}
  LearningRate(double rate, Where where = Where::here());  // NOLINT(google-explicit-constructor)
  /// @}
  /// A schedule: one of those below, or a function of one's own.
  template <class F>
  requires(std::is_invocable_r_v<double, const F&, std::int64_t> && !std::same_as<F, LearningRate>)
      LearningRate(F schedule, Where where = Where::here()) {  // NOLINT(google-explicit-constructor)
    tapestry::detail::require_function(schedule, "LearningRate", where);
    if constexpr (requires(const F& f, const Tensor& step) {
                    { f.formula(step) } -> std::convertible_to<Tensor>;
                  })
      formula_ = [schedule](const Tensor& step) -> Tensor { return schedule.formula(step); };
    schedule_ = std::move(schedule);
  }

  /// A move copies, so that what was moved from can still be used.
  /// @{
  LearningRate(const LearningRate&) = default;
  LearningRate& operator=(const LearningRate&) = default;
  ~LearningRate() = default;
  /// @}

  /// The rate after that many steps.
  double operator()(std::int64_t step) const { return schedule_(step); }
  /// The same as a float64 scalar, by ops. Throws UnimplementedError for a schedule without a formula.
  Tensor formula(const Tensor& step) const;
  /// Whether there is one.
  bool has_formula() const { return static_cast<bool>(formula_); }
  /// Whether the rate is a number.
  bool is_number() const { return is_number_; }

 private:
  std::function<double(std::int64_t)> schedule_;
  std::function<Tensor(const Tensor&)> formula_;
  bool is_number_ = false;
};

/// values[i] for steps above boundaries[i - 1] up to and including boundaries[i], and the last value after the last
/// boundary: TensorFlow's PiecewiseConstantDecay.
class TAPESTRY_API PiecewiseConstantDecay {
 public:
  /// Boundaries must increase strictly, and there must be one value more than boundaries.
  PiecewiseConstantDecay(std::vector<std::int64_t> boundaries, std::vector<double> values, Where where = Where::here());
  /// A move copies, so that what was moved from can still be used.
  /// @{
  PiecewiseConstantDecay(const PiecewiseConstantDecay&) = default;
  PiecewiseConstantDecay& operator=(const PiecewiseConstantDecay&) = default;
  ~PiecewiseConstantDecay() = default;
  /// @}
  /// The rate after that many steps.
  double operator()(std::int64_t step) const;
  /// See LearningRate.
  Tensor formula(const Tensor& step) const;

 private:
  std::vector<std::int64_t> boundaries_;
  std::vector<double> values_;
};

/// How the exponent of an ExponentialDecay grows.
struct ExponentialDecayOptions {
  bool staircase = false;  ///< whether the exponent is rounded down, so that the rate changes every `decay_steps` steps
};

/// initial_rate * decay_rate ^ (step / decay_steps): TensorFlow's ExponentialDecay. With the staircase it is PyTorch's
/// StepLR(step_size = decay_steps, gamma = decay_rate).
class TAPESTRY_API ExponentialDecay {
 public:
  /// `decay_steps` and `decay_rate` must be positive.
  ExponentialDecay(double initial_rate, std::int64_t decay_steps, double decay_rate,
                   const ExponentialDecayOptions& options = {}, Where where = Where::here());
  /// The rate after that many steps.
  double operator()(std::int64_t step) const;
  /// See LearningRate.
  Tensor formula(const Tensor& step) const;

 private:
  template <class Number>
  Number at(const Number& step) const;

  double initial_rate_, decay_rate_;
  std::int64_t decay_steps_;
  bool staircase_;
};

/// The end of a CosineDecay.
struct CosineDecayOptions {
  double alpha = 0;  ///< the lowest rate, as a fraction of the initial one
};

/// initial_rate * ((1 - alpha) * (1 + cos(pi * min(step / decay_steps, 1))) / 2 + alpha): half a cosine wave, then
/// constant. TensorFlow's CosineDecay; PyTorch's CosineAnnealingLR rises again behind its T_max. (I. Loshchilov, F.
/// Hutter, "SGDR: Stochastic gradient descent with warm restarts", 2017.)
class TAPESTRY_API CosineDecay {
 public:
  /// `decay_steps` must be positive, and alpha in [0, 1].
  CosineDecay(double initial_rate, std::int64_t decay_steps, const CosineDecayOptions& options = {},
              Where where = Where::here());
  /// The rate after that many steps.
  double operator()(std::int64_t step) const;
  /// See LearningRate.
  Tensor formula(const Tensor& step) const;

 private:
  template <class Number>
  Number at(const Number& step) const;

  double initial_rate_, alpha_;
  std::int64_t decay_steps_;
};

/// The start of a LinearWarmup.
struct LinearWarmupOptions {
  double start_factor = 0;  ///< the first rate, as a fraction of the one after the warm-up
};

/// A warm-up before another schedule (or number). For `warmup_steps` steps the rate grows linearly from start_factor *
/// after(0) to after(0), then it is after(step - warmup_steps). PyTorch's LinearLR followed by another scheduler. (P.
/// Goyal et al., "Accurate, large minibatch SGD: training ImageNet in 1 hour", 2017, section 2.2.)
class TAPESTRY_API LinearWarmup {
 public:
  /// `warmup_steps` must be positive, and start_factor in [0, 1].
  LinearWarmup(const LearningRate& after, std::int64_t warmup_steps, const LinearWarmupOptions& options = {},
               Where where = Where::here());
  /// The rate after that many steps.
  double operator()(std::int64_t step) const;
  /// See LearningRate.
  Tensor formula(const Tensor& step) const;

 private:
  template <class Number>
  Number at(const Number& step) const;

  LearningRate after_;
  std::int64_t warmup_steps_;
  double start_factor_;
};

/// @}

}  // namespace tapestry::train
