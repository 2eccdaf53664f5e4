#include "tapestry/train/schedules.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "train/arguments.hpp"

namespace tapestry::train {

LearningRate::LearningRate(double rate, Where where) : schedule_([rate](std::int64_t) { return rate; }) {
  require_not_negative(rate, "learning_rate", where);
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

ExponentialDecay::ExponentialDecay(double initial_rate, std::int64_t decay_steps, double decay_rate,
                                   const ExponentialDecayOptions& options, Where where)
    : initial_rate_(initial_rate), decay_rate_(decay_rate), decay_steps_(decay_steps), staircase_(options.staircase) {
  require_not_negative(initial_rate, "initial_rate", where);
  require(decay_steps > 0, "decay_steps", decay_steps, "positive", where);
  require(decay_rate > 0 && std::isfinite(decay_rate), "decay_rate", decay_rate, "a finite number > 0", where);
}

double ExponentialDecay::operator()(std::int64_t step) const {
  const double exponent = static_cast<double>(step) / static_cast<double>(decay_steps_);
  return initial_rate_ * std::pow(decay_rate_, staircase_ ? std::floor(exponent) : exponent);
}

CosineDecay::CosineDecay(double initial_rate, std::int64_t decay_steps, const CosineDecayOptions& options, Where where)
    : initial_rate_(initial_rate), alpha_(options.alpha), decay_steps_(decay_steps) {
  require_not_negative(initial_rate, "initial_rate", where);
  require(decay_steps > 0, "decay_steps", decay_steps, "positive", where);
  require(alpha_ >= 0 && alpha_ <= 1, "alpha", alpha_, "in [0, 1]", where);
}

double CosineDecay::operator()(std::int64_t step) const {
  const double progress = std::min(static_cast<double>(step) / static_cast<double>(decay_steps_), 1.0);
  const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return initial_rate_ * ((1 - alpha_) * cosine + alpha_);
}

LinearWarmup::LinearWarmup(LearningRate after, std::int64_t warmup_steps, const LinearWarmupOptions& options,
                           Where where)
    : after_(std::move(after)), warmup_steps_(warmup_steps), start_factor_(options.start_factor) {
  require(warmup_steps > 0, "warmup_steps", warmup_steps, "positive", where);
  require(start_factor_ >= 0 && start_factor_ <= 1, "start_factor", start_factor_, "in [0, 1]", where);
}

double LinearWarmup::operator()(std::int64_t step) const {
  if (step >= warmup_steps_) return after_(step - warmup_steps_);
  const double progress = static_cast<double>(step) / static_cast<double>(warmup_steps_);
  return after_(0) * (start_factor_ + (1 - start_factor_) * progress);
}

}  // namespace tapestry::train
