// Handwritten digits on several ranks: each trains a copy of the network on its part of the images, and all copies stay
// equal. The ranks are threads, `24_data_parallel --ranks 2`, or processes, `mpirun -n 2 24_data_parallel`.
#include <chrono>
#include <iostream>

#include <tapestry/tapestry.hpp>

#include "support/flags.hpp"

namespace {

struct Settings {
  tp::data::Dataset train, test;
  int epochs, batch;
  std::uint64_t seed;
};

double accuracy(const tp::nn::Sequential& network, const tp::data::Dataset& dataset) {
  const auto digits = tp::argmax(network(dataset.x), 1);
  return tp::reduce_mean(tp::equal(digits, dataset.y)).item<double>();
}

void learn(const tp::Communicator& world, const Settings& settings) {
  const tp::nn::Sequential network{tp::nn::Dense(784, 128), tp::nn::ReLU(), tp::nn::Dense(128, 10)};
  world.broadcast(network.parameters());  // all ranks start with the weights of rank 0

  // The ranks' batches together are one batch of the given size, whatever the number of ranks.
  const std::int64_t share = settings.batch / world.size();
  tp::data::Loader batches(
      settings.train,
      {.batch = share, .shuffle = true, .seed = settings.seed, .drop_last = true, .shard = world.shard()});
  tp::train::AdamOptimizer adam(tp::train::CosineDecay(0.002, settings.epochs * batches.size()));
  tp::train::DataParallel training(adam, world);
  const auto step = tp::function([&](const tp::Tensor& x, const tp::Tensor& y) {
    return training.minimize([&] { return tp::reduce_mean(tp::sparse_softmax_cross_entropy(y, network(x))); });
  });

  for (int epoch = 1; epoch <= settings.epochs; ++epoch) {
    const auto start = std::chrono::steady_clock::now();
    for (auto [x, y] : batches) step(x, y);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    const auto images = static_cast<double>(batches.size() * share * world.size());
    if (world.rank() == 0)
      std::cout << "Epoch " << epoch << "  test accuracy " << accuracy(network, settings.test) << "  on "
                << world.size() << " ranks, " << static_cast<int>(images / seconds.count()) << " images a second"
                << std::endl;
  }
}

}  // namespace

int main(int count, char** arguments) {
  std::string data = "data/mnist";
  int ranks = 1, epochs = 5, batch = 128, seed = 1;
  support::parse_flags(count, arguments, "Learns handwritten digits on several ranks.",
                       {{"--data", "folder with the MNIST files", data},
                        {"--ranks", "threads that train, where mpirun has not started several processes", ranks, 1},
                        {"--epochs", "passes over the training images", epochs, 1},
                        {"--batch", "images in a step, on all ranks together", batch, 1},
                        {"--seed", "of the first weights and of the order of the images", seed}});
  return support::run([&] {
    const auto world = tp::Communicator::world();
    const int parts = world.size() > 1 ? world.size() : ranks;
    if (batch % parts != 0)
      throw tp::InvalidArgumentError("--batch " + std::to_string(batch) + " is not a multiple of the " +
                                     std::to_string(parts) + " ranks, which share it");
    const Settings settings{.train = tp::data::mnist(data, tp::data::Split::train),
                            .test = tp::data::mnist(data, tp::data::Split::test),
                            .epochs = epochs,
                            .batch = batch,
                            .seed = static_cast<std::uint64_t>(seed)};
    tp::random::seed(static_cast<std::uint64_t>(seed));
    if (world.size() > 1) return learn(world, settings);
    tp::run_ranks(ranks, [&](const tp::Communicator& threads) { learn(threads, settings); });
  });
}
