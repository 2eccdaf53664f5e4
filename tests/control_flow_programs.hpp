#pragma once

#include <functional>
#include <string>
#include <vector>

#include "flow_models.hpp"
#include "tapestry/tapestry.hpp"

namespace control_flow_test {

using namespace tapestry;
using test::counted;

struct FlowProgram {
  std::string name;
  /// Of x: float64[batch, 3], n: int32[], w: float64[3]; the Variable `sum` is not trainable.
  std::function<Tensor(const Tensor& x, const Tensor& n, const Variable& w, const Variable& sum)> f;
};

inline Tensor below(const Tensor& i, const Tensor& n) { return less(i, n); }

inline const std::vector<FlowProgram>& programs() {
  static const std::vector<FlowProgram> list{
      {"branch",
       [](const Tensor& x, const Tensor& n, const Variable& w, const Variable&) {
         return cond(
             less(n, 2), [&] { return sin(x) * w; }, [&] { return x * x + w; });
       }},
      {"branch that returns what is around it",
       [](const Tensor& x, const Tensor& n, const Variable& w, const Variable&) {
         Tensor y = x * w;
         return y * cond(
                        less(n, 2), [&] { return y; }, [&] { return x; }) +
                y;
       }},
      {"branches of several results, one of which ignores the surroundings",
       [](const Tensor& x, const Tensor& n, const Variable& w, const Variable&) {
         auto [a_out, b_out] = cond(
             greater(n, 1),
             [&] {
               return std::tuple{exp(x), x * w};
             },
             [&] {
               return std::tuple{zeros_like(x), ones_like(x)};
             });
         return a_out * b_out;
       }},
      {"branches whose gradients both need their result",
       [](const Tensor& x, const Tensor& n, const Variable& w, const Variable&) {
         return w * cond(
                        less(n, 2), [&] { return exp(x * 0.75); }, [&] { return x * 2.0; });
       }},
      {"switch",
       [](const Tensor& x, const Tensor& n, const Variable& w, const Variable&) {
         return switch_case(n - 1, {[&] { return x * 2.0; }, [&] { return sin(x * w); }, [&] { return tanh(x); }});
       }},
      {"branch in a branch",
       [](const Tensor& x, const Tensor& n, const Variable& w, const Variable&) {
         return cond(
             less(n, 3),
             [&] {
               const Tensor y = exp(x);
               return cond(
                   less(n, 1), [&] { return y * y; }, [&] { return sin(y) * w; });
             },
             [&] { return x / (1.0 + x * x); });
       }},
      {"branch with a gradient of its own",
       [](const Tensor& x, const Tensor& n, const Variable& w, const Variable&) {
         const auto f = custom_gradient([](const Tensor& z) -> CustomGradient {
           return {z * z, [z](const Tensor& g) -> Tensors { return {3.0 * g * z}; }};
         });
         return cond(
             less(n, 2), [&] { return f(x) * w; }, [&] { return f(sin(x)); });
       }},
      {"loop",
       [](const Tensor& x, const Tensor& n, const Variable& w, const Variable&) {
         auto [i_out, s_out] = while_loop([&](Tensor i, Tensor) { return below(i, n); },
                                          [&](Tensor i, Tensor s) {
                                            return std::tuple{i + 1, sin(s * w) + x};
                                          },
                                          std::tuple{0, x});
         return s_out;
       }},
      {"loop over what is linear",
       [](const Tensor& x, const Tensor& n, const Variable&, const Variable&) {
         auto [i_out, s_out] = while_loop([&](Tensor i, Tensor) { return below(i, n); },
                                          [&](Tensor i, Tensor s) {
                                            return std::tuple{i + 1, s * 0.5};
                                          },
                                          std::tuple{0, x});
         return s_out + x;
       }},
      {"loop that swaps its variables",
       [](const Tensor& x, const Tensor& n, const Variable& w, const Variable&) {
         auto [i_out, a_out, b_out] = while_loop([&](Tensor i, Tensor, Tensor) { return below(i, n); },
                                                 [&](Tensor i, Tensor a, Tensor b) {
                                                   return std::tuple{i + 1, b * w, a};
                                                 },
                                                 std::tuple{0, x, sin(x)});
         return a_out * b_out * b_out;
       }},
      {"loop that ends by its values",
       [](const Tensor& x, const Tensor&, const Variable& w, const Variable&) {
         return while_loop([](Tensor s) { return less(reduce_max(abs(s)), 20.0); },
                           [&](Tensor s) { return 1.5 * s + square(w); }, x + 1.0, {.maximum_iterations = 7});
       }},
      {"branch in a loop",
       [](const Tensor& x, const Tensor& n, const Variable& w, const Variable&) {
         auto [i_out, s_out] =
             while_loop([&](Tensor i, Tensor) { return below(i, n); },
                        [&](Tensor i, Tensor s) {
                          return std::tuple{
                              i + 1, cond(
                                         equal(mod(i, 2), 0), [&] { return sin(s) * w; }, [&] { return s * s + x; })};
                        },
                        std::tuple{0, x});
         return s_out;
       }},
      {"loop in a branch",
       [](const Tensor& x, const Tensor& n, const Variable& w, const Variable&) {
         return cond(
             less(n, 4),
             [&] {
               return std::get<1>(while_loop([&](Tensor i, Tensor) { return below(i, n); },
                                             [&](Tensor i, Tensor s) {
                                               return std::tuple{i + 1, tanh(s + w)};
                                             },
                                             std::tuple{0, x}));
             },
             [&] { return x * w; });
       }},
      {"loop in a loop, as long as the outer one says",
       [](const Tensor& x, const Tensor& n, const Variable& w, const Variable&) {
         auto [i_out, s_out] = while_loop([&](Tensor i, Tensor) { return below(i, n); },
                                          [&](Tensor i, Tensor s) {
                                            auto [k_end, t_end] =
                                                while_loop([&](Tensor k, Tensor) { return below(k, i); },
                                                           [&](Tensor k, Tensor t) {
                                                             return std::tuple{k + 1, sin(t) * w};
                                                           },
                                                           std::tuple{0, s});
                                            return std::tuple{i + 1, t_end + x};
                                          },
                                          std::tuple{0, x});
         return s_out;
       }},
      {"scan",
       [](const Tensor& x, const Tensor&, const Variable& w, const Variable&) {
         auto [h_out, ys_out] = scan(
             [&](Tensor h, Tensor row) {
               const Tensor next = tanh(h * w + row);
               return std::tuple{next, next * row};
             },
             zeros({3}, {.dtype = float64}), x);
         return ys_out + h_out;
       }},
      {"scan from the end, two carried values",
       [](const Tensor& x, const Tensor&, const Variable& w, const Variable&) {
         auto [carried_out, ys_out] = scan(
             [&](const std::tuple<Tensor, Tensor>& c, const std::tuple<Tensor, Tensor>& e) {
               const auto& [a, b] = c;
               const auto& [p, q] = e;
               return std::tuple{std::tuple{sin(a) + p, b * w}, a * q};
             },
             std::tuple{zeros({3}, {.dtype = float64}), ones({3}, {.dtype = float64})}, std::tuple{x, cos(x)},
             {.reverse = true});
         return ys_out * std::get<0>(carried_out) + std::get<1>(carried_out);
       }},
      {"map", [](const Tensor& x, const Tensor&, const Variable& w,
                 const Variable&) { return map([&](Tensor row) { return reduce_sum(row * w) * row; }, x); }},
      {"elements that are passed on",
       [](const Tensor& x, const Tensor&, const Variable& w, const Variable&) {
         auto [last_out, before_out] = scan(
             [](Tensor before, Tensor row) {
               return std::tuple{row, before};
             },
             w.value(), x);
         return map([](Tensor row) { return row; }, x, {.reverse = true}) * w + before_out * last_out;
       }},
      {"scan in a loop",
       [](const Tensor& x, const Tensor& n, const Variable& w, const Variable&) {
         auto [i_out, s_out] = while_loop([&](Tensor i, Tensor) { return below(i, n); },
                                          [&](Tensor i, Tensor s) {
                                            auto [h_end, ys_end] = scan(
                                                [&](Tensor h, Tensor row) {
                                                  return std::tuple{sin(h) + row, h * row};
                                                },
                                                w.value(), s);
                                            return std::tuple{i + 1, tanh(ys_end)};
                                          },
                                          std::tuple{0, x});
         return s_out;
       }},
      {"a Variable that a loop changes",
       [](const Tensor& x, const Tensor& n, const Variable& w, const Variable& sum) {
         auto [i_out, s_out] = while_loop([&](Tensor i, Tensor) { return below(i, n); },
                                          [&](Tensor i, Tensor s) {
                                            sum.assign_add(reduce_sum(s, {0}));
                                            return std::tuple{i + 1, s * w + sum};
                                          },
                                          std::tuple{0, x});
         return s_out + sum;
       }},
      {"a Variable that a branch changes after it was read",
       [](const Tensor& x, const Tensor& n, const Variable& w, const Variable& sum) {
         const Tensor before = sum * 2.0;
         const Tensor y = cond(
             less(n, 2),
             [&] {
               const Tensor old = sum + 0.0;
               sum.assign(w * 3.0);
               return old * x + sum;
             },
             [&] { return x * 1.0; });
         return y * before * w + sum;
       }},
      {"random numbers in a loop",
       [](const Tensor& x, const Tensor& n, const Variable& w, const Variable&) {
         auto [i_out, s_out] = while_loop([&](Tensor i, Tensor) { return below(i, n); },
                                          [&](Tensor i, Tensor s) {
                                            return std::tuple{i + 1, s * w + random::normal({3}, {.dtype = float64})};
                                          },
                                          std::tuple{0, x});
         return s_out * random::uniform({3}, {.dtype = float64});
       }},
      {"random numbers in a branch",
       [](const Tensor& x, const Tensor& n, const Variable& w, const Variable&) {
         return cond(
             less(n, 2), [&] { return x * w * random::normal({3}, {.dtype = float64}); }, [&] { return x * w; });
       }},
      {"random numbers in a loop in a loop, as often as the outer one has run",
       [](const Tensor& x, const Tensor& n, const Variable& w, const Variable&) {
         return counted(x, n, [&](const Tensor& i, const Tensor& s) {
           return counted(s, i, [&](const Tensor&, const Tensor& t) {
             return sin(t * w) * random::normal({3}, {.dtype = float64});
           });
         });
       }},
      {"a Variable that a loop in a loop changes",
       [](const Tensor& x, const Tensor& n, const Variable& w, const Variable& sum) {
         return counted(x, n, [&](const Tensor& i, const Tensor& s) {
           return counted(s, 3 - i, [&](const Tensor& j, const Tensor& t) {
             sum.assign_add(reduce_sum(t, {0}));
             return tanh(t * sum) * w + cast(i + j, float64);
           });
         });
       }},
      {"random numbers in a loop in a loop in a branch in a loop",
       [](const Tensor& x, const Tensor& n, const Variable& w, const Variable&) {
         return counted(x, n, [&](const Tensor& i, const Tensor& s) {
           return cond(
               greater(i, 1),
               [&] {
                 return counted(s, i, [&](const Tensor& j, const Tensor& t) {
                   return counted(t * 0.5, j, [&](const Tensor&, const Tensor& u) {
                     return sin(u) * w + random::uniform({3}, {.dtype = float64}) * u;
                   });
                 });
               },
               [&] { return s * w; });
         });
       }},
      {"a scan in a loop over rows that a condition chooses, with random numbers",
       [](const Tensor& x, const Tensor& n, const Variable& w, const Variable&) {
         return counted(x, n, [&](const Tensor& i, const Tensor& s) {
           const Tensor number = reshape(cumsum(ones_like(reduce_sum(s, {1}))), {-1});
           const Tensor rows = boolean_mask(s, less_equal(number, cast(i, float64)));
           const Tensor drawn = dropout(rows, 0.5) * random::normal_like(rows);
           const Tensor sums = map([&](const Tensor& row) { return sin(row) * w; }, concat({drawn, s}, 0));
           return s * 0.5 + reduce_sum(square(sums), {0});
         });
       }},
      {"a shape that changes, and random numbers",
       [](const Tensor& x, const Tensor& n, const Variable& w, const Variable&) {
         auto [i_out, s_out] = while_loop([&](Tensor i, Tensor) { return below(i, minimum(n, 3)); },
                                          [&](Tensor i, Tensor s) {
                                            const Tensor noise = random::normal({3}, {.dtype = float64});
                                            return std::tuple{i + 1, concat({s * noise, sin(s) * w}, 0)};
                                          },
                                          std::tuple{0, x}, {.shape_invariants = {{}, {-1, 3}}});
         return reduce_sum(s_out * s_out) + reduce_sum(x);
       }},
      {"a shape that changes",
       [](const Tensor& x, const Tensor& n, const Variable& w, const Variable&) {
         auto [i_out, s_out] = while_loop([&](Tensor i, Tensor) { return below(i, minimum(n, 3)); },
                                          [&](Tensor i, Tensor s) {
                                            return std::tuple{i + 1, concat({s, sin(s) * w}, 0)};
                                          },
                                          std::tuple{0, x}, {.shape_invariants = {{}, {-1, 3}}});
         return reduce_sum(s_out * s_out) + reduce_sum(x);
       }},
      {"a loop that changes shapes behind a branch in a branch",
       [](const Tensor& x, const Tensor& n, const Variable& w, const Variable&) {
         return cond(
             less(n, 3),
             [&] {
               const Tensor y = cond(
                   less(n, 2), [&] { return sin(x); }, [&] { return x / (1.0 + reduce_max(square(x))); });
               auto [i_out, s_out] = while_loop([&](Tensor i, Tensor) { return below(i, n); },
                                                [&](Tensor i, Tensor s) {
                                                  return std::tuple{i + 1, concat({s * w, sin(y)}, 0)};
                                                },
                                                std::tuple{0, y}, {.shape_invariants = {{}, {-1, 3}}});
               return y + reduce_sum(sin(s_out), {0});
             },
             [&] { return sin(x); });
       }},
      {"a loop that recomputes",
       [](const Tensor& x, const Tensor& n, const Variable& w, const Variable&) {
         auto [i_out, s_out] = while_loop([&](Tensor i, Tensor) { return below(i, n * n); },
                                          [&](Tensor i, Tensor s) {
                                            return std::tuple{i + 1, sin(s * w) + x};
                                          },
                                          std::tuple{0, x}, {.recompute = true});
         return s_out;
       }},
      {"a loop over a tensor with all axes that there may be",
       [](const Tensor& x, const Tensor& n, const Variable& w, const Variable&) {
         const Tensor start = reshape(x, {1, 1, 1, -1, 1, 1, 1, 3});
         auto [i_out, s_out] = while_loop([&](Tensor i, Tensor) { return below(i, n); },
                                          [&](Tensor i, Tensor s) {
                                            return std::tuple{i + 1, sin(s * w) + start};
                                          },
                                          std::tuple{0, start * 2.0});
         return s_out;
       }},
  };
  return list;
}

}  // namespace control_flow_test
