#include <cmath>

#include "interop/judgement.hpp"

namespace tapestry::test {
namespace {

/// Of a run of one operation, which took `microseconds`.
RunMetadata run_metadata(const std::string& operation, std::int64_t microseconds) {
  RunMetadata metadata;
  metadata.plan.steps.push_back({.name = operation, .type = "Mean", .device = cpu()});
  metadata.times.push_back({.duration = 1000 * microseconds});
  return metadata;
}

Graph network_graph() {
  Graph graph;
  const auto open = graph.as_default();
  random::NumpyLegacy numbers(1);
  const Tensor x = placeholder(float32, {-1, 784}, "x"), labels = placeholder(float32, {-1, 10}, "labels");
  Tensor signal = x;
  for (const auto& [name, inputs, outputs] :
       std::vector<std::tuple<std::string, std::int64_t, std::int64_t>>{{"hidden", 784, 128}, {"logits", 128, 10}}) {
    const auto scope = name_scope(name);
    Variable w(numbers.randn({inputs, outputs}), {.name = "w", .dtype = float32});
    Variable b(numbers.randn({outputs}), {.name = "b", .dtype = float32});
    signal = matmul(signal, w) + b;
    if (name == "hidden") signal = relu(signal);
  }
  const Tensor loss = reduce_mean(softmax_cross_entropy(labels, signal), "loss");
  train::GradientDescentOptimizer(0.1).minimize(loss);
  global_variables_initializer();
  return graph;
}

/// A red disc on a blue ground.
Tensor picture(std::int64_t height, std::int64_t width) {
  std::vector<std::uint8_t> pixels;
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x) {
      const bool inside = (2 * x - width) * (2 * x - width) + (2 * y - height) * (2 * y - height) < height * height / 2;
      pixels.insert(pixels.end(),
                    {static_cast<std::uint8_t>(inside ? 200 : 30), 40, static_cast<std::uint8_t>(inside ? 40 : 180)});
    }
  return tensor(pixels, {height, width, 3});
}

}  // namespace

void write_events(const std::filesystem::path& folder) {
  Judgement judgement(folder / "events.judge.pb");
  const Graph graph = network_graph();
  summary::FileWriter writer((folder / "events").string(), graph);
  for (const Operation& each : graph.operations()) judgement.add("node", each.name());
  // What the edges tell.
  judgement.add("shape", "hidden/Relu", tensor<std::int64_t>({-1, 128}));

  random::NumpyLegacy numbers(2);
  for (int step = 0; step < 50; ++step) {
    const double loss = 2.5 * std::exp(-step / 15.0) + 0.1 * std::sin(step);
    writer.add_scalar("train/loss", loss, step);
    judgement.add("scalar", "train/loss", tensor<double>({static_cast<double>(step), loss}));
    if (step % 10 != 0) continue;
    const Tensor weights = numbers.randn({1000}) * (1 + step / 25.0) + step / 10.0;
    writer.add_histogram("hidden/w", weights, step);
    judgement.add("histogram", "hidden/w", weights, std::to_string(step));
  }
  const Tensor image = picture(120, 160);
  writer.add_image("disc", image, 7);
  judgement.add("image", "disc", image, "7");
  writer.add_text("notes", "**Tapestry** writes *event files*.", 3);
  judgement.add("text", "notes", {}, "**Tapestry** writes *event files*.");
  writer.add_run_metadata(run_metadata("loss", 42), "step 1", 1);
  judgement.add("run", "step 1", tensor<std::int64_t>({42}), "loss");
  writer.close();
  judgement.save();
}

}  // namespace tapestry::test
