#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tapestry/tapestry.hpp"

namespace tapestry::test {

/// A function with branches and loops, for files.
struct FlowModel {
  std::string name;
  /// Of x: float64[batch, 3], n: int32[] and the Variables w: float64[3] and sum: float64[3], which is not trainable.
  std::function<Tensor(const Tensor& x, const Tensor& n, const Variable& w, const Variable& sum)> f;
  bool has_gradient = true;  ///< TensorFlow knows one
};

inline Tensor counted(const Tensor& x, const Tensor& n, const std::function<Tensor(Tensor i, Tensor s)>& step) {
  auto [end, result] = while_loop([&](Tensor i, Tensor) { return less(i, n); },
                                  [&](Tensor i, Tensor s) {
                                    return std::tuple{i + 1, step(i, s)};
                                  },
                                  std::tuple{0, x});
  return result;
}

inline const std::vector<FlowModel>& flow_models() {
  using V = const Variable&;
  using T = const Tensor&;
  static const std::vector<FlowModel> models{
      {"cond",
       [](T x, T n, V w, V) {
         return cond(
             less(n, 2), [&] { return sin(x) * w; }, [&] { return x * x + w; });
       }},
      {"switch_case",
       [](T x, T n, V w, V) {
         return switch_case(n - 1, {[&] { return x * 2.0; }, [&] { return sin(x * w); }, [&] { return tanh(x); }});
       }},
      {"cond in cond",
       [](T x, T n, V w, V) {
         return cond(
             less(n, 3),
             [&] {
               const Tensor y = exp(x);
               return cond(
                   less(n, 1), [&] { return y * y; }, [&] { return sin(y) * w; });
             },
             [&] { return x / (1.0 + x * x); });
       }},
      {"while_loop", [](T x, T n, V w, V) { return counted(x, n, [&](Tensor, Tensor s) { return sin(s * w) + x; }); }},
      {"while_loop by values, with a maximum",
       [](T x, T, V w, V) {
         return while_loop([](Tensor s) { return less(reduce_max(abs(s)), 20.0); },
                           [&](Tensor s) { return 1.5 * s + square(w); }, x + 1.0, {.maximum_iterations = 7});
       }},
      {"cond in while_loop",
       [](T x, T n, V w, V) {
         return counted(x, n, [&](Tensor i, Tensor s) {
           return cond(
               equal(mod(i, 2), 0), [&] { return sin(s) * w; }, [&] { return s * s * 0.1 + x; });
         });
       }},
      {"while_loop in cond",
       [](T x, T n, V w, V) {
         return cond(
             less(n, 4), [&] { return counted(x, n, [&](Tensor, Tensor s) { return tanh(s + w); }); },
             [&] { return x * w; });
       }},
      {"while_loop in while_loop",
       [](T x, T n, V w, V) {
         return counted(
             x, n, [&](Tensor i, Tensor s) { return counted(s, i, [&](Tensor, Tensor t) { return sin(t) * w; }) + x; });
       }},
      {"while_loop that recomputes",
       [](T x, T n, V w, V) {
         auto [end, result] = while_loop([&](Tensor i, Tensor) { return less(i, n); },
                                         [&](Tensor i, Tensor s) {
                                           return std::tuple{i + 1, sin(s * w) + x * cast(i, float64)};
                                         },
                                         std::tuple{0, x}, {.recompute = true});
         return result;
       }},
      {"while_loop whose shape changes",
       [](T x, T n, V w, V) {
         auto [end, result] = while_loop([&](Tensor i, Tensor) { return less(i, n); },
                                         [&](Tensor i, Tensor s) {
                                           return std::tuple{i + 1, concat({sin(s * w), x}, 0)};
                                         },
                                         std::tuple{0, x}, {.shape_invariants = {{}, {-1, 3}}});
         return reduce_sum(result * result, {0});
       }},
      {"while_loop that keeps what a mask leaves",
       [](T x, T n, V w, V) {
         auto [end, result] = while_loop([&](Tensor i, Tensor) { return less(i, n); },
                                         [&](Tensor i, Tensor s) {
                                           return std::tuple{i + 1, boolean_mask(s * w, greater(s(all, 0), -0.1))};
                                         },
                                         std::tuple{0, concat({x, x}, 0)}, {.shape_invariants = {{}, {-1, 3}}});
         return reduce_sum(sin(result), {0});
       }},
      {"scan",
       [](T x, T, V w, V) {
         auto [h, ys] = scan(
             [&](Tensor state, Tensor row) {
               const Tensor next = tanh(state * w + row);
               return std::tuple{next, next * row};
             },
             zeros({3}, {.dtype = float64}), x);
         return ys + h;
       }},
      {"scan from the end",
       [](T x, T, V w, V) {
         auto [h, ys] = scan(
             [&](Tensor state, Tensor row) {
               return std::tuple{sin(state) + row, state * row * w};
             },
             ones({3}, {.dtype = float64}), x, {.reverse = true});
         return ys + h;
       }},
      {"map", [](T x, T, V w, V) { return map([&](Tensor row) { return reduce_sum(row * w) * row; }, x); }},
      {"map that ignores the elements, from the end",
       [](T x, T n, V w, V) { return map([&](Tensor) { return x * w + n.cast(float64); }, x, {.reverse = true}); }},
      {"map over a computed sequence of known length, from the end",
       [](T x, T, V w, V) {
         const Tensor three = reshape(x(range(0, 1)) * ones({2, 3}, {.dtype = float64}), {2, 3});
         return map([&](Tensor) { return x * w; }, three, {.reverse = true});
       }},
      {"map that needs the sizes alone",
       [](T x, T, V w, V) {
         return map(
             [&](Tensor row) {
               return w *
                      apply_op("FillLike", {row},
                               {{"dtype", float64}, {"shape", Shape{-1}}, {"sizes_of", Ints{0, 0}}, {"value", 2.0}});
             },
             x(range(0, 1)));
       }},
      {"cond in map in map, over elements of unknown size",
       [](T x, T, V w, V) {
         const Tensor columns = transpose(x);
         const auto step = [&](Tensor column, Tensor other) {
           return cond(
               reduce_sum(column) + 0.1 * reduce_sum(other) > 0.0, [&] { return sin(other * column) * other; },
               [&] { return other * 2.0; });
         };
         const Tensor sums = map(
             [&](Tensor column) {
               return reduce_sum(map([&](Tensor other) { return step(column, other); }, columns), {0});
             },
             columns);
         return transpose(sums) * w;
       }},
      {"switch_case in scan in while_loop, over elements of unknown size",
       [](T x, T n, V, V) {
         const Tensor columns = transpose(x);
         return counted(columns(0), n, [&](Tensor i, Tensor s) {
           auto [last, all] = scan(
               [&](Tensor h, Tensor column) {
                 const Tensor next =
                     switch_case(cast(floor(reduce_sum(column)), int32) + i - 1,
                                 {[&] { return sin(h) * column; }, [&] { return tanh(h); }, [&] { return h * 0.5; }});
                 return std::tuple{next, next * next};
               },
               s, columns);
           return last + reduce_sum(all, {0});
         });
       }},
      {"a Variable that a loop changes",
       [](T x, T n, V w, V sum) {
         return counted(x, n,
                        [&](Tensor, Tensor s) {
                          sum.assign_add(reduce_sum(s, {0}));
                          return s * w + sum;
                        }) +
                sum;
       },
       false},
      {"a Variable that a loop in a loop changes, as often as the outer one has run",
       [](T x, T n, V w, V sum) {
         return counted(x, n, [&](Tensor i, Tensor s) {
           return counted(s, i, [&](Tensor, Tensor t) {
             sum.assign_add(reduce_sum(t, {0}));
             return sin(t * sum) + t * w;
           });
         });
       },
       false},
      {"a Variable that a scan in a branch in a loop changes, over rows that a mask leaves",
       [](T x, T n, V w, V sum) {
         return counted(x, n, [&](Tensor i, Tensor s) {
           return cond(
               less(i, 3),
               [&] {
                 const Tensor rows = boolean_mask(s, less(reduce_sum(s, {1}), cast(i, float64)));
                 auto [last_out, all_out] = scan(
                     [&](Tensor before, Tensor row) {
                       sum.assign_add(row);
                       const Tensor next = sin(before * sum) + row;
                       return std::tuple{next, next * w};
                     },
                     sum.value(), rows);
                 return s * last_out + reduce_sum(square(all_out), {0});
               },
               [&] { return tanh(s); });
         });
       },
       false},
      {"loops for the sake of what they change",
       [](T x, T n, V w, V sum) {
         while_loop([&](Tensor i) { return less(i, n); },
                    [&](Tensor i) {
                      sum.assign_add(w);
                      return i + 1;
                    },
                    0);
         map(
             [&](Tensor row) {
               sum.assign(sum * 2.0 - row);
               return row;
             },
             x);
         return x + sum.value();
       },
       false},
      {"a Variable that a branch changes",
       [](T x, T n, V w, V sum) {
         return cond(
                    less(n, 2),
                    [&] {
                      sum.assign(w * 3.0);
                      return x + sum;
                    },
                    [&] { return x * 1.0; }) *
                w;
       },
       false},
  };
  return models;
}

/// What a model gives, on request with the gradients by x and w.
inline std::vector<Tensor> results_of(const FlowModel& model, bool with_gradient, const Tensor& x, const Tensor& n,
                                      const Variable& w, const Variable& sum) {
  if (!with_gradient) return {model.f(x, n, w, sum)};
  GradientTape tape;
  tape.watch(x);
  const Tensor y = model.f(x, n, w, sum);
  const auto found = tape.gradient(reduce_sum(sin(y)), {x, w}, {.unconnected = Unconnected::zero});
  return {y, found[0], found[1]};
}

}  // namespace tapestry::test
