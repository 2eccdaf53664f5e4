// Mixed precision: the same network learns handwritten digits in float32, and with its products of matrices in float16
// or bfloat16 while its weights stay float32. All losses should fall alike.
#include <cmath>
#include <iostream>

#include <tapestry/tapestry.hpp>

#include "support/flags.hpp"
#include "support/progress.hpp"

namespace {

struct Network : tp::nn::Module {
  tp::nn::Dense hidden{784, 128}, logits{128, 10};
  TAPESTRY_FIELDS(hidden, logits)

  tp::Tensor operator()(const tp::Tensor& x) const { return logits(tp::relu(hidden(x))); }
};

struct Result {
  double loss = 0;  ///< mean over the last epoch
  double accuracy = 0;
};

Result learn(tp::DType precision, const tp::data::Dataset& train, const tp::data::Dataset& test, int epochs, int seed) {
  tp::random::seed(static_cast<std::uint64_t>(seed));
  Network net;
  tp::train::AdamOptimizer optimizer(0.001);
  tp::train::LossScale loss_scale;
  // The casts, the check of the gradients and the update are one planned graph.
  auto step = tp::trace(
      [&](tp::Tensor x, tp::Tensor y) {
        return loss_scale.minimize(optimizer, [&] {
          const tp::Autocast scope(precision);
          return tp::reduce_mean(tp::sparse_softmax_cross_entropy(y, net(x)));
        });
      },
      {tp::spec(tp::float32, {-1, 784}), tp::spec(train.y.dtype(), {-1})});

  tp::data::Loader batches(train, {.batch = 64, .shuffle = true, .seed = static_cast<std::uint64_t>(seed)});
  Result result;
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    support::Progress progress(tp::to_string(precision) + ", epoch " + std::to_string(epoch), batches.size());
    result.loss = 0;
    for (auto [x, y] : batches) {
      result.loss += step(x, y).item<double>() / static_cast<double>(batches.size());
      progress.advance();
    }
  }
  const tp::Autocast scope(precision);
  result.accuracy = tp::reduce_mean(tp::equal(tp::argmax(net(test.x), 1), test.y)).item<double>();
  return result;
}

}  // namespace

int main(int count, char** arguments) {
  std::string data = "data/mnist";
  int epochs = 2, seed = 1;
  support::parse_flags(count, arguments, "Learns handwritten digits in float32 and in mixed precision.",
                       {{"--data", "folder with the MNIST files", data},
                        {"--epochs", "passes over the training images", epochs, 1},
                        {"--seed", "of the first weights and of the order of the images", seed}});
  return support::run([&] {
    const auto train = tp::data::mnist(data, tp::data::Split::train);
    const auto test = tp::data::mnist(data, tp::data::Split::test);
    for (const tp::DType precision : {tp::float32, tp::float16, tp::bfloat16}) {
      const Result result = learn(precision, train, test, epochs, seed);
      std::cout << precision << "  loss " << result.loss << "  test accuracy " << result.accuracy << std::endl;
    }
  });
}
