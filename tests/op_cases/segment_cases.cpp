// Rows that have the same number, reduced; labels of sequences.

#include <algorithm>
#include <cmath>
#include <limits>

#include "op_cases.hpp"
#include "tapestry/ops.hpp"

namespace tapestry::test {
namespace {

using Inputs = std::vector<Tensor>;
using Arguments = std::vector<Elements>;

/// The rows of two elements of each of `count` segments, combined element by element.
template <class F>
Elements by_segments(const Elements& rows, const std::vector<int>& segments, int count, F combine) {
  Elements y;
  for (int segment = 0; segment < count; ++segment)
    for (std::size_t k = 0; k < 2; ++k) {
      Elements found;
      for (std::size_t i = 0; i < segments.size(); ++i)
        if (segments[i] == segment) found.push_back(rows[2 * i + k]);
      y.push_back(combine(found));
    }
  return y;
}

double sum_of(const Elements& x) {
  double sum = 0;
  for (const double each : x) sum += each;
  return sum;
}
double product_of(const Elements& x) {
  double product = 1;
  for (const double each : x) product *= each;
  return product;
}
double mean_of(const Elements& x) { return x.empty() ? 0 : sum_of(x) / static_cast<double>(x.size()); }
double sqrt_n_of(const Elements& x) { return x.empty() ? 0 : sum_of(x) / std::sqrt(static_cast<double>(x.size())); }
double max_or_zero(const Elements& x) { return x.empty() ? 0 : *std::max_element(x.begin(), x.end()); }
double min_or_zero(const Elements& x) { return x.empty() ? 0 : *std::min_element(x.begin(), x.end()); }

OpCases segment_rows() {
  OpCases rows;
  const std::vector<int> segments{2, 0, 2, -1, 1, 2, 0};
  using Unsorted = Tensor (*)(In, In, const Shape::Size&, std::string_view);
  const auto unsorted = [&](const char* name, Unsorted f, double (*combine)(const Elements&), unsigned seed) {
    rows.push_back(
        {.name = name,
         .inputs = {numbers({7, 2}, -2, 2, seed)},
         .f = [f, segments](const Inputs& x) { return f(x[0], tensor(segments).to(x[0].device()), 3, {}); },
         .reference = [segments, combine](const Arguments& x) { return by_segments(x[0], segments, 3, combine); }});
  };
  unsorted("unsorted_segment_sum", unsorted_segment_sum, sum_of, 301);
  unsorted("unsorted_segment_mean", unsorted_segment_mean, mean_of, 302);
  unsorted("unsorted_segment_sqrt_n", unsorted_segment_sqrt_n, sqrt_n_of, 303);
  unsorted("unsorted_segment_max", unsorted_segment_max, max_or_zero, 304);
  unsorted("unsorted_segment_min", unsorted_segment_min, min_or_zero, 305);
  unsorted("unsorted_segment_prod", unsorted_segment_prod, product_of, 306);
  rows.push_back({.name = "unsorted_segment_mean, more segments than parts",
                  .inputs = {numbers({2, 2}, -2, 2, 307)},
                  .f =
                      [](const Inputs& x) {
                        return unsorted_segment_mean(x[0], tensor<std::int64_t>({3, 3}).to(x[0].device()), 5);
                      },
                  .reference =
                      [](const Arguments& x) {
                        return by_segments(x[0], {3, 3}, 5, mean_of);
                      }});
  rows.push_back({.name = "unsorted_segment_max of segments with two axes",
                  .inputs = {numbers({2, 2, 2}, -2, 2, 308)},
                  .f =
                      [](const Inputs& x) {
                        return unsorted_segment_max(x[0], tensor({{1, 0}, {1, 1}}).to(x[0].device()), 2);
                      },
                  .reference =
                      [](const Arguments& x) {
                        return by_segments(x[0], {1, 0, 1, 1}, 2, max_or_zero);
                      }});

  const std::vector<int> ascending{0, 0, 1, 2, 2};
  using Sorted = Tensor (*)(In, In, std::string_view);
  const auto sorted = [&](const char* name, Sorted f, double (*combine)(const Elements&), unsigned seed) {
    rows.push_back(
        {.name = name,
         .inputs = {numbers({5, 2}, -2, 2, seed)},
         .f = [f, ascending](const Inputs& x) { return f(x[0], tensor(ascending).to(x[0].device()), {}); },
         .reference = [ascending, combine](const Arguments& x) { return by_segments(x[0], ascending, 3, combine); },
         .open = true});
  };
  sorted("segment_sum", segment_sum, sum_of, 311);
  sorted("segment_mean", segment_mean, mean_of, 312);
  sorted("segment_max", segment_max, max_or_zero, 313);
  sorted("segment_min", segment_min, min_or_zero, 314);
  sorted("segment_prod", segment_prod, product_of, 315);
  return rows;
}

/// -log of the sum over all paths of three classes whose labels, without repetitions and blanks, are these. `x` is
/// [time, batch, 3].
double loss_by_paths(const Elements& x, std::size_t time, std::size_t batch, std::size_t b, int blank,
                     const std::vector<int>& labels) {
  double probability = 0;
  std::vector<int> path(time);
  for (bool goes_on = true; goes_on;) {
    std::vector<int> said;
    double product = 1;
    for (std::size_t t = 0; t < time; ++t) {
      const double* const row = x.data() + (t * batch + b) * 3;
      const auto class_now = static_cast<std::size_t>(path[t]);
      product *= std::exp(row[class_now]) / (std::exp(row[0]) + std::exp(row[1]) + std::exp(row[2]));
      if (path[t] != blank && (t == 0 || path[t] != path[t - 1])) said.push_back(path[t]);
    }
    if (said == labels) probability += product;
    std::size_t t = 0;
    while (t < time && ++path[t] == 3) path[t++] = 0;
    goes_on = t < time;
  }
  return -std::log(probability);
}

OpCases ctc_rows() {
  OpCases rows;
  const auto on = [](const Tensor& values, const Tensor& x) { return values.to(x.device()); };
  rows.push_back(
      {.name = "ctc_loss",
       .inputs = {numbers({5, 4, 3}, -2, 2, 321)},
       .f =
           [on](const Inputs& x) {
             const Tensor labels = tensor({{1, 2, 1}, {2, 2, -7}, {1, 0, 0}, {5, 5, 5}});
             return ctc_loss(on(labels, x[0]), x[0], on(tensor({3, 2, 1, 0}), x[0]), on(tensor({5, 4, 2, 3}), x[0]));
           },
       .reference = [](const Arguments& x) -> Elements {
         return {loss_by_paths(x[0], 5, 4, 0, 0, {1, 2, 1}), loss_by_paths(x[0], 4, 4, 1, 0, {2, 2}),
                 loss_by_paths(x[0], 2, 4, 2, 0, {1}), loss_by_paths(x[0], 3, 4, 3, 0, {})};
       }});
  rows.push_back(
      {.name = "ctc_loss, the last class is the blank",
       .inputs = {numbers({4, 2, 3}, -2, 2, 322)},
       .f =
           [on](const Inputs& x) {
             const Tensor labels = tensor<std::int64_t>({{0, 1}, {1, 0}});
             return ctc_loss(on(labels, x[0]), x[0], on(tensor({2, 2}), x[0]), on(tensor({4, 3}), x[0]), {.blank = -1});
           },
       .reference = [](const Arguments& x) -> Elements {
         return {loss_by_paths(x[0], 4, 2, 0, 2, {0, 1}), loss_by_paths(x[0], 3, 2, 1, 2, {1, 0})};
       }});
  const auto too_short = [on](const Inputs& x, bool zero_infinity) {
    return ctc_loss(on(tensor({{1, 1}, {1, 2}}), x[0]), x[0], on(tensor({2, 2}), x[0]), on(tensor({2, 2}), x[0]),
                    {.zero_infinity = zero_infinity});
  };
  const auto of_the_second = [](const Arguments& x, double of_the_first) -> Elements {
    return {of_the_first, loss_by_paths(x[0], 2, 2, 1, 0, {1, 2})};
  };
  rows.push_back(
      {.name = "ctc_loss of a sequence that is too short",
       .inputs = {numbers({3, 2, 3}, -2, 2, 323)},
       .f = [too_short](const Inputs& x) { return too_short(x, false); },
       .reference =
           [of_the_second](const Arguments& x) { return of_the_second(x, std::numeric_limits<double>::infinity()); },
       .orders = 0});
  rows.push_back({.name = "ctc_loss, zero_infinity",
                  .inputs = {numbers({3, 2, 3}, -2, 2, 324)},
                  .f = [too_short](const Inputs& x) { return too_short(x, true); },
                  .reference = [of_the_second](const Arguments& x) { return of_the_second(x, 0); }});
  // The largest logits: classes 1 1 0 1 2, and 2 2 1 of three steps.
  const Elements best{0, 9, 0, 0, 0, 9, 0, 9, 0, 0, 0, 9, 9, 0, 0, 0, 9, 0, 0, 9, 0, 0, 9, 0, 0, 0, 9, 0, 9, 0};
  rows.push_back({.name = "ctc_greedy_decoder",
                  .inputs = {tensor(best, {5, 2, 3})},
                  .f =
                      [on](const Inputs& x) {
                        const CTCDecoded found = ctc_greedy_decoder(x[0], on(tensor({5, 3}), x[0]));
                        return concat({reshape(found.labels, {-1}).cast(x[0].dtype()), found.lengths.cast(x[0].dtype()),
                                       found.neg_sum_logits});
                      },
                  .reference = [](const Arguments&) -> Elements { return {1, 1, 2, 2, 1, -1, 3, 2, -45, -27}; },
                  .orders = 0,
                  .open = true});
  return rows;
}

}  // namespace

OpCases segment_cases() {
  OpCases rows = segment_rows();
  for (OpCase& each : ctc_rows()) rows.push_back(std::move(each));
  return rows;
}

}  // namespace tapestry::test
