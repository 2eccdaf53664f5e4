// Layers that are cases of others, or small: against these others, or loops.

#include <cmath>
#include <numbers>

#include "expect.hpp"
#include "refused.hpp"
#include "tapestry/tapestry.hpp"

namespace nn_cells_test {

using namespace tapestry;
using namespace tapestry::test;

namespace {

Tensor normal(const Shape& shape) { return random::normal(shape, {.dtype = float64}); }

/// The weights of a network of one layer become those of a cell.
template <class Network, class Cell>
void copy_weights(const Network& network, const Cell& cell) {
  const auto& layer = network.layers[0];
  Variable(cell.weight_ih).assign(layer.weight_ih);
  Variable(cell.weight_hh).assign(layer.weight_hh);
  Variable(*cell.bias_ih).assign(*layer.bias_ih);
  Variable(*cell.bias_hh).assign(*layer.bias_hh);
}

TEST_CASE("cells make the steps of their networks") {
  random::seed(3);
  const Tensor x = random::normal({2, 3, 5});
  const nn::RNN rnn(5, 4, {}, nn::Nonlinearity::relu);
  const nn::RNNCell rnn_cell(5, 4, {}, nn::Nonlinearity::relu);
  const nn::GRU gru(5, 4);
  const nn::GRUCell gru_cell(5, 4);
  const nn::LSTM lstm(5, 4);
  const nn::LSTMCell lstm_cell(5, 4);
  copy_weights(rnn, rnn_cell);
  copy_weights(gru, gru_cell);
  copy_weights(lstm, lstm_cell);
  Tensor of_rnn, of_gru;
  nn::LSTMState of_lstm;
  for (int t = 0; t < 3; ++t) {
    of_rnn = rnn_cell(x(all, t), of_rnn);
    of_gru = gru_cell(x(all, t), of_gru);
    of_lstm = lstm_cell(x(all, t), of_lstm);
    check_same(of_rnn, rnn(x).output(all, t), 1e-6);
    check_same(of_gru, gru(x).output(all, t), 1e-6);
    check_same(of_lstm.h, lstm(x).output(all, t), 1e-6);
  }
  check_same(of_lstm.c, lstm(x).state.c(0), 1e-6);
}

TEST_CASE("a cell in a scan, in a trace that knows neither time nor batch") {
  const nn::GRUCell cell(3, 4);
  const auto last = [&](const Tensor& x) {
    const Tensor start = zeros({x.shape()[1], 4});
    return scan([&](const Tensor& h, const Tensor& now) { return std::tuple{cell(now, h), reduce_sum(h)}; }, start, x);
  };
  const auto traced = trace([&](const Tensor& x) { return std::get<0>(last(x)); }, {spec(float32, {-1, -1, 3})});
  for (const Shape& shape : {Shape{4, 2, 3}, Shape{1, 5, 3}}) {
    const Tensor x = random::normal(shape);
    CHECK(same_bits(traced(x), std::get<0>(last(x))));
  }
}

TEST_CASE("the names and sizes of cells, and what they refuse") {
  const nn::LSTMCell cell(3, 4, {.bias = false});
  CHECK(cell.state_dict().size() == 2);
  CHECK(cell.weight_ih.shape() == Shape{16, 3});
  CHECK(cell.weight_hh.shape() == Shape{16, 4});
  CHECK(cell.size_text() == "3, 4");
  CHECK(message_of<InvalidArgumentError>([&] {
          cell(ones({2, 5}));
        }).ends_with("x must be [batch, 3], but its shape is [2,5]"));
  CHECK(message_of<InvalidArgumentError>([&] {
          cell(ones({2, 3}), {.h = ones({1, 4}), .c = {}});
        }).ends_with("the state must be [batch, 4], but its shape is [1,4], and that of x [2,3]"));
  CHECK(message_of<InvalidArgumentError>([] { nn::GRUCell(0, 4); }) == "GRUCell: in must be at least 1, but is 0");
}

TEST_CASE("a bilinear layer against loops, and a slope for each channel") {
  nn::Bilinear layer(2, 3, 2);
  layer.to(float64);
  const Tensor a = normal({4, 2}), b = normal({4, 3});
  const std::vector<double> x = values(a), y = values(b), w = values(layer.weight.value()),
                            bias = values(layer.bias->value());
  std::vector<double> expected;
  for (std::size_t n = 0; n < 4; ++n)
    for (std::size_t k = 0; k < 2; ++k) {
      double sum = bias[k];
      for (std::size_t i = 0; i < 2; ++i)
        for (std::size_t j = 0; j < 3; ++j) sum += x[2 * n + i] * w[(k * 2 + i) * 3 + j] * y[3 * n + j];
      expected.push_back(sum);
    }
  check_values(layer(a, b), expected, 1e-12);
  CHECK(message_of<InvalidArgumentError>([&] { layer(b, b); }).ends_with("x must be [..., 2], but its shape is [4,3]"));

  nn::PReLU slopes(3, 0.5);
  slopes.weight.assign({0.5, 2.0, -1.0});
  check_same(slopes(tensor<float>({{1, 2, 3}, {-1, -2, -3}})), tensor<float>({{1, 2, 3}, {-0.5F, -4, 3}}));
  check_same(nn::PReLU()(tensor<float>({-4, 4})), tensor<float>({-1, 4}));
}

TEST_CASE("layers for sequences are those for images of one row") {
  const Tensor x = random::normal({2, 6, 4}), row = expand_dims(x, 1);
  const nn::ConvTranspose1D wide(4, 6, 3, {.stride = 2, .padding = {1, 0}, .output_padding = 1, .groups = 2});
  const nn::ConvTranspose2D image(4, 6, {1, 3},
                                  {.stride = {1, 2}, .padding = {0, 0, 1, 0}, .output_padding = {0, 1}, .groups = 2});
  Variable(image.weight).assign(expand_dims(Tensor(wide.weight), 2));
  Variable(*image.bias).assign(*wide.bias);
  check_same(wide(x), squeeze(image(row), 1), 1e-6);
  check_same(nn::MaxPool1D(3, {.stride = 2, .padding = 1})(x),
             squeeze(nn::MaxPool2D({1, 3}, {.stride = {1, 2}, .padding = {0, 1}})(row), 1));
  check_same(nn::AvgPool1D(2)(x), squeeze(nn::AvgPool2D({1, 2})(row), 1));
  CHECK(message_of<InvalidArgumentError>([&] {
          nn::MaxPool1D(2)(row);
        }).ends_with("x must be [batch, time, channels], but its shape is [2,1,6,4]"));
}

TEST_CASE("images of twice the size") {
  const Tensor x = tensor<float>({{{{1}}, {{4}}, {{-2}}}});
  check_same(nn::Upsample({2, 1})(x), reshape(tensor<float>({1, 1, 4, 4, -2, -2}), {1, 6, 1, 1}));
  check_same(nn::Upsample({2, 1}, {.method = ResizeMethod::bilinear})(x),
             reshape(tensor<float>({1, 1.75F, 3.25F, 2.5F, -0.5F, -2}), {1, 6, 1, 1}));
  const nn::Upsample corners({3, 1}, {.method = ResizeMethod::bilinear, .centers = PixelCenters::align_corners});
  check_same(corners(x), resize(x, {9, 1}, {.centers = PixelCenters::align_corners}));
  const auto traced =
      trace([](const Tensor& image) { return nn::Upsample(2)(image); }, {spec(float32, {-1, -1, -1, 1})});
  check_same(traced(x), resize(x, {6, 2}, {.method = ResizeMethod::nearest}));
  CHECK(message_of<InvalidArgumentError>([] {
          nn::Upsample({2, 0});
        }) == "Upsample: the factor of the width must be at least 1, but is 0");
}

TEST_CASE("losses of distributions and of triplets have PyTorch's numbers") {
  using namespace losses;
  const Tensor t = tensor<double>({{1, 0, 2}, {3, 1, 0}}), p = tensor<double>({{.5, -1, 2.5}, {2, .25, 1}});
  const Tensor v = tensor<double>({{.5, 1, 2}, {.1, .25, .5}});
  const auto element = [](double d, double variance) { return 0.5 * (std::log(variance) + d * d / variance); };
  const double sum =
      element(.5, .5) + element(1, 1) + element(.5, 2) + element(1, .1) + element(.75, .25) + element(1, .5);
  CHECK(gaussian_nll(t, p, v).item<double>() == doctest::Approx(sum / 6));
  CHECK(gaussian_nll(t, p, v, {.full = true}).item<double>() ==
        doctest::Approx(sum / 6 + 0.5 * std::log(2 * std::numbers::pi)));
  CHECK(gaussian_nll(t, p, zeros({2, 1}, float64), {.epsilon = 1}).item<double>() ==
        doctest::Approx((.25 + 1 + .25 + 1 + .5625 + 1) / 12));
  CHECK(poisson_nll(t, p).item<double>() == doctest::Approx(2.306743002775413));
  check_same(poisson_nll(t, abs(p), {.log_input = false, .reduction = Reduction::none}),
             tensor<double>({{1.1931471605599455, 1, 0.66741852825169}, {-0.07944155667983566, 1.6362943211198915, 1}}),
             1e-12);
  const Tensor other = tensor<double>({{.5, 1, 2}, {.1, .25, 1e-9}});
  check_same(triplet_margin(p, t, other, {.reduction = Reduction::none}),
             tensor<double>({0.16319196969340632, 0.4536881852802237}), 1e-12);
  CHECK(message_of<InvalidArgumentError>([&] { gaussian_nll(t, p, ones({3})); }) ==
        "variances must be [2,3] or [2,1], but are [3]");
  CHECK(message_of<InvalidArgumentError>([&] {
          triplet_margin(t, p, ones({2, 2}, float64));
        }).starts_with("Targets and predictions must have the same shape"));
}

}  // namespace

}  // namespace nn_cells_test
