// What is built around optimizers: optimizers of one's own, groups, accumulation, averages, early stopping, L-BFGS, and
// modules with other values.

#include <algorithm>
#include <cmath>
#include <limits>

#include "expect.hpp"
#include "refused.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace train_parts_test {

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// Momentum as the library has it, made of ops; `broken` as one should not be.
class Composed final : public train::Optimizer {
 public:
  enum class Broken { no, count, dtype, shape, empty };
  explicit Composed(const train::LearningRate& rate, Broken broken = Broken::no)
      : Optimizer("Composed", rate, {{"momentum"}}), broken_(broken) {}

 private:
  Tensors updated(const Tensor& value, const Tensor& gradient, const Tensors& slots, const Step& step) const override {
    const Tensor m = 0.9 * slots[0] + gradient, next = value - step.learning_rate * m;
    if (broken_ == Broken::count) return {next};
    if (broken_ == Broken::dtype) return {next, m.cast(float64)};
    if (broken_ == Broken::shape) return {reduce_sum(next), m};
    if (broken_ == Broken::empty) return {Tensor(), m};
    return {next, m};
  }
  Broken broken_;
};

/// Adam, which needs the number of the step.
class OwnAdam final : public train::Optimizer {
 public:
  explicit OwnAdam(const train::LearningRate& rate) : Optimizer("OwnAdam", rate, {{"m"}, {"v"}}) {}

 private:
  Tensors updated(const Tensor& value, const Tensor& g, const Tensors& slots, const Step& step) const override {
    const Tensor m = 0.9 * slots[0] + 0.1 * g, v = 0.999 * slots[1] + 0.001 * square(g);
    const Tensor corrected = sqrt(1 - power(0.999, step.number)) / (1 - power(0.9, step.number));
    const Tensor rate = step.learning_rate * corrected;
    return {value - rate * m / (sqrt(v) + 1e-8), m, v};
  }
};

struct Net : nn::Module {
  nn::Dense hidden{3, 4}, out{4, 1};
  TAPESTRY_FIELDS(hidden, out)
  Tensor operator()(const Tensor& x) const { return out(tanh(hidden(x))); }
};

const TensorSpec rows = spec(float32, {-1, 3});

Tensor batch(int number) { return reshape(sin(arange(0, 24).cast(float32) * (0.3 + number)), {8, 3}); }
Tensor loss_of(const Net& net, const Tensor& x) {
  return reduce_mean(square(net(x) - reduce_sum(x, 1, {.keep_dims = true})));
}

bool close(const StateDict& a, const StateDict& b, double tolerance) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const auto& x, const auto& y) {
    return x.first == y.first && reduce_max(abs(x.second - y.second)).template item<double>() <= tolerance;
  });
}
}  // namespace

TEST_CASE("an optimizer of one's own: as the library's, eagerly, traced and in a graph") {
  random::seed(1);
  const Net first;
  Net eager = first, traced = first, reference = first, by_hand = first;
  Composed eager_opt(0.1), traced_opt(0.1), graph_opt(0.1);
  train::MomentumOptimizer reference_opt(0.1, 0.9);
  const auto step = trace([&](Tensor x) { return traced_opt.minimize([&] { return loss_of(traced, x); }); }, {rows});
  const Graph graph;
  Tensor x, loss;
  Operation train_op;
  {
    const Graph::Scope scope(graph);
    x = placeholder(float32, {-1, 3});
    loss = loss_of(by_hand, x);
    train_op = graph_opt.minimize(loss);
  }
  Session session(graph);
  for (int i = 0; i < 5; ++i) {
    const Tensor value = eager_opt.minimize([&] { return loss_of(eager, batch(i)); });
    CHECK(same_bits(value, step(batch(i))));
    session.run(train_op, {{x, batch(i)}});
    reference_opt.minimize([&] { return loss_of(reference, batch(i)); });
  }
  CHECK(same_bits(eager.state_dict(), traced.state_dict()));
  CHECK(same_bits(eager.state_dict(), by_hand.state_dict()));
  CHECK(close(eager.state_dict(), reference.state_dict(), 1e-6));
  CHECK(traced_opt.iterations() == 5);
  CHECK(same_bits(eager_opt.state_dict(), traced_opt.state_dict()));
  CHECK(eager_opt.get_slot_names() == std::vector<std::string>{"momentum"});
  CHECK(same_bits(eager_opt.get_slot(*eager.out.bias, "momentum").value(),
                  traced_opt.get_slot(*traced.out.bias, "momentum").value()));
}

TEST_CASE("an optimizer of one's own: the number of the step, schedules, checkpoints, conditions") {
  const Net first;
  Net mine = first, theirs = first;
  const auto schedule = train::ExponentialDecay(0.1, 1, 0.5);
  OwnAdam opt(schedule);
  train::AdamOptimizer adam(schedule);
  for (int i = 0; i < 3; ++i) {
    opt.minimize([&] { return loss_of(mine, batch(i)); });
    adam.minimize([&] { return loss_of(theirs, batch(i)); });
  }
  CHECK(close(mine.state_dict(), theirs.state_dict(), 1e-5));

  Net again = mine;
  OwnAdam restored(schedule);
  const TemporaryFolder folder;
  Checkpoint{.model = &mine, .optimizer = &opt}.save(folder.path());
  Checkpoint{.model = &again, .optimizer = &restored}.restore(folder.path());
  opt.minimize([&] { return loss_of(mine, batch(7)); });
  restored.minimize([&] { return loss_of(again, batch(7)); });
  CHECK(same_bits(mine.state_dict(), again.state_dict()));

  // In a trace the rate is that of each step; without the condition nothing changes.
  Net traced = first;
  OwnAdam traced_opt(schedule);
  const auto step = trace(
      [&](Tensor x, Tensor go) { return traced_opt.minimize([&] { return loss_of(traced, x); }, {.only_if = go}); },
      {rows, spec(boolean, {})});
  for (int i = 0; i < 3; ++i) {
    const StateDict before = traced.state_dict();
    step(batch(9), tensor(false));
    CHECK(same_bits(before, traced.state_dict()));
    step(batch(i), tensor(true));
  }
  CHECK(traced_opt.iterations() == 3);
  CHECK(close(traced.state_dict(), theirs.state_dict(), 1e-5));
}

TEST_CASE("an optimizer of one's own: a file has a constant rate and the number of the step") {
  random::seed(1);
  Net net, other;
  OwnAdam opt(0.1), scheduled(train::ExponentialDecay(0.1, 1, 0.5));
  const Graph graph, changing;
  Tensor x;
  Operation step;
  {
    const Graph::Scope scope(graph);
    x = placeholder(float32, {-1, 3}, "x");
    step = opt.minimize(loss_of(net, x));
  }
  Session session(graph);
  session.run(step, {{x, batch(0)}});
  std::vector<Graph> loaded;
  for (const auto style : {VariableStyle::resource, VariableStyle::reference})
    loaded.push_back(Graph::from_graph_def(graph.as_graph_def({.variables = style})));
  session.run(step, {{x, batch(1)}});
  for (const Graph& each : loaded) {
    Session again(each);
    again.run("init");
    again.run(each.get_operation_by_name(step.name()), {{each.get_tensor_by_name("x:0"), batch(1)}});
    std::size_t found = 0;
    for (const auto& [name, trained] : net.named_parameters())
      for (const Variable& variable : each.variables()) {
        std::string path = variable.name();
        std::replace(path.begin(), path.end(), '/', '.');
        if (path != name) continue;
        CHECK(same_bits(variable.value(), trained.value()));
        ++found;
      }
    CHECK(found == net.parameters().size());
  }

  {
    const Graph::Scope scope(changing);
    scheduled.minimize(loss_of(other, placeholder(float32, {-1, 3})));
  }
  CHECK_NOTHROW(changing.as_graph_def());
  // Frozen Variables do not change, and neither does what follows from them.
  for (const Graph& each : {graph, changing}) CHECK_NOTHROW(each.as_graph_def({.variables = VariableStyle::frozen}));
}

TEST_CASE("an optimizer of one's own: what it must not give changes nothing") {
  using Broken = Composed::Broken;
  for (const Broken broken : {Broken::count, Broken::dtype, Broken::shape, Broken::empty}) {
    Net net;
    Composed opt(0.1, broken);
    const StateDict before = net.state_dict();
    const auto step = [&] { opt.minimize([&] { return loss_of(net, batch(0)); }); };
    CHECK_THROWS_WITH_AS(step(), doctest::Contains("`updated` of the optimizer Composed"), InvalidArgumentError);
    CHECK_THROWS_AS(trace([&](Tensor x) { return opt.minimize([&] { return loss_of(net, x); }); }, {rows}),
                    InvalidArgumentError);
    CHECK(same_bits(before, net.state_dict()));
    CHECK(opt.iterations() == 0);
  }
  struct Nothing : train::Optimizer {
    Nothing() : Optimizer("Nothing", 0.1, {}) {}
  } nothing;
  Variable w(1.0);
  CHECK_THROWS_AS(nothing.minimize([&] { return w * w; }), UnimplementedError);
  struct Named : train::Optimizer {
    explicit Named(std::vector<Slot> slots) : Optimizer("Named", 0.1, std::move(slots)) {}
  };
  CHECK_THROWS_AS(Named({{"m"}, {"m"}}), InvalidArgumentError);
  CHECK_THROWS_AS(Named({{""}}), InvalidArgumentError);
}

TEST_CASE("groups of parameters: each with its optimizer, eagerly and traced") {
  const Net first;
  Net together = first, apart = first, traced = first;
  train::GradientDescentOptimizer fast(0.5), slow(0.01, {.weight_decay = 0.1});
  train::ParameterGroups groups({{&fast, together.hidden.parameters()}, {&slow, together.out.parameters()}});
  Variable count(std::int64_t{0}, {.trainable = false});
  train::GradientDescentOptimizer a(0.5), b(0.01, {.weight_decay = 0.1}), c(0.5), d(0.01, {.weight_decay = 0.1});
  train::ParameterGroups traced_groups({{&c, traced.hidden.parameters()}, {&d, traced.out.parameters()}});
  const auto step = trace([&](Tensor x) { return traced_groups.minimize([&] { return loss_of(traced, x); }); }, {rows});
  for (int i = 0; i < 3; ++i) {
    const Tensor loss = groups.minimize([&] { return loss_of(together, batch(i)); }, {.global_step = count});
    const auto gradients = a.compute_gradients([&] { return loss_of(apart, batch(i)); }, apart.parameters());
    a.apply_gradients({gradients[0], gradients[1]});
    b.apply_gradients({gradients[2], gradients[3]});
    CHECK(same_bits(loss, step(batch(i))));
  }
  CHECK(same_bits(together.state_dict(), apart.state_dict()));
  CHECK(same_bits(together.state_dict(), traced.state_dict()));
  CHECK(count.value().item<int>() == 3);

  const StateDict state = groups.state_dict();
  CHECK(state.contains("1.iterations"));
  train::MomentumOptimizer e(0.1, 0.9), f(0.1, 0.9);
  train::ParameterGroups others({{&e, apart.hidden.parameters()}, {&f, apart.out.parameters()}});
  others.load_state_dict(state);
  CHECK(f.iterations() == 3);
  TAPESTRY_REFUSED(InvalidArgumentError, "is no state of 2 groups", others.load_state_dict({{"2.iterations", count}}));
  TAPESTRY_REFUSED(InvalidArgumentError, "same optimizer",
                   train::ParameterGroups({{&a, apart.hidden.parameters()}, {&a, apart.out.parameters()}}));
  TAPESTRY_REFUSED(InvalidArgumentError, "is in the groups 0 and 1",
                   train::ParameterGroups({{&a, apart.parameters()}, {&b, apart.out.parameters()}}));
  TAPESTRY_REFUSED(InvalidArgumentError, "needs an optimizer and Variables", train::ParameterGroups({{&a, {}}}));
  TAPESTRY_REFUSED(InvalidArgumentError, "depends on no Variable of group 1",
                   groups.minimize([&] { return reduce_sum(together.hidden(batch(0))); }));
}

TEST_CASE("groups of parameters: what is frozen by now stays as it is") {
  struct Number : nn::Module {
    nn::Parameter w{1.0};
    TAPESTRY_FIELDS(w)
  };
  Number one, two, three;
  const Variable a = one.w, b = two.w, c = three.w;
  train::GradientDescentOptimizer first(0.25), second(0.25);
  train::ParameterGroups groups({{&first, {a, b}}, {&second, {c}}});
  const auto loss = [&] { return square(a) + square(b) + square(c); };
  two.freeze();
  three.freeze();
  groups.minimize(loss);
  const auto traced = trace([&] { return groups.minimize(loss); }, {});
  traced();
  CHECK(a.value().item<double>() == 0.25);
  CHECK(b.value().item<double>() == 1);
  CHECK(c.value().item<double>() == 1);
  CHECK(second.iterations() == 0);
}

// Whatever the second group refuses, the first one has not made its step.
TEST_CASE("groups of parameters: all make a step or none") {
  struct Wide final : train::Optimizer {
    Wide() : Optimizer("Wide", 0.1, {}) {}
    Tensors updated(const Tensor& value, const Tensor&, const Tensors&, const Step&) const override {
      return {stack({value, value})};
    }
  };
  const Variable a(1.0, {.name = "a"}), b(1.0, {.name = "b"});
  Variable steps(0, {.name = "steps"});
  train::MomentumOptimizer first(0.25, 0.9);
  train::AdamOptimizer adam(0.25), restored(0.25);
  restored.load_state_dict({{"iterations", tensor(std::int64_t{1})}, {"b.m", ones({3})}, {"b.v", ones({3})}});
  train::GradientDescentOptimizer lost([](std::int64_t) { return std::nan(""); });
  Wide wide;
  const Tensor one = tensor(1.0F);
  const std::vector<std::tuple<const char*, train::Optimizer*, Tensor>> refusals{
      {"The gradient of variable 'b' is float32[2]", &adam, ones({2})},
      {"The gradient of variable 'b' is float64[]", &adam, tensor<double>(1.0)},
      {"learning_rate must be a finite number >= 0", &lost, one},
      {"'b.m'", &restored, one},
      {"gives as value of variable 'b' float32[2]", &wide, one}};
  for (const auto& [text, second, gradient] : refusals) {
    train::ParameterGroups groups({{&first, {a}}, {second, {b}}});
    const auto message = message_of<InvalidArgumentError>([&, &g = gradient] {
      groups.apply_gradients({one, g}, {.global_step = steps});
    });
    CHECK_MESSAGE(message.find(text) != std::string::npos, message);
    CHECK(a.value().item<double>() == 1);
    CHECK(first.iterations() == 0);
    CHECK(steps.value().item<int>() == 0);
  }
}

TEST_CASE("accumulated gradients make the step of one large batch, eagerly and traced") {
  const Net first;
  Net whole = first, parts = first, traced = first;
  train::AdamOptimizer whole_opt(0.1), parts_opt(0.1), traced_opt(0.1);
  train::GradientAccumulation accumulation(3), traced_accumulation(3);
  const auto step = trace(
      [&](Tensor x) {
        return traced_accumulation.minimize(
            traced_opt, [&] { return loss_of(traced, x); }, traced.parameters());
      },
      {rows});
  for (int turn = 0; turn < 4; ++turn) {
    std::vector<Tensor> batches;
    for (int i = 0; i < 3; ++i) {
      CHECK(accumulation.pending() == i);
      const Tensor x = batch(3 * turn + i);
      batches.push_back(x);
      const StateDict before = parts.state_dict();
      const Tensor loss = accumulation.minimize(
          parts_opt, [&] { return loss_of(parts, x); }, parts.parameters());
      CHECK(same_bits(before, parts.state_dict()) == (i < 2));
      CHECK(same_bits(loss, step(x)));
    }
    whole_opt.minimize([&] { return loss_of(whole, concat(batches, 0)); });
  }
  CHECK(parts_opt.iterations() == 4);
  CHECK(traced_opt.iterations() == 4);
  CHECK(close(parts.state_dict(), whole.state_dict(), 1e-5));
  CHECK(same_bits(parts.state_dict(), traced.state_dict()));

  // In the middle of a step: saved, restored, and on.
  accumulation.minimize(
      parts_opt, [&] { return loss_of(parts, batch(20)); }, parts.parameters());
  Net again = parts;
  train::AdamOptimizer again_opt(0.1);
  train::GradientAccumulation again_accumulation(3);
  again_opt.load_state_dict(parts_opt.state_dict());
  again_accumulation.load_state_dict(accumulation.state_dict());
  for (int i = 21; i < 23; ++i) {
    accumulation.minimize(
        parts_opt, [&] { return loss_of(parts, batch(i)); }, parts.parameters());
    again_accumulation.minimize(
        again_opt, [&] { return loss_of(again, batch(i)); }, again.parameters());
  }
  CHECK(again_accumulation.pending() == 0);
  CHECK(same_bits(again.state_dict(), parts.state_dict()));

  CHECK_THROWS_AS(train::GradientAccumulation(0), InvalidArgumentError);
  CHECK_THROWS_AS(accumulation.load_state_dict({}), InvalidArgumentError);
  CHECK_THROWS_AS(accumulation.load_state_dict({{"pending", tensor(std::int64_t{3})}}), InvalidArgumentError);
  TAPESTRY_REFUSED(InvalidArgumentError, "names 2 of them",
                   accumulation.minimize(
                       parts_opt, [&] { return loss_of(parts, batch(0)); }, parts.out.parameters()));
}

TEST_CASE("averages of weights: by their formula, eagerly and traced, and back") {
  Variable w(tensor<float>({1, 2}), {.name = "w"}), other(1.0F);
  train::ExponentialMovingAverage averages(0.75, {w});
  const auto update = trace(
      [&](Tensor x) {
        w.assign(x);
        averages.update();
        return averages.average(w);
      },
      {spec(float32, {2})});
  std::vector<double> expected{1, 2};
  for (int i = 0; i < 6; ++i) {
    const std::vector<float> next{static_cast<float>(i), static_cast<float>(-i)};
    for (std::size_t k = 0; k < 2; ++k) expected[k] = 0.75 * expected[k] + 0.25 * static_cast<double>(next[k]);
    if (i % 2 == 0) {
      w.assign(tensor(next));
      averages.update();
    } else {
      update(tensor(next));
    }
    check_values(averages.average(w), expected, 1e-6);
  }
  const Tensor value = w, average = averages.average(w);
  averages.exchange();
  CHECK(same_bits(w, average));
  averages.exchange();
  CHECK(same_bits(w, value));
  CHECK(same_bits(averages.average(w), average));
  const auto evaluated = trace(
      [&] {
        averages.exchange();
        const Tensor with_averages = w.value();
        averages.exchange();
        return std::pair{with_averages, w.value()};
      },
      {});
  for (int run = 0; run < 2; ++run) {
    const auto [with_averages, own] = evaluated();
    CHECK(same_bits(with_averages, average));
    CHECK(same_bits(own, value));
    CHECK(same_bits(averages.average(w), average));
  }

  train::ExponentialMovingAverage restored(0.75, {w});
  restored.load_state_dict(averages.state_dict());
  CHECK(same_bits(restored.state_dict(), averages.state_dict()));
  CHECK_THROWS_AS(restored.load_state_dict({{"v", value}}), InvalidArgumentError);
  CHECK_THROWS_AS(averages.average(other), NotFoundError);
  CHECK_THROWS_AS(train::ExponentialMovingAverage(1, {w}), InvalidArgumentError);
  CHECK_THROWS_AS(train::ExponentialMovingAverage(0.5, {}), InvalidArgumentError);
  CHECK_THROWS_AS(train::ExponentialMovingAverage(0.5, {Variable(1)}), InvalidArgumentError);
}

TEST_CASE("early stopping") {
  struct Row {
    train::EarlyStoppingOptions options;
    std::vector<double> values;
    std::size_t stops_at;  ///< the place of the value that ends it
    double best;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Row& row : {Row{{.patience = 2}, {3, 2, 2.5, 1, 1, 1}, 5, 1}, Row{{.patience = 1}, {3, 2, 2}, 2, 2},
                         Row{{.patience = 2, .min_delta = 0.5}, {3, 2.9, 2.6}, 2, 3},
                         Row{{.patience = 2, .maximize = true}, {0.1, 0.5, 0.4, 0.3}, 3, 0.5},
                         Row{{.patience = 2}, {nan, nan}, 1, std::numeric_limits<double>::infinity()}}) {
    train::EarlyStopping stopping(row.options);
    for (std::size_t i = 0; i < row.values.size(); ++i) {
      train::EarlyStopping restored(row.options);
      restored.load_state_dict(stopping.state_dict());
      stopping = restored;
      CHECK(stopping.update(row.values[i]) == (i >= row.stops_at));
      CHECK(stopping.is_best() ==
            (row.values[i] == stopping.best() && stopping.best_update() == static_cast<std::int64_t>(i) + 1));
    }
    CHECK(stopping.best() == row.best);
  }
  CHECK_THROWS_AS(train::EarlyStopping({.patience = 0}), InvalidArgumentError);
  CHECK_THROWS_AS(train::EarlyStopping({.min_delta = -1}), InvalidArgumentError);
  CHECK_THROWS_AS(train::EarlyStopping().load_state_dict({}), InvalidArgumentError);
  StateDict endless = train::EarlyStopping().state_dict();
  endless["updates"] = tensor(std::numeric_limits<std::int64_t>::max());
  CHECK_THROWS_AS(train::EarlyStopping().load_state_dict(endless), InvalidArgumentError);
}

TEST_CASE("L-BFGS: known minima") {
  // Rosenbrock's valley, of 2 and of 10 numbers: the minimum is at 1, 1, ...
  for (const std::int64_t n : {2, 10}) {
    Variable x(full({n}, -1.2, {.dtype = float64}));
    const auto rosenbrock = [&] {
      const Tensor a = x(range(0, n - 1)), b = x(range(1, n));
      return reduce_sum(100.0 * square(b - square(a)) + square(1 - a));
    };
    train::LBFGS opt({x}, {.max_iterations = 500, .max_evaluations = 1000, .tolerance_gradient = 1e-10});
    opt.minimize(rosenbrock);
    CHECK(rosenbrock().item<double>() < 1e-16);
    if (n == 2) CHECK(reduce_max(abs(x - 1)).item<double>() < 1e-8);
    CHECK(opt.evaluations() < 200);
  }
  // A quadratic bowl, whose minimum a solver gives, in several Variables and several steps.
  const Tensor root = reshape(sin(arange(0, 36).cast(float64) * 1.7), {6, 6});
  const Tensor a = matmul(root, root, {.transpose_a = true}) + 0.1 * eye(6, {.dtype = float64});
  const Tensor b = cos(arange(0, 6).cast(float64));
  Variable u(zeros({2}, {.dtype = float64})), v(zeros({2, 2}, {.dtype = float64}));
  const auto bowl = [&] {
    const Tensor z = concat({u, reshape(v, {4})}, 0);
    return 0.5 * reduce_sum(z * reduce_sum(a * z, 1)) - reduce_sum(b * z);
  };
  train::LBFGS opt({u, v}, {.max_iterations = 5});
  double last = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 20; ++i) {
    const double loss = opt.minimize(bowl).item<double>();
    CHECK(loss <= last);
    last = loss;
  }
  const Tensor expected = squeeze(solve(a, expand_dims(b, 1)), 1);
  CHECK(reduce_max(abs(concat({u, reshape(v, {4})}, 0) - expected)).item<double>() < 1e-6);
}

TEST_CASE("L-BFGS: a net, by a traced loss; saved and restored, bit for bit") {
  random::seed(3);
  Net net;
  const auto traced = trace([&](Tensor x) { return loss_of(net, x); }, {rows});
  const auto loss = [&] { return loss_of(net, batch(1)); };
  train::LBFGS opt(net.parameters());
  const double first = opt.minimize(loss).item<double>();
  Net again = net;
  train::LBFGS restored(again.parameters());
  restored.load_state_dict(opt.state_dict());
  for (int i = 0; i < 5; ++i) {
    opt.minimize(loss);
    restored.minimize([&] { return loss_of(again, batch(1)); });
  }
  CHECK(same_bits(net.state_dict(), again.state_dict()));
  CHECK(same_bits(opt.state_dict(), restored.state_dict()));
  CHECK(loss().item<double>() < 1e-4 * first);
  CHECK(traced(batch(1)).item<double>() == doctest::Approx(loss().item<double>()));
}

TEST_CASE("L-BFGS: what cannot be, and losses that leave their domain") {
  Variable x(4.0), n(1), wide(1.0, {.dtype = float64});
  // log is not there below 0: the way becomes shorter.
  train::LBFGS opt({x}, {.learning_rate = 100});
  for (int i = 0; i < 5; ++i) opt.minimize([&] { return x - log(x); });
  CHECK(x.value().item<double>() == doctest::Approx(1).epsilon(1e-4));

  const Tensor before = x;
  int calls = 0;
  CHECK_THROWS_AS(opt.minimize([&]() -> Tensor {
    if (++calls == 2) throw OutOfRangeError("mine");
    return square(x - 7);
  }),
                  OutOfRangeError);
  CHECK(same_bits(x, before));
  TAPESTRY_REFUSED(InvalidArgumentError, "depends on none", opt.minimize([&] { return wide * 2.0; }));
  TAPESTRY_REFUSED(InvalidArgumentError, "one number", opt.minimize([&] { return stack({x, x}); }));
  TAPESTRY_REFUSED(FailedPreconditionError, "where LBFGS starts", opt.minimize([&] { return log(x - 100); }));
  TAPESTRY_REFUSED(InvalidArgumentError, "one float type", train::LBFGS({x, wide}));
  TAPESTRY_REFUSED(InvalidArgumentError, "one float type", train::LBFGS({n}));
  TAPESTRY_REFUSED(InvalidArgumentError, "No variables", train::LBFGS({}));
  TAPESTRY_REFUSED(InvalidArgumentError, "history", train::LBFGS({x}, {.history = 0}));
  TAPESTRY_REFUSED(InvalidArgumentError, "needs 'changes'", opt.load_state_dict({}));
}

TEST_CASE("functional_call: other values, differentiable, nested, traced") {
  Net net;
  const Tensor x = batch(2), own = net(x);
  const std::vector<Variable> w = net.parameters();
  std::vector<Tensor> values;
  for (const Variable& each : w) values.push_back(each + 0.5);
  Net moved = net;
  for (std::size_t i = 0; i < w.size(); ++i) moved.parameters()[i].assign(values[i]);
  CHECK(same_bits(nn::functional_call(net, values, x), moved(x)));
  CHECK(same_bits(net(x), own));
  const Tensor partly = nn::functional_call(net, StateDict{{"out.bias", tensor<float>({5})}}, x);
  CHECK(reduce_max(abs(partly - (own - *net.out.bias + 5.0))).item<double>() < 1e-5);

  // Gradients by the values, and none by the Variables whose place they take.
  GradientTape tape({.persistent = true});
  tape.watch(values);
  const Tensor y = reduce_sum(square(nn::functional_call(net, values, x)));
  const auto by_values = tape.gradient(y, values);
  GradientTape plain;
  const auto expected = plain.gradient(reduce_sum(square(moved(x))), moved.parameters());
  for (std::size_t i = 0; i < w.size(); ++i) {
    CHECK(same_bits(by_values[i], expected[i]));
    CHECK_FALSE(tape.gradient(y, w[i]));
  }

  // Learning to learn: the derivative through a step of gradient descent, against finite differences.
  const auto after_step = [&](const Net& start) {
    GradientTape inner;
    const auto gradients = inner.gradient(loss_of(start, x), start.parameters());
    std::vector<Tensor> next;
    for (std::size_t i = 0; i < gradients.size(); ++i) next.push_back(start.parameters()[i] - 0.1 * gradients[i]);
    return reduce_sum(square(nn::functional_call(start, next, batch(5))));
  };
  net.to(float64);
  const auto in_double = [&](const Net& start) {
    GradientTape inner;
    const Tensor x64 = x.cast(float64), y64 = batch(5).cast(float64);
    const auto gradients = inner.gradient(loss_of(start, x64), start.parameters());
    std::vector<Tensor> next;
    for (std::size_t i = 0; i < gradients.size(); ++i) next.push_back(start.parameters()[i] - 0.1 * gradients[i]);
    return reduce_sum(square(nn::functional_call(start, next, y64)));
  };
  GradientTape outer;
  const Tensor g = outer.gradient(in_double(net), Variable(net.out.bias->cell()));
  const double h = 1e-5;
  net.out.bias->assign_add(tensor<double>({h}));
  const double up = in_double(net).item<double>();
  net.out.bias->assign_sub(tensor<double>({2 * h}));
  const double down = in_double(net).item<double>();
  CHECK(g(0).item<double>() == doctest::Approx((up - down) / (2 * h)).epsilon(1e-6));

  const Net other;
  const auto traced = trace([&](Tensor t) { return after_step(other) + 0.0 * reduce_sum(t); }, {rows});
  CHECK(traced(x).item<double>() == doctest::Approx(after_step(other).item<double>()).epsilon(1e-5));

  TAPESTRY_REFUSED(InvalidArgumentError, "has no Variable 'mid.bias'",
                   nn::functional_call(other, StateDict{{"mid.bias", x}}, x));
  TAPESTRY_REFUSED(InvalidArgumentError, "'out.bias' is float32[1]",
                   nn::functional_call(other, StateDict{{"out.bias", zeros({2})}}, x));
  TAPESTRY_REFUSED(InvalidArgumentError, "has 4 parameters, not 1",
                   nn::functional_call(other, std::vector<Tensor>{x}, x));
}

}  // namespace train_parts_test
