// Runs in several parts: each operation runs once, whatever part needs it first.

#include <optional>

#include <doctest/doctest.h>

#include "refused.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test::partial_run_test {
namespace {

#define TAPESTRY_INVALID(text, ...) TAPESTRY_REFUSED(InvalidArgumentError, text, __VA_ARGS__)

}  // namespace

TEST_CASE("a run goes on when more is fed") {
  // The example of TensorFlow's documentation.
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor a = placeholder(float32, {}, "a"), b = placeholder(float32, {}, "b"), c = placeholder(float32, {}, "c");
  const Tensor r1 = add(a, b, "r1"), r2 = multiply(r1, c, "r2");
  const Session session;
  auto run = session.partial_run_setup({r1, r2, c}, {a, b, c});
  CHECK(run.run(r1, {{a, 1}, {b, 2}}).item<int>() == 3);
  CHECK(run.run(std::pair{r2, c}, {{c, 17}}).first.item<int>() == 51);
  TAPESTRY_INVALID("The fetch r1:0 had already been fetched.", run.run(r1));
}

TEST_CASE("each operation runs once in all parts") {
  Graph graph;
  std::optional<Graph::Scope> scope(graph);
  Variable count(0, {.name = "count"});
  const Tensor x = placeholder(float32, {3}, "x"), y = placeholder(float32, {3}, "y");
  const Tensor counted = count.assign_add(1);
  const Tensor noise = [&] {
    const auto after = control_dependencies({counted.op()});
    return random::normal({3}) + x;
  }();
  const Tensor first = noise * 2.0, second = noise + y, third = second * first;
  const Operation last = [&] {
    const auto after = control_dependencies({counted.op(), third.op()});
    return no_op("last");
  }();
  scope.reset();  // outside it, the Variable shows its value
  for (const bool optimize : {true, false}) {
    const Session session(graph, {.optimize = optimize});
    for (int i = 0; i < 3; ++i) {
      const int before = count.value().item<int>();
      auto run = session.partial_run_setup({first, second, third, last, counted}, {x, y});
      const auto a = run.run(first, {{x, {1, 2, 3}}}).to_vector<float>();
      CHECK(count.value().item<int>() == before + 1);
      const auto [b, number] = run.run(std::pair{second, counted}, {{y, {4, 5, 6}}});
      CHECK(number.item<int>() == before + 1);
      const auto d = run.run(std::tuple{last, third});
      CHECK(count.value().item<int>() == before + 1);
      for (int j = 0; j < 3; ++j) {
        const float drawn = a[static_cast<std::size_t>(j)] / 2;
        CHECK(b(j).item<float>() == drawn + static_cast<float>(4 + j));
        CHECK(std::get<1>(d)(j).item<float>() == b(j).item<float>() * a[static_cast<std::size_t>(j)]);
      }
    }
  }
}

TEST_CASE("what a part may name") {
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor a = placeholder(float32, {}, "a"), b = placeholder(float32, {}, "b");
  const Tensor sum = add(a, b, "sum"), twice = multiply(a, 2, "twice"), other = negative(a, "other");
  const Session session;
  TAPESTRY_INVALID("Must specify at least one target to fetch or execute.", session.partial_run_setup({}, {a}));
  auto run = session.partial_run_setup({sum, twice}, {a, b});
  TAPESTRY_INVALID("The fetch other:0 was not specified in partial_run_setup.", run.run(other, {{a, 1}}));
  TAPESTRY_INVALID("The feed twice:0 was not specified in partial_run_setup.", run.run(sum, {{twice, 1}}));
  TAPESTRY_INVALID("Placeholder 'b' is needed for what is fetched, and has not been fed so far.",
                   run.run(sum, {{a, 1}}));
  // Nothing of this has happened.
  CHECK(run.run("twice:0", {{"a:0", 4}}).item<int>() == 8);
  TAPESTRY_INVALID("The feed a:0 had already been fed.", run.run(sum, {{a, 1}, {b, 2}}));
  CHECK(run.run(sum, {{b, 2}}).item<int>() == 6);
}

}  // namespace tapestry::test::partial_run_test
