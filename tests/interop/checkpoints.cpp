#include "interop/judgement.hpp"
#include "state_samples.hpp"

namespace tapestry::test {
namespace {

/// Saves a checkpoint, "<title>/model", and what must be read from it.
void write(const std::filesystem::path& folder, const std::string& title, const StateDict& tensors) {
  tensor_bundle::save((folder / title / "model").string(), tensors);
  Judgement judgement(folder / (title + ".judge.pb"));
  judgement.add("title", title);
  for (const auto& [name, value] : tensors) judgement.fetch(name, value.contiguous());
  judgement.save();
}

/// All dtypes and odd shapes, and names that are no names of Variables.
StateDict samples() {
  StateDict tensors = state_samples();
  tensors["layer.bfloat16"] = tensor({{0, 1, 2}, {3, 0, 255}}).cast(bfloat16);
  for (const std::string name : {"with space", "line\n\"quoted\"", "\xC3\xA4\xE2\x82\xAC", "\x01", "../x", "/", "a:0"})
    tensors[name] = tensor(1.0);
  tensors[std::string("nul\0inside", 10)] = tensor(2.0);
  tensors[std::string(3000, 'n')] = tensor(3.0);
  return tensors;
}

/// Enough for several blocks in the index.
StateDict many() {
  StateDict tensors;
  for (int i = 0; i < 1000; ++i)
    tensors["layer_" + std::to_string(i) + std::string(300, 'x')] = tensor({i, i + 1}).cast(float32);
  return tensors;
}

/// A model that has been trained, with its optimizer.
StateDict network() {
  random::seed(3);
  const nn::Sequential net{nn::Dense(3, 4), nn::ReLU(), nn::Dense(4, 2)};
  train::AdamOptimizer optimizer(0.1);
  optimizer.minimize([&] { return reduce_sum(square(net(random::normal({5, 3})))); });
  StateDict tensors = net.state_dict();
  for (const auto& [name, value] : optimizer.state_dict()) tensors.emplace("optimizer/" + name, value);
  return tensors;
}

}  // namespace

void write_checkpoints(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  write(folder, "samples", samples());
  write(folder, "many", many());
  write(folder, "network", network());
  write(folder, "none", {});
}

}  // namespace tapestry::test
