// A training that can be killed at any moment: its checkpoints hold everything that is needed to resume with the same
// bits. Started again, this program goes on, too, and in the end it removes its checkpoints.
#include <filesystem>
#include <iostream>
#include <system_error>

#include <tapestry/tapestry.hpp>

#include "support/flags.hpp"

/// Trains until `last_step`, from the newest checkpoint in the folder if there is one, and returns the weights. Each
/// call makes everything anew, like a separate program.
tp::StateDict train(const std::string& folder, std::int64_t last_step) {
  tp::random::seed(1);
  auto points = tp::random::uniform({256, 2}, {.low = -1, .high = 1});
  auto products = tp::reduce_prod(points, 1, {.keep_dims = true});
  tp::data::Loader loader({points, products}, {.batch = 16, .shuffle = true});
  tp::nn::Sequential net{tp::nn::Dense(2, 32), tp::nn::Tanh(), tp::nn::Dropout(0.1), tp::nn::Dense(32, 1)};
  tp::train::AdamOptimizer optimizer(tp::train::CosineDecay(0.01, 200));
  std::int64_t step = 0;

  // The checkpoint also saves the position in the stream of random numbers, from which Dropout draws.
  const tp::Checkpoint checkpoint{.model = &net, .optimizer = &optimizer, .step = &step, .loader = &loader, .keep = 2};
  if (tp::Checkpoint::latest(folder)) checkpoint.restore(folder);
  std::cout << "from step " << step;
  while (step < last_step) {
    for (auto [x, y] : loader) {
      optimizer.minimize([&, x = x, y = y] { return tp::losses::mse(y, net(x)); }, net.parameters());
      if (++step % 30 == 0) checkpoint.save(folder);
      if (step == last_step) break;
    }
  }
  net.eval();
  std::cout << " to step " << step << ": loss " << tp::losses::mse(products, net(points)).item<double>() << '\n';
  return net.state_dict();
}

int main(int count, char** arguments) {
  std::string out = "resume_checkpoints";
  support::parse_flags(count, arguments, "Trains, breaks off, and goes on.",
                       {{"--out", "folder for checkpoints", out}});
  return support::run([&] {
    const std::string unbroken = out + "/without_end", broken = out + "/with_end";
    const auto whole = train(unbroken, 200);
    train(broken, 100);  // The steps since its last checkpoint are lost.
    const auto resumed = train(broken, 200);

    bool same = true;
    for (const auto& [name, weights] : whole)
      same = same && weights.to_vector<float>() == resumed.at(name).to_vector<float>();
    std::cout << (same ? "the same weights to the last bit" : "other weights") << '\n';

    // All is done: the next start is a first one.
    for (const std::string& folder : {unbroken, broken}) {
      while (const auto checkpoint = tp::Checkpoint::latest(folder)) std::filesystem::remove(*checkpoint);
      std::error_code not_empty;
      std::filesystem::remove(folder, not_empty);
    }
  });
}

// Output:
// from step 0 to step 200: loss 0.0095...
// from step 0 to step 100: loss 0.017...
// from step 90 to step 200: loss 0.0095...
// the same weights to the last bit
