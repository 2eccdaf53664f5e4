// The four partial derivatives of e = a b + c log(d), as nodes that are added to a graph while a session has it open.
#include <iostream>

#include <tapestry/tapestry.hpp>

int main() {
  tp::Graph graph;
  auto scope = graph.as_default();
  auto a = tp::placeholder(tp::float32, {1}, "a"), b = tp::placeholder(tp::float32, {1}, "b");
  auto c = tp::placeholder(tp::float32, {1}, "c"), d = tp::placeholder(tp::float32, {1}, "d");
  auto u = tp::multiply(a, b, "u");
  auto t = tp::log(d, "t");
  auto v = tp::multiply(t, c, "v");
  auto e = tp::add(u, v, "e");

  tp::Session session(graph);
  const tp::Feeds feeds{{a, {2.0}}, {b, {3.0}}, {c, {5.0}}, {d, {10.0}}};
  std::cout << "de/da: " << session.run(tp::gradients(e, a), feeds)[0](0) << '\n';
  std::cout << "de/db: " << session.run(tp::gradients(e, b), feeds)[0](0) << '\n';
  std::cout << "de/dc: " << session.run(tp::gradients(e, c), feeds)[0](0) << '\n';
  std::cout << "de/dd: " << session.run(tp::gradients(e, d), feeds)[0](0) << '\n';

  for (const tp::Operation& operation : graph.operations()) std::cout << operation.name() << ' ';
  std::cout << '\n';
}

// Output:
// de/da: 3.0
// de/db: 2.0
// de/dc: 2.3025851
// de/dd: 0.5
// a b c d u t v e gradients/...
