// Graphs built by hand, and the sessions that run them.

#include <cmath>
#include <sstream>

#include <doctest/doctest.h>

#include "tapestry/tapestry.hpp"

namespace tapestry::test {
namespace {

std::string printed(const Tensor& tensor) {
  std::ostringstream text;
  text << tensor;
  return text.str();
}

std::vector<std::string> names_of(const std::vector<Operation>& operations) {
  std::vector<std::string> names;
  for (const Operation& each : operations) names.push_back(each.name());
  return names;
}

template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

}  // namespace

TEST_CASE("the affine sample of TensorSlow runs as written") {
  Graph graph;
  const auto scope = graph.as_default();
  auto A = Variable({{1, 0}, {0, -1}});
  auto b = Variable({1, 1});
  auto x = placeholder();
  auto y = matmul(A, x);
  auto z = add(y, b);
  Session session;
  CHECK(printed(session.run(z, {{x, {1, 2}}})) == "[ 2 -1]");
  CHECK(printed(session.run(z, {{x, {1.0, 2.5}}})) == "[ 2.  -1.5]");
  CHECK(names_of(graph.operations()) ==
        std::vector<std::string>{"Variable/initial_value", "Variable", "Variable/Assign", "Variable/read",
                                 "Variable_1/initial_value", "Variable_1", "Variable_1/Assign", "Variable_1/read",
                                 "Placeholder", "MatMul", "AddV2"});
}

TEST_CASE("the four gradients of e = log(a * b) * (c + d)") {
  Graph graph;
  const auto scope = graph.as_default();
  auto a = placeholder(float32, {1}, "a"), b = placeholder(float32, {1}, "b");
  auto c = placeholder(float32, {1}, "c"), d = placeholder(float32, {1}, "d");
  auto u = multiply(a, b, "u"), t = log(u, "t"), v = add(c, d, "v"), e = multiply(t, v, "e");
  Session session(graph);
  const Feeds feeds{{a, {2.0}}, {b, {3.0}}, {c, {5.0}}, {d, {10.0}}};
  CHECK(session.run(e, feeds).item<float>() == doctest::Approx(std::log(6.0) * 15));
  CHECK(session.run(gradients(e, a), feeds)[0](0).item<float>() == doctest::Approx(7.5));
  CHECK(session.run(gradients(e, b), feeds)[0](0).item<float>() == doctest::Approx(5));
  CHECK(session.run(gradients(e, {c, d}), feeds)[1](0).item<float>() == doctest::Approx(std::log(6.0)));
  CHECK(graph.has_operation("gradients_2/e_grad/Mul"));
}

TEST_CASE("untyped placeholders: gradients wait for what is fed") {
  const Tensor points = tensor<double>({{1, 2}, {3, -1}}), classes = tensor({{1, 0}, {0, 1}});
  const auto loss = [](const Tensor& X, const Tensor& c, const auto& W, const auto& b) {
    return negative(reduce_sum(reduce_sum(multiply(c, log(softmax(add(matmul(X, W), b)))), 1)));
  };
  const Variable W(tensor<double>({{1, -1}, {1, -1}})), b(tensor<double>({0, 0}));
  GradientTape tape;
  const Tensor expected = loss(points, classes, W, b);
  const auto [dW, db] = tape.gradient(expected, W, b);

  Graph graph;
  const auto scope = graph.as_default();
  auto X = placeholder(), c = placeholder();
  auto J = loss(X, c, W, b);
  auto g = gradients(J, {W, b});
  Session session;
  auto [value, dw] = session.run(std::tuple{J, g}, {{X, points}, {c, classes}});
  CHECK(value.item<double>() == expected.item<double>());
  CHECK(dw[0].to_vector<double>() == dW.to_vector<double>());
  CHECK(dw[1].to_vector<double>() == db.to_vector<double>());
}

TEST_CASE("a missing feed, a wrong shape, a closed session") {
  Graph graph;
  const auto scope = graph.as_default();
  auto a = placeholder(float32, {1}, "a");
  auto y = square(a, "y");
  Session session;
  CHECK(message_of([&] {
          session.run(y);
        }).starts_with("You must feed a value for placeholder tensor 'a' with dtype float and shape [1]"));
  CHECK(message_of([&] {
          session.run(y, {{a, {1.0, 2.0, 3.0}}});
        }) == "Cannot feed value of shape (3,) for Tensor 'a:0', which has shape '(1,)'");
  CHECK(session.run("y:0", {{"a:0", {3.0}}}).item<float>() == 9);
  session.close();
  CHECK(message_of([&] { session.run(y, {{a, {1.0}}}); }) == "Attempted to use a closed Session.");
}

TEST_CASE("minimize adds TensorFlow's nodes, and its run makes a step by itself") {
  Graph graph;
  const auto scope = graph.as_default();
  Variable w(2.0F, {.name = "w"});
  Variable global_step(0, {.name = "global_step", .trainable = false});
  auto loss = square(w, "loss");
  auto train_op = train::GradientDescentOptimizer(0.25).minimize(loss, {.global_step = global_step});
  Session session;
  session.run(train_op);
  CHECK(session.run(w).item<float>() == 1);
  CHECK(session.run("global_step/read:0").item<int>() == 1);
  CHECK(train_op.name() == "GradientDescent");
  CHECK(train_op.type() == "AssignAddVariableOp");
  for (const char* name : {"GradientDescent/learning_rate", "GradientDescent/update_w/ResourceApplyGradientDescent",
                           "GradientDescent/update"}) {
    CAPTURE(name);
    CHECK(graph.has_operation(name));
  }
  CHECK(session.run("GradientDescent/learning_rate:0")(0).item<double>() == 0.25);
}

TEST_CASE("a traced training step computes what the eager one does") {
  const Tensor points = random::normal({7, 3}), classes = one_hot(tensor({0, 1, 1, 0, 1, 0, 0}), 2);
  const auto train = [&](bool traced) {
    random::NumpyLegacy numbers(1);
    Variable w(numbers.randn({3, 2}).cast(float32)), b(zeros({2}));
    train::AdamOptimizer optimizer(0.1);
    const auto step = [&](Tensor X, Tensor c) {
      GradientTape tape;
      auto loss = reduce_mean(softmax_cross_entropy(c, matmul(X, w) + b));
      auto gradients = tape.gradient(loss, w, b);
      optimizer.apply_gradients(gradients, {w, b});
      return loss;
    };
    std::vector<float> losses;
    if (traced) {
      auto fast = trace(step, {spec(float32, {-1, 3}, "X"), spec(float32, {-1, 2}, "c")});
      for (int i = 0; i < 5; ++i) losses.push_back(fast(points, classes).template item<float>());
    } else {
      for (int i = 0; i < 5; ++i) losses.push_back(step(points, classes).item<float>());
    }
    losses.push_back(w.value()(0, 0).item<float>());
    return losses;
  };
  CHECK(train(true) == train(false));
}

TEST_CASE("assignments in a trace keep the order of the program") {
  Variable v(1.0);
  auto f = trace(
      [&](Tensor x) {
        const Tensor before = v.value() * x;
        v.assign_add(1.0);
        const Tensor between = v.value() * x;
        v.assign(v.value() * 10.0);
        return std::tuple{before, between, v.value() + x};
      },
      {spec(float32, {})});
  const auto [before, between, after] = f(2.0);
  CHECK(before.item<float>() == 2);
  CHECK(between.item<float>() == 4);
  CHECK(after.item<float>() == 22);
  CHECK(v.value().item<float>() == 20);
}

}  // namespace tapestry::test
