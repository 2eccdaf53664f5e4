// Conversion from and to xtensor: an expression is evaluated once, and a view of a tensor copies nothing.
#include <iostream>

#include <tapestry/tapestry.hpp>
#include <tapestry/xtensor.hpp>
#include <xtensor/xbuilder.hpp>
#include <xtensor/xio.hpp>
#include <xtensor/xmath.hpp>

int main() {
  xt::xtensor<float, 2> grid = xt::arange<float>(6).reshape({2, 3});
  tp::Tensor x = tp::from_xt(2.0F * grid + 1.0F);
  std::cout << x.describe() << '\n';

  tp::GradientTape tape;
  tape.watch(x);
  tp::Tensor gradient = tape.gradient(tp::reduce_sum(tp::square(x)), x);

  auto view = tp::as_xt<float>(gradient);  // keeps the tensor's memory alive
  std::cout << "largest derivative " << xt::amax(view)() << ", sum of the first column " << view(0, 0) + view(1, 0)
            << '\n';
}

// Output:
// float32[2,3] cpu min 1 max 11 mean 6
// largest derivative 22, sum of the first column 16
