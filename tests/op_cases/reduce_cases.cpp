#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "op_cases/op_cases.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::test {
namespace {

using Inputs = std::vector<Tensor>;
using Fold = double (*)(const Elements&);
using Reduction = Tensor (*)(In, const Axes&, const ReduceOptions&, std::string_view);

double sum(const Elements& x) { return std::accumulate(x.begin(), x.end(), 0.0); }
double mean(const Elements& x) { return sum(x) / static_cast<double>(x.size()); }
double product(const Elements& x) { return std::accumulate(x.begin(), x.end(), 1.0, std::multiplies<>()); }
double largest(const Elements& x) { return *std::max_element(x.begin(), x.end()); }
double smallest(const Elements& x) { return *std::min_element(x.begin(), x.end()); }
double log_sum_exp(const Elements& x) {
  double total = 0;
  for (const double each : x) total += std::exp(each);
  return std::log(total);
}
double spread(const Elements& x) {
  double total = 0;
  for (const double each : x) total += (each - mean(x)) * (each - mean(x));
  return total / static_cast<double>(x.size());
}

/// The elements of a [2,3,4] array that fall together when some axes are reduced, in the order of the result.
std::vector<Elements> groups(const Elements& x, bool over0, bool over1, bool over2) {
  std::vector<Elements> found;
  for (std::size_t i = 0; i < (over0 ? 1U : 2U); ++i)
    for (std::size_t j = 0; j < (over1 ? 1U : 3U); ++j)
      for (std::size_t k = 0; k < (over2 ? 1U : 4U); ++k) {
        Elements group;
        for (std::size_t a = over0 ? 0 : i; a < (over0 ? 2U : i + 1); ++a)
          for (std::size_t b = over1 ? 0 : j; b < (over1 ? 3U : j + 1); ++b)
            for (std::size_t c = over2 ? 0 : k; c < (over2 ? 4U : k + 1); ++c) group.push_back(x[(a * 3 + b) * 4 + c]);
        found.push_back(group);
      }
  return found;
}

void add_reductions(OpCases& rows, const std::string& name, Reduction f, Fold fold, int orders) {
  struct Way {
    std::string what;
    Axes axes;
    bool over0, over1, over2;
  };
  const Way ways[] = {{"all", {}, true, true, true},
                      {"last", -1, false, false, true},
                      {"first", 0, true, false, false},
                      {"middle", 1, false, true, false},
                      {"outer two", {0, 2}, true, false, true}};
  for (const Way& way : ways)
    for (const bool keep : {false, true})
      rows.push_back({.name = name + " over " + way.what + (keep ? ", kept" : ""),
                      .inputs = {numbers({2, 3, 4}, 0.5, 2, 21)},
                      .f = [f, way, keep](const Inputs& x) { return f(x[0], way.axes, {.keep_dims = keep}, {}); },
                      .reference =
                          [fold, way](const std::vector<Elements>& x) {
                            Elements y;
                            for (const Elements& group : groups(x[0], way.over0, way.over1, way.over2))
                              y.push_back(fold(group));
                            return y;
                          },
                      .orders = orders});
}

/// Running sums or products of a [3,4] array along an axis, element by element.
Elements scan_reference(const Elements& x, bool along_rows, bool product_of, bool exclusive, bool reverse) {
  Elements y(12);
  const int lines = along_rows ? 3 : 4, length = along_rows ? 4 : 3;
  for (int line = 0; line < lines; ++line) {
    double running = product_of ? 1 : 0;
    for (int step = 0; step < length; ++step) {
      const int at = reverse ? length - 1 - step : step;
      const auto i = static_cast<std::size_t>(along_rows ? line * 4 + at : at * 4 + line);
      if (exclusive) y[i] = running;
      running = product_of ? running * x[i] : running + x[i];
      if (!exclusive) y[i] = running;
    }
  }
  return y;
}

}  // namespace

OpCases reduce_cases() {
  OpCases rows;
  add_reductions(rows, "reduce_sum", reduce_sum, sum, 2);
  add_reductions(rows, "reduce_mean", reduce_mean, mean, 2);
  add_reductions(rows, "reduce_prod", reduce_prod, product, 2);
  add_reductions(rows, "reduce_max", reduce_max, largest, 2);
  add_reductions(rows, "reduce_min", reduce_min, smallest, 2);
  add_reductions(rows, "reduce_logsumexp", reduce_logsumexp, log_sum_exp, 2);
  add_reductions(rows, "variance", variance, spread, 2);

  rows.push_back(
      {.name = "reduce_any, reduce_all",
       .inputs = {booleans({4, 3}, 22)},
       .f = [](const Inputs& x) { return logical_and(reduce_any(x[0], 1), logical_not(reduce_all(x[0], 1))); },
       .reference =
           [](const std::vector<Elements>& x) {
             Elements y;
             for (std::size_t i = 0; i < 4; ++i) {
               const double total = x[0][3 * i] + x[0][3 * i + 1] + x[0][3 * i + 2];
               y.push_back(total > 0 && total < 3);
             }
             return y;
           },
       .orders = 0});
  rows.push_back({.name = "reduce_sum over nothing",
                  .inputs = {numbers({3, 0}, 0, 1, 23)},
                  .f = [](const Inputs& x) { return reduce_sum(x[0], 1); },
                  .reference =
                      [](const std::vector<Elements>&) {
                        return Elements{0, 0, 0};
                      }});
  rows.push_back({.name = "reduce_prod with one zero",
                  .inputs = {tensor<double>({2.0, 0.0, 3.0, 4.0})},
                  .f = [](const Inputs& x) { return reduce_prod(x[0]); }});
  rows.push_back({.name = "reduce_sum of eight dimensions",
                  .inputs = {numbers({2, 1, 2, 3, 1, 2, 1, 2}, -1, 1, 24)},
                  .f = [](const Inputs& x) {
                    return square(reduce_sum(x[0], {0, 3, 5, 7}));
                  }});

  for (const bool along_rows : {false, true})
    for (const bool exclusive : {false, true})
      for (const bool reverse : {false, true})
        for (const bool product_of : {false, true})
          rows.push_back({.name = std::string(product_of ? "cumprod" : "cumsum") +
                                  (along_rows ? " along 1" : " along 0") + (exclusive ? ", exclusive" : "") +
                                  (reverse ? ", reverse" : ""),
                          .inputs = {numbers({3, 4}, 0.5, 2, 25)},
                          .f =
                              [=](const Inputs& x) {
                                const ScanOptions options{.exclusive = exclusive, .reverse = reverse};
                                return product_of ? cumprod(x[0], along_rows ? 1 : 0, options)
                                                  : cumsum(x[0], along_rows ? 1 : 0, options);
                              },
                          .reference =
                              [=](const std::vector<Elements>& x) {
                                return scan_reference(x[0], along_rows, product_of, exclusive, reverse);
                              }});

  rows.push_back({.name = "argmax",
                  .inputs = {numbers({5, 4}, -1, 1, 26)},
                  .f = [](const Inputs& x) { return argmax(x[0], 1); },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        Elements y;
                        for (std::size_t i = 0; i < 5; ++i) {
                          const auto row = x[0].begin() + static_cast<std::ptrdiff_t>(4 * i);
                          y.push_back(static_cast<double>(std::max_element(row, row + 4) - row));
                        }
                        return y;
                      },
                  .orders = 0});
  rows.push_back({.name = "argmin",
                  .inputs = {numbers({5, 4}, -1, 1, 27)},
                  .f = [](const Inputs& x) { return argmin(x[0], 0); },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        Elements y;
                        for (std::size_t j = 0; j < 4; ++j) {
                          std::size_t best = 0;
                          for (std::size_t i = 1; i < 5; ++i)
                            if (x[0][4 * i + j] < x[0][4 * best + j]) best = i;
                          y.push_back(static_cast<double>(best));
                        }
                        return y;
                      },
                  .orders = 0});
  return rows;
}

}  // namespace tapestry::test
