#pragma once

// A table whose rows are looked up, and the optimizers that update them.

#include <functional>
#include <memory>

#include "tapestry/ops.hpp"
#include "tapestry/random.hpp"
#include "tapestry/train.hpp"

namespace tapestry::test {

constexpr std::int64_t row_count = 5, row_size = 3;

/// An optimizer by the name of its rule.
struct Rule {
  std::string name;
  std::function<std::unique_ptr<train::Optimizer>()> make;
};

template <class T, class... Args>
Rule rule(std::string name, Args... args) {
  return {std::move(name), [=] { return std::make_unique<T>(args...); }};
}

inline const std::vector<Rule>& rules() {
  static const std::vector<Rule> all = {
      rule<train::GradientDescentOptimizer>("gradient descent", 0.3),
      rule<train::GradientDescentOptimizer>("with weight decay", 0.3,
                                            train::GradientDescentOptions{.weight_decay = 0.1}),
      rule<train::MomentumOptimizer>("momentum", 0.3, 0.9),
      rule<train::MomentumOptimizer>("Nesterov", 0.3, 0.9, train::MomentumOptions{.use_nesterov = true}),
      rule<train::AdamOptimizer>("Adam", 0.3),
      rule<train::AdamWOptimizer>("AdamW", 0.3),
      rule<train::RMSPropOptimizer>("RMSProp", 0.3, train::RMSPropOptions{.momentum = 0.5}),
      rule<train::AdagradOptimizer>("Adagrad", 0.3),
  };
  return all;
}

inline Tensor table(DType dtype = float32) {
  return random::normal({row_count, row_size}, {.dtype = float64}).cast(dtype);
}

/// A loss whose gradient differs from row to row and depends on the table.
inline Tensor loss_of(const Tensor& rows) { return reduce_sum(square(rows) * 0.5 + sin(rows)); }

}  // namespace tapestry::test
