// A multi-layer perceptron with three hidden layers (2-4-8-2 units, then two outputs) learns to tell two classes of
// points apart that no straight line divides. Draws the decision boundary and the loss curve as PNG files.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>

#include <tapestry/tapestry.hpp>

#include "support/flags.hpp"
#include "support/plot.hpp"

namespace {

struct Layer {
  tp::Variable weights, bias;
};

struct Network {
  std::vector<Layer> layers;
  std::vector<tp::Variable> parameters;

  /// Adds a layer with normally distributed weights.
  void add(std::int64_t inputs, std::int64_t outputs, tp::random::NumpyLegacy& numpy) {
    tp::Variable weights(numpy.randn({inputs, outputs}));
    tp::Variable bias(numpy.randn({outputs}));
    layers.push_back({weights, bias});
    parameters.insert(parameters.end(), {weights, bias});
  }

  /// Probabilities of the classes [n,2] for points [n,2].
  tp::Tensor operator()(const tp::Tensor& points) const {
    tp::Tensor signal = points;
    for (const Layer& layer : layers) {
      tp::Tensor sum = tp::matmul(signal, layer.weights) + layer.bias;
      signal = &layer == &layers.back() ? tp::softmax(sum) : tp::sigmoid(sum);
    }
    return signal;
  }
};

void draw_boundary(const std::filesystem::path& path, const Network& network, const tp::Tensor& blue_points,
                   const tp::Tensor& red_points) {
  // All cells of the picture are classified at once; each stands for its middle.
  const int cells = 200;
  const double half = 2.0 / cells;
  auto middles = tp::linspace(-2 + half, 2 - half, cells, {.dtype = tp::float64});
  auto grid = tp::stack({tp::tile(middles, {cells}), tp::repeat(middles, cells)}, 1);
  const auto classes = tp::argmax(network(grid), 1).to_vector<int>();

  support::Plot plot("decision boundary", {.label = "x1", .low = -2, .high = 2}, {.label = "x2", .low = -2, .high = 2});
  plot.cells(cells, cells, [&](int column, int row) {
    return classes[static_cast<std::size_t>(row * cells + column)] == 0 ? support::light_blue : support::light_red;
  });
  const auto coordinate = [](const tp::Tensor& points, int axis) { return points(tp::all, axis).to_vector<double>(); };
  plot.points(coordinate(red_points, 0), coordinate(red_points, 1), support::red, "red");
  plot.points(coordinate(blue_points, 0), coordinate(blue_points, 1), support::blue, "blue");
  plot.save(path);
}

void draw_losses(const std::filesystem::path& path, const std::vector<double>& losses) {
  std::vector<double> steps(losses.size());
  for (std::size_t i = 0; i < steps.size(); ++i) steps[i] = static_cast<double>(i);
  const auto [lowest, highest] = std::minmax_element(losses.begin(), losses.end());
  const auto power_of_ten = [](double exponent) { return std::pow(10, exponent); };
  support::Plot plot("cross-entropy of all points", {.label = "step", .low = 0, .high = std::max(steps.back(), 1.0)},
                     {.label = "loss",
                      .low = power_of_ten(std::floor(std::log10(*lowest))),
                      .high = power_of_ten(std::ceil(std::log10(*highest))),
                      .logarithmic = true});
  plot.line(steps, losses, support::blue);
  plot.save(path);
}

}  // namespace

int main(int count, char** arguments) {
  int seed = 0, steps = 2000;
  std::string out = ".";
  support::parse_flags(count, arguments, "Trains a multi-layer perceptron on points in the plane.",
                       {{"--seed", "of the points and the first weights", seed},
                        {"--steps", "of gradient descent", steps},
                        {"--out", "folder for the pictures", out}});
  return support::run([&] {
    tp::random::NumpyLegacy numpy(static_cast<std::uint32_t>(seed));
    const auto cluster = [&](double x, double y) { return 0.2 * numpy.randn({25, 2}) + tp::tensor<double>({x, y}); };
    const auto red_points = tp::concat({cluster(0, 0), cluster(1, 1)});
    const auto blue_points = tp::concat({cluster(0, 1), cluster(1, 0)});
    const auto X = tp::concat({blue_points, red_points});
    const auto c = tp::repeat(tp::tensor<double>({{1, 0}, {0, 1}}), 50, 0);

    Network network;
    network.add(2, 4, numpy);
    network.add(4, 8, numpy);
    network.add(8, 2, numpy);
    network.add(2, 2, numpy);
    const auto loss = [&] {
      return tp::negative(tp::reduce_sum(tp::reduce_sum(tp::multiply(c, tp::log(network(X))), 1)));
    };

    tp::train::GradientDescentOptimizer optimizer(0.03);
    std::vector<double> losses;
    for (int step = 0; step < steps; ++step) {
      const auto J = optimizer.minimize(loss, network.parameters);
      if (step % 100 == 0) std::cout << "Step: " << step << "  Loss: " << J << std::endl;
      losses.push_back(J.item<double>());
    }
    losses.push_back(loss().item<double>());
    const auto right = tp::equal(tp::argmax(network(X), 1), tp::argmax(c, 1));
    std::cout << "After " << steps << " steps: loss " << losses.back() << ", accuracy "
              << tp::reduce_mean(right).item<double>() << '\n';

    const std::filesystem::path folder = out;
    std::filesystem::create_directories(folder);
    draw_boundary(folder / "decision_boundary.png", network, blue_points, red_points);
    draw_losses(folder / "loss.png", losses);
    std::cout << "Pictures: " << (folder / "decision_boundary.png").string() << ", " << (folder / "loss.png").string()
              << '\n';
  });
}

// Output:
// Step: 0  Loss: 74.42302716463...
// Step: 100  Loss: 66.9030086644...
// Step: 200  Loss: 57.356613447...
// Step: 300  Loss: 2.889117325...
// Step: 400  Loss: 1.028108701...
// Step: 500  Loss: 0.575494233...
// Step: 600  Loss: 0.385700044...
// Step: 700  Loss: 0.286143818...
// Step: 800  Loss: 0.225986288...
// Step: 900  Loss: 0.186003070...
// Step: 1000  Loss: 0.157612157...
// Step: 1100  Loss: 0.136465458...
// Step: 1200  Loss: 0.120136707...
// Step: 1300  Loss: 0.107168598...
// Step: 1400  Loss: 0.096634313...
// Step: 1500  Loss: 0.087916976...
// Step: 1600  Loss: 0.080590515...
// Step: 1700  Loss: 0.074351451...
// Step: 1800  Loss: 0.068977944...
// Step: 1900  Loss: 0.064304189...
// After 2000 steps: loss 0.0602039, accuracy 1
// Pictures: .../decision_boundary.png, .../loss.png
