// Newton's method on Rosenbrock's function, whose minimum lies at (1, 1) in a bent valley where gradient descent
// crawls. A tape can record what another tape computes, so second derivatives need nothing more than first ones.
#include <iostream>

#include <tapestry/tapestry.hpp>

tp::Tensor rosenbrock(const tp::Tensor& x) {
  return tp::square(1.0 - x(0)) + 100.0 * tp::square(x(1) - tp::square(x(0)));
}

int main() {
  auto x = tp::tensor<double>({-1.2, 1});
  std::cout << "Hessian at the start:\n" << tp::hessian(rosenbrock)(x) << '\n';
  for (int step = 0; step < 7; ++step) {
    std::cout << "step " << step << "  f " << rosenbrock(x) << "  x " << x << '\n';
    auto gradient = tp::grad(rosenbrock)(x);
    auto curvature = tp::hessian(rosenbrock)(x);
    x = x - tp::squeeze(tp::solve(curvature, tp::expand_dims(gradient, 1)), 1);
  }
}
