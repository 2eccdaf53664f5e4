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

TEST_CASE("placeholders of unknown rank give the same values and gradients, also in a file") {
  int compared = 0, saved = 0;
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

    try {
      const Graph again = Graph::from_graph_def(graph.as_graph_def());
      Feeds same;
      for (std::size_t i = 0; i < x.size(); ++i) same.add(x[i].name(), row.inputs[i]);
      std::vector<std::string> names;
      for (const Tensor& each : results) names.push_back(each.name());
      random::seed(5);
      check_same(row, Session(again).run(names, same), expected);
      ++saved;
    } catch (const Error& error) {
      const std::string& text = error.message();
      const bool says_why =
          text.find("not known yet") != std::string::npos ||
          text.find("Shape must be rank 2") != std::string::npos;  // in files, products are of matrices
      CHECK_MESSAGE(says_why, text);
    }
  }
  CHECK(compared > 260);
  CHECK(saved > 230);
}

TEST_CASE("along any axis of a tensor of unknown rank") {
  using Along = Tensor (*)(const Tensor& x, std::int64_t axis);
  const std::vector<Along> ops{
      [](const Tensor& x, std::int64_t axis) { return softmax(x, axis); },
      [](const Tensor& x, std::int64_t axis) { return log_softmax(x, axis); },
      [](const Tensor& x, std::int64_t axis) { return sort(x, axis); },
      [](const Tensor& x, std::int64_t axis) { return sort(x, axis, Direction::descending); },
      [](const Tensor& x, std::int64_t axis) { return take_along_axis(x, argsort(x, axis), axis); },
  };
  for (std::size_t op = 0; op < ops.size(); ++op)
    for (const std::int64_t axis : {0, 1, -1, -2}) {
      CAPTURE(op);
      CAPTURE(axis);
      const auto f = [&](const Tensor& x) { return ops[op](x, axis) * x; };
      Graph graph;
      Tensor x, y, slope;
      {
        const auto scope = graph.as_default();
        x = placeholder(float32);
        y = f(x);
        slope = gradients(reduce_sum(square(y)), {x})[0];
      }
      for (const Shape& shape : {Shape{3, 4}, {2, 3, 4}, {1, 1}}) {
        const Tensor value = reshape(sin(linspace(1, 9, shape.num_elements(), {.dtype = float32})), shape);
        GradientTape tape;
        tape.watch(value);
        const Tensor expected = f(value);
        CHECK(same_bits(Session(graph).run(y, {{x, value}}), expected));
        CHECK(same_bits(Session(graph).run(slope, {{x, value}}), tape.gradient(reduce_sum(square(expected)), value)));
        CHECK(same_bits(trace(f, {spec(float32, Shape::unknown_rank())})(value), expected));
      }
      CHECK_THROWS_AS(Session(graph).run(y, {{x, 1.0F}}), InvalidArgumentError);
      if (axis == -1) continue;
      const std::string refused = message_of<UnimplementedError>([&] { (void)graph.as_graph_def(); });
      CHECK(refused.find("depends on a rank that is not known yet") != std::string::npos);
    }
}

/// A loss of a graph whose placeholders x [2,3], y [2,3] and the classes k [2] have no shapes.
struct Program {
  const char* name;
  Tensor (*loss)(const Tensor& x, const Tensor& y, const Tensor& k);
};

Tensor values(std::initializer_list<std::int64_t> sizes) {
  return reshape(sin(linspace(1, 9, Shape(sizes).num_elements(), {.dtype = float32})), Shape(sizes));
}

/// The logits of a network with a hidden layer.
template <Tensor (*activation)(In, std::string_view)>
Tensor logits_of(const Tensor& x) {
  const Variable w(values({3, 4}), {.name = "w"}), b(values({4}), {.name = "b"});
  const Variable v(values({4, 3}), {.name = "v"}), c(values({3}), {.name = "c"});
  return bias_add(matmul(activation(matmul(x, w) + b, {}), v), c);
}

const Program programs[] = {
    {"regression", [](const Tensor& x, const Tensor& y,
                      const Tensor&) { return reduce_sum(square(x * Variable(values({3}), {.name = "w"}) - y)); }},
    {"distributions", [](const Tensor& x, const Tensor& y,
                         const Tensor&) { return reduce_mean(softmax_cross_entropy(y, logits_of<tanh>(x))); }},
    {"classes", [](const Tensor& x, const Tensor&,
                   const Tensor& k) { return reduce_mean(sparse_softmax_cross_entropy(k, logits_of<relu>(x))); }},
    {"errors",
     [](const Tensor& x, const Tensor& y, const Tensor&) {
       return reduce_mean(square(y - logits_of<sigmoid>(x)), {-2, -1});
     }},
    {"embeddings",
     [](const Tensor& x, const Tensor&, const Tensor& k) {
       return reduce_sum(square(gather(Variable(values({5, 3}), {.name = "w"}), k) - x));
     }},
    {"shared weights",
     [](const Tensor& x, const Tensor&, const Tensor&) {
       const Variable w(values({4, 3}), {.name = "w"});
       return losses::mse(x, matmul(matmul(x, w, {.transpose_b = true}), w));
     }},
    {"movements",
     [](const Tensor& x, const Tensor& y, const Tensor&) {
       const Tensor z = x * Variable(values({3}), {.name = "w"});
       const Tensor rows = concat({transpose(z, {1, 0}), transpose(tile(z, {2, 1}))}, -1);
       return reduce_sum(square(reduce_max(rows, 1)) * reduce_mean(stack({z, y}), {0, 1}));
     }},
};

void check_training(const Program& program, VariableStyle style) {
  Graph graph;
  Operation step, init;
  Tensor x, y, k, loss;
  {
    const auto scope = graph.as_default();
    x = placeholder(float32);
    y = placeholder(float32);
    k = placeholder(int32);
    loss = program.loss(x, y, k);
    step = train::AdamOptimizer(0.01).minimize(loss);
    init = global_variables_initializer();
  }
  Feeds feeds, by_name;
  for (const auto& [placeholder, value] :
       {std::pair(x, values({2, 3})), {y, tensor<float>({{0, 1, 0}, {0.5F, 0, 0.5F}})}, {k, tensor<int>({2, 0})}}) {
    feeds.add(placeholder, value);
    by_name.add(placeholder.name(), value);
  }
  const Graph again = Graph::from_graph_def(graph.as_graph_def({.variables = style}));
  const Session session(graph), other(again);
  session.run(init);
  other.run(init.name());
  const float before = session.run(loss, feeds).item<float>();
  for (int i = 0; i < 20; ++i) {
    CHECK(same_bits(session.run(loss, feeds), other.run(loss.name(), by_name)));
    session.run(step, feeds);
    other.run(step.name(), by_name);
  }
  CHECK(session.run(loss, feeds).item<float>() < before);
}

TEST_CASE("programs with placeholders of known dtype and unknown shape are trained and saved") {
  for (const Program& program : programs) {
    CAPTURE(std::string(program.name));
    for (const VariableStyle style : {VariableStyle::resource, VariableStyle::reference})
      CHECK_NOTHROW(check_training(program, style));
  }
}

}  // namespace tapestry::test::graph_table_test
