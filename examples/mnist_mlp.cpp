// Handwritten digits: a network 784-128-10 learns the MNIST database and is tested on 10,000 images it has not seen.
#include <cmath>
#include <iostream>

#include <tapestry/tapestry.hpp>

#include "support/flags.hpp"
#include "support/progress.hpp"

namespace {

struct Network {
  // He et al. 2015: variance 2 / inputs keeps the size of the signal through a layer with ReLU.
  tp::Variable w1{tp::random::normal({784, 128}, {.stddev = std::sqrt(2.0 / 784)})}, b1{tp::zeros({128})};
  tp::Variable w2{tp::random::normal({128, 10}, {.stddev = std::sqrt(2.0 / 128)})}, b2{tp::zeros({10})};

  std::vector<tp::Variable> parameters() const { return {w1, b1, w2, b2}; }
  tp::Tensor operator()(const tp::Tensor& x) const { return tp::matmul(tp::relu(tp::matmul(x, w1) + b1), w2) + b2; }
};

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
                        {"--epochs", "passes over the training images", epochs},
                        {"--seed", "of the first weights and of the order of the images", seed}});
  return support::run([&] {
    const auto train = tp::data::mnist(data, tp::data::Split::train);
    const auto test = tp::data::mnist(data, tp::data::Split::test);

    tp::random::seed(static_cast<std::uint64_t>(seed));
    const Network network;
    tp::train::AdamOptimizer optimizer(0.001);
    tp::data::Loader batches(train, {.batch = 64, .shuffle = true, .seed = static_cast<std::uint64_t>(seed)});
    for (int epoch = 1; epoch <= epochs; ++epoch) {
      support::Progress progress("epoch " + std::to_string(epoch), batches.size());
      for (auto [x, y] : batches) {
        tp::GradientTape tape;
        auto loss = tp::reduce_mean(tp::sparse_softmax_cross_entropy(y, network(x)));
        optimizer.apply_gradients(tape.gradient(loss, network.parameters()), network.parameters());
        progress.advance();
      }
      std::cout << "Epoch " << epoch << "  test accuracy " << accuracy(network, test) << std::endl;
    }
  });
}
