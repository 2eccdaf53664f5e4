// Handwritten digits: a network 784-128-10 learns the MNIST database and is tested on 10,000 images it has not seen.
#include <cmath>
#include <iostream>

#include <tapestry/tapestry.hpp>

#include "support/flags.hpp"
#include "support/progress.hpp"

namespace {

/// Weights [inputs,outputs] of variance 2 / inputs, which keeps the size of a signal through ReLU (He et al. 2015).
tp::Variable weights(std::int64_t inputs, std::int64_t outputs) {
  const double stddev = std::sqrt(2.0 / static_cast<double>(inputs));
  return tp::Variable(tp::random::normal({inputs, outputs}, {.stddev = stddev}));
}

tp::Variable bias(std::int64_t outputs) { return tp::Variable(tp::zeros({outputs})); }

struct Network {
  tp::Variable w1 = weights(784, 128), b1 = bias(128);
  tp::Variable w2 = weights(128, 10), b2 = bias(10);

  std::vector<tp::Variable> parameters() const { return {w1, b1, w2, b2}; }
  tp::Tensor operator()(const tp::Tensor& x) const { return tp::matmul(tp::relu(tp::matmul(x, w1) + b1), w2) + b2; }
};

/// One pass over the training images.
void train_once(const Network& network, tp::data::Loader& batches, tp::train::Optimizer& optimizer,
                const std::string& label) {
  support::Progress progress(label, batches.size());
  for (auto [x, y] : batches) {
    tp::GradientTape tape;
    auto loss = tp::reduce_mean(tp::sparse_softmax_cross_entropy(y, network(x)));
    optimizer.apply_gradients(tape.gradient(loss, network.parameters()), network.parameters());
    progress.advance();
  }
}

double accuracy(const Network& network, const tp::data::Dataset& dataset) {
  const auto digits = tp::argmax(network(dataset.x), 1);
  return tp::reduce_mean(tp::equal(digits, dataset.y)).item<double>();
}

}  // namespace

int main(int count, char** arguments) {
  std::string data = "data/mnist";
  int epochs = 5, seed = 1;
  support::parse_flags(count, arguments, "Learns handwritten digits.",
                       {{"--data", "folder with the MNIST files", data},
                        {"--epochs", "passes over the training images", epochs, 1},
                        {"--seed", "of the first weights and of the order of the images", seed}});
  return support::run([&] {
    const auto train = tp::data::mnist(data, tp::data::Split::train);
    const auto test = tp::data::mnist(data, tp::data::Split::test);

    tp::random::seed(static_cast<std::uint64_t>(seed));
    const Network network;
    tp::data::Loader batches(train, {.batch = 64, .shuffle = true, .seed = static_cast<std::uint64_t>(seed)});
    // The rate falls to 0 along half a cosine wave, so that the last steps only refine the weights.
    tp::train::AdamOptimizer optimizer(tp::train::CosineDecay(0.002, epochs * batches.size()));
    for (int epoch = 1; epoch <= epochs; ++epoch) {
      train_once(network, batches, optimizer, "epoch " + std::to_string(epoch));
      std::cout << "Epoch " << epoch << "  test accuracy " << accuracy(network, test) << std::endl;
    }
  });
}

// Output:
// Epoch 1  test accuracy 0.9621
// Epoch 2  test accuracy 0.9706
// Epoch 3  test accuracy 0.9775
// Epoch 4  test accuracy 0.9783
// Epoch 5  test accuracy 0.9788
