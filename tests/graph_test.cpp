// Graphs built by hand, and the sessions that run them.

#include <cmath>
#include <map>
#include <memory>
#include <sstream>
#include <tuple>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test::graph_test {
namespace {

std::vector<std::string> names_of(const std::vector<Operation>& operations) {
  std::vector<std::string> names;
  for (const Operation& each : operations) names.push_back(each.name());
  return names;
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

TEST_CASE("a traced training step with a gradient that is a view, of a Variable that is used transposed") {
  const Tensor x = random::normal({3, 2}, {.dtype = float64});
  Variable eager(zeros({2, 3}, {.dtype = float64})), traced_variable(zeros({2, 3}, {.dtype = float64}));
  train::GradientDescentOptimizer optimizer(1.0), traced_optimizer(1.0);
  const auto step = [](Variable& w, train::Optimizer& by, const Tensor& t) {
    GradientTape tape;
    Tensor loss = reduce_sum(t * transpose(w));
    by.apply_gradients(TensorList(tape.gradient(loss, w)), {w});
    return loss;
  };
  step(eager, optimizer, x);
  trace([&](const Tensor& t) { return step(traced_variable, traced_optimizer, t); }, {spec(float64, {-1, 2})})(x);
  check_same(eager, -transpose(x));
  check_same(traced_variable, -transpose(x));
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

TEST_CASE("what a tape has recorded becomes a graph") {
  const Tensor X = tensor({{1.0, 2.0}, {3.0, -1.0}}), c = tensor({{1.0, 0.0}, {0.0, 1.0}});
  Variable w(tensor({{0.5, -0.5}, {0.25, 1.0}}), {.name = "w"});
  GradientTape tape({.persistent = true});
  const Tensor J = reduce_sum(c * log_softmax(matmul(X, w)));
  const Graph graph = tape.to_graph({.inputs = {X, c}, .outputs = {J}, .names = {"X", "c", "J"}});
  Session session(graph);
  CHECK(session.run("J:0", {{"X:0", X}, {"c:0", c}}).item<float>() == J.item<float>());
  w.assign(zeros({2, 2}));
  CHECK(session.run("J:0", {{"X:0", X}, {"c:0", c}}).item<float>() == doctest::Approx(2 * std::log(0.5)));
  CHECK(message_of([&] {
          tape.to_graph({.outputs = {J}, .names = {"X", "J"}});
        }).starts_with("to_graph: 2 names for 1 inputs and outputs"));
  CHECK(message_of([&] { tape.to_graph({.outputs = {X}}); }).starts_with("to_graph: the tape has not recorded"));
}

TEST_CASE("fetches of any structure; feeding any tensor; each op runs once") {
  Graph graph;
  const auto scope = graph.as_default();
  auto a = placeholder(float32, {}, "a");
  auto b = square(a, "b");
  auto c = b + 1.0;
  Session session;
  auto [x, rest] = session.run(std::pair{b, std::vector{c, a}}, {{a, 3.0}});
  CHECK(x.item<float>() == 9);
  CHECK(rest[0].item<float>() == 10);
  CHECK(rest[1].item<float>() == 3);
  auto named = session.run(std::map<std::string, Tensor>{{"first", b}, {"second", c}}, {{b, 2.0}});
  CHECK(named.at("first").item<float>() == 2);
  CHECK(named.at("second").item<float>() == 3);
  CHECK(session.run({"b:0"}, {{"a:0", 2.0}})[0].item<float>() == 4);
  auto step = session.make_callable({c, b}, {a});
  CHECK(step(2.0)[0].item<float>() == 5);
  auto one = session.make_callable(c, {a});
  CHECK(one(3.0).template item<float>() == 10);
  CHECK(c.eval({{a, 1.0}}).item<float>() == 2);
}

TEST_CASE("results that are held stay, whatever runs next") {
  Graph graph;
  const auto scope = graph.as_default();
  auto a = placeholder(float32, {3}, "a");
  auto y = a * 2.0;
  Session session;
  const Tensor first = session.run(y, {{a, {1.0, 2.0, 3.0}}});
  const Tensor second = session.run(transpose(reshape(y, {3, 1})), {{a, {4.0, 5.0, 6.0}}});
  const Tensor third = session.run(y, {{a, {7.0, 8.0, 9.0}}});
  CHECK(first.to_vector<int>() == std::vector{2, 4, 6});
  CHECK(second.to_vector<int>() == std::vector{8, 10, 12});
  CHECK(third.to_vector<int>() == std::vector{14, 16, 18});
}

TEST_CASE("names, scopes, devices and control inputs") {
  Graph graph;
  const auto scope = graph.as_default();
  auto x = placeholder(float32, {2}, "x");
  {
    auto hidden = name_scope("hidden");
    CHECK(square(x, "x").name() == "hidden/x:0");
    auto again = name_scope("hidden");
    CHECK(again.name() == "hidden/hidden/");
  }
  auto second = name_scope("hidden");
  CHECK(second.name() == "hidden_1/");
  {
    auto root = name_scope("");
    auto device_scope = device("/job:ps");
    auto inner = device("/cpu:0");
    auto after = control_dependencies({x.op()});
    const Tensor y = tensor({1.0, 2.0}) + constant({1.0, 1.0}, "one");
    CHECK(y.op().device() == "/job:ps/device:CPU:0");
    CHECK(y.op().control_inputs().size() == 1);
    CHECK(square(x).op().control_inputs().empty());
  }
  CHECK(message_of([&] { square(x, "bad name"); }) == "'bad name' is not a valid node name");
  CHECK(message_of([&] { graph.get_tensor_by_name("nothing:0"); }) ==
        "The name 'nothing:0' refers to a Tensor which does not exist. The operation, 'nothing', does not exist in the "
        "graph.");
  CHECK(message_of([&] { graph.get_operation_by_name("nothing"); }) ==
        "The name 'nothing' refers to an Operation not in the graph.");
  graph.finalize();
  CHECK(message_of([&] { square(x); }) == "Graph is finalized and cannot be modified.");
}

TEST_CASE("operations by name are what the op makes in the open graph, with a Cast for each promotion") {
  for (const char* type : {"AddV2", "Mul", "RealDiv", "Maximum", "FloorMod", "Less", "MatMul"})
    for (const DType left : {uint8, int32, int64, float16, float32, float64})
      for (const DType right : {uint8, int32, int64, float16, float32, float64}) {
        INFO(type << ' ' << left << ' ' << right);
        const Graph graph, other;
        const auto scope = graph.as_default();
        const Tensor x = placeholder(left, {2, 2}), y = placeholder(right, {2, 2});
        const Tensor applied = apply_op(type, {x, y});
        const std::size_t count = graph.operations().size() - 2;
        const auto elsewhere = other.as_default();
        const Tensor created = graph.create_op(type, {x, y}).output(0);
        const std::vector<Operation> all = graph.operations();
        CHECK(all.size() == 2 + 2 * count);
        CHECK(other.operations().empty());
        for (std::size_t i = 0; i < count; ++i) CHECK(all[2 + i].type() == all[2 + count + i].type());
        const auto values =
            Session(graph).run(std::pair{applied, created}, {{x, {{5, 4}, {3, 2}}}, {y, {{1, 2}, {3, 4}}}});
        CHECK(values.second.dtype() == applied.dtype());
        CHECK(printed(values.first) == printed(values.second));
      }
  const Graph graph;
  const auto scope = graph.as_default();
  const Tensor x = placeholder(float32, {2}), number = tensor({1, 2});
  CHECK(printed(Session(graph).run(graph.create_op("AddV2", {x, number}).output(0), {{x, {1, 2}}})) == "[2. 4.]");
  // What an open graph would execute becomes an operation, too.
  CHECK(graph.create_op("Neg", {number}).inputs()[0].op().type() == "Const");
  GradientTape tape;
  tape.watch(x);
  const Tensor squared = graph.create_op("Square", {x}).output(0);
  CHECK(bool(tape.gradient(squared, x)));
}

TEST_CASE("attributes that a call by name may lack, as in TensorFlow") {
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor x = placeholder(float32, {2, 2});
  const Attrs axis{{"axis", std::int64_t{0}}};
  const Attrs part{{"begin", Ints{0}}, {"end", Ints{1}}, {"strides", Ints{1}}};
  const std::vector<std::tuple<const char*, Tensors, Attrs, Tensor>> rows{
      {"MatMul", {x, x}, {}, matmul(x, x)},
      {"BatchMatMulV2", {x, x}, {}, matmul(x, x)},
      {"Cumsum", {x}, axis, cumsum(x, 0)},
      {"Cumprod", {x}, axis, cumprod(x, 0)},
      {"Gelu", {x}, {}, gelu(x)},
      {"LeakyRelu", {x}, {}, leaky_relu(x, 0.2)},
      {"Pack", {x, x}, {}, stack({x, x}, 0)},
      {"StridedSlice", {x}, part, x(range(0, 1))},
  };
  for (const auto& [name, inputs, attrs, due] : rows) {
    const char* type = name;  // clang 14 takes no structured binding into doctest's function
    INFO(type);
    const Feeds feeds{{x, {{1, -2}, {3, 4}}}};
    const auto values = Session(graph).run(
        std::vector{due, apply_op(type, inputs, attrs), graph.create_op(type, inputs, {.attrs = attrs}).output(0)},
        feeds);
    CHECK(printed(values[1]) == printed(values[0]));
    CHECK(printed(values[2]) == printed(values[0]));
  }
  for (const char* type : {"RandomUniform", "RandomStandardNormal"})
    CHECK(apply_op(type, {}, {{"shape", Shape({2})}, {"dtype", float32}}).shape() == Shape({2}));
}

TEST_CASE("collections") {
  Graph graph;
  const auto scope = graph.as_default();
  const Variable w(1.0, {.name = "w"}), counter(0, {.name = "counter", .trainable = false});
  const Tensor loss = square(w, "loss"), other = square(loss, "other");
  const auto in = [&](std::string_view name) { return names_of(graph.get_collection(name)); };
  graph.add_to_collection("losses", loss);
  graph.add_to_collection("losses", other.op());
  CHECK(in("losses") == std::vector<std::string>{"loss", "other"});
  CHECK(graph.get_collection_tensors("losses").size() == 1);
  CHECK(in(graph_keys::global_variables) == std::vector<std::string>{"w", "counter"});
  CHECK(in(graph_keys::trainable_variables) == std::vector<std::string>{"w"});
  graph.add_to_collection(graph_keys::trainable_variables, graph.get_operation_by_name("w"));
  graph.add_to_collection(graph_keys::trainable_variables, loss);
  CHECK(in(graph_keys::trainable_variables) == std::vector<std::string>{"w", "loss"});
  CHECK(graph.get_all_collection_keys() == std::vector<std::string>{"losses", "trainable_variables", "variables"});
  CHECK(Graph().get_all_collection_keys().empty());
}

TEST_CASE("the collections of Variables have names while they have Variables") {
  const Graph graph;
  const auto scope = graph.as_default();
  const Variable counter(0, {.name = "counter", .trainable = false});
  CHECK(graph.get_all_collection_keys() == std::vector<std::string>{"variables"});
}

TEST_CASE("scopes may end in any order") {
  const Graph graph, inner;
  const auto outer = graph.as_default();
  const Tensor x = placeholder(float32, {}, "x");
  const auto pairs = [&](const auto& open) {
    auto a = open(0), b = open(1);
    a.reset();
    b.reset();
    a = open(0), b = open(1);
    auto c = open(0);
    b.reset();
    a.reset();
    c.reset();
  };
  Session session(graph);
  pairs([&](int i) { return std::make_unique<Graph::Scope>(i == 0 ? inner : graph); });
  pairs([&](int i) { return std::make_unique<NameScope>(i == 0 ? "a" : "b", Where::here()); });
  pairs([&](int) { return std::make_unique<ControlScope>(ControlInputs{x.op()}); });
  pairs([&](int) { return std::make_unique<DeviceScope>("/device:CPU:0", Where::here()); });
  pairs([&](int) { return std::make_unique<ColocationScope>(x.op()); });
  pairs([&](int) {
    return std::make_unique<GradientOverrides>(std::map<std::string, Gradient>{{"Neg", no_gradient}}, Where::here());
  });
  struct SessionScope {
    explicit SessionScope(const Session& opened) : scope(opened.as_default()) {}
    Session::Scope scope;
  };
  pairs([&](int) { return std::make_unique<SessionScope>(session); });
  CHECK(default_graph().is(graph));
  const Tensor y = square(placeholder(float32, {}, "y"));
  CHECK(y.name() == "Square:0");
  CHECK(y.op().control_inputs().empty());
  CHECK(y.op().device().empty());
  CHECK(bool(gradients(negative(x), x)[0]));
  CHECK((ones({2}) + 1.0).device().is_cpu());  // asks no device scope that has ended
}

TEST_CASE("a read in a scope of control dependencies sees what the operations of the scope have assigned") {
  for (const bool fetched_alone : {true, false}) {
    CAPTURE(fetched_alone);
    Graph graph;
    const auto scope = graph.as_default();
    Variable w(1.0, {.name = "w"});
    const Tensor before = w + 0.0;
    const Tensor update = w.assign_add(2.0);
    Tensor after, again, product;
    {
      const auto wait = control_dependencies({update.op()});
      after = w.read_value();
      again = w.value();
      product = w * 10.0;
    }
    const Tensor unordered = w * 1.0;
    CHECK(!after.is(again));
    CHECK(unordered.op().input(0).is(before.op().input(0)));
    Session session;
    if (fetched_alone) {
      CHECK(session.run(after).item<double>() == 3);
      CHECK(session.run(product).item<double>() == 50);
      CHECK(session.run(before).item<double>() == 5);
    } else {
      const std::vector<Tensor> all = session.run(std::vector<Tensor>{after, again, product});
      CHECK(values(stack(all)) == std::vector<double>{3, 3, 30});
    }
  }
}

TEST_CASE("gradients reach a Variable through reads in control scopes, too") {
  Graph graph;
  const auto scope = graph.as_default();
  Variable w(3.0, {.name = "w"});
  const Tensor first = w * w;
  Tensor y;
  {
    const auto wait = control_dependencies({first.op()});
    y = first + w * 5.0;
  }
  CHECK(Session().run(gradients(y, {w})[0]).item<double>() == 11);
}

TEST_CASE("a Variable of a symbolic initial value has none until its initializer runs") {
  Graph graph;
  const auto scope = graph.as_default();
  Variable w(constant({1.0, 2.0}) * 3.0, {.name = "W"});
  Variable v(w.initialized_value() + 1.0, {.name = "V"});
  auto init = global_variables_initializer();
  Session session;
  CHECK(message_of([&] { session.run(w); }) == "Attempting to use uninitialized value W");
  CHECK_FALSE(is_variable_initialized(w));
  CHECK(report_uninitialized_variables() == std::vector<std::string>{"W", "V"});
  session.run(init);
  CHECK(is_variable_initialized(w));
  CHECK(report_uninitialized_variables().empty());
  CHECK(session.run(w).to_vector<int>() == std::vector{3, 6});
  CHECK(session.run("W:0").to_vector<int>() == std::vector{3, 6});
  CHECK(session.run(v).to_vector<int>() == std::vector{4, 7});
  for (const char* name : {"W", "W/Assign", "W/read", "init"}) CHECK(graph.has_operation(name));
}

TEST_CASE("a gradient of one's own for the ops of a scope") {
  Graph graph;
  const auto scope = graph.as_default();
  const auto x = placeholder(float64, {2}, "x");
  const auto twice = [](const Operation&, const Tensor& gradient) -> std::vector<Tensor> { return {2.0 * gradient}; };
  const auto thrice = [](const Operation& op, const Tensor& gradient) -> std::vector<Tensor> {
    return {3.0 * gradient * op.output()};
  };
  const auto overrides = gradient_override_map({{"Relu", twice}});
  const Tensor outer = relu(x);
  const Tensor inner = [&] {
    const auto more = gradient_override_map({{"Relu", thrice}, {"Exp", twice}});
    return relu(x) + exp(x);
  }();
  const Tensor also_outer = relu(x);
  Session session;
  const auto gradient = [&](const Tensor& y) {
    return session.run(gradients(y, x), {{x, {-1.0, 2.0}}})[0].to_vector<double>();
  };
  CHECK(gradient(outer) == std::vector{2.0, 2.0});
  CHECK(gradient(inner) == std::vector{2.0, 8.0});
  CHECK(gradient(also_outer) == std::vector{2.0, 2.0});
  CHECK(gradient(square(x)) == std::vector{-2.0, 4.0});

  // Where the gradient waits for what is fed, too.
  const auto untyped = placeholder();
  const Tensor found = gradients(relu(untyped), untyped)[0];
  CHECK(session.run(found, {{untyped, {-1.0, 2.0}}}).to_vector<double>() == std::vector{2.0, 2.0});
}

TEST_CASE("a squeeze without axes of a tensor of unknown rank has an unknown rank") {
  Graph graph;
  Tensor x, y;
  {
    const auto scope = graph.as_default();
    x = placeholder(float32);
    y = reduce_sum(squeeze(x), {}, {}, "y");
  }
  CHECK_FALSE(y.op().input(0).shape().has_rank());
  const Graph again = Graph::from_graph_def(graph.as_graph_def());
  const Tensor value = ones({2, 1, 3});
  CHECK(Session(graph).run(y, {{x, value}}).item<float>() == 6);
  CHECK(Session(again).run("y:0", {{x.name(), value}}).item<float>() == 6);
}

TEST_CASE("a product of a tensor of unknown rank takes vectors, matrices and batches") {
  const Tensor w = tensor<double>({{1, 2, 3}, {4, 5, 6}});
  for (const bool is_first : {true, false})
    for (const MatMulOptions options : {MatMulOptions{}, {true, false}, {false, true}, {true, true}}) {
      CAPTURE(is_first);
      CAPTURE(options.transpose_a);
      CAPTURE(options.transpose_b);
      const auto product = [&](const Tensor& x, const Tensor& matrix) {
        return is_first ? matmul(x, matrix, options) : matmul(matrix, x, options);
      };
      const auto loss = [&](const Tensor& x, const Tensor& matrix) { return reduce_sum(square(product(x, matrix))); };
      Graph graph;
      Tensor x, matrix, y, of_y;
      std::vector<Tensor> slopes;
      {
        const auto scope = graph.as_default();
        x = placeholder(float64, Shape::unknown_rank());
        matrix = placeholder(float64, w.shape());
        y = product(x, matrix);
        of_y = loss(x, matrix);
        slopes = gradients(of_y, {x, matrix});
        for (const Tensor& each : slopes) CHECK(each.op().type() != "SymbolicGradient");
      }
      CHECK_FALSE(y.shape().has_rank());
      const Session session(graph);
      const bool is_swapped = is_first ? options.transpose_a : options.transpose_b;
      const std::int64_t inner = (is_first ? options.transpose_b : !options.transpose_a) ? 3 : 2;
      const Shape matrices = is_first == is_swapped ? Shape{inner, 4} : Shape{4, inner};
      for (const Shape& shape : {Shape{inner}, matrices, Shape{2, matrices[0], matrices[1]}}) {
        CAPTURE(to_string(shape));
        const Tensor value = reshape(linspace(-1.0, 2.0, shape.size()).cast(float64), shape);
        const Feeds feeds{{x, value}, {matrix, w}};
        check_same(session.run(y, feeds), product(value, w), 1e-12);
        check_same(session.run(of_y, feeds), loss(value, w), 1e-12);
        GradientTape tape;
        tape.watch({value, w});
        const std::vector<Tensor> expected = tape.gradient(loss(value, w), {value, w});
        for (std::size_t k = 0; k < 2; ++k) check_same(session.run(slopes[k], feeds), expected[k], 1e-12);
      }
    }
  const nn::Dense layer(4, 2);
  const Tensor expected = layer(ones({3, 4}));
  Graph graph;
  const auto scope = graph.as_default();
  const auto x = placeholder();
  check_same(Session(graph).run(layer(x), {{x, std::vector<std::vector<float>>(3, std::vector<float>(4, 1.0F))}}),
             expected);
}

TEST_CASE("tensors taken for constants, in graphs and on tapes") {
  // y = (a + b) * a with a = x^2, b = a * x: each way of stopping against the formula of what remains.
  struct Case {
    std::vector<int> stops;  // 0: a, 1: b
    std::function<double(double)> by_x, by_a;
  };
  const std::vector<Case> cases = {
      {{}, [](double x) { return 4 * x * x * x + 5 * x * x * x * x; }, [](double x) { return 2 * x * x * (1 + x); }},
      {{0}, [](double x) { return x * x * x * x; }, [](double x) { return 2 * x * x * (1 + x); }},
      {{1}, [](double x) { return 2 * x * (2 * x * x + x * x * x); }, [](double x) { return 2 * x * x + x * x * x; }},
      {{0, 1}, [](double) { return 0.0; }, [](double x) { return 2 * x * x + x * x * x; }}};
  const auto steps = [](const Tensor& x) {
    const Tensor a = square(x), b = a * x;
    return std::array{a, b, (a + b) * a};
  };
  for (const Case& each : cases) {
    CAPTURE(each.stops.size());
    const auto stops_of = [&](const auto& tensors) {
      std::vector<Tensor> stops;
      for (const int i : each.stops) stops.push_back(tensors[static_cast<std::size_t>(i)]);
      return stops;
    };
    const auto check = [&](double x, const std::vector<Tensor>& gradients) {
      CHECK(gradients[0].item<double>() == doctest::Approx(each.by_x(x)));
      CHECK(gradients[1].item<double>() == doctest::Approx(each.by_a(x)));
    };
    GradientTape tape;
    const Tensor value = tensor(1.5);
    tape.watch(value);
    const auto eager = steps(value);
    check(1.5, tape.gradient(eager[2], std::vector<Source>{value, eager[0]},
                             {.unconnected = Unconnected::zero, .stop_gradients = stops_of(eager)}));

    Graph graph;
    const auto scope = graph.as_default();
    for (const Tensor& x : {placeholder(float64, {}), placeholder()}) {
      const auto symbolic = steps(x);
      const auto found = gradients(symbolic[2], {x, symbolic[0]},
                                   {.unconnected = Unconnected::zero, .stop_gradients = stops_of(symbolic)});
      check(-0.75, Session().run(found, {{x, -0.75}}));
    }
  }
}

TEST_CASE("chains of any depth") {
  Graph graph;
  const auto scope = graph.as_default();
  auto x = placeholder(float32, {}, "x");
  auto y = x;
  for (int i = 0; i < 20000; ++i) y = y + x;
  Session session;
  CHECK(session.run(y, {{x, 1.0}}).item<int>() == 20001);
  CHECK(session.run(gradients(y, x), {{x, 1.0}})[0].item<int>() == 20001);
}

}  // namespace tapestry::test::graph_test
