// Over the table of op_cases/: every op gives the same bits eagerly, traced, and traced with an unknown batch size; so
// do its gradients.

#include <set>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "op_cases/op_cases.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test::graph_table_test {
namespace {

using Inputs = std::vector<Tensor>;

std::vector<TensorSpec> specs_of(const Inputs& inputs, bool unknown_batch) {
  std::vector<TensorSpec> specs;
  for (const Tensor& input : inputs) {
    Shape shape = input.shape();
    if (unknown_batch && shape.rank() > 0) shape.set(0, -1);
    specs.push_back(spec(input.dtype(), shape));
  }
  return specs;
}

Inputs run_trace(const OpCase& row, const std::vector<TensorSpec>& specs, const Inputs& inputs) {
  const auto f = [&](const Inputs& x) { return value_and_gradients(row, x); };
  const auto traced = trace(f, specs);
  Session session(traced.graph());
  Feeds feeds;
  for (std::size_t i = 0; i < inputs.size(); ++i) feeds.add(traced.input(i), inputs[i]);
  return session.run(traced.outputs(), feeds);
}

/// `svd`: of a matrix with an unknown number of rows the gradient has all terms, also those that would vanish.
void check_same(const OpCase& row, const Inputs& found, const Inputs& expected) {
  CHECK(found.size() == expected.size());
  for (std::size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
    CAPTURE(i);
    if (row.name.starts_with("svd") && i > 0) {
      CHECK(reduce_max(abs(found[i] - expected[i])).item<double>() < (is_half(found[i].dtype()) ? 0.1 : 1e-12));
    } else {
      CHECK(same_bits(found[i], expected[i]));
    }
  }
}

}  // namespace

TEST_CASE("traced ops and gradients give the bits of eager ones") {
  for (const OpCase& row : op_cases()) {
    for (const DType dtype : {float64, float16, bfloat16}) {
      INFO(row.name, ", ", to_string(dtype));
      Inputs inputs;
      for (const Tensor& each : row.inputs) inputs.push_back(is_floating(each.dtype()) ? each.cast(dtype) : each);
      random::seed(5);
      const Inputs expected = value_and_gradients(row, inputs);
      random::seed(5);
      Inputs found;
      CHECK_NOTHROW(found = run_trace(row, specs_of(inputs, false), inputs));
      check_same(row, found, expected);
    }
  }
}

TEST_CASE("a trace with an unknown batch size is right at two sizes") {
  for (const OpCase& row : op_cases()) {
    // The rank of what a squeeze without axes gives depends on the batch size.
    if (row.inputs.empty() || row.name == "squeeze") continue;
    CAPTURE(row.name);
    random::seed(5);
    const Inputs expected = value_and_gradients(row, row.inputs);
    random::seed(5);
    Inputs found;
    CHECK_NOTHROW(found = run_trace(row, specs_of(row.inputs, true), row.inputs));
    check_same(row, found, expected);

    Inputs larger;
    for (const Tensor& input : row.inputs)
      larger.push_back(input.rank() > 0 && input.shape()[0] > 1 ? concat({input, input}, 0) : input);
    Inputs expected_larger;
    try {
      random::seed(5);
      expected_larger = value_and_gradients(row, larger);
    } catch (const Error&) {
      continue;  // the row's function is for one size only
    }
    random::seed(5);
    CHECK_NOTHROW(found = run_trace(row, specs_of(row.inputs, true), larger));
    check_same(row, found, expected_larger);
  }
}

TEST_CASE("placeholders of unknown rank give the same values and gradients") {
  int compared = 0;
  for (const OpCase& row : op_cases()) {
    if (row.inputs.empty()) continue;
    CAPTURE(row.name);
    Inputs x, results;
    Graph graph;
    try {
      const auto scope = graph.as_default();
      std::vector<Source> sources;
      for (const Tensor& input : row.inputs) {
        x.push_back(placeholder(input.dtype(), Shape::unknown_rank()));
        if (row.orders > 0 && is_floating(input.dtype())) sources.emplace_back(x.back());
      }
      results.push_back(row.f(x));
      if (!results[0].is_symbolic()) continue;  // the row's function takes other tensors
      if (!sources.empty())
        for (const Tensor& each : gradients({results[0]}, sources, {.unconnected = Unconnected::zero}))
          results.push_back(each);
    } catch (const Error&) {
      continue;  // the row's function asks for a rank
    }
    Feeds feeds;
    for (std::size_t i = 0; i < x.size(); ++i) feeds.add(x[i], row.inputs[i]);
    random::seed(5);
    const Inputs expected = value_and_gradients(row, row.inputs);
    random::seed(5);
    Inputs found;
    CHECK_NOTHROW(found = Session(graph).run(results, feeds));
    check_same(row, found, expected);
    ++compared;
  }
  CHECK(compared > 200);
}

TEST_CASE("a program with placeholders of known dtype and unknown shape is trained and saved") {
  Graph graph;
  Operation step, init;
  Tensor x, y, loss;
  {
    const auto scope = graph.as_default();
    Variable w(tensor<float>({0.3F}), {.name = "w"}), b(tensor<float>({-0.3F}), {.name = "b"});
    x = placeholder(float32);
    y = placeholder(float32);
    loss = reduce_sum(square(x * w + b - y), {}, {}, "loss");
    step = train::GradientDescentOptimizer(0.01).minimize(loss);
    init = global_variables_initializer();
  }
  const Graph again = Graph::from_graph_def(graph.as_graph_def());
  const Inputs points{tensor<float>({1, 2, 3, 4}), tensor<float>({0, -1, -2, -3})};
  const Session session(graph), other(again);
  session.run(init);
  other.run(init.name());
  for (int i = 0; i < 100; ++i) {
    const Feeds feeds{{x, points[0]}, {y, points[1]}};
    const Feeds same{{x.name(), points[0]}, {y.name(), points[1]}};
    CHECK(same_bits(session.run(loss, feeds), other.run(loss.name(), same)));
    session.run(step, feeds);
    other.run(step.name(), same);
  }
  CHECK(session.run(loss, {{x, points[0]}, {y, points[1]}}).item<float>() < 0.2F);
}

}  // namespace tapestry::test::graph_table_test
