// Newton's method on Rosenbrock's function, which has its minimum at (1, 1), in a curved valley where gradient descent
// is slow. A tape can record what another tape computes, so second derivatives need nothing more than first ones.
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

// Output:
// Hessian at the start:
// [[1330.  480.]
//  [ 480.  200.]]
// step 0  f 24.19999999999...  x [-1.2  1. ]
// step 1  f 4.7318843252...  x [-1.1752809   1.38067416]
// step 2  f 1411.84517...  x [ 0.76311487 -3.17503385]
// step 3  f 0.055965516...  x [0.76342968 0.58282478]
// step 4  f 0.313189076...  x [0.99999531 0.94402732]
// step 5  f 1.8527...e-11  x [0.9999957  0.99999139]
// step 6  f ...e-20  x [1. 1.]
