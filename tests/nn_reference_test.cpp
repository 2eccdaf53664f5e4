// Layers against loops in double that are written from their definitions.

#include "expect.hpp"
#include "tapestry/tapestry.hpp"

namespace nn_reference_test {

using namespace tapestry;
using namespace tapestry::test;

namespace {

constexpr double tolerance = 1e-12;

Tensor normal(const Shape& shape) { return random::normal(shape, {.dtype = float64}); }

/// An array with its shape, for loops.
struct Array {
  std::vector<std::int64_t> shape;
  std::vector<double> numbers;

  explicit Array(std::vector<std::int64_t> sizes) : shape(std::move(sizes)) {
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    numbers.assign(static_cast<std::size_t>(count), 0.0);
  }
  explicit Array(const Tensor& tensor) : shape(tensor.shape().to_vector()), numbers(values(tensor)) {}

  template <class... Index>
  double& operator()(Index... index) {
    std::size_t place = 0, axis = 0;
    for (const std::int64_t i : {static_cast<std::int64_t>(index)...})
      place = place * static_cast<std::size_t>(shape[axis++]) + static_cast<std::size_t>(i);
    return numbers[place];
  }
};

void check_array(const Tensor& actual, const Array& expected) {
  REQUIRE(actual.shape().to_vector() == expected.shape);
  check_values(actual, expected.numbers, tolerance);
}

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

TEST_CASE("dense") {
  nn::Dense layer(3, 2);
  layer.to(float64);
  const Tensor input = normal({4, 3});
  Array x(input), w(layer.weight.value()), b(layer.bias->value()), y({4, 2});
  for (int i = 0; i < 4; ++i)
    for (int out = 0; out < 2; ++out) {
      y(i, out) = b(out);
      for (int in = 0; in < 3; ++in) y(i, out) += x(i, in) * w(out, in);
    }
  check_array(layer(input), y);
}

TEST_CASE("flatten keeps PyTorch's order when it is asked to") {
  const Tensor image = normal({2, 3, 4, 5});
  Array x(image), rows({2, 60}), channels_first({2, 60});
  for (int n = 0; n < 2; ++n)
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 4; ++j)
        for (int c = 0; c < 5; ++c) {
          rows(n, (i * 4 + j) * 5 + c) = x(n, i, j, c);
          channels_first(n, (c * 3 + i) * 4 + j) = x(n, i, j, c);
        }
  check_array(nn::Flatten()(image), rows);
  check_array(nn::Flatten({.channels_first = true})(image), channels_first);
}

TEST_CASE("convolution with stride, padding, dilation and groups") {
  constexpr int groups = 2, in = 4, out = 6, height = 7, width = 8;
  nn::Conv2D layer(in, out, {3, 2}, {.stride = {2, 1}, .padding = {1, 1, 2, 2}, .dilation = {1, 2}, .groups = groups});
  layer.to(float64);
  const Tensor image = normal({2, height, width, in});
  Array x(image), w(layer.weight.value()), b(layer.bias->value()), y({2, 4, 10, out});
  for (int n = 0; n < 2; ++n)
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 10; ++j)
        for (int o = 0; o < out; ++o) {
          const int group = o / (out / groups);
          y(n, i, j, o) = b(o);
          for (int c = 0; c < in / groups; ++c)
            for (int di = 0; di < 3; ++di)
              for (int dj = 0; dj < 2; ++dj) {
                const int row = 2 * i - 1 + di, column = j - 2 + 2 * dj;
                if (row >= 0 && row < height && column >= 0 && column < width)
                  y(n, i, j, o) += x(n, row, column, group * (in / groups) + c) * w(o, c, di, dj);
              }
        }
  check_array(layer(image), y);
}

TEST_CASE("pools") {
  const Tensor image = normal({2, 5, 6, 3});
  Array x(image), largest({2, 3, 3, 3}), mean({2, 3, 3, 3});
  for (int n = 0; n < 2; ++n)
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 3; ++j)
        for (int c = 0; c < 3; ++c) {
          double sum = 0, most = -infinity;
          int count = 0;
          for (int row = std::max(0, 2 * i - 1); row < std::min(5, 2 * i + 2); ++row)
            for (int column = std::max(0, 2 * j - 1); column < std::min(6, 2 * j + 2); ++column) {
              sum += x(n, row, column, c);
              most = std::max(most, x(n, row, column, c));
              ++count;
            }
          largest(n, i, j, c) = most;
          mean(n, i, j, c) = sum / count;
        }
  check_array(nn::MaxPool2D(3, {.stride = 2, .padding = 1})(image), largest);
  check_array(nn::AvgPool2D(3, {.stride = 2, .padding = 1})(image), mean);
}

TEST_CASE("batch normalization and its running statistics") {
  nn::BatchNorm layer(2, {.epsilon = 1e-3, .momentum = 0.25});
  layer.weight.assign({2.0, 3.0});
  layer.bias.assign({-1.0, 1.0});
  layer.to(float64);
  double running_mean[2] = {0, 0}, running_var[2] = {1, 1};
  for (int step = 0; step < 3; ++step) {
    const Tensor batch = normal({2, 3, 4, 2}) * 2.0 + 1.0;
    Array x(batch), y({2, 3, 4, 2});
    for (int c = 0; c < 2; ++c) {
      double mean = 0, squares = 0;
      for (int i = 0; i < 24; ++i) mean += x.numbers[static_cast<std::size_t>(2 * i + c)] / 24;
      for (int i = 0; i < 24; ++i) squares += std::pow(x.numbers[static_cast<std::size_t>(2 * i + c)] - mean, 2);
      for (int i = 0; i < 24; ++i) {
        const auto place = static_cast<std::size_t>(2 * i + c);
        y.numbers[place] =
            (x.numbers[place] - mean) / std::sqrt(squares / 24 + 1e-3) * (c == 0 ? 2 : 3) + (c == 0 ? -1 : 1);
      }
      running_mean[c] = 0.75 * running_mean[c] + 0.25 * mean;
      running_var[c] = 0.75 * running_var[c] + 0.25 * squares / 23;
    }
    check_array(layer(batch), y);
    check_values(layer.running_mean, {running_mean[0], running_mean[1]}, tolerance);
    check_values(layer.running_var, {running_var[0], running_var[1]}, tolerance);
    CHECK(layer.num_batches_tracked.value().item<std::int64_t>() == step + 1);
  }
  layer.eval();
  const double expected = (5 - running_mean[1]) / std::sqrt(running_var[1] + 1e-3) * 3 + 1;
  CHECK(agree(layer(full({1, 2}, 5.0, {.dtype = float64}))(0, 1).item<double>(), expected, tolerance));
  CHECK(layer.num_batches_tracked.value().item<std::int64_t>() == 3);
}

TEST_CASE("a batch without values leaves the running statistics as they are") {
  nn::BatchNorm layer(2);
  layer.running_mean.assign({0.5, -0.1});
  layer.running_var.assign({2.0, 0.3});
  const Tensor mean = layer.running_mean.value(), variance = layer.running_var.value();
  const auto f = [&](Tensor x) { return layer(x); };
  std::int64_t count = 0;
  for (const Shape& shape : {Shape{0, 2}, Shape{0, 3, 4, 2}, Shape{5, 0, 4, 2}}) {
    CAPTURE(shape);
    const Tensor none = zeros(shape);
    const Shape unknown = shape.rank() == 2 ? Shape{-1, 2} : Shape{-1, -1, -1, 2};
    CHECK(layer(none).shape() == shape);
    CHECK(trace(f, {spec(float32, shape)})(none).shape() == shape);
    CHECK(trace(f, {spec(float32, unknown)})(none).shape() == shape);
    CHECK(same_bits(layer.running_mean, mean));
    CHECK(same_bits(layer.running_var, variance));
    CHECK(layer.num_batches_tracked.value().item<std::int64_t>() == (count += 3));
  }
  nn::BatchNorm traced = layer;
  const Tensor some = random::normal({5, 2});
  layer(some);
  trace([&](Tensor x) { return traced(x); }, {spec(float32, {-1, 2})})(some);
  CHECK_FALSE(same_bits(layer.running_mean, mean));
  CHECK(same_bits(layer.state_dict(), traced.state_dict()));
}

TEST_CASE("a tape does not see the running statistics") {
  nn::BatchNorm layer(2);
  GradientTape tape({.persistent = true});
  const Tensor x = random::normal({5, 2});
  tape.watch(x);
  const Tensor y = layer(x);
  CHECK(tape.watched_variables().size() == 2);
  CHECK_FALSE(tape.gradient(layer.running_mean.value(), x));
  CHECK_FALSE(tape.gradient(layer.running_var.value(), layer.weight));
}

TEST_CASE("layer normalization") {
  nn::LayerNorm layer(4);
  layer.weight.assign({1.0, 2.0, 3.0, 4.0});
  layer.bias.assign({0.0, 1.0, 0.0, -1.0});
  layer.to(float64);
  const Tensor input = normal({3, 4});
  Array x(input), w(layer.weight.value()), b(layer.bias.value()), y({3, 4});
  for (int i = 0; i < 3; ++i) {
    double mean = 0, variance = 0;
    for (int j = 0; j < 4; ++j) mean += x(i, j) / 4;
    for (int j = 0; j < 4; ++j) variance += std::pow(x(i, j) - mean, 2) / 4;
    for (int j = 0; j < 4; ++j) y(i, j) = (x(i, j) - mean) / std::sqrt(variance + 1e-5) * w(j) + b(j);
  }
  check_array(layer(input), y);
}

TEST_CASE("dropout drops the part that it should, and keeps the mean") {
  random::seed(4);
  nn::Dropout layer(0.3);
  const Tensor y = layer(ones({200, 500}));
  const double dropped = reduce_mean(equal(y, 0)).item<double>();
  CHECK(std::abs(dropped - 0.3) < 0.01);
  CHECK(std::abs(reduce_mean(y).item<double>() - 1) < 0.02);
  CHECK(reduce_max(y).item<float>() == doctest::Approx(1 / 0.7));
  CHECK_FALSE(same_bits(layer(ones({200, 500})), y));
  layer.eval();
  CHECK(same_bits(layer(ones({2, 3})), ones({2, 3})));
}

TEST_CASE("embedding") {
  const nn::Embedding layer(5, 3);
  Array w(layer.weight.value()), y({2, 2, 3});
  const int ids[2][2] = {{4, 0}, {2, 4}};
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j)
      for (int k = 0; k < 3; ++k) y(i, j, k) = w(ids[i][j], k);
  check_array(layer({{4, 0}, {2, 4}}), y);
}

TEST_CASE("bags of embeddings") {
  const int ids[3][3] = {{4, -1, 0}, {2, 2, 4}, {-1, -7, -1}};
  const double weights[3][3] = {{0.5, 7, -2}, {1, 3, 0.25}, {1, 1, 1}};
  const Tensor bags = tensor({{4, -1, 0}, {2, 2, 4}, {-1, -7, -1}});
  const Tensor given = tensor({{0.5, 7.0, -2.0}, {1.0, 3.0, 0.25}, {1.0, 1.0, 1.0}});
  for (const nn::Combiner combiner : {nn::Combiner::sum, nn::Combiner::mean})
    for (const bool weighted : {false, true}) {
      const nn::EmbeddingBag layer(5, 2, {.combiner = combiner});
      Array w(layer.weight.value()), y({3, 2});
      for (int i = 0; i < 3; ++i)
        for (int k = 0; k < 2; ++k) {
          double total = 0;
          for (int j = 0; j < 3; ++j) {
            if (ids[i][j] < 0) continue;
            const double share = weighted ? weights[i][j] : 1;
            total += share;
            y(i, k) += share * w(ids[i][j], k);
          }
          if (combiner == nn::Combiner::mean && total != 0) y(i, k) /= total;
        }
      check_values(weighted ? layer(bags, given) : layer(bags), y.numbers, 1e-6);
    }
}

/// The sums of a recurrent layer's gates for one example: W x + b, and W h + b.
std::vector<double> gates_of(const nn::Parameter& weight, const nn::Parameter& bias, const std::vector<double>& x) {
  Array w(weight.value()), b(bias.value());
  std::vector<double> sums = b.numbers;
  for (std::size_t i = 0; i < sums.size(); ++i)
    for (std::size_t j = 0; j < x.size(); ++j) sums[i] += w(i, j) * x[j];
  return sums;
}

/// Runs one layer over a sequence [time, in] from zeros; `cell` makes the next h from the sums of the gates.
template <class Cell>
Array loop_over_time(const nn::Recurrent& network, const Tensor& sequence, std::size_t hidden, Cell cell) {
  const nn::Recurrent::Weights& weights = network.layers[0];
  std::vector<double> h(hidden);
  Array outputs({sequence.shape()[0], static_cast<std::int64_t>(hidden)});
  for (std::int64_t t = 0; t < sequence.shape()[0]; ++t) {
    const std::vector<double> from_x = gates_of(weights.weight_ih, *weights.bias_ih, values(sequence(t)));
    const std::vector<double> from_h = gates_of(weights.weight_hh, *weights.bias_hh, h);
    for (std::size_t k = 0; k < hidden; ++k) h[k] = cell(from_x, from_h, h[k], k);
    for (std::size_t k = 0; k < hidden; ++k) outputs(t, k) = h[k];
  }
  return outputs;
}

TEST_CASE("recurrent networks") {
  constexpr std::size_t n = 4;
  using Gates = std::vector<double>;
  const Tensor x = normal({2, 5, 3});
  nn::RNN rnn(3, n);
  nn::GRU gru(3, n);
  nn::LSTM lstm(3, n);
  rnn.to(float64);
  gru.to(float64);
  lstm.to(float64);
  for (int example = 0; example < 2; ++example) {
    const Tensor sequence = x(example);
    check_array(rnn(x).output(example),
                loop_over_time(rnn, sequence, n, [](const Gates& i, const Gates& h, double, std::size_t k) {
                  return std::tanh(i[k] + h[k]);
                }));
    check_array(gru(x).output(example),
                loop_over_time(gru, sequence, n, [](const Gates& i, const Gates& h, double before, std::size_t k) {
                  const double r = sigmoid_of(i[k] + h[k]), z = sigmoid_of(i[n + k] + h[n + k]);
                  const double candidate = std::tanh(i[2 * n + k] + r * h[2 * n + k]);
                  return (1 - z) * candidate + z * before;
                }));
    std::vector<double> c(n);
    check_array(lstm(x).output(example),
                loop_over_time(lstm, sequence, n, [&](const Gates& i, const Gates& h, double, std::size_t k) {
                  const auto gate = [&](std::size_t place) { return i[place * n + k] + h[place * n + k]; };
                  c[k] = sigmoid_of(gate(1)) * c[k] + sigmoid_of(gate(0)) * std::tanh(gate(2));
                  return sigmoid_of(gate(3)) * std::tanh(c[k]);
                }));
    check_values(lstm(x).state.c(0, example), c, tolerance);
    check_same(lstm(x).state.h(0, example), lstm(x).output(example, -1));
  }
}

TEST_CASE("causal attention of two heads") {
  constexpr int features = 4, heads = 2, size = features / heads, time = 3;
  nn::MultiHeadAttention layer(features, heads, {.causal = true});
  layer.in_proj_bias->assign(random::normal({3 * features}));
  layer.to(float64);
  const Tensor input = normal({1, time, features});
  Array x(input), w(layer.in_proj_weight.value()), b(layer.in_proj_bias->value()), wo(layer.out_proj.weight.value()),
      bo(layer.out_proj.bias->value());
  Array projected({time, 3 * features}), mixed({time, features}), y({1, time, features});
  for (int t = 0; t < time; ++t)
    for (int k = 0; k < 3 * features; ++k) {
      projected(t, k) = b(k);
      for (int j = 0; j < features; ++j) projected(t, k) += w(k, j) * x(0, t, j);
    }
  for (int head = 0; head < heads; ++head)
    for (int t = 0; t < time; ++t) {
      double weights[time] = {}, sum = 0;
      for (int s = 0; s <= t; ++s) {
        double product = 0;
        for (int k = head * size; k < (head + 1) * size; ++k) product += projected(t, k) * projected(s, features + k);
        weights[s] = std::exp(product / std::sqrt(static_cast<double>(size)));
        sum += weights[s];
      }
      for (int s = 0; s <= t; ++s)
        for (int k = head * size; k < (head + 1) * size; ++k)
          mixed(t, k) += weights[s] / sum * projected(s, 2 * features + k);
    }
  for (int t = 0; t < time; ++t)
    for (int k = 0; k < features; ++k) {
      y(0, t, k) = bo(k);
      for (int j = 0; j < features; ++j) y(0, t, k) += wo(k, j) * mixed(t, j);
    }
  check_array(layer(input), y);
}

}  // namespace

}  // namespace nn_reference_test
