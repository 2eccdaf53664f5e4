// A trained model as a file for other programs: TensorFlow's GraphDef and SavedModel, and ONNX. The GraphDef is read
// back and run, without the code that made the model.
#include <filesystem>
#include <iostream>

#include <tapestry/tapestry.hpp>

#include "support/flags.hpp"

namespace {

/// Learns which points lie in a circle.
tp::nn::Sequential trained_on(const tp::Tensor& points) {
  const auto inside = tp::less(tp::reduce_sum(tp::square(points), 1), 0.5).cast(tp::int64);
  tp::nn::Sequential net{tp::nn::Dense(2, 16), tp::nn::Tanh(), tp::nn::Dense(16, 2)};
  tp::train::AdamOptimizer optimizer(0.02);
  for (int step = 0; step < 300; ++step)
    optimizer.minimize([&] { return tp::losses::cross_entropy(inside, net(points)); });
  return net;
}

}  // namespace

int main(int count, char** arguments) {
  std::string out = "models";
  support::parse_flags(count, arguments, "Trains a model and hands it over.", {{"--out", "folder for the files", out}});
  return support::run([&] {
    const std::filesystem::path folder = out;
    std::filesystem::create_directories(folder);
    tp::random::seed(1);
    const auto points = tp::random::uniform({500, 2}, {.low = -1, .high = 1});
    const auto net = trained_on(points);

    // The prediction alone as a graph, for any number of points.
    const auto predict = tp::trace([&](const tp::Tensor& x) { return tp::softmax(net(x), "scores"); },
                                   {tp::spec(tp::float32, {-1, 2}, "points")});

    // The names under which a server or another program feeds and fetches.
    const tp::Signature signature{.inputs = {{"points", predict.input()}}, .outputs = {{"scores", predict.output()}}};
    tp::saved_model::save(folder / "circle/1", signature);
    tp::onnx::save(folder / "circle.onnx", signature);

    // The graph alone; its Variables become constants.
    predict.graph().save(folder / "circle.pb", {.variables = tp::VariableStyle::frozen});
    const auto graph = tp::Graph::load(folder / "circle.pb");
    const auto scores = tp::Session(graph).run("scores:0", {{"points:0", points}});
    std::cout << "reloaded: "
              << (scores.to_vector<float>() == predict(points).to_vector<float>() ? "the same bits" : "other bits")
              << '\n';
    for (const char* file : {"circle.pb", "circle/1/saved_model.pb", "circle.onnx"})
      std::cout << (folder / file).string() << ' ' << std::filesystem::file_size(folder / file) << " bytes\n";
  });
}

// The Python code that runs them:
//   tf.saved_model.load("models/circle/1").signatures["serving_default"](points=tf.constant([[0.1, 0.2]]))["scores"]
//   onnxruntime.InferenceSession("models/circle.onnx").run(["scores"], {"points": np.array([[0.1, 0.2]], np.float32)})

// Output:
// reloaded: the same bits
// .../circle.pb ... bytes
// .../circle/1/saved_model.pb ... bytes
// .../circle.onnx ... bytes
