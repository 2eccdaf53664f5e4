// The cross-entropy of a perceptron that has not learnt yet, on two clouds of points. The weights are whole numbers and
// the points are floats: the ops promote the weights.
#include <iostream>

#include <tapestry/tapestry.hpp>

int main() {
  tp::random::NumpyLegacy numpy(0);  // the numbers of numpy.random.seed(0)
  auto red_points = numpy.randn({50, 2}) - 2.0;
  auto blue_points = numpy.randn({50, 2}) + 2.0;

  auto X = tp::concat({blue_points, red_points});
  auto c = tp::repeat(tp::tensor({{1, 0}, {0, 1}}), 50, 0);  // 50 rows [1 0] for blue, then 50 rows [0 1] for red

  tp::Variable W({{1, -1}, {1, -1}});
  tp::Variable b({0, 0});
  auto p = tp::softmax(tp::matmul(X, W) + b);
  auto J = tp::negative(tp::reduce_sum(tp::reduce_sum(c * tp::log(p), 1)));
  std::cout << J << '\n';
}

// Output:
// 0.9222571642246...
