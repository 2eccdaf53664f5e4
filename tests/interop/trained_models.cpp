#include <functional>
#include <limits>
#include <memory>

#include "interop/judgement.hpp"

namespace tapestry::test {
namespace {

constexpr int steps = 5;

/// A graph that is trained; its Variables have known first values.
struct Model {
  Graph graph;
  Tensor loss;
  Operation step;
  std::vector<std::pair<std::string, Tensor>> feeds;
};

using MakeOptimizer = std::function<std::unique_ptr<train::Optimizer>()>;

template <class Optimizer, class... Arguments>
MakeOptimizer maker(const Arguments&... arguments) {
  return [=] { return std::make_unique<Optimizer>(arguments...); };
}

const std::vector<std::pair<std::string, MakeOptimizer>>& optimizers() {
  using namespace train;
  static const auto& all = *new std::vector<std::pair<std::string, MakeOptimizer>>{
      {"GradientDescent", maker<GradientDescentOptimizer>(0.5)},
      {"GradientDescent with decay",
       maker<GradientDescentOptimizer>(0.5, GradientDescentOptions{.weight_decay = 0.01})},
      {"Momentum", maker<MomentumOptimizer>(0.1, 0.9)},
      {"Nesterov with decay", maker<MomentumOptimizer>(0.1, 0.9, MomentumOptions{true, 0.01})},
      {"Adam", maker<AdamOptimizer>(0.05)},
      {"Adam with a large epsilon and decay", maker<AdamOptimizer>(0.05, AdamOptions{0.8, 0.99, 0.1, 0.01})},
      {"AdamW", maker<AdamWOptimizer>(0.05)},
      {"RMSProp", maker<RMSPropOptimizer>(0.05)},
      {"RMSProp with momentum and decay", maker<RMSPropOptimizer>(0.05, RMSPropOptions{0.8, 0.5, 0.001, 0.01})},
      {"Adagrad", maker<AdagradOptimizer>(0.1)},
      {"Adagrad with decay", maker<AdagradOptimizer>(0.1, AdagradOptions{.weight_decay = 0.01})},
      {"GradientDescent with a schedule",
       maker<GradientDescentOptimizer>(ExponentialDecay(0.5, 2, 0.6, {.staircase = true}))},
      {"Momentum with a schedule and decay",
       maker<MomentumOptimizer>(CosineDecay(0.1, 4), 0.9, MomentumOptions{false, 0.01})},
      {"Adam with a schedule", maker<AdamOptimizer>(LinearWarmup(CosineDecay(0.05, 6), 2))},
      {"AdamW with a schedule", maker<AdamWOptimizer>(PiecewiseConstantDecay({1, 2}, {0.05, 0.1, 0.02}))}};
  return all;
}

/// Built by hand, with name scopes, an unknown batch size and a global step.
Model classifier(train::Optimizer& optimizer) {
  Model model;
  const auto open = model.graph.as_default();
  random::NumpyLegacy numbers(3);
  const Tensor x = placeholder(float32, {-1, 3}, "x"), labels = placeholder(float32, {-1, 2}, "labels");
  Tensor signal = x;
  {
    const auto scope = name_scope("hidden");
    Variable w(draw(numbers, {3, 8}), {.name = "w"}), b(draw(numbers, {8}), {.name = "b"});
    signal = sigmoid(matmul(signal, w) + b);
  }
  {
    const auto scope = name_scope("logits");
    Variable w(draw(numbers, {8, 2}), {.name = "w"}), b(draw(numbers, {2}), {.name = "b"});
    signal = matmul(signal, w) + b;
  }
  model.loss = reduce_mean(softmax_cross_entropy(labels, signal), "loss");
  const Variable global_step(0, {.name = "global_step", .trainable = false, .dtype = int64});
  model.step = optimizer.minimize(model.loss, {}, {.global_step = global_step});
  global_variables_initializer();
  model.feeds = {{"x:0", draw(numbers, {6, 3})},
                 {"labels:0", tensor<float>({{1, 0}, {0, 1}, {0, 1}, {1, 0}, {0, 1}, {1, 0}})}};
  return model;
}

/// In double precision: pooling and Adam make much of the last digits.
Model convolutional(train::Optimizer& optimizer) {
  Model model;
  const auto open = model.graph.as_default();
  random::NumpyLegacy numbers(4);
  const Tensor x = placeholder(float64, {-1, 12, 12, 1}, "x"), labels = placeholder(int64, {-1}, "labels");
  Variable filter(draw(numbers, {3, 3, 1, 4}, float64), {.name = "filter"}),
      bias(draw(numbers, {4}, float64), {.name = "bias"});
  const Tensor seen = max_pool2d(relu(bias_add(conv2d(x, filter), bias)));
  Variable strided(draw(numbers, {2, 2, 4, 6}, float64), {.name = "strided"});
  const Tensor features = avg_pool2d(conv2d(seen, strided, {.strides = {2, 2}}));
  Variable w(draw(numbers, {6, 3}, float64), {.name = "w"});
  model.loss = reduce_mean(sparse_softmax_cross_entropy(labels, matmul(reshape(features, {-1, 6}), w)), "loss");
  model.step = optimizer.minimize(model.loss);
  global_variables_initializer();
  model.feeds = {{"x:0", draw(numbers, {5, 12, 12, 1}, float64)}, {"labels:0", tensor<std::int64_t>({0, 2, 1, 1, 0})}};
  return model;
}

/// Words as rows of a table, their mean, and a layer normalization; in double precision.
Model embedding(train::Optimizer& optimizer) {
  Model model;
  const auto open = model.graph.as_default();
  random::NumpyLegacy numbers(5);
  const Tensor words = placeholder(int64, {-1, 4}, "words"), target = placeholder(float64, {-1}, "target");
  Variable table(draw(numbers, {9, 5}, float64), {.name = "table"}),
      scale(draw(numbers, {5}, float64), {.name = "scale"}), offset(draw(numbers, {5}, float64), {.name = "offset"}),
      w(draw(numbers, {5}, float64), {.name = "w"});
  const Tensor mean = reduce_mean(embedding_lookup(table, words), 1);
  model.loss = reduce_mean(square(reduce_sum(layer_norm(mean, scale, offset) * w, 1) - target), "loss");
  model.step = optimizer.minimize(model.loss);
  global_variables_initializer();
  model.feeds = {{"words:0", tensor<std::int64_t>({{0, 1, 2, 3}, {6, 6, 5, 0}, {4, 3, 4, 1}})},
                 {"target:0", draw(numbers, {3}, float64)}};
  return model;
}

/// A whole training step as it was traced, in program order.
Model traced(train::Optimizer& optimizer) {
  Model model;
  random::NumpyLegacy numbers(6);
  Variable w(draw(numbers, {3}, float64), {.name = "w"}), b(draw(numbers, {1}, float64), {.name = "b"});
  const auto step = trace(
      [&](const Tensor& x, const Tensor& y) {
        GradientTape tape;
        Tensor loss = reduce_mean(square(matmul(x, w) + b - y));
        optimizer.apply_gradients(tape.gradient(loss, {w, b}), {w, b});
        return loss;
      },
      {spec(float64, {-1, 3}, "x"), spec(float64, {-1}, "y")});
  model.graph = step.graph();
  model.loss = step.output();
  // The operation that a training step ends with.
  for (const Operation& each : model.graph.get_collection(graph_keys::train_op)) model.step = each;
  model.feeds = {{"x:0", draw(numbers, {4, 3}, float64)}, {"y:0", draw(numbers, {4}, float64)}};
  return model;
}

Feeds feeds_of(const Model& model) {
  Feeds feeds;
  for (const auto& [name, value] : model.feeds) feeds.add(name, value);
  return feeds;
}

void feed(Judgement& judgement, const Model& model) {
  for (const auto& [name, value] : model.feeds) judgement.feed(name, value);
}

/// The loss with constants in place of Variables, its gradients by the graph's own nodes and by the judge's.
void write_frozen(const std::filesystem::path& folder, const std::string& title, const Model& model) {
  const auto open = model.graph.as_default();
  Judgement judgement(folder, title + ", frozen", model.graph, {.variables = VariableStyle::frozen});
  feed(judgement, model);
  Session session(model.graph);
  judgement.fetch(model.loss.name(), session.run(model.loss, feeds_of(model)));
  for (const Variable& each : model.graph.variables()) {
    if (!each.trainable()) continue;
    const Tensor gradient = gradients(model.loss, each)[0];
    judgement.gradient(model.loss.name(), each.name() + ":0", session.run(gradient, feeds_of(model)));
  }
  judgement.save();
}

/// Saves the graph, trains it, and tells what the Variables must be after each step.
void write_training(const std::filesystem::path& folder, const std::string& title, const Model& model,
                    VariableStyle style) {
  Judgement judgement(folder, title, model.graph, {.variables = style});
  feed(judgement, model);
  judgement.run("init");
  Session session(model.graph);
  const auto tell_variables = [&] {
    for (const Variable& each : model.graph.variables()) judgement.variable(each.name(), each.value());
  };
  tell_variables();
  for (int i = 0; i < steps; ++i) {
    session.run(model.step, feeds_of(model));
    judgement.run(model.step.name());
    tell_variables();
  }
  judgement.save();
}

/// A graph whose initial values are drawn when "init" runs, with the mean, the deviation and the bounds of each.
void write_initializers(const std::filesystem::path& folder, VariableStyle style) {
  const Graph graph;
  const auto open = graph.as_default();
  constexpr double third = 0.57735026918962576, infinity = std::numeric_limits<double>::infinity();
  struct Row {
    std::string name;
    Tensor initial;
    std::vector<double> expected;
  };
  const Shape shape{100, 200};
  const std::vector<Row> rows{
      {"normal", random::normal(shape), {0, 1, -infinity, infinity}},
      {"scaled", random::normal(shape, {.mean = 2, .stddev = 0.1, .dtype = float64}), {2, 0.1, -infinity, infinity}},
      {"truncated", random::truncated_normal(shape, {.stddev = 3}), {0, 3 * 0.87962566103423978, -6, 6}},
      {"uniform", random::uniform(shape, {.low = -1, .high = 4}), {1.5, 2.5 * third, -1, 4}},
      {"glorot", (random::uniform(shape) * 2.0 - 1.0) * 0.5, {0, 0.5 * third, -0.5, 0.5}},
      {"whole", random::randint(0, 10, shape), {4.5, 2.8722813232690143, 0, 9}},
      {"bernoulli", random::bernoulli(shape, 0.25), {0.25, 0.4330127018922193, 0, 1}},
      {"permutation", random::permutation(1000), {499.5, 288.67499025720948, 0, 999}}};
  for (const Row& row : rows) Variable(row.initial, {.name = row.name});
  global_variables_initializer();
  const std::string style_name = style == VariableStyle::resource ? "resource" : "reference";
  Judgement judgement(folder, "initial values, " + style_name, graph,
                      {.variables = style, .computed_initial_values = true});
  judgement.run("init");
  for (const Row& row : rows)
    judgement.add("distribution", row.name, tensor(row.expected), std::string(to_string(row.initial.dtype())));
  judgement.save();
}

}  // namespace

int write_trained_models(const std::filesystem::path& folder) {
  using Make = Model (*)(train::Optimizer&);
  const std::vector<std::pair<std::string, Make>> models{
      {"classifier", classifier}, {"convolutional", convolutional}, {"embedding", embedding}, {"traced", traced}};
  int count = 0;
  for (const VariableStyle style : {VariableStyle::resource, VariableStyle::reference}) {
    write_initializers(folder, style);
    ++count;
  }
  for (const auto& [name, make] : models) {
    const auto plain = optimizers().front().second();
    write_frozen(folder, name, make(*plain));
    ++count;
    for (const auto& [optimizer_name, make_optimizer] : optimizers())
      for (const VariableStyle style : {VariableStyle::resource, VariableStyle::reference}) {
        const auto optimizer = make_optimizer();
        const Model model = make(*optimizer);
        const std::string style_name = style == VariableStyle::resource ? "resource" : "reference";
        write_training(folder, detail::join(name, ", ", optimizer_name, ", ", style_name), model, style);
        ++count;
      }
  }
  return count;
}

}  // namespace tapestry::test
