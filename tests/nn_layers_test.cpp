// What holds for every layer: it computes the same bits eagerly and traced, at every size of the batch, with its
// gradients and its updates; a copy of it and a state that is loaded give the same; it works in float64.

#include <cmath>

#include "expect.hpp"
#include "op_cases/op_cases.hpp"
#include "refused.hpp"
#include "tapestry/tapestry.hpp"
#include "toy_backend.hpp"

namespace nn_layers_test {

using namespace tapestry;
using namespace tapestry::test;

namespace {

struct Case {
  std::string name;
  nn::Sequential net;
  Shape row;                 ///< the shape of an input without its batch axis
  std::int64_t classes = 0;  ///< whole numbers below this as the input, instead of floats
};

/// Of a recurrent network all that it gives, in one row for each example.
template <class Network>
struct Everything : nn::Module {
  Network network;
  TAPESTRY_FIELDS(network)

  explicit Everything(Network n) : network(std::move(n)) {}
  Tensor operator()(const Tensor& x) const {
    const auto last = [](const Tensor& state) { return state(-1); };
    const auto [output, state] = network(x);
    const Tensor row = reduce_sum(output, 1);
    if constexpr (std::is_same_v<Network, nn::LSTM>) {
      return concat({row, last(state.h), last(state.c)}, -1);
    } else {
      return concat({row, last(state)}, -1);
    }
  }
};

/// An RNN on sequences whose first axis is time, from a state that is not zero.
struct TimeFirst : nn::Module {
  nn::GRU network{3, 4, {.layers = 2, .bias = false, .batch_first = false}};
  TAPESTRY_FIELDS(network)

  Tensor operator()(const Tensor& x) const {
    const Tensor ahead = transpose(x, {1, 0, 2});
    const Tensor start = stack({x(all, 0, range(0, 1)) + zeros({4}, {.dtype = x.dtype(), .device = x.device()}),
                                x(all, 1, range(1, 2)) - ones({4}, {.dtype = x.dtype(), .device = x.device()})});
    return transpose(network(ahead, start).output, {1, 0, 2});
  }
};

/// Cells on the steps of a sequence [batch, 3, 4].
struct Stepped : nn::Module {
  nn::RNNCell rnn{4, 4};
  nn::GRUCell gru{4, 4};
  nn::LSTMCell lstm{4, 4};
  TAPESTRY_FIELDS(rnn, gru, lstm)

  Tensor operator()(const Tensor& x) const {
    Tensor h;
    nn::LSTMState state;
    for (int t = 0; t < 3; ++t) {
      h = gru(rnn(x(all, t), h));
      state = lstm(h, state);
    }
    return concat({h, state.h, state.c}, -1);
  }
};

/// A bilinear layer of both halves of x.
struct Halves : nn::Module {
  nn::Bilinear layer{2, 3, 4};
  TAPESTRY_FIELDS(layer)

  Tensor operator()(const Tensor& x) const { return layer(x(ellipsis, range(0, 2)), x(ellipsis, range(2, 5))); }
};

/// Attention of a sequence on its first two places.
struct Cross : nn::Module {
  nn::MultiHeadAttention attention{6, 2, {.bias = false}};
  TAPESTRY_FIELDS(attention)

  Tensor operator()(const Tensor& x) const {
    const Tensor memory = x(all, range(0, 2));
    return attention(x, memory, -memory, tensor({{true, false}, {true, true}, {false, true}}).to(x.device()));
  }
};

std::vector<Case> cases() {
  using namespace tapestry::nn;
  random::seed(1);
  return {
      {"dense", Sequential(Dense(5, 3)), {5}},
      {"dense without bias", Sequential(Dense(5, 3, {.bias = false})), {5}},
      {"dense on sequences", Sequential(Dense(5, 3)), {4, 5}},
      {"flatten", Sequential(Flatten()), {2, 3, 4}},
      {"flatten, channels first", Sequential(Flatten({.channels_first = true})), {2, 3, 4}},
      {"identity", Sequential(Identity()), {3}},
      {"relu", Sequential(ReLU()), {3}},
      {"sigmoid", Sequential(Sigmoid()), {3}},
      {"tanh", Sequential(Tanh()), {3}},
      {"silu", Sequential(SiLU()), {3}},
      {"elu", Sequential(ELU()), {3}},
      {"softplus", Sequential(Softplus()), {3}},
      {"gelu", Sequential(GELU()), {3}},
      {"gelu, approximate", Sequential(GELU(true)), {3}},
      {"leaky relu", Sequential(LeakyReLU()), {3}},
      {"softmax", Sequential(Softmax()), {3}},
      {"softmax along another axis", Sequential(Softmax(1)), {3, 2}},
      {"log softmax", Sequential(LogSoftmax()), {3}},
      {"convolution", Sequential(Conv2D(2, 4, 3)), {6, 5, 2}},
      {"convolution with everything",
       Sequential(Conv2D(4, 6, {3, 2}, {.stride = {2, 1}, .padding = {1, 1, 2, 2}, .dilation = {1, 2}, .groups = 2})),
       {7, 6, 4}},
      {"convolution by channel",
       Sequential(Conv2D(3, 6, 3, {.padding = "SAME", .groups = 3, .bias = false})),
       {5, 5, 3}},
      {"convolution of sequences", Sequential(Conv1D(2, 4, 3)), {6, 2}},
      {"causal convolution of sequences with everything",
       Sequential(Conv1D(4, 6, 3, {.stride = 2, .padding = {4, 0}, .dilation = 2, .groups = 2, .bias = false})),
       {7, 4}},
      {"convolution of sequences that keep their length", Sequential(Conv1D(2, 3, 4, {.padding = "SAME"})), {7, 2}},
      {"max pool", Sequential(MaxPool2D(2)), {4, 6, 3}},
      {"max pool, padded", Sequential(MaxPool2D(3, {.stride = 2, .padding = 1})), {5, 7, 2}},
      {"average pool", Sequential(AvgPool2D({2, 3}, {.stride = 1, .padding = "SAME"})), {4, 5, 3}},
      {"batch norm of rows", Sequential(Dense(3, 4), BatchNorm(4)), {2, 3}},
      {"batch norm of images", Sequential(BatchNorm(3, {.epsilon = 1e-3, .momentum = 0.3})), {4, 5, 3}},
      {"layer norm", Sequential(LayerNorm(6)), {3, 6}},
      {"group norm of images", Sequential(GroupNorm(2, 6, {.epsilon = 1e-3})), {4, 3, 6}},
      {"group norm of rows", Sequential(Dense(3, 4), GroupNorm(2, 4)), {3}},
      {"instance norm of sequences", Sequential(GroupNorm(3, 3)), {5, 3}},
      {"root mean square norm", Sequential(RMSNorm(6, {.epsilon = 1e-3})), {3, 6}},
      {"dropout", Sequential(Dense(5, 50), Dropout(0.3), Dropout(0)), {5}},
      {"embedding", Sequential(Embedding(11, 4)), {3}, 11},
      {"means of bags", Sequential(EmbeddingBag(11, 4)), {3}, 11},
      {"sums of bags", Sequential(EmbeddingBag(11, 4, {.combiner = Combiner::sum})), {2, 3}, 11},
      {"transposed convolution",
       Sequential(ConvTranspose2D(4, 6, 3, {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2})),
       {4, 3, 4}},
      {"transposed convolution of sequences",
       Sequential(ConvTranspose1D(4, 3, 4, {.stride = 2, .padding = 1})),
       {3, 4}},
      {"pools of sequences", Sequential(MaxPool1D(3, {.stride = 1, .padding = 1}), AvgPool1D(2)), {5, 2}},
      {"upsampling", Sequential(Upsample({2, 3}), Upsample(2, {.method = ResizeMethod::bilinear})), {2, 3, 2}},
      {"slopes", Sequential(PReLU(3), PReLU()), {2, 3}},
      {"bilinear", Sequential(Halves()), {5}},
      {"cells", Sequential(Stepped()), {3, 4}},
      {"mean of an image", Sequential(Conv2D(2, 3, 2), GlobalAvgPool2D()), {4, 4, 2}},
      {"pools of whole images and sequences", Sequential(Conv2D(2, 3, 2), GlobalMaxPool2D()), {4, 4, 2}},
      {"mean over time", Sequential(Dense(2, 3), GlobalAvgPool1D()), {4, 2}},
      {"largest over time", Sequential(Dense(2, 3), GlobalMaxPool1D()), {4, 2}},
      {"parts of images", Sequential(AdaptiveAvgPool2D({3, 2}), AdaptiveMaxPool2D(2)), {5, 4, 2}},
      {"parts of sequences", Sequential(AdaptiveMaxPool1D(4), AdaptiveAvgPool1D(3)), {7, 2}},
      {"convolution of volumes",
       Sequential(Conv3D(2, 4, {2, 3, 1}, {.stride = {1, 2, 1}, .padding = 1, .dilation = {2, 1, 1}, .groups = 2})),
       {3, 4, 2, 2}},
      {"pools of volumes",
       Sequential(Conv3D(1, 2, 2, {.padding = "SAME", .bias = false}), MaxPool3D(2, {.stride = 1}),
                  AvgPool3D({1, 2, 2})),
       {3, 5, 3, 1}},
      {"a small convolutional network",
       Sequential(Conv2D(1, 4, 3, {.padding = 1}), BatchNorm(4), ReLU(), MaxPool2D(2), Dropout(0.2), Flatten(),
                  Dense(4 * 4 * 4, 3)),
       {8, 8, 1}},
      {"rnn", Sequential(Everything(RNN(3, 4))), {5, 3}},
      {"rnn with relu and dropout",
       Sequential(Everything(RNN(3, 4, {.layers = 3, .dropout = 0.4}, Nonlinearity::relu))),
       {5, 3}},
      {"lstm", Sequential(Everything(LSTM(3, 4, {.layers = 2}))), {5, 3}},
      {"lstm, both ways",
       Sequential(Everything(LSTM(3, 4, {.layers = 2, .bidirectional = true, .dropout = 0.3}))),
       {5, 3}},
      {"gru", Sequential(Everything(GRU(3, 4))), {5, 3}},
      {"gru, time first", Sequential(TimeFirst()), {5, 3}},
      {"attention", Sequential(MultiHeadAttention(6, 3)), {4, 6}},
      {"causal attention with dropout", Sequential(MultiHeadAttention(6, 2, {.causal = true, .dropout = 0.2})), {4, 6}},
      {"attention on something else", Sequential(Cross()), {3, 6}},
      {"transformer block", Sequential(TransformerBlock(8, 2, 12)), {3, 8}},
      {"causal transformer block, norm first",
       Sequential(
           TransformerBlock(8, 4, 12, {.causal = true, .norm_first = true, .activation = FeedForwardActivation::gelu})),
       {3, 8}},
      {"a small language model",
       Sequential(Embedding(7, 8), TransformerBlock(8, 2, 16, {.causal = true}), Dense(8, 7)),
       {5},
       7},
      {"nested sequential", Sequential(Dense(4, 3), Sequential(Tanh(), Dense(3, 2)), Sigmoid()), {4}},
  };
}

Shape with_batch(std::int64_t batch, const Shape& row) {
  Shape shape{batch};
  for (const std::int64_t size : row) shape.push_back(size);
  return shape;
}

Tensor input_for(const Case& each, std::int64_t batch) {
  const Shape shape = with_batch(batch, each.row);
  return each.classes > 0 ? random::randint(0, each.classes, shape) : random::normal(shape);
}

/// The loss, the gradient of the input (if it has one), and those of the parameters, which are then applied.
std::vector<Tensor> step(const nn::Sequential& net, train::Optimizer& optimizer, const Tensor& x) {
  GradientTape tape;
  if (is_floating(x.dtype())) tape.watch(x);
  const Tensor y = net(x);
  const Tensor loss = reduce_mean(square(y) + y);
  std::vector<Source> sources;
  if (is_floating(x.dtype())) sources.emplace_back(x);
  const std::vector<Variable> parameters = net.parameters();
  sources.insert(sources.end(), parameters.begin(), parameters.end());
  std::vector<Tensor> results = tape.gradient(loss, sources);
  if (!parameters.empty())
    optimizer.apply_gradients(
        std::vector<Tensor>(results.end() - static_cast<std::ptrdiff_t>(parameters.size()), results.end()), parameters);
  results.push_back(y);
  results.push_back(loss);
  return results;
}

void check_same_states(const StateDict& a, const StateDict& b) {
  REQUIRE(a.size() == b.size());
  for (const auto& entry : a) {  // clang 14 cannot capture the names of a structured binding
    INFO(entry.first);
    CHECK(same_bits(entry.second, b.at(entry.first)));
  }
}

TEST_CASE("every layer eagerly and traced, training and not, for batches of any size") {
  for (const Case& each : cases())
    for (const bool training : {true, false}) {
      INFO(each.name, ", training: ", training);
      nn::Sequential eager = each.net, traced_net = each.net;
      eager.train(training);
      traced_net.train(training);
      train::MomentumOptimizer optimizer(0.1, 0.9), traced_optimizer(0.1, 0.9);
      const auto traced = trace([&](const Tensor& x) { return step(traced_net, traced_optimizer, x); },
                                {spec(each.classes > 0 ? int64 : float32, with_batch(-1, each.row))});
      for (const std::int64_t batch : {4, 1, 7}) {
        const Tensor x = input_for(each, batch);
        random::seed(static_cast<std::uint64_t>(batch));
        const std::vector<Tensor> expected = step(eager, optimizer, x);
        random::seed(static_cast<std::uint64_t>(batch));
        const std::vector<Tensor> results = traced(x);
        REQUIRE(results.size() == expected.size());
        for (std::size_t i = 0; i < results.size(); ++i) {
          INFO("batch ", batch, ", result ", i);
          CHECK(same_bits(results[i], expected[i]));
        }
      }
      check_same_states(traced_net.state_dict(), eager.state_dict());
    }
}

TEST_CASE("every layer in a graph that knows the batch gives the shapes that eager mode gives") {
  for (const Case& each : cases()) {
    INFO(each.name);
    nn::Sequential net = each.net;
    const Tensor x = input_for(each, 3);
    const auto traced = trace([&](const Tensor& t) { return net(t); }, {spec(x.dtype(), x.shape())});
    CHECK(traced.output().shape() == net(x).shape());
    const auto open = trace([&](const Tensor& t) { return net(t); }, {spec(x.dtype(), with_batch(-1, each.row))});
    Shape expected = net(x).shape();
    expected.set(0, -1);
    CHECK(open.output().shape() == expected);
  }
}

TEST_CASE("every layer loads its own state and is copied") {
  for (const Case& each : cases()) {
    INFO(each.name);
    nn::Sequential net = each.net, other = each.net;
    net.eval();
    other.eval();
    for (Variable& parameter : other.parameters()) parameter.assign(random::normal(parameter.shape()));
    check_same_states(net.state_dict(), each.net.state_dict());
    other.load_state_dict(net.state_dict());
    const Tensor x = input_for(each, 2);
    CHECK(same_bits(other(x), net(x)));
    other = nn::Sequential();
    other = net;
    CHECK(same_bits(other(x), net(x)));
  }
}

TEST_CASE("every layer in float64: its gradients against differences") {
  for (const Case& each : cases()) {
    if (each.classes > 0) continue;
    INFO(each.name);
    nn::Sequential net = each.net;
    net.to(float64);
    net.eval();
    const Tensor x = input_for(each, 2).cast(float64);
    const auto loss = [&](const Tensor& at) {
      const Tensor y = net(at);
      CHECK(y.dtype() == float64);
      return reduce_sum(square(y) + y);
    };
    const Tensor direction = random::normal(x.shape(), {.dtype = float64});
    const double along = reduce_sum(grad(loss)(x) * direction).item<double>(), h = 1e-6;
    const double difference =
        (loss(x + h * direction).item<double>() - loss(x - h * direction).item<double>()) / (2 * h);
    CHECK(agree(along, difference, 1e-6));
  }
}

TEST_CASE("every layer on another device, with its step") {
  const Device toy = toy_device();
  for (const Case& each : cases()) {
    INFO(each.name);
    nn::Sequential net = each.net, moved = each.net;
    moved.to(toy);
    train::MomentumOptimizer optimizer(0.1, 0.9), moved_optimizer(0.1, 0.9);
    const Tensor x = input_for(each, 3);
    random::seed(9);
    const std::vector<Tensor> expected = step(net, optimizer, x);
    random::seed(9);
    const std::vector<Tensor> results = step(moved, moved_optimizer, x.to(toy));
    REQUIRE(results.size() == expected.size());
    for (std::size_t i = 0; i < results.size(); ++i) {
      CHECK(results[i].device() == toy);
      CHECK(same_bits(results[i], expected[i]));
    }
    moved.to(cpu());
    check_same_states(moved.state_dict(), net.state_dict());
  }
}

TEST_CASE("every layer in a graph that is built by hand, copied there or before") {
  for (const Case& each : cases()) {
    INFO(each.name);
    nn::Sequential before = each.net;
    before.eval();
    const Tensor x = input_for(each, 3), expected = before(x);
    const Graph graph;
    const Graph::Scope scope(graph);
    const nn::Sequential copied_there = before;
    const Tensor in = placeholder(x.dtype(), with_batch(-1, each.row));
    Session session(graph);
    CHECK(same_bits(session.run(before(in), {{in, x}}), expected));
    CHECK(same_bits(session.run(copied_there(in), {{in, x}}), expected));
  }
}

TEST_CASE("attention in a graph that knows neither batch nor time") {
  random::seed(5);
  nn::Sequential net{nn::TransformerBlock(8, 2, 16, {.causal = true}), nn::MultiHeadAttention(8, 4), nn::Dense(8, 3)};
  net.eval();
  const auto traced = trace([&](const Tensor& x) { return net(x); }, {spec(float32, {-1, -1, 8})});
  for (const Shape& shape : {Shape{2, 3, 8}, Shape{1, 7, 8}, Shape{5, 1, 8}}) {
    const Tensor x = random::normal(shape);
    CHECK(same_bits(traced(x), net(x)));
  }
}

TEST_CASE("an attention makes as many tensors for many heads as for two: the heads are views") {
  const Tensor x = ones({2, 50, 64});
  const auto made = [&](std::int64_t heads) {
    const nn::MultiHeadAttention attention(64, heads);
    GradientTape tape;
    tape.watch(x);
    const std::int64_t before = memory_stats().allocations;
    tape.gradient(attention(x), x);
    return memory_stats().allocations - before;
  };
  CHECK(made(16) == made(2));
}

TEST_CASE("what comes later does not change what a causal block gives") {
  random::seed(6);
  nn::TransformerBlock block(8, 2, 16, {.causal = true});
  block.eval();
  const Tensor x = random::normal({2, 6, 8});
  const Tensor other = concat({x(all, range(0, 4)), random::normal({2, 2, 8})}, 1);
  check_same(block(other)(all, range(0, 4)), block(x)(all, range(0, 4)), 1e-6);
  CHECK_FALSE(same_bits(block(other)(all, 5).contiguous(), block(x)(all, 5).contiguous()));
}

TEST_CASE("the names of recurrent networks and of attention are PyTorch's") {
  const auto names = [](const nn::Module& module) {
    std::string list;
    for (const auto& [name, value] : module.named_parameters()) list += (list.empty() ? "" : " ") + name;
    return list;
  };
  CHECK(names(nn::GRU(1, 1, {.layers = 2})) ==
        "weight_ih_l0 weight_hh_l0 bias_ih_l0 bias_hh_l0 weight_ih_l1 weight_hh_l1 bias_ih_l1 bias_hh_l1");
  CHECK(names(nn::RNN(1, 1, {.layers = 2, .bias = false, .bidirectional = true})) ==
        "weight_ih_l0 weight_hh_l0 weight_ih_l0_reverse weight_hh_l0_reverse "
        "weight_ih_l1 weight_hh_l1 weight_ih_l1_reverse weight_hh_l1_reverse");
  CHECK(names(nn::LSTM(1, 1, {.bias = false})) == "weight_ih_l0 weight_hh_l0");
  CHECK(names(nn::TransformerBlock(2, 1, 3)) ==
        "self_attn.in_proj_weight self_attn.in_proj_bias self_attn.out_proj.weight self_attn.out_proj.bias "
        "linear1.weight linear1.bias linear2.weight linear2.bias norm1.weight norm1.bias norm2.weight norm2.bias");
}

TEST_CASE("a layer adds a name scope to a graph, and its errors name the caller's line") {
  nn::Sequential net(nn::Dense(2, 3), nn::ReLU());
  const auto traced = trace([&](const Tensor& x) { return net(x); }, {spec(float32, {-1, 2})});
  CHECK(traced.graph().has_operation("Sequential/0/MatMul"));
  CHECK(traced.graph().has_operation("Sequential/1/Relu"));
  const auto error = caught<InvalidArgumentError>([&] { net(zeros({1, 3})); });
  CHECK(std::string(error.what()).find("Matrix size-incompatible: In[0]: [1,3], In[1]: [3,2]") != std::string::npos);
  CHECK(place(error) == to_string(Where{__FILE__, __LINE__ - 2}));
}

TEST_CASE("group normalization and a convolution along time, against plain loops") {
  const Tensor x = numbers({2, 5, 6}, -1, 2, 1);
  nn::GroupNorm norm(3, 6, {.epsilon = 0.1});
  norm.to(float64);
  norm.weight.assign(numbers({6}, 0.5, 2, 2));
  norm.bias.assign(numbers({6}, -1, 1, 3));
  const auto w = norm.weight.value().to_vector<double>(), b = norm.bias.value().to_vector<double>();
  const auto in = x.to_vector<double>(), found = norm(x).to_vector<double>();
  for (std::size_t example = 0; example < 2; ++example)
    for (std::size_t group = 0; group < 3; ++group) {
      const auto place = [&](std::size_t i) { return (example * 5 + i / 2) * 6 + group * 2 + i % 2; };
      double mean = 0, variance = 0;
      for (std::size_t i = 0; i < 10; ++i) mean += in[place(i)] / 10;
      for (std::size_t i = 0; i < 10; ++i) variance += (in[place(i)] - mean) * (in[place(i)] - mean) / 10;
      for (std::size_t i = 0; i < 10; ++i) {
        const std::size_t channel = place(i) % 6;
        const double expected = (in[place(i)] - mean) / std::sqrt(variance + 0.1) * w[channel] + b[channel];
        CHECK(found[place(i)] == doctest::Approx(expected));
      }
    }

  nn::Conv1D layer(6, 4, 2, {.stride = 2, .padding = {3, 1}, .dilation = 2, .groups = 2});
  layer.to(float64);
  const auto weight = layer.weight.value().to_vector<double>(), bias = layer.bias->value().to_vector<double>();
  const Tensor y = layer(x);
  REQUIRE(y.shape() == Shape{2, 4, 4});  // (5 + 4 - 3) / 2 + 1
  const auto out = y.to_vector<double>();
  for (std::int64_t i = 0; i < y.size(); ++i) {
    const std::int64_t example = i / 16, time = i / 4 % 4, channel = i % 4, first = channel / 2 * 3;
    double sum = bias[static_cast<std::size_t>(channel)];
    for (std::int64_t k = 0; k < 2; ++k)
      for (std::int64_t c = 0; c < 3; ++c)
        if (const std::int64_t from = 2 * time + 2 * k - 3; from >= 0 && from < 5)
          sum += weight[static_cast<std::size_t>((channel * 3 + c) * 2 + k)] *
                 in[static_cast<std::size_t>((example * 5 + from) * 6 + first + c)];
    CHECK(out[static_cast<std::size_t>(i)] == doctest::Approx(sum));
  }
}

TEST_CASE("root mean square normalization") {
  nn::RMSNorm layer(2, {.epsilon = 0.5});
  layer.weight.assign({1.0, -3.0});
  const double root = std::sqrt(12.5 + 0.5);
  const std::vector<float> y = layer(tensor({{3.0f, 4.0f}})).to_vector<float>();
  CHECK(y[0] == doctest::Approx(3 / root));
  CHECK(y[1] == doctest::Approx(-12 / root));
  CHECK(message_of<InvalidArgumentError>([] { nn::RMSNorm(0); }) == "RMSNorm: features must be at least 1, but is 0");
}

TEST_CASE("sizes that make no sense") {
  CHECK(message_of<InvalidArgumentError>([] { nn::GroupNorm(3, 4); }) ==
        "GroupNorm: 3 groups do not divide 4 channels");
  CHECK(message_of<InvalidArgumentError>([] { nn::GroupNorm(0, 4); }) ==
        "GroupNorm: groups must be at least 1, but is 0");
  CHECK(message_of<InvalidArgumentError>([] { nn::Conv1D(2, 2, 0); }) ==
        "Conv1D: the window must be at least 1, but is 0");
  CHECK(message_of<InvalidArgumentError>([] { nn::Conv1D(4, 3, 1, {.groups = 2}); }) ==
        "Conv1D: 2 groups do not divide 4 and 3 channels");
  CHECK(message_of<InvalidArgumentError>([] { nn::Dense(0, 1); }) == "Dense: in must be at least 1, but is 0");
  CHECK(message_of<InvalidArgumentError>([] { nn::Dense(1, -2); }) == "Dense: out must be at least 1, but is -2");
  CHECK(message_of<InvalidArgumentError>([] { nn::Conv2D(4, 6, 3, {.groups = 4}); }) ==
        "Conv2D: 4 groups do not divide 4 and 6 channels");
  CHECK(message_of<InvalidArgumentError>([] { nn::ConvTranspose2D(4, 0, 3); }) ==
        "ConvTranspose2D: out must be at least 1, but is 0");
  CHECK_THROWS_AS(nn::GlobalAvgPool2D()(zeros({2, 3})), InvalidArgumentError);
  CHECK(message_of<InvalidArgumentError>([] {
          nn::GlobalMaxPool1D()(zeros({2, 3}));
        }) == "GlobalMaxPool1D got [2,3]: x must be [batch, time, channels], but its shape is [2,3]");
  CHECK(message_of<InvalidArgumentError>([] {
          nn::Conv3D(1, 1, {0, 2, 2});
        }) == "Conv3D: the window's depth must be at least 1, but is 0");
  CHECK(message_of<InvalidArgumentError>([] {
          nn::AdaptiveAvgPool2D({2, 0});
        }) == "AdaptiveAvgPool2D: the number of parts must be at least 1, but is 0");
  CHECK(
      message_of<InvalidArgumentError>([] {
        nn::Conv3D(1, 2, {3, 1, 1})(zeros({1, 2, 4, 4, 1}));
      }) ==
      "Conv3D(1, 2, {3, 1, 1}) got [1,2,4,4,1]: a filter that reaches over a depth of 3 does not fit the depth 2 with "
      "a padding of 0 and 0");
  CHECK(message_of<InvalidArgumentError>([] {
          nn::Conv2D(4, 6, {3, 0});
        }) == "Conv2D: the window's width must be at least 1, but is 0");
  CHECK(message_of<InvalidArgumentError>([] { nn::BatchNorm(0); }) ==
        "BatchNorm: channels must be at least 1, but is 0");
  CHECK(message_of<InvalidArgumentError>([] { nn::LayerNorm(0); }) ==
        "LayerNorm: features must be at least 1, but is 0");
  CHECK(message_of<InvalidArgumentError>([] { nn::Embedding(2, 0); }) ==
        "Embedding: features must be at least 1, but is 0");
  CHECK(message_of<InvalidArgumentError>([] { nn::Dropout(1); }) ==
        "Dropout: the rate must be in [0, 1), but is 1.000000");
  CHECK(message_of<InvalidArgumentError>([] {
          nn::BatchNorm(3)(zeros({2, 4}));
        }) == "BatchNorm(3) got [2,4]: x must be [..., 3], but its shape is [2,4]");
  CHECK(message_of<InvalidArgumentError>([] {
          nn::BatchNorm(3)(zeros({1, 3}));
        }) == "BatchNorm(3) got [1,3]: one value per channel is too few to learn from, the shape is [1,3]");
  CHECK(message_of<InvalidArgumentError>([] { nn::GRU(2, 0); }) == "Recurrent: hidden must be at least 1, but is 0");
  CHECK(message_of<InvalidArgumentError>([] {
          nn::GRU(2, 3)(zeros({4, 5, 3}));
        }) == "GRU(2, 3) got [4,5,3]: x must be [batch, time, 2], but its shape is [4,5,3]");
  CHECK(message_of<InvalidArgumentError>([] {
          nn::RNN(2, 3)(zeros({4, 5, 2}), zeros({1, 3, 3}));
        }) == "RNN(2, 3) got [4,5,2]: The state must be [layers, batch, hidden] = [1,4,3], but its shape is [1,3,3]");
  CHECK(message_of<InvalidArgumentError>([] {
          nn::RNN(2, 3)(zeros({4, 0, 2}));
        }) == "RNN(2, 3) got [4,0,2]: There must be at least one time step: [4,0,2]");
  CHECK(message_of<InvalidArgumentError>([] { nn::MultiHeadAttention(4, 3); }) ==
        "MultiHeadAttention: 3 heads do not divide 4 features");
  CHECK(message_of<InvalidArgumentError>([] {
          nn::MultiHeadAttention(4, 2)(zeros({2, 4}));
        }) ==
        "MultiHeadAttention(4, 2) got [2,4], [2,4], [2,4]: The query must be [batch, time, 4], but the shape is [2,4]");
  CHECK_THROWS_AS(nn::Embedding(2, 3)({0, 2}), InvalidArgumentError);
  CHECK(message_of<InvalidArgumentError>([] { nn::Flatten()(1.0); }) == "Flatten got []: x must have a batch axis");
}

TEST_CASE("one value per channel is refused where a graph learns of it") {
  const nn::BatchNorm layer(3);
  const auto traced = trace(layer, {spec(float32, {-1, 3})});
  CHECK(traced(ones({2, 3})).shape() == Shape{2, 3});
  const Tensor before = layer.running_mean.value() * 1.0;
  TAPESTRY_REFUSED(InvalidArgumentError, "one value per channel is too few to learn from, the shape is [1,3]",
                   traced(ones({1, 3})));
  CHECK(same_bits(layer.running_mean.value(), before));
}

TEST_CASE("a sequential's modules") {
  nn::Sequential net{nn::Dense(2, 3), nn::ReLU()};
  net.add(nn::Dense(3, 1));
  CHECK(net.size() == 3);
  CHECK(net.at<nn::Dense>(2).weight.shape() == Shape{1, 3});
  CHECK(net.named_parameters()[2].first == "2.weight");
  CHECK(message_of<OutOfRangeError>([&] { net.at<nn::Dense>(3); }) == "There is no module 3 in a Sequential of 3");
  CHECK(message_of<InvalidArgumentError>([&] { net.at<nn::Dense>(1); }) ==
        "The module 1 of the Sequential is of the class ReLU");
  const Variable weight = net.at<nn::Dense>(0).weight;
  nn::Sequential other{nn::Dense(2, 3), nn::Tanh(), nn::Dense(3, 1)};
  net = other;  // modules of the same class keep their Variables
  CHECK(net.at<nn::Dense>(0).weight.is(weight));
  CHECK(net.at<nn::Tanh>(1).training());
  CHECK(same_bits(net(ones({1, 2})), other(ones({1, 2}))));
  CHECK(same_bits(nn::Sequential()(ones({2})), ones({2})));
}

TEST_CASE("the summary") {
  struct Net : nn::Module {
    nn::Dense hidden{784, 128}, forgotten{2, 2};
    std::vector<nn::Sequential> heads{nn::Sequential(nn::ReLU(), nn::Dense(128, 10))};
    nn::Parameter scale{1.0};
    TAPESTRY_FIELDS(hidden, forgotten, heads, scale)
    Tensor operator()(const Tensor& x) const { return heads[0](hidden(x)) * scale; }
  };
  const Net net;
  CHECK(nn::summary(net, spec(float32, {-1, 784})) ==
        "Name       Layer  Output shape  Parameters\n"
        "-          Net                           1\n"
        "hidden     Dense  [?,128]          100,480\n"
        "forgotten  Dense                         6\n"
        "heads.0.0  ReLU   [?,128]                0\n"
        "heads.0.1  Dense  [?,10]             1,290\n"
        "Net: 101,777 parameters, 407,108 bytes with all buffers\n");
  CHECK(nn::summary(nn::Dense(1, 1)) ==
        "Name  Layer  Output shape  Parameters\n"
        "-     Dense                         2\n"
        "Dense: 2 parameters, 8 bytes with all buffers\n");
}

}  // namespace

}  // namespace nn_layers_test
