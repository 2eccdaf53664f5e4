// Newton's iteration until it stands still, for Lambert's W: the x with x exp(x) = a. The number of iterations depends
// on the values, so it is a tp::while_loop. The same function runs eagerly, traced, and read from a file, for any
// number of values, and gradients go through it.
#include <cmath>
#include <cstdio>

#include <tapestry/tapestry.hpp>

/// W(a) for a > 0, and the number of iterations.
std::pair<tp::Tensor, tp::Tensor> lambert_w(const tp::Tensor& a) {
  auto [root, last_change, iterations] =
      tp::while_loop([](tp::Tensor, tp::Tensor change, tp::Tensor) { return tp::reduce_max(tp::abs(change)) > 1e-12; },
                     [&](tp::Tensor x, tp::Tensor, tp::Tensor count) {
                       auto change = (x - a * tp::exp(-x)) / (1.0 + x);
                       return std::tuple{x - change, change, count + 1};
                     },
                     std::tuple{tp::log(1.0 + a), tp::ones_like(a), 0}, {.maximum_iterations = 100});
  return {root, iterations};
}

int main() {
  auto traced = tp::trace(
      [](tp::Tensor a) {
        tp::GradientTape tape;
        tape.watch(a);
        auto [w, count] = lambert_w(a);
        return std::tuple{w, count, tape.gradient(w, a)};
      },
      {tp::spec(tp::float64, {-1}, "a")});
  // The same bytes as in a file, which TensorFlow reads, too.
  const tp::Session reloaded(tp::Graph::from_graph_def(traced.graph().as_graph_def()));

  for (const tp::Tensor& a : {tp::tensor<double>({1.0, 10.0}), tp::tensor<double>({1e-3, 2.0, 1e6})}) {
    auto [eager, eager_count] = lambert_w(a);
    auto [w, count, slope] = traced(a);
    const auto again = reloaded.run({traced.output(0).name(), traced.output(2).name()}, {{"a:0", a}});
    std::printf("%d iterations, traced %d\n", eager_count.item<int>(), count.item<int>());
    for (std::int64_t i = 0; i < a.size(); ++i) {
      const double value = w.to_vector<double>()[i], at = a.to_vector<double>()[i];
      const double error = slope.to_vector<double>()[i] - value / (at * (1 + value));
      std::printf("  W(%g) = %.10f, its derivative is %s\n", at, value, std::abs(error) < 1e-9 ? "right" : "wrong");
      if (value != eager.to_vector<double>()[i]) std::puts("  other bits than eagerly");
      if (value != again[0].to_vector<double>()[i] || slope.to_vector<double>()[i] != again[1].to_vector<double>()[i])
        std::puts("  other bits when read again");
    }
  }
}

// Output:
// 6 iterations, traced 6
//   W(1) = 0.5671432904, its derivative is right
//   W(10) = 1.7455280027, its derivative is right
// 8 iterations, traced 8
//   W(0.001) = 0.0009990015, its derivative is right
//   W(2) = 0.8526055020, its derivative is right
//   W(1e+06) = 11.3833580861, its derivative is right
