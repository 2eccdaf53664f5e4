#include <optional>

#include "interop/judgement.hpp"

namespace tapestry::test {
namespace {

/// Saves a model, and what it must give for these inputs, by their names in the signature.
void write(const std::filesystem::path& folder, const std::string& title, const Signature& signature,
           const std::map<std::string, Tensor>& inputs) {
  saved_model::save((folder / title / "1").string(), signature);
  Judgement judgement(folder / (title + ".judge.pb"));
  judgement.add("title", title);
  Feeds feeds;
  for (const auto& [name, value] : inputs) {
    judgement.feed(name, value);
    feeds.add(signature.inputs.at(name), value);
  }
  const Session session(signature.outputs.begin()->second.op().graph());
  for (const auto& [name, value] : session.run(signature.outputs, feeds)) judgement.fetch(name, value);
  judgement.save();
}

/// Saves a model with its Variables, and what it must give, with the gradients of the sum of all squares.
void write_trainable(const std::filesystem::path& folder, const std::string& title, const Model& model,
                     const std::map<std::string, Tensor>& inputs) {
  saved_model::save((folder / title / "1").string(), model);
  Judgement judgement(folder / (title + ".judge.pb"));
  judgement.add("title", title);
  Feeds feeds;
  for (const auto& [name, value] : inputs) {
    judgement.feed(name, value);
    feeds.add(name, value);
  }
  const std::vector<Variable> parameters = model.parameters();
  GradientTape tape;
  const std::vector<Tensor> results = model(feeds);
  Tensor loss = tensor(0.0F);
  for (std::size_t i = 0; i < results.size(); ++i) {
    judgement.fetch(model.outputs()[i].name, results[i]);
    if (is_floating(results[i].dtype())) loss = loss + reduce_sum(square(results[i]));
  }
  const std::vector<Tensor> gradients = tape.gradient(loss, parameters);
  for (std::size_t i = 0; i < parameters.size(); ++i) judgement.gradient({}, parameters[i].name(), gradients[i]);
  for (const Variable& each : model.graph().variables()) judgement.variable(each.name(), each.value());
  judgement.save();
}

/// Traced, with two inputs, an output of integers, and a Variable that is not trained.
void write_network(const std::filesystem::path& folder) {
  random::NumpyLegacy numbers(7);
  Variable w(draw(numbers, {3, 4}), {.name = "layer/w"}), b(draw(numbers, {4}), {.name = "layer/b"});
  const Variable mean(draw(numbers, {4}), {.name = "mean", .trainable = false});
  const auto predict = trace(
      [&](const Tensor& x, const Tensor& gain) {
        const Tensor y = layer_norm(gelu(matmul(x, w) + b) - mean, b, b);
        const TopK top = top_k(y, 2);
        return std::tuple{y * gain, top.values, top.indices};
      },
      {spec(float32, {-1, 3}, "x"), spec(float32, {}, "gain")});
  write_trainable(
      folder, "network",
      Model({.inputs = {{"x", predict.input(0)}, {"gain", predict.input(1)}},
             .outputs = {{"y", predict.output(0)}, {"top", predict.output(1)}, {"index", predict.output(2)}}}),
      {{"x", draw(numbers, {5, 3})}, {"gain", tensor(0.5F)}});
}

/// A convolution built by hand, with one input: Keras calls it by that.
void write_convolution(const std::filesystem::path& folder) {
  const Graph graph;
  std::optional<Graph::Scope> scope;
  scope.emplace(graph);
  random::NumpyLegacy numbers(8);
  const Variable filter(draw(numbers, {3, 3, 1, 2}), {.name = "filter"}), bias(draw(numbers, {2}), {.name = "bias"});
  const Tensor images = placeholder(float32, {-1, 8, 8, 1}, "images");
  const Tensor pooled = max_pool2d(relu(bias_add(conv2d(images, filter), bias)));
  const Model model({.inputs = {{"images", images}}, .outputs = {{"softmax", softmax(reshape(pooled, {-1, 18}))}}});
  scope.reset();  // the model is called with values
  write_trainable(folder, "convolution", model, {{"images", draw(numbers, {2, 8, 8, 1})}});
}

/// Traced, with labels, and beside a training step that does not belong to what is saved.
void write_classifier(const std::filesystem::path& folder) {
  random::NumpyLegacy numbers(5);
  Variable w(draw(numbers, {3, 4}), {.name = "w"}), b(draw(numbers, {4}), {.name = "b"});
  train::AdamOptimizer optimizer(0.1);
  const auto step = trace(
      [&](const Tensor& x, const Tensor& labels) {
        GradientTape tape;
        const Tensor logits = matmul(x, w) + b;
        const Tensor loss = reduce_mean(sparse_softmax_cross_entropy(labels, logits));
        optimizer.apply_gradients(tape.gradient(loss, {w, b}), {w, b});
        return std::tuple{loss, softmax(logits), argmax(logits, -1)};
      },
      {spec(float32, {-1, 3}, "x"), spec(int64, {-1}, "labels")});
  step(draw(numbers, {6, 3}), tensor({0, 1, 2, 3, 0, 1}).cast(int64));
  write(folder, "classifier",
        {.inputs = {{"points", step.input(0)}}, .outputs = {{"scores", step.output(1)}, {"class", step.output(2)}}},
        {{"points", draw(numbers, {5, 3})}});
}

/// Built by hand; one of its two inputs is no placeholder.
void write_filters(const std::filesystem::path& folder) {
  const Graph graph;
  const auto scope = graph.as_default();
  random::NumpyLegacy numbers(6);
  const Variable filter(draw(numbers, {3, 3, 1, 2}), {.name = "filter"});
  const Tensor images = placeholder(float32, {-1, 8, 8, 1}, "images"), gain = constant(2.0F, "gain");
  const Tensor pooled = max_pool2d(relu(conv2d(images, filter)) * gain);
  write(folder, "filters", {.inputs = {{"images", images}, {"gain", gain}}, .outputs = {{"pooled", pooled}}},
        {{"images", draw(numbers, {2, 8, 8, 1})}, {"gain", tensor(0.5F)}});
}

/// Functions with gradients of their own, read from a file of TensorFlow's.
void write_own_gradients(const std::filesystem::path& folder) {
  const Model read = saved_model::load(std::string(GOLDEN_FILES) + "/saved_model_gradients");
  random::NumpyLegacy numbers(9);
  for (const std::string name : {"called", "pair", "scaled", "sign"}) {
    const Model model = read.signature(name);
    const auto traced = trace([&](const Tensor& x) { return model({{"x", x}})[0]; }, {spec(float32, {-1, 2}, "x")});
    write_trainable(folder, name + "_gradient",
                    Model({.inputs = {{"x", traced.input(0)}}, .outputs = {{"y", traced.output(0)}}}),
                    {{"x", draw(numbers, {3, 2})}});
  }
}

}  // namespace

void write_saved_models(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  write_classifier(folder);
  write_filters(folder);
  write_network(folder);
  write_convolution(folder);
  write_own_gradients(folder);
}

}  // namespace tapestry::test
