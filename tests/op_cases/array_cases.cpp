#include <algorithm>
#include <cmath>
#include <numeric>

#include "dispatch/recorder.hpp"
#include "graph/flow/registered_gradient.hpp"
#include "op_cases/op_cases.hpp"
#include "tapestry/ops.hpp"
#include "tapestry/tape.hpp"

namespace tapestry::test {
namespace {

using Inputs = std::vector<Tensor>;

/// A row for a function that only moves elements: the reference names, for each element of the result, the place in the
/// argument that it comes from, or -1 for a zero.
OpCase moves(const std::string& name, const Shape& shape, const std::function<Tensor(const Tensor&)>& f,
             const std::vector<int>& places) {
  return {.name = name,
          .inputs = {numbers(shape, -1, 1, 31)},
          // The square makes the second derivative something to see.
          .f = [f](const Inputs& x) { return square(f(x[0])); },
          .reference =
              [places](const std::vector<Elements>& x) {
                Elements y;
                for (const int place : places) {
                  const double value = place < 0 ? 0 : x[0][static_cast<std::size_t>(place)];
                  y.push_back(value * value);
                }
                return y;
              }};
}

std::vector<int> count(int n) {
  std::vector<int> all_places(static_cast<std::size_t>(n));
  std::iota(all_places.begin(), all_places.end(), 0);
  return all_places;
}

OpCases movement_cases() {
  return {
      moves(
          "identity", {2, 3}, [](const Tensor& x) { return identity(x); }, count(6)),
      moves(
          "reshape", {2, 6},
          [](const Tensor& x) {
            return reshape(x, {3, -1});
          },
          count(12)),
      moves("reshape of a transposed view", {2, 3}, [](const Tensor& x) { return reshape(transpose(x), {6}); },
            {0, 3, 1, 4, 2, 5}),
      moves("transpose", {2, 3}, [](const Tensor& x) { return transpose(x); }, {0, 3, 1, 4, 2, 5}),
      moves("transpose by a permutation", {2, 1, 3},
            [](const Tensor& x) {
              return transpose(x, {2, 0, 1});
            },
            {0, 3, 1, 4, 2, 5}),
      moves(
          "squeeze", {1, 3, 1}, [](const Tensor& x) { return squeeze(x); }, count(3)),
      moves(
          "squeeze of one axis", {1, 3, 1}, [](const Tensor& x) { return squeeze(x, 0); }, count(3)),
      moves(
          "expand_dims", {3},
          [](const Tensor& x) {
            return expand_dims(x, {0, -1});
          },
          count(3)),
      moves("broadcast_to", {2, 1},
            [](const Tensor& x) {
              return broadcast_to(x, {2, 2, 3});
            },
            {0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1}),
      moves("flip", {2, 3}, [](const Tensor& x) { return flip(x, 1); }, {2, 1, 0, 5, 4, 3}),
      moves("flip of all axes", {2, 3}, [](const Tensor& x) { return flip(x); }, {5, 4, 3, 2, 1, 0}),
      moves("roll", {2, 3}, [](const Tensor& x) { return roll(x, 1, -1); }, {2, 0, 1, 5, 3, 4}),
      moves("roll the other way", {3, 2}, [](const Tensor& x) { return roll(x, -4, 0); }, {2, 3, 4, 5, 0, 1}),
      moves("slice", {3, 4},
            [](const Tensor& x) {
              return slice(x, {1, 1}, {2, -1});
            },
            {5, 6, 7, 9, 10, 11}),
      moves("contiguous", {2, 3}, [](const Tensor& x) { return transpose(x).contiguous(); }, {0, 3, 1, 4, 2, 5}),
      moves("index by a number", {3, 2}, [](const Tensor& x) { return x(-1); }, {4, 5}),
      moves("index by ranges", {4, 5}, [](const Tensor& x) { return x(range(0, 4, 2), range(1, 3)); }, {1, 2, 11, 12}),
      moves("index backwards", {4}, [](const Tensor& x) { return x(range(std::nullopt, std::nullopt, -1)); },
            {3, 2, 1, 0}),
      moves("index with ellipsis and newaxis", {2, 3, 2}, [](const Tensor& x) { return x(newaxis, ellipsis, 1); },
            {1, 3, 5, 7, 9, 11}),
      moves("tile", {2, 2},
            [](const Tensor& x) {
              return tile(x, {1, 2});
            },
            {0, 1, 0, 1, 2, 3, 2, 3}),
      moves("repeat", {2, 2}, [](const Tensor& x) { return repeat(x, 2, 0); }, {0, 1, 0, 1, 2, 3, 2, 3}),
      moves("pad", {2, 2},
            [](const Tensor& x) {
              return pad(x, {{0, 1}, {1, 0}});
            },
            {-1, 0, 1, -1, 2, 3, -1, -1, -1}),
      moves("pad by reflection", {3},
            [](const Tensor& x) {
              return pad(x, {{2, 1}}, {.mode = PadMode::reflect});
            },
            {2, 1, 0, 1, 2, 1}),
      moves("pad by symmetry", {3},
            [](const Tensor& x) {
              return pad(x, {{2, 1}}, {.mode = PadMode::symmetric});
            },
            {1, 0, 0, 1, 2, 2}),
      moves("split in equal parts", {2, 4}, [](const Tensor& x) { return split(x, 2, 1).at(1); }, {2, 3, 6, 7}),
      moves("split in listed sizes", {5},
            [](const Tensor& x) {
              return split(x, {2, 3}).at(1);
            },
            {2, 3, 4}),
      moves("unstack", {2, 3}, [](const Tensor& x) { return unstack(x, 1).at(2); }, {2, 5}),
      moves("broadcast_like", {3},
            [](const Tensor& x) {
              return broadcast_like(x, zeros({2, 3}, {.dtype = float64, .device = x.device()}));
            },
            {0, 1, 2, 0, 1, 2}),
      moves(
          "reshape_like", {6},
          [](const Tensor& x) {
            return reshape_like(x, zeros({2, 3}, {.dtype = float64, .device = x.device()}));
          },
          count(6)),
      moves("gather", {4, 2},
            [](const Tensor& x) {
              return gather(x, tensor({2, 0, 2}).to(x.device()), 0);
            },
            {4, 5, 0, 1, 4, 5}),
      moves("gather along the last axis", {2, 3},
            [](const Tensor& x) {
              return gather(x, tensor({{2, 2}, {0, 1}}).to(x.device()), 1);
            },
            {2, 2, 0, 1, 5, 5, 3, 4}),
      moves("gather_nd", {2, 3},
            [](const Tensor& x) {
              return gather_nd(x, tensor({{1, 2}, {0, 0}, {1, 2}}).to(x.device()));
            },
            {5, 0, 5}),
      moves("take_along_axis", {2, 3},
            [](const Tensor& x) {
              return take_along_axis(x, tensor({{2, 0}, {1, 1}}).to(x.device()), 1);
            },
            {2, 0, 4, 4}),
  };
}

/// The sine of x, or its sum with the square of exp(x), by an operation with a gradient as files have them.
Tensor sine_and_exp(const Tensor& x, bool has_two_results) {
  const Graph graph;
  Tensors taken, gradients;
  {
    const auto scope = graph.as_default();
    const PauseRecording pause;
    for (int i = 0; i < (has_two_results ? 4 : 3); ++i) taken.push_back(placeholder(x.dtype(), x.shape()));
    const Tensor& same_x = taken.back();
    gradients = {taken[0] * cos(same_x)};
    if (has_two_results) gradients[0] = gradients[0] + taken[1] * exp(same_x);
  }
  detail::RegisteredGradient gradient{.function = {"gradient", graph.state(), taken, gradients}};
  gradient.given = has_two_results ? std::vector{false, false, true} : std::vector{false, true};
  Tensors inputs{sin(x)};
  if (has_two_results) inputs.push_back(exp(x));
  inputs.push_back(x);
  inputs.push_back(x);
  const Tensors values = detail::with_registered_gradient(gradient, inputs, "", {});
  return has_two_results ? values[0] + square(values[1]) : values[0];
}

}  // namespace

OpCases array_cases() {
  OpCases rows = movement_cases();
  rows.push_back({.name = "sum_like",
                  .inputs = {numbers({2, 3}, -1, 1, 32)},
                  .f =
                      [](const Inputs& x) {
                        return square(sum_like(x[0], zeros({3}, {.dtype = float64, .device = x[0].device()})));
                      },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        Elements y;
                        for (std::size_t j = 0; j < 3; ++j)
                          y.push_back((x[0][j] + x[0][j + 3]) * (x[0][j] + x[0][j + 3]));
                        return y;
                      }});
  rows.push_back({.name = "size_like, shape, size",
                  .inputs = {numbers({2, 3}, -1, 1, 33)},
                  .f =
                      [](const Inputs& x) {
                        return concat({reshape(size_like(x[0], reduce_sum(x[0], 0)), {1}), shape(x[0]).cast(float64),
                                       reshape(size(x[0]).cast(float64), {1})},
                                      0);
                      },
                  .reference =
                      [](const std::vector<Elements>&) {
                        return Elements{2, 2, 3, 6};
                      },
                  .orders = 0});
  rows.push_back({.name = "stop_gradient",
                  .inputs = {numbers({3}, -1, 1, 34)},
                  .f = [](const Inputs& x) { return stop_gradient(x[0]); },
                  .reference = [](const std::vector<Elements>& x) { return x[0]; },
                  .orders = 0});
  rows.push_back({.name = "ensure_shape",
                  .inputs = {numbers({3, 2}, -1, 1, 38)},
                  .f =
                      [](const Inputs& x) {
                        return square(ensure_shape(x[0], {-1, 2}));
                      },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        Elements y;
                        for (const double each : x[0]) y.push_back(each * each);
                        return y;
                      }});
  rows.push_back({.name = "check_numerics",
                  .inputs = {numbers({3, 2}, -1, 1, 37)},
                  .f = [](const Inputs& x) { return square(check_numerics(x[0], "the table")); },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        Elements y;
                        for (const double each : x[0]) y.push_back(each * each);
                        return y;
                      }});
  rows.push_back({.name = "concat of one tensor", .inputs = {numbers({2, 3}, -1, 1, 7)}, .f = [](const Inputs& x) {
                    return square(concat({x[0]}, 1));
                  }});
  rows.push_back({.name = "concat",
                  .inputs = {numbers({2, 1}, -1, 1, 35), numbers({2, 0}, -1, 1, 36), numbers({2, 2}, -1, 1, 37)},
                  .f = [](const Inputs& x) { return square(concat(x, 1)); },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        Elements y = {x[0][0], x[2][0], x[2][1], x[0][1], x[2][2], x[2][3]};
                        for (double& each : y) each *= each;
                        return y;
                      }});
  rows.push_back({.name = "stack",
                  .inputs = {numbers({2}, -1, 1, 38), numbers({2}, -1, 1, 39)},
                  .f = [](const Inputs& x) { return square(stack(x, 1)); },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        Elements y = {x[0][0], x[1][0], x[0][1], x[1][1]};
                        for (double& each : y) each *= each;
                        return y;
                      }});
  rows.push_back({.name = "slice_update",
                  .inputs = {numbers({3, 3}, -1, 1, 40), numbers({3}, -1, 1, 41)},
                  .f = [](const Inputs& x) { return square(slice_update(x[0], x[1], all, 1)); },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        Elements y = x[0];
                        for (std::size_t i = 0; i < 3; ++i) y[3 * i + 1] = x[1][i];
                        for (double& each : y) each *= each;
                        return y;
                      }});
  rows.push_back({.name = "scatter_add",
                  .inputs = {numbers({4, 2}, -1, 1, 42), numbers({3, 2}, -1, 1, 43)},
                  .f =
                      [](const Inputs& x) {
                        return square(scatter_add(x[0], tensor({3, 1, 3}).to(x[0].device()), x[1]));
                      },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        Elements y = x[0];
                        const std::size_t to[] = {3, 1, 3};
                        for (std::size_t i = 0; i < 6; ++i) y[2 * to[i / 2] + i % 2] += x[1][i];
                        for (double& each : y) each *= each;
                        return y;
                      }});
  rows.push_back({.name = "tensor_scatter_nd_add",
                  .inputs = {numbers({2, 3}, -1, 1, 44), numbers({2}, -1, 1, 45)},
                  .f =
                      [](const Inputs& x) {
                        return square(tensor_scatter_nd_add(x[0], tensor({{1, 2}, {0, 1}}).to(x[0].device()), x[1]));
                      },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        Elements y = x[0];
                        y[5] += x[1][0];
                        y[1] += x[1][1];
                        for (double& each : y) each *= each;
                        return y;
                      }});
  rows.push_back({.name = "top_k",
                  .inputs = {numbers({2, 5}, -1, 1, 46)},
                  .f = [](const Inputs& x) { return square(top_k(x[0], 3).values); },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        Elements y;
                        for (std::size_t i = 0; i < 2; ++i) {
                          Elements row(x[0].begin() + static_cast<std::ptrdiff_t>(5 * i),
                                       x[0].begin() + static_cast<std::ptrdiff_t>(5 * i + 5));
                          std::sort(row.begin(), row.end(), std::greater<>());
                          for (std::size_t j = 0; j < 3; ++j) y.push_back(row[j] * row[j]);
                        }
                        return y;
                      }});
  for (const bool down : {false, true})
    rows.push_back({.name = down ? "sort, descending" : "sort",
                    .inputs = {numbers({6}, -1, 1, 47)},
                    .f =
                        [down](const Inputs& x) {
                          return square(sort(x[0], 0, down ? Direction::descending : Direction::ascending));
                        },
                    .reference =
                        [down](const std::vector<Elements>& x) {
                          Elements y = x[0];
                          std::sort(y.begin(), y.end());
                          if (down) std::reverse(y.begin(), y.end());
                          for (double& each : y) each *= each;
                          return y;
                        }});
  rows.push_back({.name = "argsort undoes itself",
                  .inputs = {numbers({6}, -1, 1, 48)},
                  .f = [](const Inputs& x) { return argsort(argsort(argsort(x[0]))); },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        std::vector<std::size_t> order(6);
                        std::iota(order.begin(), order.end(), std::size_t{0});
                        std::sort(order.begin(), order.end(), [&](auto a, auto b) { return x[0][a] < x[0][b]; });
                        return Elements(order.begin(), order.end());
                      },
                  .orders = 0});
  rows.push_back({.name = "creation",
                  .inputs = {numbers({2, 2}, -1, 1, 49)},
                  .f =
                      [](const Inputs& x) {
                        const TensorOptions wide{.dtype = float64, .device = x[0].device()};
                        return concat({zeros({2}, wide), ones({1}, wide), full({1}, 7.0, wide),
                                       reshape(eye(2, wide), {4}), arange(0, 4, 2, wide), linspace(0.0, 1.0, 3, wide),
                                       reshape(zeros_like(x[0]) + ones_like(x[0]), {4}),
                                       reshape(one_hot(tensor({1}).to(wide.device), 2, float64), {2})},
                                      0);
                      },
                  .reference =
                      [](const std::vector<Elements>&) {
                        return Elements{0, 0, 1, 7, 1, 0, 0, 1, 0, 2, 0, 0.5, 1, 1, 1, 1, 1, 0, 1};
                      },
                  .orders = 0});
  rows.push_back({.name = "a fill of the sizes of other tensors",
                  .inputs = {numbers({3, 2}, -1, 1, 50), numbers({4}, -1, 1, 51)},
                  .f =
                      [](const Inputs& x) {
                        return apply_op("FillLike", x,
                                        {{"dtype", float64},
                                         {"shape", Shape{-1, 2, -1}},
                                         {"sizes_of", Ints{1, 0, 0, 1}},
                                         {"value", 3.0},
                                         {"device", x[0].device()}});
                      },
                  .reference = [](const std::vector<Elements>&) { return Elements(16, 3.0); },
                  .orders = 0});
  rows.push_back({.name = "a fill of as many elements as another tensor has",
                  .inputs = {numbers({3, 2}, -1, 1, 52)},
                  .f =
                      [](const Inputs& x) {
                        return apply_op("FillLike", x,
                                        {{"dtype", float64},
                                         {"shape", Shape{-1, -1, 1}},
                                         {"sizes_of", Ints{0, 1, 0, -1}},
                                         {"value", -0.5},
                                         {"device", x[0].device()}});
                      },
                  .reference = [](const std::vector<Elements>&) { return Elements(6, -0.5); },
                  .orders = 0});
  rows.push_back({.name = "custom_gradient",
                  .inputs = {numbers({2, 3}, -2, 2, 53)},
                  .f =
                      [](const Inputs& x) {
                        return custom_gradient([](const Tensor& z) -> CustomGradient {
                          return {softplus(z), [z](const Tensor& g) -> Tensors { return {g * sigmoid(z)}; }};
                        })(x[0]);
                      },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        Elements y = x[0];
                        for (double& each : y) each = std::log1p(std::exp(each));
                        return y;
                      }});
  for (const bool has_two_results : {false, true})
    rows.push_back({.name = has_two_results ? "registered gradients" : "a registered gradient",
                    .inputs = {numbers({2, 3}, -2, 2, 58)},
                    .f = [=](const Inputs& x) { return sine_and_exp(x[0], has_two_results); },
                    .reference =
                        [=](const std::vector<Elements>& x) {
                          Elements y = x[0];
                          for (double& each : y) each = std::sin(each) + (has_two_results ? std::exp(2 * each) : 0);
                          return y;
                        }});
  rows.push_back({.name = "recompute",
                  .inputs = {numbers({2, 3}, -2, 2, 54), numbers({3}, -1, 1, 55)},
                  .f =
                      [](const Inputs& x) {
                        return recompute([](const Tensor& a, const Tensor& b) { return sin(a * b); })(x[0], x[1]);
                      },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        Elements y = x[0];
                        for (std::size_t i = 0; i < y.size(); ++i) y[i] = std::sin(y[i] * x[1][i % 3]);
                        return y;
                      }});
  rows.push_back({.name = "an optimization barrier",
                  .inputs = {numbers({2, 3}, -2, 2, 56), numbers({3}, -1, 1, 57)},
                  .f = [](const Inputs& x) { return square(apply_op("OptimizationBarrier", x)); },
                  .reference =
                      [](const std::vector<Elements>& x) {
                        Elements y = x[0];
                        for (double& each : y) each *= each;
                        return y;
                      }});
  return rows;
}

}  // namespace tapestry::test
