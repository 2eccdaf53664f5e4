// The smallest program that differentiates something: what a user's first program costs.
#include <iostream>

#include <tapestry/tapestry.hpp>

int main() {
  const tp::Tensor x = tp::tensor({1.0, 2.0, 3.0});
  tp::GradientTape tape;
  tape.watch(x);
  std::cout << tape.gradient(tp::reduce_sum(x * x), x) << '\n';
}
