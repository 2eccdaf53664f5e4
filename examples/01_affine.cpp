// An affine transformation, z = A x + b. Whole numbers stay whole numbers.
#include <iostream>

#include <tapestry/tapestry.hpp>

int main() {
  auto A = tp::tensor({{1, 0}, {0, -1}});
  auto b = tp::tensor({1, 1});
  auto x = tp::tensor({1, 2});

  auto y = tp::matmul(A, x);
  auto z = tp::add(y, b);
  std::cout << z << '\n';
}

// Output:
// [ 2 -1]
