// Functions that are composed of others, and resized images.

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "op_cases.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::test {
namespace {

using Inputs = std::vector<Tensor>;
using Arguments = std::vector<Elements>;

Elements elementwise(const Arguments& x, double (*f)(double, double)) {
  Elements y;
  for (std::size_t i = 0; i < x[0].size(); ++i) y.push_back(f(x[0][i], x[x.size() - 1][i]));
  return y;
}

OpCases elementwise_rows() {
  OpCases rows;
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor odd = tensor<double>({1.5, infinity, -infinity, std::nan(""), -2});
  rows.push_back({.name = "is_inf",
                  .inputs = {odd},
                  .f = [](const Inputs& x) { return is_inf(x[0]); },
                  .reference = [](const Arguments&) -> Elements {
                    return {0, 1, 1, 0, 0};
                  },
                  .orders = 0});
  rows.push_back({.name = "logaddexp",
                  .inputs = {numbers({6}, -3, 3, 401), numbers({6}, -3, 3, 402)},
                  .f = [](const Inputs& x) { return logaddexp(x[0], x[1]); },
                  .reference =
                      [](const Arguments& x) {
                        return elementwise(x, [](double a, double b) { return std::log(std::exp(a) + std::exp(b)); });
                      }});
  rows.push_back({.name = "isclose",
                  .inputs = {tensor<double>({1, 1, infinity, infinity, -5})},
                  .f =
                      [infinity](const Inputs& x) {
                        const Tensor other = tensor<double>({1 + 1e-6, 1.1, infinity, -infinity, -5});
                        return isclose(x[0], other.to(x[0].device()).cast(x[0].dtype()), {.rtol = 1e-3});
                      },
                  .reference = [](const Arguments&) -> Elements {
                    return {1, 0, 1, 0, 1};
                  },
                  .orders = 0});
  rows.push_back({.name = "allclose",
                  .inputs = {numbers({4}, -3, 3, 403)},
                  .f = [](const Inputs& x) { return allclose(x[0], x[0] * (1 + 1e-7)); },
                  .reference = [](const Arguments&) -> Elements { return {1}; },
                  .orders = 0});
  rows.push_back({.name = "nan_to_num",
                  .inputs = {odd},
                  .f = [](const Inputs& x) { return nan_to_num(x[0], {.nan = 7, .posinf = 8, .neginf = 9}); },
                  .reference = [](const Arguments&) -> Elements {
                    return {1.5, 8, 9, 7, -2};
                  },
                  .orders = 0});
  return rows;
}

/// For each row of `width` elements a list of results.
template <class F>
Elements by_rows(const Elements& x, std::size_t width, F f) {
  Elements y;
  for (std::size_t i = 0; i < x.size(); i += width)
    for (const double each :
         f(Elements(x.begin() + static_cast<std::ptrdiff_t>(i), x.begin() + static_cast<std::ptrdiff_t>(i + width))))
      y.push_back(each);
  return y;
}
template <class F>
Elements running(Elements row, F f) {
  for (std::size_t i = 1; i < row.size(); ++i) row[i] = f(row[i - 1], row[i]);
  return row;
}
double quantile_of(Elements row, double q) {
  std::sort(row.begin(), row.end());
  const double place = q * static_cast<double>(row.size() - 1), below = std::floor(place);
  const auto low = static_cast<std::size_t>(below);
  return row[low] + (row[std::min(low + 1, row.size() - 1)] - row[low]) * (place - below);
}

OpCases axis_rows() {
  OpCases rows;
  rows.push_back({.name = "reduce_std",
                  .inputs = {numbers({3, 5}, -2, 2, 411)},
                  .f = [](const Inputs& x) { return reduce_std(x[0], 1); },
                  .reference =
                      [](const Arguments& x) {
                        return by_rows(x[0], 5, [](const Elements& row) -> Elements {
                          double mean = 0, squares = 0;
                          for (const double each : row) mean += each / 5;
                          for (const double each : row) squares += (each - mean) * (each - mean) / 5;
                          return {std::sqrt(squares)};
                        });
                      }});
  rows.push_back({.name = "quantile",
                  .inputs = {numbers({3, 5}, -2, 2, 412)},
                  .f = [](const Inputs& x) { return quantile(x[0], 0.3, 1); },
                  .reference =
                      [](const Arguments& x) {
                        return by_rows(x[0], 5, [](const Elements& row) { return Elements{quantile_of(row, 0.3)}; });
                      }});
  rows.push_back({.name = "median of all",
                  .inputs = {numbers({2, 3}, -2, 2, 413)},
                  .f = [](const Inputs& x) { return median(x[0]); },
                  .reference = [](const Arguments& x) { return Elements{quantile_of(x[0], 0.5)}; }});
  rows.push_back({.name = "cummax",
                  .inputs = {numbers({3, 5}, -2, 2, 414)},
                  .f = [](const Inputs& x) { return cummax(x[0], 1); },
                  .reference =
                      [](const Arguments& x) {
                        return by_rows(x[0], 5, [](const Elements& row) {
                          return running(row, [](double a, double b) { return std::max(a, b); });
                        });
                      }});
  rows.push_back({.name = "cummin along an axis inside",
                  .inputs = {numbers({2, 6, 1}, -2, 2, 415)},
                  .f = [](const Inputs& x) { return cummin(x[0], 1); },
                  .reference =
                      [](const Arguments& x) {
                        return by_rows(x[0], 6, [](const Elements& row) {
                          return running(row, [](double a, double b) { return std::min(a, b); });
                        });
                      }});
  rows.push_back({.name = "cumulative_logsumexp",
                  .inputs = {numbers({3, 5}, -2, 2, 416)},
                  .f = [](const Inputs& x) { return cumulative_logsumexp(x[0], -1); },
                  .reference =
                      [](const Arguments& x) {
                        return by_rows(x[0], 5, [](const Elements& row) {
                          return running(row, [](double a, double b) { return std::log(std::exp(a) + std::exp(b)); });
                        });
                      }});
  rows.push_back(
      {.name = "diff",
       .inputs = {numbers({3, 5}, -2, 2, 417)},
       .f = [](const Inputs& x) { return diff(x[0], 2); },
       .reference =
           [](const Arguments& x) {
             return by_rows(x[0], 5, [](const Elements& row) -> Elements {
               return {row[2] - 2 * row[1] + row[0], row[3] - 2 * row[2] + row[1], row[4] - 2 * row[3] + row[2]};
             });
           }});
  rows.push_back({.name = "trapezoid",
                  .inputs = {numbers({3, 3}, -2, 2, 418)},
                  .f = [](const Inputs& x) { return trapezoid(x[0], 0.5); },
                  .reference =
                      [](const Arguments& x) {
                        return by_rows(x[0], 3, [](const Elements& row) -> Elements {
                          return {0.25 * (row[0] + 2 * row[1] + row[2])};
                        });
                      }});
  rows.push_back({.name = "trapezoid at places",
                  .inputs = {numbers({3, 2}, -2, 2, 419), numbers({3}, -2, 2, 420)},
                  .f = [](const Inputs& x) { return trapezoid(x[0], x[1], 0); },
                  .reference = [](const Arguments& x) -> Elements {
                    Elements y(2);
                    for (std::size_t i = 0; i < 2; ++i)
                      for (std::size_t k = 0; k < 2; ++k)
                        y[k] += 0.5 * (x[0][2 * i + k] + x[0][2 * i + 2 + k]) * (x[1][i + 1] - x[1][i]);
                    return y;
                  }});
  return rows;
}

/// The covariance of two of the rows of four elements.
double covariance(const Elements& x, std::size_t a, std::size_t b) {
  double mean_a = 0, mean_b = 0, sum = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    mean_a += x[4 * a + i] / 4;
    mean_b += x[4 * b + i] / 4;
  }
  for (std::size_t i = 0; i < 4; ++i) sum += (x[4 * a + i] - mean_a) * (x[4 * b + i] - mean_b);
  return sum / 3;
}

OpCases counting_rows() {
  OpCases rows;
  rows.push_back(
      {.name = "cov",
       .inputs = {numbers({2, 4}, -2, 2, 431)},
       .f = [](const Inputs& x) { return cov(x[0]); },
       .reference = [](const Arguments& x) -> Elements {
         return {covariance(x[0], 0, 0), covariance(x[0], 0, 1), covariance(x[0], 1, 0), covariance(x[0], 1, 1)};
       }});
  rows.push_back({.name = "corrcoef",
                  .inputs = {numbers({2, 4}, -2, 2, 432)},
                  .f = [](const Inputs& x) { return corrcoef(x[0]); },
                  .reference = [](const Arguments& x) -> Elements {
                    const double r =
                        covariance(x[0], 0, 1) / std::sqrt(covariance(x[0], 0, 0) * covariance(x[0], 1, 1));
                    return {1, r, r, 1};
                  }});
  rows.push_back({.name = "bincount",
                  .inputs = {tensor({1, 3, 1, -2, 7})},
                  .f = [](const Inputs& x) { return bincount(x[0], 4); },
                  .reference = [](const Arguments&) -> Elements {
                    return {0, 2, 0, 1};
                  },
                  .orders = 0});
  rows.push_back({.name = "bincount with weights",
                  .inputs = {numbers({5}, -2, 2, 433)},
                  .f =
                      [](const Inputs& x) {
                        return bincount(tensor({1, 2, 1, 0, 5}).to(x[0].device()), x[0], 3);
                      },
                  .reference = [](const Arguments& x) -> Elements {
                    return {x[0][3], x[0][0] + x[0][2], x[0][1]};
                  }});
  rows.push_back({.name = "histogram_fixed_width",
                  .inputs = {tensor<double>({-1, 0, 1.5, 2, 5, 15})},
                  .f = [](const Inputs& x) { return histogram_fixed_width(x[0], 0, 5, 5); },
                  .reference = [](const Arguments&) -> Elements {
                    return {2, 1, 1, 0, 2};
                  },
                  .orders = 0});
  for (const Side side : {Side::left, Side::right})
    rows.push_back({.name = side == Side::left ? "searchsorted" : "searchsorted, right",
                    .inputs = {tensor<double>({{3, 0, 2}, {9, 3.5, 1}})},
                    .f =
                        [side](const Inputs& x) {
                          const Tensor sorted = tensor<double>({1, 2, 2, 3, 5}).cast(x[0].dtype());
                          return searchsorted(sorted.to(x[0].device()), x[0], side);
                        },
                    .reference = [side](const Arguments&) -> Elements {
                      return side == Side::left ? Elements{3, 0, 1, 5, 4, 0} : Elements{4, 0, 3, 5, 4, 1};
                    },
                    .orders = 0});
  rows.push_back(
      {.name = "interp",
       .inputs = {tensor<double>({0.5, 2.25, 7, -3}), tensor<double>({0, 1, 3, 4}), numbers({4}, -2, 2, 434)},
       .f = [](const Inputs& x) { return interp(x[0], x[1], x[2]); },
       .reference = [](const Arguments& x) -> Elements {
         const Elements& y = x[2];
         return {0.5 * (y[0] + y[1]), y[1] + (y[2] - y[1]) * 0.625, y[3], y[0]};
       }});
  return rows;
}

OpCases place_rows() {
  OpCases rows;
  for (const Indexing indexing : {Indexing::xy, Indexing::ij})
    rows.push_back({.name = indexing == Indexing::xy ? "meshgrid" : "meshgrid, ij",
                    .inputs = {numbers({2}, -2, 2, 441), numbers({3}, -2, 2, 442)},
                    .f =
                        [indexing](const Inputs& x) {
                          return stack(meshgrid({x[0], x[1]}, indexing));
                        },
                    .reference = [indexing](const Arguments& x) -> Elements {
                      const Elements &a = x[0], &b = x[1];
                      return indexing == Indexing::xy
                                 ? Elements{a[0], a[1], a[0], a[1], a[0], a[1], b[0], b[0], b[1], b[1], b[2], b[2]}
                                 : Elements{a[0], a[0], a[0], a[1], a[1], a[1], b[0], b[1], b[2], b[0], b[1], b[2]};
                    }});
  for (const std::int64_t times : {1, 2, -1})
    rows.push_back({.name = "rot90, " + std::to_string(times) + " times",
                    .inputs = {numbers({2, 3}, -2, 2, 443)},
                    .f = [times](const Inputs& x) { return rot90(x[0], times); },
                    .reference = [times](const Arguments& x) -> Elements {
                      const Elements& a = x[0];
                      return times == 1   ? Elements{a[2], a[5], a[1], a[4], a[0], a[3]}
                             : times == 2 ? Elements{a[5], a[4], a[3], a[2], a[1], a[0]}
                                          : Elements{a[3], a[0], a[4], a[1], a[5], a[2]};
                    }});
  for (const int diagonal : {0, -1, 1})
    for (const bool lower : {true, false})
      rows.push_back({.name = (lower ? "tril " : "triu ") + std::to_string(diagonal),
                      .inputs = {numbers({2, 3, 4}, -2, 2, 444)},
                      .f = [=](const Inputs& x) { return lower ? tril(x[0], diagonal) : triu(x[0], diagonal); },
                      .reference =
                          [=](const Arguments& x) {
                            Elements y = x[0];
                            for (int i = 0; i < 24; ++i) {
                              const int above = i % 4 - i / 4 % 3;
                              if (lower ? above > diagonal : above < diagonal) y[static_cast<std::size_t>(i)] = 0;
                            }
                            return y;
                          }});
  rows.push_back({.name = "kron",
                  .inputs = {numbers({2, 1}, -2, 2, 445), numbers({2, 2}, -2, 2, 446)},
                  .f = [](const Inputs& x) { return kron(x[0], x[1]); },
                  .reference = [](const Arguments& x) -> Elements {
                    Elements y;
                    for (const double a : x[0])
                      for (const double b : x[1]) y.push_back(a * b);
                    return y;
                  }});
  return rows;
}

/// Rows of weights by rows of elements.
Elements weighted(const std::vector<Elements>& weights, const Elements& x, std::size_t inner) {
  Elements y;
  for (const Elements& row : weights)
    for (std::size_t k = 0; k < inner; ++k) {
      double sum = 0;
      for (std::size_t i = 0; i < row.size(); ++i) sum += row[i] * x[i * inner + k];
      y.push_back(sum);
    }
  return y;
}

OpCases resize_rows() {
  OpCases rows;
  // Images of two columns and two channels, in which the height changes; the factors are sums of powers of two.
  const auto add = [&](const char* name, std::int64_t from, std::int64_t to, const ResizeOptions& options,
                       const std::vector<Elements>& weights) {
    rows.push_back({.name = name,
                    .inputs = {numbers({1, from, 2, 2}, -2, 2, 451)},
                    .f =
                        [to, options](const Inputs& x) {
                          return resize(x[0], {to, 2}, options);
                        },
                    .reference = [weights](const Arguments& x) { return weighted(weights, x[0], 4); }});
  };
  add("resize, bilinear", 2, 4, {}, {{1, 0}, {.75, .25}, {.25, .75}, {0, 1}});
  add("resize, nearest", 2, 4, {.method = ResizeMethod::nearest}, {{1, 0}, {1, 0}, {0, 1}, {0, 1}});

  return rows;
}

/// The pools of the windows along each axis of a volume [1, 3, 4, 3, 1] of which `of_window` tells the first and the
/// last element.
template <class Pool>
Elements pooled(const Elements& x, const std::array<std::vector<std::pair<int, int>>, 3>& windows, Pool pool) {
  Elements result;
  for (const auto& [top, bottom] : windows[0])
    for (const auto& [first, last] : windows[1])
      for (const auto& [left, right] : windows[2]) {
        Elements inside;
        for (int i = top; i <= bottom; ++i)
          for (int j = first; j <= last; ++j)
            for (int k = left; k <= right; ++k) inside.push_back(x[(i * 4 + j) * 3 + k]);
        result.push_back(pool(inside));
      }
  return result;
}

double largest_of(const Elements& x) { return *std::max_element(x.begin(), x.end()); }
double average_of(const Elements& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

OpCases volume_rows() {
  OpCases rows;
  // The depth of a filter must be known, and these tests do not know the first axis.
  rows.push_back(
      {.name = "conv3d, strides, dilations, groups, padding",
       .inputs = {numbers({1, 3, 4, 3, 2}, -1, 1, 461), numbers({3, 2, 2, 1, 2}, -1, 1, 462)},
       .f =
           [](const Inputs& x) {
             return conv3d(x[0], transpose(x[1], {1, 0, 2, 3, 4}),
                           {.strides = {1, 2, 1}, .padding = {2, 1, 0}, .dilations = {2, 1, 1}, .groups = 2});
           },
       .reference =
           [](const Arguments& x) {
             Elements y;
             for (int d = 0; d < 5; ++d)
               for (int h = 0; h < 2; ++h)
                 for (int w = 0; w < 2; ++w)
                   for (int o = 0; o < 2; ++o) {
                     double sum = 0;
                     for (int i = 0; i < 2; ++i)
                       for (int j = 0; j < 3; ++j)
                         for (int k = 0; k < 2; ++k) {
                           const int depth = d - 2 + 2 * i, row = 2 * h - 1 + j, column = w + k;
                           if (depth < 0 || depth >= 3 || row < 0 || row >= 4) continue;
                           sum += x[0][((depth * 4 + row) * 3 + column) * 2 + o] * x[1][((j * 2 + i) * 2 + k) * 2 + o];
                         }
                     y.push_back(sum);
                   }
             return y;
           }});
  rows.push_back({.name = "conv3d, SAME",
                  .inputs = {numbers({1, 3, 2, 2, 1}, -1, 1, 463), numbers({1, 2, 1, 1, 1}, -1, 1, 464)},
                  .f =
                      [](const Inputs& x) {
                        return conv3d(x[0], transpose(x[1], {1, 0, 2, 3, 4}), {.padding = "SAME"});
                      },
                  .reference =
                      [](const Arguments& x) {
                        Elements y;
                        for (int i = 0; i < 12; ++i)
                          y.push_back(x[0][i] * x[1][0] + (i + 4 < 12 ? x[0][i + 4] * x[1][1] : 0));
                        return y;
                      }});
  const auto add = [&](const char* name, auto f, const std::array<std::vector<std::pair<int, int>>, 3>& windows,
                       double (*pool)(const Elements&)) {
    rows.push_back({.name = name,
                    .inputs = {numbers({1, 3, 4, 3, 1}, -2, 2, 465)},
                    .f = [f](const Inputs& x) { return f(x[0]); },
                    .reference = [=](const Arguments& x) { return pooled(x[0], windows, pool); }});
  };
  const Pool3dOptions padded{.window = {2, 3, 2}, .strides = {1, 2, 1}, .padding = {1, 1, 0}};
  add(
      "max_pool3d",
      [](const Tensor& x) {
        return max_pool3d(x, {.window = {2, 2, 3}});
      },
      {{{{0, 1}}, {{0, 1}, {2, 3}}, {{0, 2}}}}, largest_of);
  add(
      "max_pool3d, padded", [=](const Tensor& x) { return max_pool3d(x, padded); },
      {{{{0, 0}, {0, 1}, {1, 2}, {2, 2}}, {{0, 1}, {1, 3}}, {{0, 1}, {1, 2}}}}, largest_of);
  add(
      "avg_pool3d, padded", [=](const Tensor& x) { return avg_pool3d(x, padded); },
      {{{{0, 0}, {0, 1}, {1, 2}, {2, 2}}, {{0, 1}, {1, 3}}, {{0, 1}, {1, 2}}}}, average_of);
  add(
      "adaptive_avg_pool2d",
      [](const Tensor& x) {
        return adaptive_avg_pool2d(x(0), {3, 2});
      },
      {{{{0, 0}, {1, 1}, {2, 2}}, {{0, 1}, {1, 2}, {2, 3}}, {{0, 1}, {1, 2}}}}, average_of);
  add(
      "adaptive_max_pool2d",
      [](const Tensor& x) {
        return adaptive_max_pool2d(x(0), {2, 1});
      },
      {{{{0, 0}, {1, 1}, {2, 2}}, {{0, 1}, {2, 3}}, {{0, 2}}}}, largest_of);
  return rows;
}

}  // namespace

OpCases numeric_cases() {
  OpCases rows;
  for (auto family : {elementwise_rows, axis_rows, counting_rows, place_rows, resize_rows, volume_rows})
    for (OpCase& each : family()) rows.push_back(std::move(each));
  return rows;
}

}  // namespace tapestry::test
