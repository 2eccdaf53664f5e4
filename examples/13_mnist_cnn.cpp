// Handwritten digits: a convolutional network learns the MNIST database by a training step that is traced once and then
// runs as a graph. Writes the loss and the accuracy for TensorBoard: tensorboard --logdir logs
#include <iostream>

#include <tapestry/tapestry.hpp>

#include "support/flags.hpp"
#include "support/progress.hpp"

namespace {

/// A convolution with normalization, activation and pooling: [n,h,w,in] to [n,h/2,w/2,out].
tp::nn::Sequential convolution(std::int64_t in, std::int64_t out) {
  return tp::nn::Sequential{tp::nn::Conv2D(in, out, 3, {.padding = 1}), tp::nn::BatchNorm(out), tp::nn::ReLU(),
                            tp::nn::MaxPool2D(2)};
}

/// [n,28,28,1] to [n,10].
tp::nn::Sequential network() {
  return tp::nn::Sequential{convolution(1, 16),
                            convolution(16, 32),
                            tp::nn::Flatten(),
                            tp::nn::Dropout(0.25),
                            tp::nn::Dense(32 * 7 * 7, 128),
                            tp::nn::ReLU(),
                            tp::nn::Dense(128, 10)};
}

tp::data::Dataset images(const std::string& folder, tp::data::Split split) {
  auto [pixels, digits] = tp::data::mnist(folder, split);
  return {tp::reshape(pixels, {-1, 28, 28, 1}), digits};
}

}  // namespace

int main(int count, char** arguments) {
  std::string data = "data/mnist", log = "logs", model;
  int epochs = 5, seed = 1;
  support::parse_flags(count, arguments, "Learns handwritten digits with a convolutional network.",
                       {{"--data", "folder with the MNIST files", data},
                        {"--epochs", "passes over the training images", epochs, 1},
                        {"--seed", "of the first weights and of the order of the images", seed},
                        {"--log", "folder for TensorBoard", log},
                        {"--model", "folder for the trained model, such as models/mnist/1; none by default", model}});
  return support::run([&] {
    if (!model.empty()) support::require_folder("--model", model);
    const auto train = images(data, tp::data::Split::train), test = images(data, tp::data::Split::test);
    tp::data::Loader batches(train, {.batch = 64, .shuffle = true, .seed = static_cast<std::uint64_t>(seed)});
    tp::data::Loader test_batches(test, {.batch = 500});

    tp::random::seed(static_cast<std::uint64_t>(seed));
    auto net = network();
    const auto image = tp::spec(tp::float32, {-1, 28, 28, 1}, "image"), digit = tp::spec(tp::int64, {-1}, "digit");
    std::cout << tp::nn::summary(net, image) << std::flush;

    tp::train::AdamOptimizer optimizer(tp::train::CosineDecay(0.002, epochs * batches.size()));
    const auto step = tp::trace(
        [&](const tp::Tensor& x, const tp::Tensor& y) {
          return optimizer.minimize([&] { return tp::losses::cross_entropy(y, net(x)); }, net.parameters());
        },
        {image, digit});
    net.eval();  // The step has been traced in training mode and keeps it.
    const auto hits = tp::trace(
        [&](const tp::Tensor& x, const tp::Tensor& y) { return tp::equal(tp::argmax(net(x), 1), y).cast(tp::float32); },
        {image, digit});

    tp::summary::FileWriter log_file(log, step.graph());
    for (int epoch = 1; epoch <= epochs; ++epoch) {
      {
        support::Progress progress("epoch " + std::to_string(epoch), batches.size());
        for (auto [x, y] : batches) {
          const double loss = step(x, y).item<double>();
          log_file.add_scalar("loss", loss, optimizer.iterations());
          progress.advance("loss " + std::to_string(loss));
        }
      }
      double right = 0;
      for (auto [x, y] : test_batches) right += tp::reduce_sum(hits(x, y)).item<double>();
      const double accuracy = right / static_cast<double>(test.size());
      log_file.add_scalar("test accuracy", accuracy, optimizer.iterations());
      std::cout << "Epoch " << epoch << "  test accuracy " << accuracy << std::endl;
    }

    if (model.empty()) return;
    const auto classify = tp::trace([&](const tp::Tensor& x) { return tp::softmax(net(x)); }, {image});
    tp::saved_model::save(model,
                          {.inputs = {{"image", classify.input()}}, .outputs = {{"probabilities", classify.output()}}});
  });
}

// Output:
// Name  Layer      Output shape  Parameters
// 0.0   Conv2D     [?,28,28,16]         160
// 0.1   BatchNorm  [?,28,28,16]          32
// 0.2   ReLU       [?,28,28,16]           0
// 0.3   MaxPool2D  [?,14,14,16]           0
// 1.0   Conv2D     [?,14,14,32]       4,640
// 1.1   BatchNorm  [?,14,14,32]          64
// 1.2   ReLU       [?,14,14,32]           0
// 1.3   MaxPool2D  [?,7,7,32]             0
// 2     Flatten    [?,1568]               0
// 3     Dropout    [?,1568]               0
// 4     Dense      [?,128]          200,832
// 5     ReLU       [?,128]                0
// 6     Dense      [?,10]             1,290
// Sequential: 207,018 parameters, 828,472 bytes with all buffers
// Epoch 1  test accuracy 0.988
// Epoch 2  test accuracy 0.9886
// Epoch 3  test accuracy 0.9914
// Epoch 4  test accuracy 0.9916
// Epoch 5  test accuracy 0.993
