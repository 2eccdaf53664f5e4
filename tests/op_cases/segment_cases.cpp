// Rows that have the same number, reduced.

#include <algorithm>
#include <cmath>

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

}  // namespace

OpCases segment_cases() { return segment_rows(); }

}  // namespace tapestry::test
