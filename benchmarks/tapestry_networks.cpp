#include "tapestry_networks.hpp"

#include <memory>
#include <optional>

#include <tapestry/tapestry.hpp>

namespace {

using bench::Numbers;
using bench::Workload;
using tp::Tensor;
namespace nn = tp::nn;

Numbers elements(const Tensor& x) { return x.to_vector<float>(); }

Tensor uniform(const tp::Shape& shape, unsigned seed, float low = -1, float high = 1) {
  return tp::tensor(bench::numbers(static_cast<std::size_t>(shape.size()), seed, low, high), shape);
}
Tensor classes(const tp::Shape& shape, unsigned seed, std::int64_t end) {
  return tp::reshape(tp::tensor(bench::labels(static_cast<std::size_t>(shape.size()), seed, end)), shape);
}

/// A network, what it learns from, and the results of its last step.
template <class Net>
struct Learning {
  Net net;
  Tensor x, target;
  std::unique_ptr<tp::train::Optimizer> optimizer = nullptr;
  std::vector<Tensor> results = {};
};

/// The parameters get the numbers of the seeds 10, 11, ... in their order, so that another library can get the same.
void set_parameters(nn::Module& net) {
  unsigned seed = 10;
  for (tp::Variable& each : net.parameters()) each.assign(uniform(each.shape(), seed++, -0.1F, 0.1F));
}

/// `step(state, x, target)` returns what the workload computes.
template <class State, class Step>
Workload learning(std::shared_ptr<State> state, Step step, Mode mode) {
  for (Tensor* each : {&state->x, &state->target}) *each = tp::identity(*each);  // on the device that is measured
  std::function<void()> run = [state, step] { state->results = step(*state, state->x, state->target); };
  if (mode == Mode::session) {
    const auto spec = [](const Tensor& x) { return tp::spec(x.dtype(), x.shape()); };
    const auto traced = [=] {
      return tp::trace([s = state.get(), step](const std::vector<Tensor>& in) { return step(*s, in[0], in[1]); },
                       {spec(state->x), spec(state->target)});
    };
    run = [state, traced, kept = std::optional<decltype(traced())>()]() mutable {
      if (!kept) kept.emplace(traced());
      state->results = (*kept)({state->x, state->target});
    };
  }
  return {run, [state] {
            std::vector<Numbers> results;
            for (const Tensor& each : state->results) results.push_back(elements(each));
            if (state->optimizer)
              for (const tp::Variable& each : state->net.parameters()) results.push_back(elements(each.value()));
            return results;
          }};
}

/// A step of the optimizer on the cross-entropy of the network's logits. The gradients' common norm may be limited.
template <class State>
std::vector<Tensor> optimizer_step(State& state, const Tensor& x, const Tensor& target, double most = 0) {
  tp::GradientTape tape;
  const Tensor loss = tp::losses::cross_entropy(target, state.net(x));
  const std::vector<tp::Variable> parameters = state.net.parameters();
  std::vector<Tensor> gradients = tape.gradient(loss, parameters);
  if (most > 0) gradients = tp::clip_by_global_norm(gradients, most).first;
  state.optimizer->apply_gradients(gradients, parameters);
  return {loss};
}

std::unique_ptr<tp::train::Optimizer> adam(double epsilon = bench::adam_epsilon) {
  return std::make_unique<tp::train::AdamOptimizer>(0.001, tp::train::AdamOptions{.epsilon = epsilon});
}

// ---- The digits' network of examples/13 ----------------------------------------------------------------------------

nn::Sequential convolution(std::int64_t in, std::int64_t out) {
  return nn::Sequential{nn::Conv2D(in, out, 3, {.padding = 1}), nn::BatchNorm(out), nn::ReLU(), nn::MaxPool2D(2)};
}

Workload digits_step(Mode mode) {
  const std::int64_t batch = 64;
  auto state = std::make_shared<Learning<nn::Sequential>>(Learning<nn::Sequential>{
      nn::Sequential{convolution(1, 16), convolution(16, 32), nn::Flatten(), nn::Dropout(bench::dropout_rate()),
                     nn::Dense(32 * 7 * 7, 128), nn::ReLU(), nn::Dense(128, 10)},
      uniform({batch, 28, 28, 1}, 100, 0, 1), classes({batch}, 101, 10)});
  set_parameters(state->net);
  // The gradient of a bias before a batch normalization is a rounding error of 0.
  state->optimizer = adam(10 * bench::adam_epsilon);
  return learning(
      state, [](auto& s, const Tensor& x, const Tensor& target) { return optimizer_step(s, x, target); }, mode);
}

// ---- The letters' network of examples/14, with an LSTM or another layer over the letters ---------------------------

template <class Layer>
struct Letters : nn::Module {
  nn::Embedding embedding{65, 64};
  Layer layer{64, 256};
  nn::Dense logits{256, 65};
  TAPESTRY_FIELDS(embedding, layer, logits)
  Tensor operator()(const Tensor& x) const { return logits(layer(embedding(x)).output); }
};

template <class Layer>
Workload letters_step(Mode mode) {
  using State = Learning<Letters<Layer>>;
  auto state = std::make_shared<State>(State{{}, classes({32, 64}, 100, 65), classes({32, 64}, 101, 65)});
  set_parameters(state->net);
  state->optimizer = adam();
  return learning(
      state, [](auto& s, const Tensor& x, const Tensor& target) { return optimizer_step(s, x, target, 1); }, mode);
}

// ---- The vectors of eight of a hundred thousand things, side by side, and two dense layers -------------------------

struct Recommender : nn::Module {
  nn::Embedding things{100'000, 32};
  nn::Dense dense{256, 128}, logits{128, 2};
  TAPESTRY_FIELDS(things, dense, logits)
  Tensor operator()(const Tensor& x) const { return logits(tp::relu(dense(tp::reshape(things(x), {-1, 256})))); }
};

Workload embedding_step(Mode mode) {
  auto state = std::make_shared<Learning<Recommender>>(
      Learning<Recommender>{{}, classes({512, 8}, 100, 100'000), classes({512}, 101, 2)});
  set_parameters(state->net);
  state->optimizer = std::make_unique<tp::train::GradientDescentOptimizer>(0.1);
  return learning(
      state, [](auto& s, const Tensor& x, const Tensor& target) { return optimizer_step(s, x, target); }, mode);
}

// ---- Transformers --------------------------------------------------------------------------------------------------

Workload block_gradient(Mode mode) {
  auto state = std::make_shared<Learning<nn::TransformerBlock>>(Learning<nn::TransformerBlock>{
      nn::TransformerBlock(256, 4, 1024, {.dropout = 0}), uniform({8, 128, 256}, 100), uniform({8, 128, 256}, 101)});
  set_parameters(state->net);
  return learning(
      state,
      [](auto& s, const Tensor& x, const Tensor& seed) {
        tp::GradientTape tape;
        tape.watch(x);
        const Tensor y = s.net(x);
        std::vector<Tensor> results{y};
        for (const Tensor& each : tape.gradient(y, s.net.parameters(), {.output_gradients = seed}))
          results.push_back(each);
        return results;
      },
      mode);
}

struct Writer : nn::Module {
  nn::Embedding letter{256, 256};
  nn::PositionEmbedding position{128, 256};
  std::vector<nn::TransformerBlock> blocks;
  nn::LayerNorm norm{256};
  nn::Dense logits{256, 256};
  TAPESTRY_FIELDS(letter, position, blocks, norm, logits)

  Writer() {
    for (int i = 0; i < 2; ++i)
      blocks.emplace_back(
          256, 4, 1024,
          nn::TransformerBlockOptions{
              .causal = true, .norm_first = true, .activation = nn::FeedForwardActivation::gelu, .dropout = 0});
  }
  Tensor operator()(const Tensor& x) const {
    Tensor h = position(letter(x));
    for (const nn::TransformerBlock& each : blocks) h = each(h);
    return logits(norm(h));
  }
};

}  // namespace

Workload gpt_step(Mode mode, std::int64_t batch) {
  auto state = std::make_shared<Learning<Writer>>(
      Learning<Writer>{{}, classes({batch, 128}, 100, 256), classes({batch, 128}, 101, 256)});
  set_parameters(state->net);
  state->optimizer = adam();
  return learning(
      state, [](auto& s, const Tensor& x, const Tensor& target) { return optimizer_step(s, x, target); }, mode);
}

Workloads networks() {
  return {{"g/digits_step", digits_step},
          {"k/lstm_step", letters_step<nn::LSTM>},
          {"k/gru_step", letters_step<nn::GRU>},
          {"l/block_gradient", block_gradient},
          {"l/gpt_step", [](Mode mode) { return gpt_step(mode); }},
          {"p/embedding_step", embedding_step}};
}
