// The four partial derivatives of e = a b + c log(d), from one backward walk over the tape.
#include <iostream>

#include <tapestry/tapestry.hpp>

int main() {
  auto a = tp::tensor({2.0}), b = tp::tensor({3.0}), c = tp::tensor({5.0}), d = tp::tensor({10.0});

  tp::GradientTape tape;
  tape.watch(std::vector{a, b, c, d});
  auto u = tp::multiply(a, b);
  auto t = tp::log(d);
  auto v = tp::multiply(t, c);
  auto e = tp::add(u, v);

  auto [da, db, dc, dd] = tape.gradient(e, a, b, c, d);
  std::cout << "de/da: " << da(0) << '\n';
  std::cout << "de/db: " << db(0) << '\n';
  std::cout << "de/dc: " << dc(0) << '\n';
  std::cout << "de/dd: " << dd(0) << '\n';
}

// Output:
// de/da: 3.0
// de/db: 2.0
// de/dc: 2.3025851
// de/dd: 0.5
