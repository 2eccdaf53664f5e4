// Branches and loops: eagerly, traced and in a session they give the same bits, with their gradients to second order,
// and leave Variables and random numbers alike.

#include <array>
#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace control_flow_test {

using namespace tapestry;
using namespace tapestry::test;

namespace {

struct FlowProgram {
  std::string name;
  /// Of x: float64[batch, 3], n: int32[], w: float64[3]; the Variable `sum` is not trainable.
  std::function<Tensor(const Tensor& x, const Tensor& n, const Variable& w, const Variable& sum)> f;
};

Tensor below(const Tensor& i, const Tensor& n) { return less(i, n); }

/// Applies f(number of the iteration, value) so many times to a value.
Tensor counted(const Tensor& times, const Tensor& value, const std::function<Tensor(const Tensor&, const Tensor&)>& f) {
  const auto body = [&](const Tensor& i, const Tensor& s) { return std::tuple{i + 1, f(i, s)}; };
  return std::get<1>(
      while_loop([&](const Tensor& i, const Tensor&) { return less(i, times); }, body, std::tuple{0, value}));
}

const std::vector<FlowProgram>& programs() {
  static const std::vector<FlowProgram> list{
      {"branch",
       [](const Tensor& x, const Tensor& n, const Variable& w, const Variable&) {
         return cond(
             less(n, 2), [&] { return sin(x) * w; }, [&] { return x * x + w; });
       }},
      {"branch that returns what is around it",
       [](const Tensor& x, const Tensor& n, const Variable& w, const Variable&) {
         const Tensor y = x * w;
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
             [&](std::tuple<Tensor, Tensor> c, std::tuple<Tensor, Tensor> e) {
               auto [a, b] = c;
               auto [p, q] = e;
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
         return counted(n, x, [&](const Tensor& i, const Tensor& s) {
           return counted(i, s, [&](const Tensor&, const Tensor& t) {
             return sin(t * w) * random::normal({3}, {.dtype = float64});
           });
         });
       }},
      {"a Variable that a loop in a loop changes",
       [](const Tensor& x, const Tensor& n, const Variable& w, const Variable& sum) {
         return counted(n, x, [&](const Tensor& i, const Tensor& s) {
           return counted(3 - i, s, [&](const Tensor& j, const Tensor& t) {
             sum.assign_add(reduce_sum(t, {0}));
             return tanh(t * sum) * w + cast(i + j, float64);
           });
         });
       }},
      {"random numbers in a loop in a loop in a branch in a loop",
       [](const Tensor& x, const Tensor& n, const Variable& w, const Variable&) {
         return counted(n, x, [&](const Tensor& i, const Tensor& s) {
           return cond(
               greater(i, 1),
               [&] {
                 return counted(i, s, [&](const Tensor& j, const Tensor& t) {
                   return counted(j, t * 0.5, [&](const Tensor&, const Tensor& u) {
                     return sin(u) * w + random::uniform({3}, {.dtype = float64}) * u;
                   });
                 });
               },
               [&] { return s * w; });
         });
       }},
      {"a scan in a loop over rows that a condition chooses, with random numbers",
       [](const Tensor& x, const Tensor& n, const Variable& w, const Variable&) {
         return counted(n, x, [&](const Tensor& i, const Tensor& s) {
           const Tensor number = cumsum(ones_like(reduce_sum(s, {1})));
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

/// What a program gives: its result, and the gradients of its sum, and of the sum of these gradients' squares, with
/// respect to x, w and the Variable that some programs change.
Tensors results_of(const FlowProgram& program, int order, const Tensor& x, const Tensor& n, const Variable& w,
                   const Variable& sum) {
  const std::vector<Source> sources{x, w, sum};
  GradientTape outer;
  outer.watch(x);
  outer.watch(sum);
  Tensors first;
  Tensor y;
  {
    GradientTape inner;
    inner.watch(x);
    inner.watch(sum);
    y = program.f(x, n, w, sum);
    if (order == 0) return {y};
    first = Tensors(inner.gradient(reduce_sum(sin(y)), sources, {.unconnected = Unconnected::zero}));
  }
  if (order == 1) return {y, first[0], first[1], first[2]};
  Tensor squares;
  for (const Tensor& each : first) squares = squares ? squares + reduce_sum(square(each)) : reduce_sum(square(each));
  const Tensors second(outer.gradient(squares, sources, {.unconnected = Unconnected::zero}));
  return {y, first[0], first[1], first[2], second[0], second[1], second[2]};
}

/// The same numbers, where 0 and -0 are equal, up to a tolerance.
bool same_numbers(const Tensor& a, const Tensor& b, double tolerance) {
  const std::vector<double> x = values(a), y = values(b);
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::equal(x.begin(), x.end(), y.begin(), [&](double p, double q) { return agree(p, q, tolerance); });
}

}  // namespace

TEST_CASE("eager and traced, branches and loops give the same bits, to second order") {
  for (const FlowProgram& program : programs()) {
    for (int order = 0; order <= 2; ++order) {
      const Variable w({0.5, -0.25, 1.25}, {.name = "w", .dtype = float64});
      const Variable sum({0.125, 0.5, -1.0}, {.name = "sum", .trainable = false, .dtype = float64});
      const Tensor initial = sum.value() * 1.0;
      const auto f = [&](const Tensor& x, const Tensor& n) -> std::vector<Tensor> {
        return results_of(program, order, x, n, w, sum);
      };
      CAPTURE(program.name);
      CAPTURE(order);
      const auto known = trace(f, {spec(float64, {2, 3}), spec(int32, {})});
      const auto unknown = trace(f, {spec(float64, {-1, 3}), spec(int32, {})});
      const auto plain = trace(f, {spec(float64, {-1, 3}), spec(int32, {})},
                               {.disabled_passes = {"branches", "fold", "simplify", "cse", "shapes", "prune", "fuse",
                                                    "epilogue", "parallel"}});
      for (const int n : {0, 1, 2, 3, 5})
        for (const std::int64_t batch : {2, 1, 4}) {
          CAPTURE(n);
          CAPTURE(batch);
          random::seed(7);
          const Tensor x = random::normal({batch, 3}, {.dtype = float64});
          const random::State state = random::state();
          sum.assign(initial);
          const Tensors expected(f(x, tensor(n)));
          const Tensor expected_sum = sum.value() * 1.0, expected_draw = random::normal({2});
          const auto check = [&](const char* mode, const auto& traced) {
            CAPTURE(std::string(mode));
            random::set_state(state);
            sum.assign(initial);
            const Tensors actual(traced(x, tensor(n)));
            REQUIRE(actual.size() == expected.size());
            for (std::size_t i = 0; i < actual.size(); ++i) {
              CAPTURE(i);
              // The second backward pass goes through a loop's gradient as a whole, and the gradient of the Variable
              // that changes goes through its reads, so these sums are in another order.
              CHECK_MESSAGE(same_numbers(actual[i], expected[i], i < 3 ? 0 : 1e-11), printed(actual[i]),
                            printed(expected[i]));
            }
            CHECK(same_bits(sum.value() * 1.0, expected_sum));
            CHECK(same_bits(random::normal({2}), expected_draw));
          };
          if (batch == 2) check("known batch", known);
          check("unknown batch", unknown);
          check("no passes", plain);
        }
    }
  }
}

TEST_CASE("branches and loops of placeholders whose dtypes or ranks only the feeds tell") {
  for (const FlowProgram& program : programs())
    for (const DType dtype : {DType::unknown, float64}) {
      if (program.name.find("Variable that") != std::string::npos) continue;  // a graph by hand orders no reads
      CAPTURE(program.name);
      CAPTURE(dtype);
      const Variable w({0.5, -0.25, 1.25}, {.name = "w", .dtype = float64});
      const Variable sum({0.125, 0.5, -1.0}, {.name = "sum", .trainable = false, .dtype = float64});
      const Tensor value = random::normal({2, 3}, {.dtype = float64});
      Graph graph;
      Tensor x, n, y, slope;
      {
        const auto scope = graph.as_default();
        x = placeholder(dtype);
        n = dtype == float64 ? placeholder(int32) : placeholder();
        y = program.f(x, n, w, sum);
        slope = gradients(reduce_sum(sin(y)), {x}, {.unconnected = Unconnected::zero})[0];
      }
      Session session(graph);
      for (const int count : {0, 1, 3}) {
        CAPTURE(count);
        const random::State state = random::state();
        const Tensors expected = results_of(program, 1, value, tensor(count), w, sum);
        random::set_state(state);
        const std::vector<Tensor> found = session.run({y, slope}, {{x, value}, {n, tensor(count)}});
        CHECK(same_numbers(found[0], expected[0], 0));
        CHECK(same_numbers(found[1], expected[1], 1e-12));
      }
    }
}

TEST_CASE("branches and loops have the gradients of ops on captured eager tensors alone") {
  const Tensor w = tensor<double>({3});
  const Graph graph;
  const auto scope = graph.as_default();
  const Tensor p = placeholder(boolean, {}), x = placeholder(float64, {1}), n = placeholder(int32, {});
  const Session session(graph);
  GradientTape outer;
  outer.watch(w);
  GradientTape tape;
  tape.watch(w);
  const Tensor branch = cond(
      p, [&] { return w * w * x; }, [&] { return exp(w) * x; });
  const auto below_n = [&](const Tensor& i, const Tensor&) { return less(i, n); };
  const auto add = [&](const Tensor& i, const Tensor& sum) { return std::tuple(i + 1, sum + square(w) * x); };
  const Tensor loop = std::get<1>(while_loop(below_n, add, std::tuple(constant(0), x)));
  const Tensor mapped = map([&](const Tensor& row) { return row * sin(w)(0); }, x);
  const Tensor slope = tape.gradient(branch + loop + mapped, w), curvature = outer.gradient(slope, w);
  const Feeds square_taken{{p, true}, {x, {5.0}}, {n, 4}}, exp_taken{{p, false}, {x, {5.0}}, {n, 0}};
  check_values(session.run(slope, square_taken), {30 + 4 * 30 + 5 * std::cos(3)}, 1e-14);
  check_values(session.run(curvature, square_taken), {10 + 4 * 10 - 5 * std::sin(3)}, 1e-14);
  check_values(session.run(slope, exp_taken), {5 * std::exp(3) + 5 * std::cos(3)}, 1e-14);
}

TEST_CASE("a tape in a branch, a loop or a vmap watches a tensor of the graph around") {
  const auto f = [](const Tensor& x, const Tensor& w) {
    const auto slope = [&](const Tensor& y) {
      GradientTape tape;
      tape.watch(w);
      return tape.gradient(reduce_sum(w * w * y), w);
    };
    const Tensor branch = cond(
        greater(x(0), 0.0), [&] { return slope(x); }, [&] { return w; });
    const Tensor mapped = map([&](const Tensor& e) { return reduce_sum(slope(e * x)); }, x);
    return branch + mapped + vmap([&](const Tensor& e) { return reduce_sum(slope(e * x)); })(x);
  };
  const Tensor x = tensor<double>({1, 2, -0.5}), w = tensor<double>({0.3, -0.7, 1.1});
  const auto traced = trace(f, {spec(float64, {3}), spec(float64, {3})});
  check_values(f(x, w), values(2.0 * w * x + 4.0 * x * reduce_sum(w * x)), 1e-14);
  CHECK(same_bits(traced(x, w), f(x, w)));
}

TEST_CASE("a tape in a loop or behind a branch watches what these give, not the tensor that they were given") {
  const auto descend = [](const Tensor& x) {
    const auto [count, found] = while_loop([](Tensor i, Tensor) { return i < 2; },
                                           [&](Tensor i, Tensor p) {
                                             GradientTape tape;
                                             tape.watch(p);
                                             const Tensor loss = reduce_sum(square(sin(p) - x));
                                             return std::tuple{i + 1, p - 0.1 * tape.gradient(loss, p)};
                                           },
                                           std::tuple{0, x});
    return found;
  };
  const auto branch = [](const Tensor& x) {
    const Tensor y = cond(
        reduce_sum(x) > 0.0, [&] { return x; }, [&] { return 2.0 * x; });
    GradientTape tape;
    tape.watch(y);
    return tape.gradient(reduce_sum(y * x), y);
  };
  const Tensor x = tensor({0.3, -0.7, 1.1});
  const std::vector<TensorSpec> specs{spec(float32, {3})};
  CHECK(same_bits(trace(descend, specs)(x), descend(x)));
  CHECK(same_bits(trace(branch, specs)(x), branch(x)));
  CHECK(same_bits(branch(x), x));
}

TEST_CASE("what a branch or a loop recomputes, and gradients of its own, use tensors of the graph around") {
  const auto f = [](const Tensor& x, const Tensor& w) {
    const auto again = recompute([w](const Tensor& z) { return tanh(matmul(w, z)); });
    const auto own = custom_gradient([w](const Tensor& z) {
      return CustomGradient{matmul(w, z), [w](const Tensor& d) { return matmul(w, d, {.transpose_a = true}); }};
    });
    GradientTape tape;
    tape.watch(x);
    const Tensor mapped = map([&](const Tensor& row) { return again(row); }, x);
    const Tensor branch = cond(
        reduce_sum(x) > 0.0, [&] { return map([&](const Tensor& row) { return own(again(row)); }, x); },
        [&] { return x * 1.0; });
    return tape.gradient(reduce_sum(square(mapped)) + reduce_sum(branch * branch), x);
  };
  const Tensor x = tensor<double>({{0.3, -0.7}, {1.1, 0.4}}), w = tensor<double>({{0.5, -0.3}, {0.2, 0.8}});
  for (const std::int64_t rows : {-1, 2})
    CHECK(same_bits(trace(f, {spec(float64, {rows, 2}), spec(float64, {2, 2})})(x, w), f(x, w)));
}

TEST_CASE("branches of switch_case return what those of cond return") {
  const Variable v(0, {.name = "v"});
  const auto f = [&](const Tensor& i, const Tensor& x) -> std::vector<Tensor> {
    Tensor a, b, c, d, e;  // clang 14 captures no structured bindings
    std::tie(a, b) = switch_case(i, {[&] { return std::tuple{x, x * 2.0}; }, [&] { return std::tuple{sin(x), x}; }});
    std::tie(c, d, e) = switch_case(i, {[&] { return std::tuple{a, b, x}; }, [&] { return std::tuple{b, a, x}; }});
    switch_case(i, {[&] { v.assign(1); }, [&] { v.assign_add(10); }});
    const std::vector<std::function<std::array<Tensor, 2>()>> more{[&] {
                                                                     return std::array{c, d};
                                                                   },
                                                                   [&] {
                                                                     return std::array{d, e};
                                                                   }};
    const auto [p, q] = switch_case(i, more);
    return {p, q, switch_case(i, {[&] { return std::vector{a, b}; }, [&] { return std::vector{b, a}; }})[0], v + 0};
  };
  const auto traced = trace(f, {spec(int32, {}), spec(float64, {2})});
  const Tensor x = tensor<double>({0.5, -1.0});
  for (const int i : {0, 1, 7, -1}) {
    v.assign(3);
    const std::vector<Tensor> expected = f(tensor(i), x);
    v.assign(3);
    check_same_bits(traced(i, x), expected);
  }
}

TEST_CASE("the steps of functions are measured, too") {
  const auto traced = trace(
      [](const Tensor& x, const Tensor& n) {
        return std::get<1>(while_loop([&](const Tensor& i, const Tensor&) { return less(i, n); },
                                      [&](const Tensor& i, const Tensor& s) {
                                        return std::tuple{i + 1, cond(
                                                                     equal(mod(i, 2), 0), [&] { return matmul(s, x); },
                                                                     [&] { return s; })};
                                      },
                                      std::tuple{0, x}, {.name = "loop"}));
      },
      {spec(float32, {3, 3}), spec(int32, {})});
  const Session session(traced.graph());
  const Feeds feeds{{traced.input(0), eye(3)}, {traced.input(1), 5}};
  RunMetadata metadata;
  session.run(traced.output(), feeds, {}, &metadata);
  CHECK(metadata.functions.empty());
  check_same(session.run(traced.output(), feeds, {.trace_level = TraceLevel::full}, &metadata), eye(3));
  std::map<std::string, std::int64_t> runs;
  for (const RunMetadata::Function& each : metadata.functions) {
    runs[each.name] = each.runs;
    REQUIRE(each.times.size() == each.plan.steps.size());
    for (const RunMetadata::Time& time : each.times) {
      CHECK(time.start >= metadata.times[0].start);
      CHECK(time.duration <= metadata.times[0].duration);
    }
  }
  const std::string branch = "loop/body/StatelessIf/";
  CHECK(runs == std::map<std::string, std::int64_t>{
                    {"loop/body", 5}, {"loop/cond", 6}, {branch + "then", 3}, {branch + "else", 2}});
  const TemporaryFolder folder;
  metadata.write_chrome_trace(folder / "trace.json");
  std::ifstream file(folder / "trace.json");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  CHECK(text.find("\"name\":\"loop/body/StatelessIf/then\"") != std::string::npos);
  CHECK(text.find("\"runs\":6") != std::string::npos);
}

TEST_CASE("the third derivative of branches in a loop, of unknown sizes, in one of which is a loop") {
  using F = std::function<Tensor(const Tensor&)>;
  const F f = [](const Tensor& x) {
    const auto inner = [](const Tensor& i, const Tensor& s) {
      auto [end, result] = while_loop([&](Tensor j, Tensor) { return less(j, i); },
                                      [&](Tensor j, Tensor t) {
                                        return std::tuple{j + 1, tanh(t) + s};
                                      },
                                      std::tuple{0, s});
      return result * 1.0;
    };
    const auto branch = [](const Tensor& i, const Tensor& s) {
      return switch_case(i, {[&] { return s * 2.0; }, [&] { return sin(s) + s; }, [&] { return s - s; }});
    };
    auto [end, result] =
        while_loop([](Tensor i, Tensor) { return less(i, 4); },
                   [&](Tensor i, Tensor s) {
                     const Tensor next = cond(
                         equal(mod(i, 2), 0), [&] { return inner(i, s); }, [&] { return branch(i, s); });
                     return std::tuple{i + 1, next};
                   },
                   std::tuple{0, x});
    return result;
  };
  const auto derivative = [](const F& g) -> F {
    return [g](const Tensor& x) {
      GradientTape tape;
      tape.watch(x);
      const Tensor y = reduce_sum(sin(g(x)));
      return tape.gradient(y, x);
    };
  };
  const F third = derivative(derivative(derivative(f)));
  const Tensor x = tensor({0.75, -0.5}).cast(float64);
  const Tensor eager = third(x);
  SessionOptions plain;
  plain.optimize = false;
  for (const Shape& shape : {Shape{2}, Shape{-1}}) {
    const auto traced = trace(third, {spec(float64, shape)});
    for (const SessionOptions& options : {SessionOptions(), plain}) {
      const Tensor found = Session(traced.graph(), options).run(traced.output(), {{traced.input(), x}});
      CHECK(reduce_max(abs(found - eager)).item<double>() < 1e-9);
    }
  }
}

}  // namespace control_flow_test
