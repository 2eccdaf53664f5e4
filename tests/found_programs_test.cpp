// What random programs (fuzz/programs*) have found, each as short as it can be: one way to run them gave something
// else.

#include <cmath>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test::found_programs_test {
namespace {

using Values = std::vector<Tensor>;

/// A graph after it went through a file.
Graph reloaded(const Graph& graph) { return Graph::from_graph_def(graph.as_graph_def()); }

}  // namespace

TEST_CASE("no gradient flows into what a Variable is assigned") {
  const Tensor x = tensor({1.0, 2.0});
  Variable v({0.0, 0.0});
  const auto f = [&](const Tensor& each) {
    GradientTape tape;
    tape.watch(each);
    const Tensor assigned = v.assign(each * 2.0);
    return tape.gradient(assigned + v.value(), each, {.unconnected = Unconnected::zero});
  };
  check_values(f(x), {0, 0});
  check_values(trace(f, {spec(float32, {2})})(x), {0, 0});
}

TEST_CASE("a Variable of bools does not add up, traced or not") {
  Variable v({true, false});
  const auto add = [&](const Tensor& x) { return v.assign_add(x); };
  const auto subtract = [&](const Tensor& x) { return v.assign_sub(x); };
  const Tensor x = tensor({true, true});
  const std::string message = "assign_sub: variable 'Variable' is bool[2], the value is bool[2]; bools do not add up";
  CHECK(message_of<InvalidArgumentError>([&] { subtract(x); }) == message);
  CHECK(message_of<InvalidArgumentError>([&] { trace(subtract, {spec(boolean, {2})}); }) == message);
  CHECK_THROWS_AS(add(x), InvalidArgumentError);
  CHECK_THROWS_AS(trace(add, {spec(boolean, {2})}), InvalidArgumentError);
  check_values(v.value(), {1, 0});
}

TEST_CASE("in a trace a tape finds the way back to a tensor that has a value") {
  const Tensor eager = tensor({1.0, 2.0});
  const auto f = [&](const Tensor& x) {
    GradientTape tape;
    tape.watch(eager);
    const Tensor doubled = eager * 2.0;
    Tensor y = doubled * x;
    y = y + eager;
    y = y + doubled;
    return tape.gradient(y, eager);
  };
  const Tensor x = tensor({10.0, 20.0});
  check_values(f(x), {23, 43});
  check_values(trace(f, {spec(float32, {2})})(x), {23, 43});
}

TEST_CASE("in a trace a gradient takes the shape of a tensor with a value that the tape has let go") {
  const Tensor eager = ones({100, 100});
  const auto f = [&](const Tensor& x) {
    GradientTape tape;
    tape.watch(eager);
    return tape.gradient(eager(range(0, 2)) * 1.0 * x, eager);
  };
  const Tensor x = tensor(3.0), expected = f(x);
  CHECK(reduce_sum(expected).item<float>() == 600);
  CHECK(same_bits(trace(f, {spec(float32, {})})(x), expected));
}

TEST_CASE("what a traced function assigns is not taken for the initial value by who reads the file") {
  Variable v({1.0, 2.0}, {.name = "v"});
  const auto traced = trace([&](const Tensor& x) { return v.assign(v.value() * x); }, {spec(float32, {})});
  const auto constant_traced = trace([&](const Tensor& x) { return x + v.assign({7.0, 8.0}); }, {spec(float32, {})});
  const auto first_value = [](const Graph& graph) { return graph.variables().at(0).value(); };
  check_values(first_value(reloaded(traced.graph())), {1, 2});
  check_values(first_value(reloaded(constant_traced.graph())), {1, 2});
  const Graph graph = reloaded(traced.graph());
  const Session session(graph);
  check_values(session.run(traced.output().name(), {{traced.input().name(), 3.0}}), {3, 6});
}

TEST_CASE("ops that take the shape of a tensor of another type go through a file") {
  const auto f = [](const Tensor& x, const Tensor& like) {
    return Values{size_like(x, like), broadcast_like(x, like), reshape_like(x, like), sum_like(x, like)};
  };
  const auto traced = trace([&](const Tensor& x, const Tensor& like) { return f(x, like); },
                            {spec(float32, {2, 1}), spec(float64, {2, 1})});
  const Tensor x = tensor({{1.0}, {2.0}});
  const Session session(reloaded(traced.graph()));
  std::vector<std::string> names;
  for (const Tensor& each : traced.outputs()) names.emplace_back(each.name());
  const Values found = session.run(names, {{traced.input(0).name(), x}, {traced.input(1).name(), x.cast(float64)}});
  const Values expected = f(x, x.cast(float64));
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(same_bits(found[i], expected[i]));
}

TEST_CASE("parameters of a normalization that do not fit are refused when the sizes are known") {
  const Tensor row = tensor({1.0}), two = tensor({1.0, 2.0}), matrix = ones({3, 3}), wide = ones({6, 3});
  const auto batch = [](const Tensor& x, const Tensor& p) { return batch_norm(x, p, p, p, p, 0.01); };
  const auto layer = [](const Tensor& x, const Tensor& p) { return layer_norm(x, p, p); };
  const auto check = [](const auto& f, const Tensor& x, const Tensor& p) {
    CHECK_THROWS_AS(f(x, p), InvalidArgumentError);
    const auto unknown = [](const Tensor& each) {
      return spec(each.dtype(), std::vector<std::int64_t>(static_cast<std::size_t>(each.rank()), -1));
    };
    CHECK_THROWS_AS(trace(f, {unknown(x), unknown(p)})(x, p), InvalidArgumentError);
    CHECK(same_bits(trace(f, {unknown(x), unknown(x)})(x, x), f(x, x)));
  };
  check(batch, row, two);
  check(layer, row, two);
  check(layer, ones({1, 3}), matrix);
  check(batch, matrix, wide);
}

TEST_CASE("in a graph a copy in row-major order is one, after which a view is a view of it") {
  const auto f = [](const Tensor& x) { return reduce_sum(flip(flip(x).contiguous())); };
  const Tensor x = tensor({-1.4953843F, 0.87432432F, 0.58976567F, 1.0e-3F, 77.125F, -3.3333333F, 1.0e7F});
  CHECK(same_bits(trace(f, {spec(float32, {-1})})(x), f(x)));
  CHECK(same_bits(trace(f, {spec(float32, {7})})(x), f(x)));
}

TEST_CASE("a sum over nothing keeps the sign of zero") {
  const auto f = [](const Tensor& x) {
    GradientTape tape;
    tape.watch(x);
    return tape.gradient(x * tensor({-0.0, 1.0}), x);
  };
  const auto traced = trace(f, {spec(float32, {-1})});
  const Tensor x = tensor({1.0, 1.0});
  CHECK(std::signbit(f(x)(0).item<float>()));
  const Session plain(traced.graph(), {.optimize = false});
  CHECK(same_bits(plain.run(traced.output(), {{traced.input(), x}}), f(x)));
  CHECK(same_bits(traced(x), f(x)));
}

}  // namespace tapestry::test::found_programs_test
