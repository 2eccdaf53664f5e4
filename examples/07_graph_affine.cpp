// An affine transformation, z = A x + b, as a graph that is made first and run afterwards, for any x.
#include <iostream>

#include <tapestry/tapestry.hpp>

int main() {
  tp::Graph().make_default();
  auto A = tp::Variable({{1, 0}, {0, -1}});
  auto b = tp::Variable({1, 1});
  auto x = tp::placeholder();

  auto y = tp::matmul(A, x);
  auto z = tp::add(y, b);

  tp::Session session;
  std::cout << session.run(z, {{x, {1, 2}}}) << '\n';
}

// Output:
// [ 2 -1]
