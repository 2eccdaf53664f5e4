// Layers and losses against libtorch, where it is found: with the same parameters, which libtorch's modules take by
// their names from our state, values and gradients are the same, in double. Optimizers, too, step by step.

#include <torch/torch.h>
// libtorch has macros of the names that doctest uses.
#undef CHECK
#undef CHECK_EQ
#undef CHECK_NE
#undef CHECK_LT
#undef CHECK_LE
#undef CHECK_GT
#undef CHECK_GE

#define DOCTEST_CONFIG_IMPLEMENT
#include "expect.hpp"
#include "tapestry/tapestry.hpp"

namespace nn_libtorch_test {

namespace {

using tp::test::agree;

constexpr double tolerance = 1e-11;

// ---- Tensors from one library to the other

torch::Tensor to_torch(const tp::Tensor& x) {
  const std::vector<std::int64_t> shape = x.shape().to_vector();
  if (x.dtype() == tp::int64) {
    std::vector<std::int64_t> numbers = x.to_vector<std::int64_t>();
    return torch::from_blob(numbers.data(), shape, torch::kLong).clone();
  }
  std::vector<double> numbers = x.to_vector<double>();
  return torch::from_blob(numbers.data(), shape, torch::kDouble).clone();
}

void check_equal(const tp::Tensor& ours, const torch::Tensor& theirs) {
  REQUIRE(ours);
  REQUIRE(theirs.defined());
  REQUIRE(ours.shape().to_vector() == theirs.sizes().vec());
  const std::vector<double> a = ours.to_vector<double>();
  const torch::Tensor flat = theirs.detach().to(torch::kDouble).contiguous();
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double b = flat.data_ptr<double>()[i];
    INFO("element ", i, ": ", a[i], ", libtorch has ", b);
    CHECK(agree(a[i], b, tolerance));
  }
}

tp::Tensor normal(const tp::Shape& shape) { return tp::random::normal(shape, {.dtype = tp::float64}); }

// ---- Modules

/// All that libtorch's module keeps, by name.
std::map<std::string, torch::Tensor> state_of(const torch::nn::Module& module) {
  std::map<std::string, torch::Tensor> state;
  for (const auto& item : module.named_parameters()) state.emplace(item.key(), item.value());
  for (const auto& item : module.named_buffers()) state.emplace(item.key(), item.value());
  return state;
}

/// Gives libtorch's module our values; the names and shapes must be the same.
void load(torch::nn::Module& theirs, const tp::nn::Module& ours) {
  theirs.to(torch::kDouble);
  const std::map<std::string, torch::Tensor> places = state_of(theirs);
  const tp::StateDict state = ours.state_dict();
  REQUIRE(places.size() == state.size());
  const torch::NoGradGuard no_gradient;
  for (const auto& [name, value] : state) {
    INFO(name);
    REQUIRE(places.contains(name));
    REQUIRE(places.at(name).sizes().vec() == value.shape().to_vector());
    torch::Tensor place = places.at(name);
    place.copy_(to_torch(value));
  }
}

/// Runs both in training mode (without dropout) and in evaluation mode: outputs, the gradients of the inputs and of all
/// parameters of a loss with random weights, and what the modules keep afterwards.
template <class Ours, class Theirs, class CallOurs, class CallTheirs>
void compare(Ours ours, Theirs theirs, const std::vector<tp::Tensor>& inputs, CallOurs call_ours,
             CallTheirs call_theirs) {
  ours.to(tp::float64);
  load(*theirs, ours);
  for (const bool training : {true, false}) {
    INFO("training: ", training);
    ours.train(training);
    theirs->train(training);

    tp::GradientTape tape;
    std::vector<tp::Source> sources;
    std::vector<torch::Tensor> their_inputs;
    for (const tp::Tensor& input : inputs) {
      torch::Tensor theirs_too = to_torch(input);
      if (tp::is_floating(input.dtype())) {
        tape.watch(input);
        sources.emplace_back(input);
        theirs_too.requires_grad_();
      }
      their_inputs.push_back(theirs_too);
    }
    const tp::Tensor y = call_ours(ours, inputs);
    const torch::Tensor their_y = call_theirs(theirs, their_inputs);
    check_equal(y, their_y);

    const tp::Tensor weights = normal(y.shape());
    const auto named = ours.named_parameters();
    for (const auto& [name, parameter] : named) sources.emplace_back(parameter);
    const std::vector<tp::Tensor> gradients = tape.gradient(tp::reduce_sum(y * weights), sources);
    theirs->zero_grad();
    (their_y * to_torch(weights)).sum().backward();

    std::size_t next = 0;
    for (const torch::Tensor& input : their_inputs)
      if (input.requires_grad()) check_equal(gradients[next++], input.grad());
    const std::map<std::string, torch::Tensor> their_state = state_of(*theirs);
    for (const auto& [name, parameter] : named) {
      INFO("gradient of ", name);
      check_equal(gradients[next++], their_state.at(name).grad());
    }
    for (const auto& [name, value] : ours.state_dict()) {
      INFO(name);
      check_equal(value, their_state.at(name));
    }
  }
}

/// Modules that are called with one tensor.
template <class Ours, class Theirs>
void compare(const Ours& ours, Theirs theirs, const tp::Tensor& input) {
  compare(
      ours, theirs, {input}, [](const Ours& module, const auto& xs) { return tp::Tensor(module(xs[0])); },
      [](Theirs& module, const auto& xs) { return module->forward(xs[0]); });
}

/// The same on images, which are NHWC for us and NCHW for libtorch.
template <class Ours, class Theirs>
void compare_images(const Ours& ours, Theirs theirs, const tp::Tensor& image) {
  compare(
      ours, theirs, {image}, [](const Ours& module, const auto& xs) { return tp::Tensor(module(xs[0])); },
      [](Theirs& module, const auto& xs) {
        return module->forward(xs[0].permute({0, 3, 1, 2})).permute({0, 2, 3, 1});
      });
}

TEST_CASE("dense") {
  compare(tp::nn::Dense(4, 3), torch::nn::Linear(4, 3), normal({5, 4}));
  compare(tp::nn::Dense(4, 3, {.bias = false}), torch::nn::Linear(torch::nn::LinearOptions(4, 3).bias(false)),
          normal({2, 5, 4}));
}

TEST_CASE("activations") {
  const tp::Tensor x = normal({4, 5}) * 3.0;
  compare(tp::nn::ReLU(), torch::nn::ReLU(), x);
  compare(tp::nn::Sigmoid(), torch::nn::Sigmoid(), x);
  compare(tp::nn::Tanh(), torch::nn::Tanh(), x);
  compare(tp::nn::SiLU(), torch::nn::SiLU(), x);
  compare(tp::nn::ELU(), torch::nn::ELU(), x);
  compare(tp::nn::GELU(), torch::nn::GELU(), x);
  compare(tp::nn::GELU(true), torch::nn::GELU(torch::nn::GELUOptions().approximate("tanh")), x);
  compare(tp::nn::PReLU(), torch::nn::PReLU(), x);
  compare(tp::nn::LeakyReLU(), torch::nn::LeakyReLU(), x);
  compare(tp::nn::Softmax(), torch::nn::Softmax(-1), x);
  compare(tp::nn::Softmax(0), torch::nn::Softmax(0), x);
  compare(tp::nn::LogSoftmax(), torch::nn::LogSoftmax(-1), x);
  // libtorch's softplus is the identity beyond 20, where the difference is 2e-9.
  compare(tp::nn::Softplus(), torch::nn::Softplus(torch::nn::SoftplusOptions().threshold(50)), x);
}

/// Modules of sequences, which are [batch, time, channels] for us and [batch, channels, time] for libtorch.
template <class Ours, class Theirs>
void compare_sequences(const Ours& ours, Theirs theirs, const tp::Tensor& sequence) {
  compare(
      ours, theirs, {sequence}, [](const Ours& module, const auto& xs) { return tp::Tensor(module(xs[0])); },
      [](Theirs& module, const auto& xs) {
        return module->forward(xs[0].permute({0, 2, 1})).permute({0, 2, 1});
      });
}

TEST_CASE("layers of sequences, upsampling, two inputs, cells") {
  const tp::Tensor x = normal({2, 6, 4});
  compare_sequences(
      tp::nn::ConvTranspose1D(4, 6, 3, {.stride = 2, .padding = 1, .output_padding = 1, .dilation = 2, .groups = 2}),
      torch::nn::ConvTranspose1d(
          torch::nn::ConvTranspose1dOptions(4, 6, 3).stride(2).padding(1).output_padding(1).dilation(2).groups(2)),
      x);
  compare_sequences(tp::nn::MaxPool1D(3, {.stride = 2, .padding = 1}),
                    torch::nn::MaxPool1d(torch::nn::MaxPool1dOptions(3).stride(2).padding(1)), x);
  compare_sequences(tp::nn::AvgPool1D(2), torch::nn::AvgPool1d(2), x);
  using Factors = std::vector<double>;
  const tp::Tensor image = normal({2, 3, 4, 2});
  compare_images(tp::nn::Upsample({2, 3}),
                 torch::nn::Upsample(torch::nn::UpsampleOptions().scale_factor(Factors{2, 3}).mode(torch::kNearest)),
                 image);
  compare_images(
      tp::nn::Upsample({2, 4}, {.method = tp::ResizeMethod::bilinear}),
      torch::nn::Upsample(
          torch::nn::UpsampleOptions().scale_factor(Factors{2, 4}).mode(torch::kBilinear).align_corners(false)),
      image);
  compare(
      tp::nn::Bilinear(3, 4, 2), torch::nn::Bilinear(3, 4, 2), {normal({5, 3}), normal({5, 4})},
      [](const auto& module, const auto& xs) { return module(xs[0], xs[1]); },
      [](auto& module, const auto& xs) { return module->forward(xs[0], xs[1]); });
  const auto compare_cells = [](const auto& ours, auto theirs) {
    compare(
        ours, theirs, {normal({2, 3}), normal({2, 4})},
        [](const auto& module, const auto& xs) { return module(xs[0], xs[1]); },
        [](auto& module, const auto& xs) { return module->forward(xs[0], xs[1]); });
  };
  compare_cells(tp::nn::RNNCell(3, 4), torch::nn::RNNCell(3, 4));
  compare_cells(tp::nn::GRUCell(3, 4), torch::nn::GRUCell(3, 4));
  compare(
      tp::nn::LSTMCell(3, 4), torch::nn::LSTMCell(3, 4), {normal({2, 3}), normal({2, 4}), normal({2, 4})},
      [](const auto& module, const auto& xs) {
        const auto [h, c] = module(xs[0], tp::nn::LSTMState{xs[1], xs[2]});
        return tp::concat({h, c});
      },
      [](auto& module, const auto& xs) {
        const auto [h, c] = module->forward(xs[0], std::make_tuple(xs[1], xs[2]));
        return torch::cat({h, c});
      });
}

TEST_CASE("volumes, and parts of images and sequences") {
  const auto compare_volumes = [](const auto& ours, auto theirs, const tp::Tensor& volume) {
    compare(
        ours, theirs, {volume}, [](const auto& module, const auto& xs) { return tp::Tensor(module(xs[0])); },
        [](auto& module, const auto& xs) {
          return module->forward(xs[0].permute({0, 4, 1, 2, 3})).permute({0, 2, 3, 4, 1});
        });
  };
  const tp::Tensor volume = normal({2, 5, 6, 4, 4});
  compare_volumes(tp::nn::Conv3D(4, 3, 2), torch::nn::Conv3d(torch::nn::Conv3dOptions(4, 3, 2)), volume);
  compare_volumes(
      tp::nn::Conv3D(4, 6, {3, 2, 2},
                     {.stride = {2, 1, 2}, .padding = {1, 2, 1}, .dilation = {1, 2, 1}, .groups = 2, .bias = false}),
      torch::nn::Conv3d(torch::nn::Conv3dOptions(4, 6, {3, 2, 2})
                            .stride({2, 1, 2})
                            .padding({1, 2, 1})
                            .dilation({1, 2, 1})
                            .groups(2)
                            .bias(false)),
      volume);
  compare_volumes(tp::nn::MaxPool3D({3, 2, 2}, {.stride = {2, 1, 2}, .padding = {1, 1, 0}}),
                  torch::nn::MaxPool3d(torch::nn::MaxPool3dOptions({3, 2, 2}).stride({2, 1, 2}).padding({1, 1, 0})),
                  volume);
  compare_volumes(tp::nn::AvgPool3D(2, {.padding = 1}),
                  torch::nn::AvgPool3d(torch::nn::AvgPool3dOptions(2).padding(1).count_include_pad(false)), volume);
  const tp::Tensor image = normal({2, 7, 5, 3}), sequence = normal({2, 7, 3});
  compare_images(tp::nn::AdaptiveAvgPool2D({3, 2}), torch::nn::AdaptiveAvgPool2d(std::vector<std::int64_t>{3, 2}),
                 image);
  compare_images(tp::nn::AdaptiveMaxPool2D({3, 9}), torch::nn::AdaptiveMaxPool2d(std::vector<std::int64_t>{3, 9}),
                 image);
  compare_sequences(tp::nn::AdaptiveAvgPool1D(3), torch::nn::AdaptiveAvgPool1d(3), sequence);
  compare_sequences(tp::nn::AdaptiveMaxPool1D(5), torch::nn::AdaptiveMaxPool1d(5), sequence);
}

TEST_CASE("convolutions and pools") {
  using Options = torch::nn::Conv2dOptions;
  compare_images(tp::nn::Conv2D(3, 4, 3), torch::nn::Conv2d(Options(3, 4, 3)), normal({2, 6, 7, 3}));
  compare_images(
      tp::nn::Conv2D(4, 6, {3, 2}, {.stride = {2, 1}, .padding = {1, 1, 2, 2}, .dilation = {1, 2}, .groups = 2}),
      torch::nn::Conv2d(Options(4, 6, {3, 2}).stride({2, 1}).padding({1, 2}).dilation({1, 2}).groups(2)),
      normal({2, 7, 8, 4}));
  compare_images(tp::nn::Conv2D(3, 6, 5, {.padding = "SAME", .groups = 3, .bias = false}),
                 torch::nn::Conv2d(Options(3, 6, 5).padding(torch::kSame).groups(3).bias(false)), normal({1, 5, 6, 3}));
  using TransposeOptions = torch::nn::ConvTranspose2dOptions;
  compare_images(tp::nn::ConvTranspose2D(3, 4, 3), torch::nn::ConvTranspose2d(TransposeOptions(3, 4, 3)),
                 normal({2, 4, 5, 3}));
  compare_images(tp::nn::ConvTranspose2D(4, 6, {3, 2},
                                         {.stride = {3, 2},
                                          .padding = {1, 1, 2, 2},
                                          .output_padding = {2, 1},
                                          .dilation = {1, 2},
                                          .groups = 2,
                                          .bias = false}),
                 torch::nn::ConvTranspose2d(TransposeOptions(4, 6, {3, 2})
                                                .stride({3, 2})
                                                .padding({1, 2})
                                                .output_padding({2, 1})
                                                .dilation({1, 2})
                                                .groups(2)
                                                .bias(false)),
                 normal({2, 4, 5, 4}));
  compare_images(tp::nn::MaxPool2D(2), torch::nn::MaxPool2d(2), normal({2, 5, 6, 3}));
  compare_images(tp::nn::MaxPool2D({3, 2}, {.stride = {1, 2}, .padding = 1}),
                 torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions({3, 2}).stride({1, 2}).padding(1)),
                 normal({2, 5, 6, 3}));
  compare_images(tp::nn::AvgPool2D(2), torch::nn::AvgPool2d(2), normal({2, 5, 6, 3}));
  compare_images(tp::nn::AvgPool2D(3, {.stride = 2, .padding = 1}),
                 torch::nn::AvgPool2d(torch::nn::AvgPool2dOptions(3).stride(2).padding(1).count_include_pad(false)),
                 normal({2, 5, 6, 3}));
}

TEST_CASE("normalization") {
  compare(tp::nn::BatchNorm(4), torch::nn::BatchNorm1d(4), normal({6, 4}) * 2.0 + 1.0);
  compare_images(tp::nn::BatchNorm(3, {.epsilon = 1e-3, .momentum = 0.3}),
                 torch::nn::BatchNorm2d(torch::nn::BatchNorm2dOptions(3).eps(1e-3).momentum(0.3)),
                 normal({2, 4, 5, 3}) * 2.0 - 1.0);
  compare(tp::nn::GroupNorm(2, 6), torch::nn::GroupNorm(torch::nn::GroupNormOptions(2, 6)), normal({3, 6}) * 3.0);
  compare(tp::nn::LayerNorm(5), torch::nn::LayerNorm(torch::nn::LayerNormOptions({5})), normal({3, 4, 5}) * 3.0);
}

TEST_CASE("embedding") {
  compare(tp::nn::Embedding(7, 3), torch::nn::Embedding(7, 3), tp::tensor<std::int64_t>({{0, 6, 3}, {3, 3, 1}}));
  const auto bags = tp::tensor<std::int64_t>({{0, 6, 3, 1}, {3, 3, 1, 2}});
  compare(tp::nn::EmbeddingBag(7, 3), torch::nn::EmbeddingBag(7, 3), bags);
  compare(tp::nn::EmbeddingBag(7, 3, {.combiner = tp::nn::Combiner::sum}),
          torch::nn::EmbeddingBag(torch::nn::EmbeddingBagOptions(7, 3).mode(torch::kSum)), bags);
}

TEST_CASE("a convolutional network whose dense weights are PyTorch's") {
  using namespace torch::nn;
  compare(
      tp::nn::Sequential(tp::nn::Conv2D(2, 4, 3, {.padding = 1}), tp::nn::BatchNorm(4), tp::nn::ReLU(),
                         tp::nn::MaxPool2D(2), tp::nn::Flatten({.channels_first = true}), tp::nn::Dense(4 * 3 * 2, 5)),
      Sequential(Conv2d(Conv2dOptions(2, 4, 3).padding(1)), BatchNorm2d(4), ReLU(), MaxPool2d(2), Flatten(),
                 Linear(4 * 3 * 2, 5)),
      {normal({3, 6, 4, 2})}, [](const auto& module, const auto& xs) { return module(xs[0]); },
      [](auto& module, const auto& xs) {
        return module->forward(xs[0].permute({0, 3, 1, 2}));
      });
}

/// Recurrent networks with one tensor as their state: outputs and states side by side.
template <class Ours, class Theirs>
void compare_recurrent(const Ours& ours, Theirs theirs, const std::vector<tp::Tensor>& inputs) {
  compare(
      ours, theirs, inputs,
      [](const Ours& module, const auto& xs) {
        const auto [output, state] = xs.size() > 1 ? module(xs[0], xs[1]) : module(xs[0]);
        return tp::concat({tp::reshape(output, {-1}), tp::reshape(state, {-1})});
      },
      [](Theirs& module, const auto& xs) {
        const auto [output, state] = xs.size() > 1 ? module->forward(xs[0], xs[1]) : module->forward(xs[0]);
        return torch::cat({output.reshape({-1}), state.reshape({-1})});
      });
}

TEST_CASE("recurrent networks") {
  using namespace torch::nn;
  compare_recurrent(tp::nn::RNN(3, 4), RNN(RNNOptions(3, 4).batch_first(true)), {normal({2, 5, 3})});
  compare_recurrent(tp::nn::RNN(3, 4, {.layers = 2, .batch_first = false}, tp::nn::Nonlinearity::relu),
                    RNN(RNNOptions(3, 4).num_layers(2).nonlinearity(torch::kReLU)),
                    {normal({5, 2, 3}), normal({2, 2, 4})});
  compare_recurrent(tp::nn::GRU(3, 4, {.layers = 2}), GRU(GRUOptions(3, 4).num_layers(2).batch_first(true)),
                    {normal({2, 5, 3}), normal({2, 2, 4})});
  compare_recurrent(tp::nn::GRU(3, 4, {.layers = 2, .bidirectional = true}),
                    GRU(GRUOptions(3, 4).num_layers(2).batch_first(true).bidirectional(true)),
                    {normal({2, 5, 3}), normal({4, 2, 4})});
  compare_recurrent(tp::nn::RNN(3, 4, {.batch_first = false, .bidirectional = true}),
                    RNN(RNNOptions(3, 4).bidirectional(true)), {normal({5, 2, 3})});
  compare_recurrent(tp::nn::GRU(3, 4, {.bias = false}), GRU(GRUOptions(3, 4).bias(false).batch_first(true)),
                    {normal({2, 5, 3})});
  compare(
      tp::nn::LSTM(3, 4, {.layers = 3}), LSTM(LSTMOptions(3, 4).num_layers(3).batch_first(true)),
      {normal({2, 5, 3}), normal({3, 2, 4}), normal({3, 2, 4})},
      [](const auto& module, const auto& xs) {
        const auto [output, state] = module(xs[0], tp::nn::LSTMState{xs[1], xs[2]});
        return tp::concat({tp::reshape(output, {-1}), tp::reshape(state.h, {-1}), tp::reshape(state.c, {-1})});
      },
      [](auto& module, const auto& xs) {
        const auto [output, state] = module->forward(xs[0], std::make_tuple(xs[1], xs[2]));
        const auto& [h, c] = state;
        return torch::cat({output.reshape({-1}), h.reshape({-1}), c.reshape({-1})});
      });
}

// libtorch's attention takes [time, batch, features], and a mask that it adds to the products.

torch::Tensor time_first(const torch::Tensor& x) { return x.transpose(0, 1); }

torch::Tensor causal_mask(std::int64_t queries, std::int64_t keys) {
  return torch::full({queries, keys}, -std::numeric_limits<double>::infinity(), torch::kDouble).triu(1);
}

TEST_CASE("attention") {
  using Theirs = torch::nn::MultiheadAttention;
  compare(
      tp::nn::MultiHeadAttention(6, 3), Theirs(torch::nn::MultiheadAttentionOptions(6, 3)), {normal({2, 4, 6})},
      [](const auto& module, const auto& xs) { return module(xs[0]); },
      [](Theirs& module, const auto& xs) {
        const torch::Tensor x = time_first(xs[0]);
        return time_first(std::get<0>(module->forward(x, x, x)));
      });
  compare(
      tp::nn::MultiHeadAttention(6, 2, {.causal = true}), Theirs(torch::nn::MultiheadAttentionOptions(6, 2)),
      {normal({2, 4, 6}), normal({2, 5, 6}), normal({2, 5, 6})},
      [](const auto& module, const auto& xs) { return module(xs[0], xs[1], xs[2]); },
      [](Theirs& module, const auto& xs) {
        const auto result =
            module->forward(time_first(xs[0]), time_first(xs[1]), time_first(xs[2]), {}, true, causal_mask(4, 5));
        return time_first(std::get<0>(result));
      });
}

TEST_CASE("transformer blocks") {
  using Theirs = torch::nn::TransformerEncoderLayer;
  const auto call_ours = [](const auto& module, const auto& xs) { return module(xs[0]); };
  compare(tp::nn::TransformerBlock(6, 2, 8, {.dropout = 0}),
          Theirs(torch::nn::TransformerEncoderLayerOptions(6, 2).dim_feedforward(8).dropout(0)), {normal({2, 4, 6})},
          call_ours, [](Theirs& module, const auto& xs) { return time_first(module->forward(time_first(xs[0]))); });
  compare(tp::nn::TransformerBlock(
              6, 3, 8,
              {.causal = true, .norm_first = true, .activation = tp::nn::FeedForwardActivation::gelu, .dropout = 0}),
          Theirs(torch::nn::TransformerEncoderLayerOptions(6, 3).dim_feedforward(8).dropout(0)), {normal({2, 4, 6})},
          call_ours, [](Theirs& module, const auto& xs) {  // of its parts: this version knows no other order
            const torch::Tensor x = time_first(xs[0]), n = module->norm1->forward(x);
            const torch::Tensor seen =
                x + std::get<0>(module->self_attn->forward(n, n, n, {}, true, causal_mask(4, 4)));
            const torch::Tensor hidden = torch::gelu(module->linear1->forward(module->norm2->forward(seen)));
            return time_first(seen + module->linear2->forward(hidden));
          });
}

// ---- Losses

template <class Ours, class Theirs>
void compare_loss(const tp::Tensor& targets, const tp::Tensor& predictions, Ours ours, Theirs theirs) {
  const auto [value, gradient] =
      tp::value_and_grad([&](const tp::Tensor& p) { return tp::Tensor(ours(targets, p)); })(predictions);
  torch::Tensor p = to_torch(predictions);
  p.requires_grad_();
  const torch::Tensor their_value = theirs(p, to_torch(targets));
  check_equal(value, their_value);
  their_value.sum().backward();
  check_equal(gradient, p.grad());
}

TEST_CASE("losses") {
  namespace F = torch::nn::functional;
  using tp::losses::Reduction;
  const tp::Tensor p = normal({6, 5}) * 2.0, t = normal({6, 5}) * 2.0;
  const tp::Tensor labels = tp::random::randint(0, 5, {6}), probabilities = tp::softmax(t);
  const tp::Tensor bits = tp::random::bernoulli({6, 5}, 0.5, {.dtype = tp::float64});

  compare_loss(
      t, p, [](const auto& a, const auto& b) { return tp::losses::mse(a, b); },
      [](const auto& b, const auto& a) { return F::mse_loss(b, a); });
  compare_loss(
      t, p, [](const auto& a, const auto& b) { return tp::losses::l1(a, b, {.reduction = Reduction::sum}); },
      [](const auto& b, const auto& a) { return F::l1_loss(b, a, F::L1LossFuncOptions(torch::kSum)); });
  compare_loss(
      t, p, [](const auto& a, const auto& b) { return tp::losses::huber(a, b, {.delta = 0.6}); },
      [](const auto& b, const auto& a) { return F::huber_loss(b, a, F::HuberLossFuncOptions().delta(0.6)); });
  compare_loss(
      t, p, [](const auto& a, const auto& b) { return tp::losses::huber(a, b, {.delta = 0.6}) / 0.6; },
      [](const auto& b, const auto& a) { return F::smooth_l1_loss(b, a, F::SmoothL1LossFuncOptions(), 0.6); });
  for (const double smoothing : {0.0, 0.2})
    for (const tp::Tensor& targets : {labels, probabilities})
      compare_loss(
          targets, p,
          [&](const auto& a, const auto& b) { return tp::losses::cross_entropy(a, b, {.label_smoothing = smoothing}); },
          [&](const auto& b, const auto& a) {
            return F::cross_entropy(b, a, F::CrossEntropyFuncOptions().label_smoothing(smoothing));
          });
  const tp::Tensor weights = tp::tensor<double>({0.5, 2, 1.25, 0.75, 3});
  for (const double smoothing : {0.0, 0.2}) {
    for (const std::int64_t ignored : {-100, 2})
      compare_loss(
          tp::where(tp::equal(labels, 0), ignored, labels), p,
          [&](const auto& a, const auto& b) {
            return tp::losses::cross_entropy(
                a, b, {.label_smoothing = smoothing, .class_weights = weights, .ignore_index = ignored});
          },
          [&](const auto& b, const auto& a) {
            return F::cross_entropy(b, a,
                                    F::CrossEntropyFuncOptions()
                                        .label_smoothing(smoothing)
                                        .weight(to_torch(weights))
                                        .ignore_index(ignored));
          });
    compare_loss(
        probabilities, p,
        [&](const auto& a, const auto& b) {
          return tp::losses::cross_entropy(a, b, {.label_smoothing = smoothing, .class_weights = weights});
        },
        [&](const auto& b, const auto& a) {
          return F::cross_entropy(b, a,
                                  F::CrossEntropyFuncOptions().label_smoothing(smoothing).weight(to_torch(weights)));
        });
  }
  compare_loss(
      labels, tp::log_softmax(p),
      [&](const auto& a, const auto& b) {
        return tp::losses::nll(a, b, {.class_weights = weights, .ignore_index = 1});
      },
      [&](const auto& b, const auto& a) {
        return F::nll_loss(b, a, F::NLLLossFuncOptions().weight(to_torch(weights)).ignore_index(1));
      });
  compare_loss(
      bits, p,
      [&](const auto& a, const auto& b) {
        return tp::losses::binary_cross_entropy_with_logits(a, b, {.pos_weight = weights});
      },
      [&](const auto& b, const auto& a) {
        return F::binary_cross_entropy_with_logits(
            b, a, F::BinaryCrossEntropyWithLogitsFuncOptions().pos_weight(to_torch(weights)));
      });
  compare_loss(
      labels, p,
      [](const auto& a, const auto& b) { return tp::losses::cross_entropy(a, b, {.reduction = Reduction::none}); },
      [](const auto& b, const auto& a) {
        return F::cross_entropy(b, a, F::CrossEntropyFuncOptions().reduction(torch::kNone));
      });
  compare_loss(
      labels, tp::log_softmax(p), [](const auto& a, const auto& b) { return tp::losses::nll(a, b); },
      [](const auto& b, const auto& a) { return F::nll_loss(b, a); });
  compare_loss(
      bits, p, [](const auto& a, const auto& b) { return tp::losses::binary_cross_entropy_with_logits(a, b); },
      [](const auto& b, const auto& a) { return F::binary_cross_entropy_with_logits(b, a); });
  compare_loss(
      probabilities, tp::log_softmax(p),
      [](const auto& a, const auto& b) {
        return tp::losses::kl_divergence(a, b, {.reduction = Reduction::batch_mean});
      },
      [](const auto& b, const auto& a) { return F::kl_div(b, a, F::KLDivFuncOptions(torch::kBatchMean)); });
  compare_loss(
      bits * 2.0 - 1.0, p, [](const auto& a, const auto& b) { return tp::losses::hinge(a, b); },
      [](const auto& b, const auto& a) { return torch::relu(1 - a * b).mean(); });
  compare_loss(
      t, p, [](const auto& a, const auto& b) { return tp::losses::cosine_similarity(b, a); },
      [](const auto& b, const auto& a) {
        return F::cosine_similarity(b, a, F::CosineSimilarityFuncOptions().dim(-1));
      });
  compare_loss((bits * 2.0 - 1.0)(tp::all, 0), p,
               [&](const auto& a, const auto& b) { return tp::losses::cosine_embedding(a, b, t, {.margin = 0.1}); },
               [&](const auto& b, const auto& a) {
                 return F::cosine_embedding_loss(b, to_torch(t), a, F::CosineEmbeddingLossFuncOptions().margin(0.1));
               });
}

// ---- Optimizers

/// Both walk down the same valley for 20 steps and are at the same place after each.
void compare_steps(
    tp::train::Optimizer& ours,
    const std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor>)>& make_theirs) {
  const tp::Tensor start = normal({7}), curvature = tp::tensor<double>({0.1, 0.5, 1, 2, 3, 5, 8});
  tp::Variable variable(start);
  torch::Tensor place = to_torch(start).requires_grad_();
  const torch::Tensor their_curvature = to_torch(curvature);
  const auto theirs = make_theirs({place});
  for (int step = 0; step < 20; ++step) {
    INFO(ours.name(), ", step ", step);
    ours.minimize([&] { return tp::reduce_sum(curvature * tp::square(variable)); });
    theirs->zero_grad();
    (their_curvature * place.square()).sum().backward();
    theirs->step();
    check_equal(variable, place);
  }
}

TEST_CASE("optimizers") {
  using namespace tp::train;
  using Places = std::vector<torch::Tensor>;
  using torch::optim::SGDOptions;
  const auto maker = []<class Theirs, class Options>(const Options& options) {
    return [options](Places places) { return std::make_unique<Theirs>(std::move(places), options); };
  };
  const auto sgd = [&](const SGDOptions& options) { return maker.operator()<torch::optim::SGD, SGDOptions>(options); };
  GradientDescentOptimizer plain(0.01, {.weight_decay = 0.1});
  compare_steps(plain, sgd(SGDOptions(0.01).weight_decay(0.1)));
  MomentumOptimizer momentum(0.01, 0.9);
  compare_steps(momentum, sgd(SGDOptions(0.01).momentum(0.9)));
  MomentumOptimizer nesterov(0.01, 0.9, {.use_nesterov = true});
  compare_steps(nesterov, sgd(SGDOptions(0.01).momentum(0.9).nesterov(true)));
  AdamOptimizer adam(0.1, {.weight_decay = 0.05});
  compare_steps(adam, maker.operator()<torch::optim::Adam>(torch::optim::AdamOptions(0.1).weight_decay(0.05)));
  AdamWOptimizer adamw(0.1);
  compare_steps(adamw, maker.operator()<torch::optim::AdamW>(torch::optim::AdamWOptions(0.1)));
  AdagradOptimizer adagrad(0.1);
  compare_steps(adagrad, maker.operator()<torch::optim::Adagrad>(
                             torch::optim::AdagradOptions(0.1).initial_accumulator_value(0.1).eps(1e-7)));
}

}  // namespace

}  // namespace nn_libtorch_test

int main(int argc, char** argv) {
  torch::set_num_threads(1);  // its threads and those of OpenBLAS get in each other's way
  tp::random::seed(2);
  return doctest::Context(argc, argv).run();
}
