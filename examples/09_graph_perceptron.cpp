// The cross-entropy of a perceptron that has not learnt yet, as a graph into which the points are fed.
#include <iostream>

#include <tapestry/tapestry.hpp>

int main() {
  tp::random::NumpyLegacy numpy(0);  // the numbers of numpy.random.seed(0)
  auto red_points = numpy.randn({50, 2}) - 2.0;
  auto blue_points = numpy.randn({50, 2}) + 2.0;

  tp::Graph().make_default();
  auto X = tp::placeholder();
  auto c = tp::placeholder();
  auto W = tp::Variable({{1, -1}, {1, -1}});
  auto b = tp::Variable({0, 0});
  auto p = tp::softmax(tp::add(tp::matmul(X, W), b));
  auto J = tp::negative(tp::reduce_sum(tp::reduce_sum(tp::multiply(c, tp::log(p)), 1)));

  tp::Session session;
  std::cout << session.run(J, {{X, tp::concat({blue_points, red_points})},
                               {c, tp::repeat(tp::tensor({{1, 0}, {0, 1}}), 50, 0)}})
            << '\n';
}

// Output:
// 0.9222571642246...
