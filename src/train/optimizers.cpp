#include "tapestry/train/optimizers.hpp"

#include "backend/backend.hpp"
#include "train/adam.hpp"
#include "train/arguments.hpp"

namespace tapestry::train {
namespace {

void check_adam(double beta1, double beta2, double epsilon, double weight_decay, Where where) {
  require_fraction(beta1, "beta1", where);
  require_fraction(beta2, "beta2", where);
  require_not_negative(epsilon, "epsilon", where);
  require_not_negative(weight_decay, "weight_decay", where);
}

}  // namespace

GradientDescentOptimizer::GradientDescentOptimizer(const LearningRate& learning_rate,
                                                   const GradientDescentOptions& options, Where where)
    : Optimizer("GradientDescent", Update::gradient_descent, learning_rate, {},
                [options](double rate, std::int64_t) -> Numbers {
                  return {rate, options.weight_decay};
                }) {
  require_not_negative(options.weight_decay, "weight_decay", where);
}

MomentumOptimizer::MomentumOptimizer(const LearningRate& learning_rate, double momentum, const MomentumOptions& options,
                                     Where where)
    : Optimizer("Momentum", options.use_nesterov ? Update::nesterov : Update::momentum, learning_rate, {{"momentum"}},
                [momentum, options](double rate, std::int64_t) -> Numbers {
                  return {rate, momentum, options.weight_decay};
                }) {
  require_not_negative(momentum, "momentum", where);
  require_not_negative(options.weight_decay, "weight_decay", where);
}

AdamOptimizer::AdamOptimizer(const LearningRate& learning_rate, const AdamOptions& options, Where where)
    : Optimizer("Adam", Update::adam, learning_rate, {{"m"}, {"v"}},
                [options](double rate, std::int64_t step) -> Numbers {
                  const auto& [beta1, beta2, epsilon, weight_decay] = options;
                  return adam_numbers(rate, step, beta1, beta2, epsilon, weight_decay);
                }) {
  check_adam(options.beta1, options.beta2, options.epsilon, options.weight_decay, where);
}

AdamWOptimizer::AdamWOptimizer(const LearningRate& learning_rate, const AdamWOptions& options, Where where)
    : Optimizer("AdamW", Update::adamw, learning_rate, {{"m"}, {"v"}},
                [options](double rate, std::int64_t step) -> Numbers {
                  const auto& [beta1, beta2, epsilon, weight_decay] = options;
                  return adam_numbers(rate, step, beta1, beta2, epsilon, rate * weight_decay);
                }) {
  check_adam(options.beta1, options.beta2, options.epsilon, options.weight_decay, where);
}

RMSPropOptimizer::RMSPropOptimizer(const LearningRate& learning_rate, const RMSPropOptions& options, Where where)
    : Optimizer("RMSProp", Update::rmsprop, learning_rate, {{"rms", 1}, {"momentum"}},
                [options](double rate, std::int64_t) -> Numbers {
                  const auto& [decay, momentum, epsilon, weight_decay] = options;
                  return {rate, decay, 1 - decay, momentum, epsilon, weight_decay};
                }) {
  require_fraction(options.decay, "decay", where);
  require_not_negative(options.momentum, "momentum", where);
  require_not_negative(options.epsilon, "epsilon", where);
  require_not_negative(options.weight_decay, "weight_decay", where);
}

AdagradOptimizer::AdagradOptimizer(const LearningRate& learning_rate, const AdagradOptions& options, Where where)
    : Optimizer("Adagrad", Update::adagrad, learning_rate, {{"accumulator", options.initial_accumulator_value}},
                [options](double rate, std::int64_t) -> Numbers {
                  return {rate, options.epsilon, options.weight_decay};
                }) {
  require_not_negative(options.initial_accumulator_value, "initial_accumulator_value", where);
  require_not_negative(options.epsilon, "epsilon", where);
  require_not_negative(options.weight_decay, "weight_decay", where);
}

}  // namespace tapestry::train
