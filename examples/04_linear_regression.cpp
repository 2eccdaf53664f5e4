// Finds slope and intercept of noisy points on the line y = 3 x + 2 by gradient descent.
#include <iostream>

#include <tapestry/tapestry.hpp>

int main() {
  tp::random::seed(1);
  auto x = tp::random::uniform({200, 1}, {.low = -1, .high = 1});
  auto y = 3.0 * x + 2.0 + tp::random::normal({200, 1}, {.stddev = 0.1});

  tp::Variable w(tp::zeros({1, 1})), b(tp::zeros({1}));
  tp::train::GradientDescentOptimizer optimizer(0.5);
  for (int step = 0; step < 50; ++step) {
    tp::GradientTape tape;
    auto loss = tp::reduce_mean(tp::square(tp::matmul(x, w) + b - y));
    optimizer.apply_gradients(tape.gradient(loss, {w, b}), {w, b});
    if (step % 10 == 0) std::cout << "step " << step << "  loss " << loss << '\n';
  }
  std::cout << "w " << w.value() << "  b " << b.value() << '\n';
}

// Output:
// step 0  loss 6.62666...
// step 10  loss 0.00991...
// step 20  loss 0.00823...
// step 30  loss 0.00823...
// step 40  loss 0.00823...
// w [[2.9888...]]  b [1.9970...]
