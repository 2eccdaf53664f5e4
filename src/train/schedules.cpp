#include "tapestry/train/schedules.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tapestry/ops.hpp"
#include "train/arguments.hpp"

namespace tapestry::train {
namespace {

// What ops of these names do to tensors, done to numbers: the formula of a schedule is of both.
double power(double x, double y) { return std::pow(x, y); }
double minimum(double x, double y) { return std::min(x, y); }

}  // namespace

LearningRate::LearningRate(double rate, Where where)
    : schedule_([rate](std::int64_t) { return rate; }),
      formula_([rate](const Tensor&) { return full({}, rate, {.dtype = float64}); }),
      is_number_(true) {
  require_not_negative(rate, "learning_rate", where);
}

Tensor LearningRate::formula(const Tensor& step) const {
  if (!formula_) throw UnimplementedError("The learning rate is a function without a formula of ops");
  return formula_(step);
}

PiecewiseConstantDecay::PiecewiseConstantDecay(std::vector<std::int64_t> boundaries, std::vector<double> values,
                                               Where where)
    : boundaries_(std::move(boundaries)), values_(std::move(values)) {
  if (values_.size() != boundaries_.size() + 1)
    throw InvalidArgumentError(detail::join("The number of boundaries should be 1 less than the number of values, got ",
                                            boundaries_.size(), " and ", values_.size()),
                               where);
  for (std::size_t i = 1; i < boundaries_.size(); ++i)
    require(boundaries_[i] > boundaries_[i - 1], detail::join("boundaries[", i, "]"), boundaries_[i],
            "greater than the one before", where);
  for (std::size_t i = 0; i < values_.size(); ++i)
    require_not_negative(values_[i], detail::join("values[", i, "]"), where);
}

double PiecewiseConstantDecay::operator()(std::int64_t step) const {
  const auto next = std::lower_bound(boundaries_.begin(), boundaries_.end(), step);
  return values_[next - boundaries_.begin()];
}

Tensor PiecewiseConstantDecay::formula(const Tensor& step) const {
  Tensor value = full({}, values_[0], {.dtype = float64});
  for (std::size_t i = 0; i < boundaries_.size(); ++i)
    value = tapestry::where(step > static_cast<double>(boundaries_[i]), values_[i + 1], value);
  return value;
}

ExponentialDecay::ExponentialDecay(double initial_rate, std::int64_t decay_steps, double decay_rate,
                                   const ExponentialDecayOptions& options, Where where)
    : initial_rate_(initial_rate), decay_rate_(decay_rate), decay_steps_(decay_steps), staircase_(options.staircase) {
  require_not_negative(initial_rate, "initial_rate", where);
  require(decay_steps > 0, "decay_steps", decay_steps, "positive", where);
  require(decay_rate > 0 && std::isfinite(decay_rate), "decay_rate", decay_rate, "a finite number > 0", where);
}

template <class Number>
Number ExponentialDecay::at(const Number& step) const {
  using std::floor;
  const Number exponent = step / static_cast<double>(decay_steps_);
  return initial_rate_ * power(decay_rate_, staircase_ ? floor(exponent) : exponent);
}
double ExponentialDecay::operator()(std::int64_t step) const { return at(static_cast<double>(step)); }
Tensor ExponentialDecay::formula(const Tensor& step) const { return at(step); }

CosineDecay::CosineDecay(double initial_rate, std::int64_t decay_steps, const CosineDecayOptions& options, Where where)
    : initial_rate_(initial_rate), alpha_(options.alpha), decay_steps_(decay_steps) {
  require_not_negative(initial_rate, "initial_rate", where);
  require(decay_steps > 0, "decay_steps", decay_steps, "positive", where);
  require(alpha_ >= 0 && alpha_ <= 1, "alpha", alpha_, "in [0, 1]", where);
}

template <class Number>
Number CosineDecay::at(const Number& step) const {
  using std::cos;
  const Number progress = minimum(step / static_cast<double>(decay_steps_), 1.0);
  const Number cosine = 0.5 * (1.0 + cos(std::numbers::pi * progress));
  return initial_rate_ * ((1 - alpha_) * cosine + alpha_);
}
double CosineDecay::operator()(std::int64_t step) const { return at(static_cast<double>(step)); }
Tensor CosineDecay::formula(const Tensor& step) const { return at(step); }

LinearWarmup::LinearWarmup(const LearningRate& after, std::int64_t warmup_steps, const LinearWarmupOptions& options,
                           Where where)
    : after_(after), warmup_steps_(warmup_steps), start_factor_(options.start_factor) {
  require(warmup_steps > 0, "warmup_steps", warmup_steps, "positive", where);
  require(start_factor_ >= 0 && start_factor_ <= 1, "start_factor", start_factor_, "in [0, 1]", where);
}

template <class Number>
Number LinearWarmup::at(const Number& step) const {
  const Number progress = step / static_cast<double>(warmup_steps_);
  return after_(0) * (start_factor_ + (1 - start_factor_) * progress);
}
double LinearWarmup::operator()(std::int64_t step) const {
  return step < warmup_steps_ ? at(static_cast<double>(step)) : after_(step - warmup_steps_);
}
Tensor LinearWarmup::formula(const Tensor& step) const {
  const auto length = static_cast<double>(warmup_steps_);
  return tapestry::where(step < length, at(step), after_.formula(maximum(step - length, 0.0)));
}

}  // namespace tapestry::train
