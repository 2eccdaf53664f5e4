#include <iostream>

#include <tapestry/tapestry.hpp>

// Prints x, y = x * x and dy/dx.
int main() {
  const tp::Tensor x = tp::tensor({1.0, 2.0, 3.0});
  tp::GradientTape tape;
  tape.watch(x);
  const tp::Tensor y = x * x;
  std::cout << x << '\n' << y << '\n' << tape.gradient(y, x) << '\n';
}
