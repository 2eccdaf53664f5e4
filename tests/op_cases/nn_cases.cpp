#include <algorithm>
#include <cmath>

#include "op_cases/op_cases.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::test {
namespace {

using Inputs = std::vector<Tensor>;

/// Log-softmax of rows of four.
Elements log_softmax_rows(const Elements& x) {
  Elements y;
  for (std::size_t i = 0; i < x.size(); i += 4) {
    double total = 0;
    for (std::size_t j = 0; j < 4; ++j) total += std::exp(x[i + j]);
    for (std::size_t j = 0; j < 4; ++j) y.push_back(x[i + j] - std::log(total));
  }
  return y;
}

OpCases loss_cases() {
  OpCases rows;
  rows.push_back({.name = "softmax",
                  .inputs = {numbers({3, 4}, -2, 2, 101)},
                  .f = [](const Inputs& x) { return softmax(x[0]); },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        Elements y = log_softmax_rows(x[0]);
                        for (double& each : y) each = std::exp(each);
                        return y;
                      }});
  rows.push_back({.name = "softmax along the first axis",
                  .inputs = {numbers({4, 3}, -2, 2, 102)},
                  .f = [](const Inputs& x) { return transpose(log(softmax(x[0], 0))); },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        Elements columns;
                        for (std::size_t j = 0; j < 3; ++j)
                          for (std::size_t i = 0; i < 4; ++i) columns.push_back(x[0][3 * i + j]);
                        return log_softmax_rows(columns);
                      }});
  rows.push_back({.name = "log_softmax",
                  .inputs = {numbers({3, 4}, -2, 2, 103)},
                  .f = [](const Inputs& x) { return log_softmax(x[0]); },
                  .reference = [](const std::vector<Elements>& x) { return log_softmax_rows(x[0]); }});
  rows.push_back({.name = "softmax_cross_entropy",
                  .inputs = {numbers({3, 4}, 0, 1, 104), numbers({3, 4}, -2, 2, 105)},
                  .f = [](const Inputs& x) { return softmax_cross_entropy(x[0], x[1]); },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        const Elements logs = log_softmax_rows(x[1]);
                        Elements y(3);
                        for (std::size_t i = 0; i < 12; ++i) y[i / 4] -= x[0][i] * logs[i];
                        return y;
                      }});
  rows.push_back({.name = "sparse_softmax_cross_entropy",
                  .inputs = {tensor({2, 0, 3}), numbers({3, 4}, -2, 2, 106)},
                  .f = [](const Inputs& x) { return sparse_softmax_cross_entropy(x[0], x[1]); },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        const Elements logs = log_softmax_rows(x[1]);
                        return Elements{-logs[2], -logs[4], -logs[11]};
                      }});
  rows.push_back({.name = "sigmoid_cross_entropy",
                  .inputs = {numbers({5}, 0, 1, 107), numbers({5}, -2, 2, 108)},
                  .f = [](const Inputs& x) { return sigmoid_cross_entropy(x[0], x[1]); },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        Elements y;
                        for (std::size_t i = 0; i < 5; ++i) {
                          const double p = 1 / (1 + std::exp(-x[1][i]));
                          y.push_back(-x[0][i] * std::log(p) - (1 - x[0][i]) * std::log(1 - p));
                        }
                        return y;
                      }});
  return rows;
}

/// x [1,h,w,c] as a function that is 0 outside the image.
struct Image {
  const Elements& elements;
  int h, w, c;
  double operator()(int y, int x, int channel) const {
    if (y < 0 || y >= h || x < 0 || x >= w) return 0;
    return elements[static_cast<std::size_t>((y * w + x) * c + channel)];
  }
};

OpCases image_cases() {
  OpCases rows;
  rows.push_back({.name = "conv2d",
                  .inputs = {numbers({1, 4, 5, 2}, -1, 1, 111), numbers({2, 3, 2, 3}, -1, 1, 112)},
                  .f = [](const Inputs& x) { return conv2d(x[0], x[1]); },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        const Image image{x[0], 4, 5, 2};
                        Elements y;
                        for (int i = 0; i < 3; ++i)
                          for (int j = 0; j < 3; ++j)
                            for (int o = 0; o < 3; ++o) {
                              double total = 0;
                              for (int u = 0; u < 2; ++u)
                                for (int v = 0; v < 3; ++v)
                                  for (int c = 0; c < 2; ++c)
                                    total += image(i + u, j + v, c) *
                                             x[1][static_cast<std::size_t>(((u * 3 + v) * 2 + c) * 3 + o)];
                              y.push_back(total);
                            }
                        return y;
                      }});
  rows.push_back({.name = "conv2d, SAME, strides, dilations",
                  .inputs = {numbers({1, 6, 5, 1}, -1, 1, 113), numbers({3, 2, 1, 1}, -1, 1, 114)},
                  .f =
                      [](const Inputs& x) {
                        return conv2d(x[0], x[1], {.strides = {2, 1}, .padding = "SAME", .dilations = {1, 2}});
                      },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        // Heights: 6 by stride 2 makes 3, which needs (3-1)*2+3-6 = 1 row more, below. Widths: a window
                        // of 3 makes 5, with one column on either side.
                        const Image image{x[0], 6, 5, 1};
                        Elements y;
                        for (int i = 0; i < 3; ++i)
                          for (int j = 0; j < 5; ++j) {
                            double total = 0;
                            for (int u = 0; u < 3; ++u)
                              for (int v = 0; v < 2; ++v)
                                total += image(2 * i + u, j - 1 + 2 * v, 0) * x[1][static_cast<std::size_t>(u * 2 + v)];
                            y.push_back(total);
                          }
                        return y;
                      }});
  rows.push_back({.name = "conv2d in groups, explicit padding",
                  .inputs = {numbers({2, 3, 3, 4}, -1, 1, 115), numbers({2, 2, 2, 6}, -1, 1, 116)},
                  .f = [](const Inputs& x) {
                    return conv2d(x[0], x[1], {.padding = {1, 0, 0, 1}, .groups = 2});
                  }});
  rows.push_back(
      {.name = "conv2d_transpose",
       .inputs = {numbers({1, 3, 2, 2}, -1, 1, 141), numbers({2, 3, 2, 3}, -1, 1, 142)},
       .f =
           [](const Inputs& x) {
             const Tensor filter = transpose(x[1], {1, 2, 3, 0});  // only its last axis is unknown in a trace
             return conv2d_transpose(
                 x[0], filter,
                 {.strides = {2, 1}, .padding = {1, 0, 0, 1}, .output_padding = {1, 0}, .dilations = {1, 2}});
           },
       .reference =
           [](const std::vector<Elements>& x) {
             const Image image{x[0], 3, 2, 2};
             constexpr int height = 7, width = 3;
             Elements y(static_cast<std::size_t>(height * width * 3));
             for (int i = 0; i < 3; ++i)
               for (int j = 0; j < 2; ++j)
                 for (int u = 0; u < 3; ++u)
                   for (int v = 0; v < 2; ++v) {
                     const int row = 2 * i + u - 1, column = j + 2 * v;
                     if (row < 0 || row >= height || column >= width) continue;
                     for (int o = 0; o < 3; ++o)
                       for (int c = 0; c < 2; ++c)
                         y[static_cast<std::size_t>((row * width + column) * 3 + o)] +=
                             image(i, j, c) * x[1][static_cast<std::size_t>(((c * 3 + u) * 2 + v) * 3 + o)];
                   }
             return y;
           }});
  rows.push_back(
      {.name = "conv2d_transpose in groups, SAME",
       .inputs = {numbers({2, 3, 2, 4}, -1, 1, 143), numbers({4, 2, 2, 3}, -1, 1, 144)},
       .f = [](const Inputs& x) {
         return conv2d_transpose(x[0], transpose(x[1], {1, 2, 3, 0}), {.strides = 2, .padding = "SAME", .groups = 2});
       }});
  rows.push_back({.name = "max_pool2d",
                  .inputs = {numbers({1, 4, 4, 2}, -1, 1, 117)},
                  .f = [](const Inputs& x) { return square(max_pool2d(x[0])); },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        const Image image{x[0], 4, 4, 2};
                        Elements y;
                        for (int i = 0; i < 4; i += 2)
                          for (int j = 0; j < 4; j += 2)
                            for (int c = 0; c < 2; ++c) {
                              const double top = std::max(
                                  {image(i, j, c), image(i, j + 1, c), image(i + 1, j, c), image(i + 1, j + 1, c)});
                              y.push_back(top * top);
                            }
                        return y;
                      }});
  rows.push_back(
      {.name = "avg_pool2d, explicit padding", .inputs = {numbers({2, 3, 4, 2}, -1, 1, 119)}, .f = [](const Inputs& x) {
         return square(avg_pool2d(x[0], {.window = 3, .strides = 2, .padding = {1, 0, 2, 1}}));
       }});
  rows.push_back({.name = "avg_pool2d, SAME, overlapping",
                  .inputs = {numbers({1, 3, 3, 1}, -1, 1, 118)},
                  .f =
                      [](const Inputs& x) {
                        return square(avg_pool2d(x[0], {.window = 2, .strides = Size2d(1), .padding = "SAME"}));
                      },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        const Image image{x[0], 3, 3, 1};
                        Elements y;
                        for (int i = 0; i < 3; ++i)
                          for (int j = 0; j < 3; ++j) {
                            const double inside = (i < 2 ? 2 : 1) * (j < 2 ? 2 : 1);
                            const double mean =
                                (image(i, j, 0) + image(i, j + 1, 0) + image(i + 1, j, 0) + image(i + 1, j + 1, 0)) /
                                inside;
                            y.push_back(mean * mean);
                          }
                        return y;
                      }});
  return rows;
}

/// The outputs of the op of whole LSTM layers: h [batch, time, hidden], c [time, batch, hidden], gates.
Tensors lstm_sequence(const Inputs& x) { return apply_all(*find_op("LSTMSequence"), Tensors(x), {}, {}, {}); }

/// The outputs of the op of whole GRU layers: h [batch, time, hidden], and [time, 4, batch, hidden] for the gradient.
Tensors gru_sequence(const Inputs& x) { return apply_all(*find_op("GRUSequence"), Tensors(x), {}, {}, {}); }

OpCases recurrent_cases() {
  OpCases rows;
  rows.push_back({.name = "gru of three steps",
                  .inputs = {numbers({2, 3, 6}, -1, 1, 151), numbers({6, 2}, -1, 1, 152), numbers({6}, -1, 1, 153),
                             numbers({2, 2}, -1, 1, 154)},
                  .f =
                      [](const Inputs& x) {
                        const Tensors y = gru_sequence(x);
                        return concat({y[0], reshape(transpose(y[1], {2, 0, 1, 3}), {2, 3, 8})}, -1);
                      },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        const auto sigmoid = [](double z) { return 1 / (1 + std::exp(-z)); };
                        Elements y;
                        for (std::size_t b = 0; b < 2; ++b) {
                          Elements h{x[3][2 * b], x[3][2 * b + 1]};
                          for (std::size_t t = 0; t < 3; ++t) {
                            const double* from_input = &x[0][(b * 3 + t) * 6];
                            Elements u(6), parts;
                            for (std::size_t j = 0; j < 6; ++j)
                              u[j] = h[0] * x[1][2 * j] + h[1] * x[1][2 * j + 1] + x[2][j];
                            for (std::size_t j = 0; j < 4; ++j) parts.push_back(sigmoid(from_input[j] + u[j]));
                            for (std::size_t j = 0; j < 2; ++j)
                              parts.push_back(std::tanh(from_input[4 + j] + parts[j] * u[4 + j]));
                            parts.insert(parts.end(), {u[4], u[5]});
                            for (std::size_t j = 0; j < 2; ++j)
                              h[j] = (1 - parts[2 + j]) * parts[4 + j] + parts[2 + j] * h[j];
                            y.insert(y.end(), h.begin(), h.end());
                            y.insert(y.end(), parts.begin(), parts.end());
                          }
                        }
                        return y;
                      }});
  rows.push_back({.name = "gru, the last output alone",
                  .inputs = {numbers({4, 2, 9}, -1, 1, 155), numbers({9, 3}, -1, 1, 156), numbers({9}, -1, 1, 157),
                             numbers({4, 3}, -1, 1, 158)},
                  .f = [](const Inputs& x) { return gru_sequence(x)[0](all, -1); }});
  rows.push_back({.name = "lstm of three steps",
                  .inputs = {numbers({2, 3, 8}, -1, 1, 141), numbers({8, 2}, -1, 1, 142), numbers({2, 2}, -1, 1, 143),
                             numbers({2, 2}, -1, 1, 144)},
                  .f =
                      [](const Inputs& x) {
                        const Tensors y = lstm_sequence(x);
                        return concat({y[0], transpose(y[1], {1, 0, 2})}, -1);
                      },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        const auto sigmoid = [](double z) { return 1 / (1 + std::exp(-z)); };
                        Elements y;
                        for (std::size_t b = 0; b < 2; ++b) {
                          Elements h{x[2][2 * b], x[2][2 * b + 1]}, c{x[3][2 * b], x[3][2 * b + 1]};
                          for (std::size_t t = 0; t < 3; ++t) {
                            Elements z(8);
                            for (std::size_t j = 0; j < 8; ++j)
                              z[j] = x[0][(b * 3 + t) * 8 + j] + h[0] * x[1][2 * j] + h[1] * x[1][2 * j + 1];
                            for (std::size_t j = 0; j < 2; ++j) {
                              c[j] = sigmoid(z[2 + j]) * c[j] + sigmoid(z[j]) * std::tanh(z[4 + j]);
                              h[j] = sigmoid(z[6 + j]) * std::tanh(c[j]);
                            }
                            y.insert(y.end(), {h[0], h[1], c[0], c[1]});
                          }
                        }
                        return y;
                      }});
  rows.push_back({.name = "lstm, the last output alone",
                  .inputs = {numbers({4, 2, 12}, -1, 1, 145), numbers({12, 3}, -1, 1, 146), numbers({4, 3}, -1, 1, 147),
                             numbers({4, 3}, -1, 1, 148)},
                  .f = [](const Inputs& x) { return lstm_sequence(x)[0](all, -1); }});
  return rows;
}

OpCases normalization_cases() {
  OpCases rows;
  rows.push_back({.name = "layer_norm",
                  .inputs = {numbers({3, 5}, -1, 1, 121), numbers({5}, 0.5, 1.5, 122), numbers({5}, -1, 1, 123)},
                  .f = [](const Inputs& x) { return layer_norm(x[0], x[1], x[2], {.epsilon = 0.01}); },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        Elements y;
                        for (std::size_t i = 0; i < 15; i += 5) {
                          double mean = 0, variance = 0;
                          for (std::size_t j = 0; j < 5; ++j) mean += x[0][i + j] / 5;
                          for (std::size_t j = 0; j < 5; ++j)
                            variance += (x[0][i + j] - mean) * (x[0][i + j] - mean) / 5;
                          for (std::size_t j = 0; j < 5; ++j)
                            y.push_back((x[0][i + j] - mean) / std::sqrt(variance + 0.01) * x[1][j] + x[2][j]);
                        }
                        return y;
                      }});
  rows.push_back({.name = "layer_norm of one scale for all",
                  .inputs = {numbers({2, 4}, -1, 1, 127), numbers({}, 1, 2, 128)},
                  .f = [](const Inputs& x) { return layer_norm(x[0], x[1], Tensor(), {.epsilon = 0.01}); }});
  const auto normalized_columns = [](const std::vector<Elements>& x) {
    Elements y(12);
    for (std::size_t c = 0; c < 2; ++c) {
      double mean = 0, variance = 0;
      for (std::size_t i = 0; i < 6; ++i) mean += x[0][2 * i + c] / 6;
      for (std::size_t i = 0; i < 6; ++i) variance += (x[0][2 * i + c] - mean) * (x[0][2 * i + c] - mean) / 6;
      for (std::size_t i = 0; i < 6; ++i)
        y[2 * i + c] = (x[0][2 * i + c] - mean) / std::sqrt(variance + 0.01) * x[2][c] + x[1][c];
    }
    return y;
  };
  rows.push_back({.name = "batch_norm of its own moments",
                  .inputs = {numbers({6, 2}, -1, 1, 124), numbers({2}, -1, 1, 125), numbers({2}, 0.5, 1.5, 126)},
                  .f =
                      [](const Inputs& x) {
                        const Moments m = moments(x[0], 0);
                        return batch_norm(x[0], m.mean, m.variance, x[1], x[2], 0.01);
                      },
                  .reference = normalized_columns});
  rows.push_back({.name = "batch_norm_training",
                  .inputs = {numbers({6, 2}, -1, 1, 124), numbers({2}, -1, 1, 125), numbers({2}, 0.5, 1.5, 126)},
                  .f = [](const Inputs& x) { return batch_norm_training(x[0], x[2], x[1], 0.01).y; },
                  .reference = normalized_columns});
  rows.push_back({.name = "batch_norm_training of images, with its moments",
                  .inputs = {numbers({2, 3, 2, 3}, -1, 1, 129), numbers({3}, 0.5, 1.5, 130), numbers({3}, -1, 1, 131)},
                  .f = [](const Inputs& x) {
                    const BatchNormTraining all = batch_norm_training(x[0], x[1], x[2], 0.01);
                    return all.y * all.mean + square(all.variance);
                  }});
  rows.push_back({.name = "embedding_lookup",
                  .inputs = {numbers({4, 2}, -1, 1, 127)},
                  .f =
                      [](const Inputs& x) {
                        return square(embedding_lookup(x[0], tensor({{3, 0}, {3, 1}}).to(x[0].device())));
                      },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        Elements y = {x[0][6], x[0][7], x[0][0], x[0][1], x[0][6], x[0][7], x[0][2], x[0][3]};
                        for (double& each : y) each *= each;
                        return y;
                      }});
  rows.push_back({.name = "bias_add",
                  .inputs = {numbers({2, 3}, -1, 1, 128), numbers({3}, -1, 1, 129)},
                  .f = [](const Inputs& x) { return square(bias_add(x[0], x[1])); },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        Elements y;
                        for (std::size_t i = 0; i < 6; ++i)
                          y.push_back((x[0][i] + x[1][i % 3]) * (x[0][i] + x[1][i % 3]));
                        return y;
                      }});
  return rows;
}

}  // namespace

OpCases nn_cases() {
  OpCases rows = loss_cases();
  for (OpCases family : {image_cases(), normalization_cases(), recurrent_cases()})
    for (OpCase& row : family) rows.push_back(std::move(row));
  return rows;
}

}  // namespace tapestry::test
