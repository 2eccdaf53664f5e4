// Initial values: their distributions, and that graphs and tapes have nothing to do with them.

#include "expect.hpp"
#include "tapestry/tapestry.hpp"

namespace nn_init_test {

using namespace tapestry;
using namespace tapestry::test;

namespace {

struct Distribution {
  std::string name;
  std::function<Tensor(const Shape&)> make;
  std::function<double(double fan_in, double fan_out)> deviation;
  bool uniform;
};

std::vector<Distribution> distributions() {
  using namespace tapestry::nn::init;
  return {
      {"xavier uniform", [](const Shape& s) { return xavier_uniform(s); },
       [](double in, double out) { return std::sqrt(2 / (in + out)); }, true},
      {"xavier normal", [](const Shape& s) { return xavier_normal(s, {.gain = 2, .dtype = float64}); },
       [](double in, double out) { return 2 * std::sqrt(2 / (in + out)); }, false},
      {"kaiming uniform", [](const Shape& s) { return kaiming_uniform(s); },
       [](double in, double) { return std::sqrt(2 / in); }, true},
      {"kaiming normal", [](const Shape& s) { return kaiming_normal(s, {.gain = 1, .fan = Fan::out}); },
       [](double, double out) { return 1 / std::sqrt(out); }, false},
      {"dense", [](const Shape& s) { return nn::Dense(s[1], s[0]).weight.value(); },
       [](double in, double) { return 1 / std::sqrt(3 * in); }, true},
  };
}

TEST_CASE("mean, deviation and range") {
  random::seed(3);
  for (const Distribution& each : distributions())
    for (const Shape& shape : {Shape{300, 200}, Shape{60, 40, 5, 5}}) {
      if (each.name == "dense" && shape.rank() > 2) continue;
      INFO(each.name, " ", to_string(shape));
      const Tensor x = each.make(shape);
      CHECK(x.shape() == shape);
      CHECK_FALSE(x.is_symbolic());
      const double window = shape.rank() > 2 ? 25 : 1;
      const double expected =
          each.deviation(static_cast<double>(shape[1]) * window, static_cast<double>(shape[0]) * window);
      const double deviation = std::sqrt(variance(x).item<double>());
      CHECK(std::abs(reduce_mean(x).item<double>()) < 0.02 * expected);
      CHECK(std::abs(deviation / expected - 1) < 0.02);
      const double largest = reduce_max(abs(x)).item<double>() / expected;
      if (each.uniform) {
        CHECK(largest <= std::sqrt(3.0) * (1 + 1e-6));
        CHECK(largest > 1.73);
      } else {
        CHECK(largest > 3.5);
      }
    }
}

TEST_CASE("orthogonal matrices") {
  for (const Shape& shape : {Shape{5, 5}, Shape{3, 8}, Shape{8, 3}, Shape{4, 2, 3, 3}}) {
    INFO(to_string(shape));
    const Tensor x = nn::init::orthogonal(shape, {.gain = 3, .dtype = float64});
    CHECK(x.shape() == shape);
    const Tensor rows = reshape(x, {shape[0], -1});
    const bool wide = rows.shape()[0] <= rows.shape()[1];
    const Tensor product = matmul(rows, rows, {.transpose_a = !wide, .transpose_b = wide});
    check_same(product, 9.0 * eye(product.shape()[0], {.dtype = float64}), 1e-12);
  }
}

TEST_CASE("the same seed gives the same values, in a graph and under a tape, too") {
  random::seed(7);
  const Tensor expected = nn::Dense(3, 2).weight;
  random::seed(7);
  const Graph graph;
  const Graph::Scope scope(graph);
  GradientTape tape;
  const nn::Dense layer(3, 2);
  CHECK(same_bits(layer.state_dict().at("weight"), expected));
  CHECK_FALSE(nn::init::orthogonal({2, 2}).is_symbolic());
}

TEST_CASE("shapes that are no weight's") {
  CHECK(message_of<InvalidArgumentError>([] { nn::init::xavier_uniform({3}); }) ==
        "A weight has at least two dimensions, [out, in, ...]; this one has the shape [3]");
  CHECK_THROWS_AS(nn::init::orthogonal({}), InvalidArgumentError);
}

}  // namespace

}  // namespace nn_init_test
