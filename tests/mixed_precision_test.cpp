// Autocast and LossScale: what is computed in which type, and steps that are not made.

#include <doctest/doctest.h>

#include "expect.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace tapestry::test::mixed_precision_test {
namespace {

Tensor ramp(const Shape& shape, double from = -1, double to = 1) {
  return reshape(linspace(from, to, shape.size()), shape);
}

/// A step of a small network in mixed precision; returns the loss.
struct Training {
  explicit Training(DType type, const train::LossScaleOptions& options = {})
      : precision(type), optimizer(0.05), loss_scale(options) {}

  Tensor step(const Tensor& x, const Tensor& y) {
    return loss_scale.minimize(optimizer, [&] {
      const Autocast scope(precision);
      return losses::mse(y, net(x));
    });
  }
  std::vector<Tensor> state() const {
    std::vector<Tensor> all;
    for (const Variable& each : net.parameters()) all.push_back(each.value());
    for (const Variable& each : optimizer.variables()) all.push_back(each.value());
    for (const auto& [name, value] : loss_scale.state_dict()) all.push_back(value);
    return all;
  }

  DType precision;
  nn::Sequential net{nn::Dense(3, 8), nn::Tanh(), nn::Dense(8, 1)};
  train::AdamOptimizer optimizer;
  train::LossScale loss_scale;
};

Training training(DType precision, const train::LossScaleOptions& options = {}) {
  random::seed(7);
  return Training(precision, options);
}

const std::vector<TensorSpec> specs{spec(float32, {-1, 3}, "x"), spec(float32, {-1, 1}, "y")};

}  // namespace

TEST_CASE("in the scope products run in its type, delicate ops in float32, others in what they are given") {
  for (const DType type : {float16, bfloat16}) {
    const Tensor a = ramp({4, 3}), b = ramp({3, 2}), image = ramp({1, 4, 4, 2}), filter = ramp({3, 3, 2, 5});
    const Tensor half = ramp({4, 4}).cast(type);
    CHECK(matmul(a, b).dtype() == float32);
    const Autocast scope(type);
    CHECK(Autocast::current() == type);
    CHECK(same_bits(matmul(a, b), [&] {
      const Autocast off(float32);
      CHECK(matmul(a, b).dtype() == float32);
      return matmul(a.cast(type), b.cast(type));
    }()));
    CHECK(matmul(reshape(a, {2, 2, 3}), b).dtype() == type);
    CHECK(einsum("ij,jk->ik", {a, b}).dtype() == type);
    CHECK(conv2d(image, filter).dtype() == type);
    CHECK(conv2d_transpose(ramp({1, 4, 4, 5}), ramp({3, 3, 2, 5})).dtype() == type);
    CHECK(nn::Dense(3, 2)(a).dtype() == type);
    CHECK(nn::Conv2D(2, 5, 3)(image).dtype() == type);
    CHECK(nn::LSTM(3, 2)(reshape(a, {1, 4, 3})).output.dtype() == type);
    CHECK(exp(half).dtype() == float32);
    CHECK(power(half, 2.0).dtype() == float32);
    CHECK(reduce_sum(half).dtype() == float32);
    CHECK(reduce_mean(half, 0).dtype() == float32);
    CHECK(softmax(half).dtype() == float32);
    CHECK(layer_norm(half, ones({4}), zeros({4})).dtype() == float32);
    CHECK(sparse_softmax_cross_entropy(tensor({0, 1, 2, 3}), half).dtype() == float32);
    // Composed of several ops, of which the last would leave the range again.
    for (const Tensor& wide :
         {norm(half), variance(half), reduce_logsumexp(half), losses::cosine_similarity(half, half)})
      CHECK(wide.dtype() == float32);
    CHECK(std::isfinite(norm((ones({4}) * 60000.0).cast(float16)).item<float>()));
    CHECK(reduce_max(half).dtype() == type);
    CHECK(relu(half).dtype() == type);
    CHECK((half + half).dtype() == type);
    CHECK((half + ramp({4, 4})).dtype() == float32);
    // What is neither float32 nor a half type is left alone.
    CHECK(matmul(a.cast(float64), b).dtype() == float64);
    CHECK(matmul(tensor({{1, 2}}), tensor({{3}, {4}})).dtype() == int32);
    CHECK(reduce_sum(tensor({1, 2})).dtype() == int32);
  }
  CHECK(Autocast::current() == float32);
  CHECK(message_of<InvalidArgumentError>([] { const Autocast scope(int32); }) ==
        "Autocast needs float16, bfloat16 or float32, but got int32");
}

TEST_CASE("gradients of a forward pass in the scope have the types of its sources") {
  const Variable w(ramp({3, 2}));
  const Tensor x = ramp({4, 3});
  const auto gradient = [&](bool inside) {
    GradientTape tape;
    std::optional<Autocast> scope(std::in_place, float16);
    const Tensor loss = reduce_mean(square(matmul(x, w)));
    CHECK(loss.dtype() == float32);
    if (!inside) scope.reset();
    return tape.gradient(loss, w);
  };
  const Tensor outside = gradient(false);
  CHECK(outside.dtype() == float32);
  CHECK(same_bits(gradient(true), outside));
  GradientTape tape;
  const Tensor exact = tape.gradient(reduce_mean(square(matmul(x, w))), w);
  CHECK(reduce_max(abs(outside - exact)).item<double>() < 2e-3);
  CHECK(!same_bits(outside, exact));
}

TEST_CASE("what is recomputed is recomputed in the types of the first time") {
  const Tensor x = ramp({4, 3}), w = ramp({3, 2});
  const auto gradients = [&](bool again) {
    GradientTape tape;
    tape.watch(w);
    const auto f = [&](const Tensor& weights) { return relu(matmul(x, weights)).cast(float32); };
    Tensor y;
    {
      const Autocast scope(bfloat16);
      y = again ? recompute(f)(w) : f(w);
    }
    return tape.gradient(reduce_sum(y), w);
  };
  CHECK(same_bits(gradients(true), gradients(false)));
}

TEST_CASE("a traced forward pass keeps the casts, and needs the element types of its inputs") {
  const Tensor a = ramp({4, 3}), b = ramp({3, 2});
  const auto f = [](const Tensor& x, const Tensor& y) {
    const Autocast scope(float16);
    return matmul(x, y);
  };
  const auto traced = trace(f, {spec(float32, {-1, 3}), spec(float32, {3, -1})});
  CHECK(same_bits(traced(a, b), f(a, b)));
  const auto unranked = trace(f, {spec(float32, Shape::unknown_rank()), spec(float32, Shape::unknown_rank())});
  CHECK(same_bits(unranked(a, b), f(a, b)));

  const Graph graph;
  const Graph::Scope open(graph);
  const Tensor x = placeholder(DType::unknown, {2, 2}, "x");
  const Autocast scope(float16);
  CHECK(message_of<InvalidArgumentError>([&] { matmul(x, x); }).find("The element type of input #0 is not known yet") !=
        std::string::npos);
}

TEST_CASE("layers add their biases in the type of the products") {
  random::seed(1);
  const nn::Dense dense(4, 6);
  const nn::MultiHeadAttention attention(6, 2);
  const auto traced = trace(
      [&](const Tensor& x) {
        const Autocast scope(bfloat16);
        return attention(dense(x));
      },
      {spec(float32, {-1, 5, 4})});
  CHECK(traced.output().dtype() == bfloat16);
  int biases = 0;
  for (const Operation& each : traced.graph().operations()) {
    CHECK(each.type() != "AddV2");
    if (each.type() != "BiasAdd") continue;
    CHECK(each.outputs()[0].dtype() == bfloat16);
    ++biases;
  }
  CHECK(biases == 5);
}

TEST_CASE("eager and traced steps in mixed precision give the same bits") {
  for (const DType precision : {float16, bfloat16, float32}) {
    const Tensor x = ramp({16, 3}), y = reduce_sum(x, 1, {.keep_dims = true});
    Training eager = training(precision, {.growth_steps = 3}), traced = training(precision, {.growth_steps = 3});
    const auto step = trace([&](const Tensor& a, const Tensor& b) { return traced.step(a, b); }, specs);
    double first = 0, last = 0;
    for (int i = 0; i < 40; ++i) {
      const Tensor loss = eager.step(x, y);
      CHECK(same_bits(step(x, y), loss));
      (i == 0 ? first : last) = loss.item<double>();
    }
    CHECK(last < first / 4);
    for (const Variable& each : eager.net.parameters()) CHECK(each.dtype() == float32);
    const std::vector<Tensor> here = eager.state(), there = traced.state();
    REQUIRE(here.size() == there.size());
    for (std::size_t i = 0; i < here.size(); ++i) CHECK(same_bits(here[i], there[i]));
  }
}

TEST_CASE("a step with a gradient that is not finite changes nothing but the scale") {
  const Tensor x = ramp({16, 3}), y = reduce_sum(x, 1, {.keep_dims = true});
  for (const bool in_graph : {false, true}) {
    CAPTURE(in_graph);
    Training one = training(float16, {.initial_scale = 1024, .growth_steps = 2});
    Variable steps(tensor(std::int64_t{0}), {.name = "steps", .trainable = false});
    const auto make = [&](const Tensor& a, const Tensor& b) {
      return one.loss_scale.minimize(one.optimizer,
                                     [&] {
                                       const Autocast scope(float16);
                                       return losses::mse(b, one.net(a));
                                     },
                                     one.net.parameters(), {.global_step = steps});
    };
    std::function<Tensor(const Tensor&, const Tensor&)> step = make;
    if (in_graph) step = trace(make, specs);
    step(x, y);
    const auto weights = [&] {
      std::vector<Tensor> all;
      for (const Variable& each : one.net.parameters()) all.push_back(each.value());
      for (const Variable& each : one.optimizer.variables()) all.push_back(each.value());
      return all;
    };
    const std::vector<Tensor> before = weights();
    CHECK(one.loss_scale.value() == 1024);
    step(x * 1e6, y);  // too large for float16
    CHECK(one.loss_scale.value() == 512);
    const std::vector<Tensor> after = weights();
    for (std::size_t i = 0; i < before.size(); ++i) CHECK(same_bits(before[i], after[i]));
    CHECK(one.optimizer.iterations() == 1);
    CHECK(steps.value().item<int>() == 1);
    // The count of good steps begins anew: two of them double the scale.
    step(x, y);
    CHECK(one.loss_scale.value() == 512);
    step(x, y);
    CHECK(one.loss_scale.value() == 1024);
    CHECK(one.optimizer.iterations() == 3);
    CHECK(steps.value().item<int>() == 3);
  }
}

TEST_CASE("the scale stays between 1 and the largest float") {
  const Tensor bad = tensor({not_a_number}), good = tensor({1.0F});
  const auto after = [&](double scale, const Tensor& gradient) {
    train::LossScale loss_scale({.initial_scale = scale, .growth_steps = 1});
    train::GradientDescentOptimizer optimizer(0.5);
    const Variable w(tensor({1.0F}));
    loss_scale.apply_gradients(optimizer, {gradient}, {w});
    CHECK(w.value().item<float>() == (std::isnan(gradient.item<float>()) ? 1.0F : 0.5F));
    return loss_scale.value();
  };
  CHECK(after(1, bad) == 1);
  CHECK(after(1.5, bad) == 1);
  CHECK(after(64, bad) == 32);
  CHECK(after(64, good) == 128);
  CHECK(after(0x1p127, good) == 0x1p127);
}

TEST_CASE("the scale multiplies the loss and divides the gradients, each in its type") {
  const train::LossScale loss_scale({.initial_scale = 8});
  CHECK(loss_scale.scale(tensor(2.0F)).item<float>() == 16);
  CHECK(loss_scale.scale(tensor(float16_t(60000))).item<float>() == 480000);
  const std::vector<Tensor> found = loss_scale.unscale(
      {tensor({16.0F}), Tensor(), tensor<double>({4}), tensor(std::vector<float16_t>{float16_t(8)})});
  CHECK(values(found[0]) == std::vector<double>{2});
  CHECK(!found[1]);
  CHECK(found[2].dtype() == float64);
  CHECK(found[3].dtype() == float16);
  CHECK(values(found[3]) == std::vector<double>{1});
}

TEST_CASE("a graph by hand makes its step under a condition") {
  const Graph graph;
  const Graph::Scope scope(graph);
  const Variable w(tensor({2.0F, 4.0F}), {.name = "w"});
  train::AdamOptimizer optimizer(0.5);
  train::LossScale loss_scale({.initial_scale = 4, .growth_steps = 1});
  const Tensor x = placeholder(float32, {2}, "x");
  const Tensor loss = reduce_sum(w * x);
  const std::vector<Tensor> scaled = gradients(loss_scale.scale(loss), std::vector<Variable>{w});
  const Operation step = loss_scale.apply_gradients(optimizer, loss_scale.unscale(scaled), {w});
  Session session;
  session.run(step, {{x, {1.0, 1.0}}});
  CHECK(loss_scale.value() == 8);
  const Tensor after = w.cell() ? session.run(w.value()) : Tensor();
  CHECK(values(after)[0] == doctest::Approx(1.5));
  session.run(step, {{x, {1.0, infinity}}});
  CHECK(loss_scale.value() == 4);
  CHECK(same_bits(session.run(w.value()), after));
  CHECK(optimizer.iterations() == 1);
  CHECK(message_of<UnimplementedError>([&] {
          graph.save(TemporaryFolder().path() / "x.pb");
        }).find("whether it is made depends on a condition") != std::string::npos);
}

/// A network whose weights and biases have optimizers of their own, in steps of two batches.
struct GroupedTraining {
  std::vector<Variable> named(const char* name) const {
    std::vector<Variable> found;
    for (const auto& [path, parameter] : net.named_parameters())
      if (path.ends_with(name)) found.push_back(parameter);
    return found;
  }
  Tensor step(const Tensor& x, const Tensor& y) {
    const auto loss = [&] {
      const Autocast scope(float16);
      return losses::mse(y, net(x));
    };
    return loss_scale.minimize(accumulation, groups, loss, {}, {.global_step = steps});
  }
  StateDict state() const {
    StateDict all{{"steps", steps.value()}};
    all.merge(net.state_dict());
    all.merge(groups.state_dict());
    for (const auto& [name, value] : accumulation.state_dict()) all.emplace("sum." + name, value);
    return all;
  }

  nn::Sequential net{nn::Dense(3, 8), nn::Tanh(), nn::Dense(8, 1)};
  train::AdamWOptimizer decayed{0.05, {.weight_decay = 0.1}}, plain{0.05, {.weight_decay = 0}};
  train::ParameterGroups groups{{&decayed, named("weight")}, {&plain, named("bias")}};
  train::GradientAccumulation accumulation{2};
  train::LossScale loss_scale{{.initial_scale = 1024, .growth_steps = 2}};
  Variable steps{0, {.name = "steps"}};
};

TEST_CASE("a loss scale, accumulated gradients and groups of parameters make one step") {
  random::seed(7);
  GroupedTraining eager;
  random::seed(7);
  GroupedTraining graph;
  random::seed(7);
  nn::Sequential reference{nn::Dense(3, 8), nn::Tanh(), nn::Dense(8, 1)};
  const auto traced = trace([&](const Tensor& x, const Tensor& y) { return graph.step(x, y); }, specs);
  const Tensor x = ramp({6, 3}), y = ramp({6, 1});
  const auto run = [&](const Tensor& inputs) {
    const Tensor loss = eager.step(inputs, y);
    CHECK(same_bits(loss, traced(inputs, y)));
    CHECK(eager.loss_scale.value() == graph.loss_scale.value());
    const StateDict theirs = graph.state();  // a trace makes the slots before the first step
    for (const auto& each : eager.state())   // clang 14 takes no structured binding into doctest's function
      CHECK_MESSAGE(same_bits(each.second, theirs.at(each.first)), each.first);
  };
  for (int i = 0; i < 3; ++i) run(x);
  CHECK(eager.loss_scale.value() == 1024);  // it counts steps, not batches
  CHECK(eager.steps.value().item<int>() == 1);
  run(x);
  CHECK(eager.loss_scale.value() == 2048);
  const StateDict before = eager.state();
  run(x * infinity);
  CHECK(eager.loss_scale.value() == 2048);
  run(x);  // the bad batch spoils the step, in which the scale halves
  CHECK(eager.loss_scale.value() == 1024);
  CHECK(eager.steps.value().item<int>() == 2);
  CHECK(same_bits(before, eager.state()));
  run(x);
  run(x);
  CHECK(eager.decayed.iterations() == 3);
  CHECK(eager.plain.iterations() == 3);

  // A power of 2 as the scale changes no digit where nothing is rounded to 16 bits.
  train::AdamWOptimizer a(0.05, {.weight_decay = 0.1}), b(0.05, {.weight_decay = 0.1});
  nn::Sequential copy = reference;
  train::ParameterGroups one({{&a, reference.parameters()}}), other({{&b, copy.parameters()}});
  train::LossScale scale;
  scale.minimize(one, [&] { return losses::mse(y, reference(x)); });
  other.minimize([&] { return losses::mse(y, copy(x)); });
  for (const auto& [name, value] : copy.state_dict()) CHECK(same_bits(value, reference.state_dict().at(name)));
  const Variable stranger(1.0, {.name = "stranger"});
  CHECK(message_of<InvalidArgumentError>([&] { scale.apply_gradients(one, {tensor(1.0F)}, {stranger}); }) ==
        "Variable 'stranger' is in no group");
}

TEST_CASE("the state of a loss scale goes through a checkpoint") {
  const TemporaryFolder folder;
  train::LossScale one({.initial_scale = 64, .growth_steps = 2}), other;
  train::GradientDescentOptimizer optimizer(0.5);
  const Variable w(tensor({1.0F}));
  one.apply_gradients(optimizer, {tensor({1.0F})}, {w});
  Checkpoint{.more = {{"loss_scale", &one}}}.save(folder.path());
  Checkpoint{.more = {{"loss_scale", &other}}}.restore(folder.path());
  CHECK(other.value() == 64);
  other.apply_gradients(optimizer, {tensor({1.0F})}, {w});
  CHECK(other.value() == 64);  // its own number of growth steps is 2000

  const StateDict good = one.state_dict();
  const auto refused = [&](const char* key, const Tensor& value) {
    StateDict bad = good;
    bad[key] = value;
    std::string message = message_of<InvalidArgumentError>([&] { one.load_state_dict(bad); });
    CHECK(one.value() == 64);
    return message;
  };
  CHECK(refused("scale", tensor(2)) == "The state of a loss scale needs 'scale', a scalar of float32");
  CHECK(refused("good_steps", tensor({1, 2})) == "The state of a loss scale needs 'good_steps', a scalar of int64");
  CHECK(refused("scale", tensor(0.5F)) ==
        "'scale' in the state of a loss scale must be a finite number >= 1, got 0.500000");
  CHECK(refused("good_steps", tensor(std::int64_t{-1})) ==
        "'good_steps' in the state of a loss scale must be >= 0, got -1");
  CHECK_THROWS_AS(train::LossScale({.initial_scale = 0.5}), InvalidArgumentError);
  CHECK_THROWS_AS(train::LossScale({.growth_steps = 0}), InvalidArgumentError);
}

TEST_CASE("a condition of a step must be a bool scalar") {
  train::GradientDescentOptimizer optimizer(0.5);
  const Variable w(tensor({1.0F}));
  const auto step = [&](const Tensor& condition) {
    optimizer.apply_gradients(TensorList({tensor({1.0F})}), {w}, {.only_if = condition});
    return w.value().item<float>();
  };
  CHECK(step(tensor(false)) == 1);
  CHECK(step(tensor(true)) == 0.5F);
  CHECK(message_of<InvalidArgumentError>([&] { step(tensor({true})); }) ==
        "only_if must be a bool scalar, but is bool[1]");
  CHECK(w.value().item<float>() == 0.5F);
}

}  // namespace tapestry::test::mixed_precision_test
