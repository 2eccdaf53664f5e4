#pragma once

#include <cmath>
#include <cstdint>

#include "tapestry/detail/small_vector.hpp"

namespace tapestry::train {

/// The numbers of the formulas of Adam and AdamW (`Update::adam`, `Update::adamw`) in step number `step`, from 1 on.
inline SmallVector<double, 8> adam_numbers(double learning_rate, std::int64_t step, double beta1, double beta2,
                                           double epsilon, double decay) {
  const auto t = static_cast<double>(step);
  return {learning_rate / (1 - std::pow(beta1, t)),
          beta1,
          1 - beta1,
          beta2,
          1 - beta2,
          1 / (1 - std::pow(beta2, t)),
          epsilon,
          decay};
}

}  // namespace tapestry::train
