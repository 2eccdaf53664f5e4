// The smallest program that differentiates something, to measure the cost of a user's first program.
#include <iostream>

#include <tapestry/tapestry.hpp>

int main() {
  const tp::Tensor x = tp::tensor({1.0, 2.0, 3.0});
  tp::GradientTape tape;
  tape.watch(x);
  std::cout << tape.gradient(tp::reduce_sum(x * x), x) << '\n';
}
