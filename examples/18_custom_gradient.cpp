// Custom gradients, for formulas whose own gradients are useless.
#include <iostream>

#include <tapestry/tapestry.hpp>

// log(1 + exp(x)): for large x the chain rule multiplies infinity by 0. The derivative, 1 - 1 / (1 + exp(x)), is finite
// everywhere.
tp::Tensor naive(const tp::Tensor& x) { return tp::log(1.0 + tp::exp(x)); }

const auto log1pexp = tp::custom_gradient([](const tp::Tensor& x) -> tp::CustomGradient {
  auto e = tp::exp(x);
  return {tp::log(1.0 + e), [=](const tp::Tensor& g) -> tp::Tensors { return {g * (1.0 - 1.0 / (1.0 + e))}; }};
});

// Rounding has the derivative 0 nearly everywhere, so nothing can be learnt through it. The straight-through estimator
// treats it as the identity in the backward walk. (Y. Bengio and others, 2013.)
const auto rounded = tp::custom_gradient([](const tp::Tensor& x) -> tp::CustomGradient {
  return {tp::round(x), [](const tp::Tensor& g) -> tp::Tensors { return {g}; }};
});

int main() {
  auto x = tp::tensor({0.0, 100.0});
  std::cout << "by the chain rule  " << tp::grad(naive)(x) << '\n';
  std::cout << "by its own rule    " << tp::grad(log1pexp)(x) << '\n';
  // The rule is made of ops, so it has a derivative, too.
  std::cout << "second derivative  " << tp::grad(tp::grad(log1pexp))(tp::tensor({0.0, 2.0})) << '\n';

  // Learns weights that are whole numbers.
  tp::random::seed(1);
  auto inputs = tp::random::normal({100, 3});
  auto targets = tp::matmul(inputs, tp::tensor({3.0, -1.0, 2.0}));
  tp::Variable w(tp::zeros({3}));
  tp::train::GradientDescentOptimizer optimizer(0.05);
  for (int step = 0; step < 100; ++step)
    optimizer.minimize([&] { return tp::losses::mse(targets, tp::matmul(inputs, rounded(w))); });
  std::cout << "whole weights      " << tp::round(w) << '\n';
}

// Output:
// by the chain rule  [0.5 nan]
// by its own rule    [0.5 1. ]
// second derivative  [0.25       0.10499...]
// whole weights      [ 3. -1.  2.]
