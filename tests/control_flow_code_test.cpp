// Long loops over few elements, which sessions compile: eagerly, traced and without passes they give the same bits,
// with gradients, limits and errors.

#include <chrono>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "tapestry/tapestry.hpp"

namespace control_flow_code_test {

using namespace tapestry;
using namespace tapestry::test;

namespace {

struct LoopCase {
  std::string name;
  std::vector<Tensor> arguments;
  std::function<std::vector<Tensor>(const std::vector<Tensor>&)> f;
};

constexpr int steps = 1500;  // compiled after a thousand

const std::vector<LoopCase>& cases() {
  using Arguments = std::vector<Tensor>;
  static const std::vector<LoopCase> list{
      LoopCase{"a counter and a number",
               {tensor(1.0)},
               [](const Arguments& x) -> Arguments {
                 auto [i_end, s_end] = while_loop([](Tensor i, Tensor) { return less(i, steps); },
                                                  [](Tensor i, Tensor s) {
                                                    return std::tuple{i + 1, 0.999 * s + 0.5};
                                                  },
                                                  std::tuple{tensor(0), x[0]});
                 return {i_end, s_end};
               }},
      LoopCase{"functions of float64 that end by the condition",
               {tensor(3.0).cast(float64)},
               [](const Arguments& x) -> Arguments {
                 auto [n_end, a_end, b_end] =
                     while_loop([](Tensor, Tensor a, Tensor b) { return greater(abs(a - b), 1e-4); },
                                [](Tensor n, Tensor a, Tensor b) {
                                  return std::tuple{n + 1, a - 0.001 * tanh(a) * exp(-b * b), b + 1e-4};
                                },
                                std::tuple{tensor(0), x[0], x[0] * 0.75});
                 return {n_end, a_end, b_end};
               }},
      LoopCase{"whole numbers of all types, and bools",
               {tensor(12345).cast(int64)},
               [](const Arguments& x) -> Arguments {
                 auto [i_end, a_end, b_end, odd_end] =
                     while_loop([](Tensor i, Tensor, Tensor, Tensor) { return less_equal(i, steps); },
                                [](Tensor i, Tensor a, Tensor b, Tensor odd) {
                                  const Tensor next = a * 1103515245 + 12345;
                                  return std::tuple{i + 1, next, b * 7 + next.cast(uint8), logical_not(odd)};
                                },
                                std::tuple{tensor(0).cast(int64), x[0], tensor(1).cast(uint8), tensor(false)});
                 return {i_end, a_end, b_end, odd_end};
               }},
      LoopCase{"functions that are no vector code",
               {tensor(0.5), tensor(0.25).cast(float64), tensor(7), tensor(123456789).cast(int64)},
               [](const Arguments& x) -> Arguments {
                 auto [i_end, a_end, b_end, c_end, d_end] =
                     while_loop([](Tensor i, Tensor, Tensor, Tensor, Tensor) { return less(i, steps); },
                                [](Tensor i, Tensor a, Tensor b, Tensor c, Tensor d) {
                                  return std::tuple{i + 1, sin(a) + mod(cos(a) * 3.0, 0.75),
                                                    power(abs(tan(b)), 0.7) - asin(b * 0.1), mod(c * 31 - i, i + 3),
                                                    floor_divide(d * 1103515245, c + 1) + power(i, 2).cast(int64)};
                                },
                                std::tuple{tensor(0), x[0], x[1], x[2], x[3]});
                 return {i_end, a_end, b_end, c_end, d_end};
               }},
      LoopCase{
          "the same for vectors and halves",
          {tensor({0.5, -3.0, 1e8}), tensor({0.5, -3.0, 1e3}).cast(float16), tensor({7, 8, 9})},
          [](const Arguments& x) -> Arguments {
            auto [i_end, a_end, b_end, c_end] = while_loop(
                [](Tensor i, Tensor, Tensor, Tensor) { return less(i, steps); },
                [](Tensor i, Tensor a, Tensor b, Tensor c) {
                  return std::tuple{i + 1, sin(a) * i.cast(float32), cos(b) + mod(b, 0.75), mod(c * 31 - i, i + 3)};
                },
                std::tuple{tensor(0), x[0], x[1], x[2]});
            return {i_end, a_end, b_end, c_end};
          }},
      LoopCase{"elements of tables",
               {linspace(-1.0, 1.0, 64), arange(7).cast(int64), tensor({{0.5, 0.25, -0.0}}).cast(float16)},
               [](const Arguments& x) -> Arguments {
                 const Tensor captured = tensor({true, false, false, true, false});
                 auto [i_end, a_end, b_end, c_end] = while_loop(
                     [](Tensor i, Tensor, Tensor, Tensor) { return less(i, steps); },
                     [&](Tensor i, Tensor a, Tensor b, Tensor c) {
                       const Tensor k = gather(x[1], mod(i * i, 7));
                       const Tensor half = gather(x[2], reshape(mod(k, 3), {1}), 1);
                       return std::tuple{i + 1, a * 0.5 + gather(x[0], mod(i, 64)), b + gather(x[1], mod(b, 7)),
                                         where(gather(captured, mod(i, 5)), c + half, half * 2.0)};
                     },
                     std::tuple{tensor(0), tensor(1.0), x[1](3), reshape(x[2](0, 2), {1, 1})});
                 return {i_end, a_end, b_end, c_end};
               }},
      LoopCase{"elements, sums and means of small vectors",
               {tensor({1.0, 2.0, 3.0}), tensor({0.5, 0.25, -0.125}).cast(float64), tensor({3, 5, 7})},
               [](const Arguments& x) -> Arguments {
                 auto [i_end, a_end, b_end, c_end, d_end] = while_loop(
                     [](Tensor i, Tensor, Tensor, Tensor, Tensor) { return less(i, steps); },
                     [&](Tensor i, Tensor a, Tensor b, Tensor c, Tensor d) {
                       const Tensor next = a * 0.25 + reduce_sum(a) * 0.125;
                       return std::tuple{i + 1, next + next(2) * 0.01 + a(0), b * 0.5 + reduce_max(abs(b)) - b(1),
                                         c + reduce_sum(c) - c(2) * 3, d * 0.5 + reduce_mean(x[0] * d) + reduce_min(a)};
                     },
                     std::tuple{tensor(0), x[0], x[1], x[2], tensor(0.5)});
                 return {i_end, a_end, b_end, c_end, d_end};
               }},
      LoopCase{"a product of two vectors",
               {tensor(0.5), tensor({0.5, 0.25, -0.125})},
               [](const Arguments& x) -> Arguments {
                 auto [i_end, s_end] = while_loop([](Tensor i, Tensor) { return less(i, steps); },
                                                  [&](Tensor i, Tensor s) {
                                                    return std::tuple{i + 1, reduce_sum(x[1] * s) * 0.5 + 0.25};
                                                  },
                                                  std::tuple{tensor(0), x[0]});
                 return {i_end, s_end};
               }},
      LoopCase{"branches",
               {tensor(0.5), tensor({0.5, -0.25, -0.0}).cast(float64)},
               [](const Arguments& x) -> Arguments {
                 auto [i_end, a_end, b_end, c_end] =
                     while_loop([](Tensor i, Tensor, Tensor, Tensor) { return less(i, steps); },
                                [&](Tensor i, Tensor a, Tensor b, Tensor c) {
                                  const Tensor next = cond(
                                      greater(a, 1.0), [&] { return sqrt(0.5 - a); },  // NaN
                                      [&] {
                                        return cond(
                                            less(a, 0.25), [&] { return a + 0.3; }, [&] { return a * 1.5; });
                                      });
                                  auto [p, q] = cond(
                                      equal(mod(i, 3), 0),
                                      [&] {
                                        return std::pair{-b, c + 1};
                                      },
                                      [&] {
                                        return std::pair{b * x[1], c};
                                      });
                                  const Tensor chosen = switch_case(
                                      mod(i, 5) - 1, {[&] { return c; }, [&] { return c + i; }, [&] { return -c; }});
                                  return std::tuple{i + 1, where(is_nan(next), 0.125, next), p + 0.01, q + chosen};
                                },
                                std::tuple{tensor(0), x[0], x[1], tensor(3)});
                 return {i_end, a_end, b_end, c_end};
               }},
      LoopCase{"half types",
               {tensor(0.5).cast(float16), tensor(0.25).cast(bfloat16)},
               [](const Arguments& x) -> Arguments {
                 auto [i_end, a_end, b_end] = while_loop([](Tensor i, Tensor, Tensor) { return less(i, steps); },
                                                         [](Tensor i, Tensor a, Tensor b) {
                                                           return std::tuple{i + 1, sigmoid(a) * 1.5, tanh(b + 0.125)};
                                                         },
                                                         std::tuple{tensor(0), x[0], x[1]});
                 return {i_end, a_end, b_end};
               }},
      LoopCase{"variables that change places",
               {tensor(1), tensor(2), tensor(3)},
               [](const Arguments& x) -> Arguments {
                 auto [i_end, a_end, b_end, c_end] =
                     while_loop([](Tensor i, Tensor, Tensor, Tensor) { return less(i, steps); },
                                [](Tensor i, Tensor a, Tensor b, Tensor c) {
                                  return std::tuple{i + 1, b, c, a};
                                },
                                std::tuple{tensor(0), x[0], x[1], x[2]});
                 return {i_end, a_end, b_end, c_end};
               }},
      LoopCase{"vectors beside numbers, in several shapes",
               {tensor({1.0, 2.0, 3.0}), tensor({{0.5, 0.25, 0.125}})},
               [](const Arguments& x) -> Arguments {
                 auto [i_end, a_end, b_end] =
                     while_loop([](Tensor i, Tensor, Tensor) { return less(i, steps); },
                                [&](Tensor i, Tensor a, Tensor b) {
                                  const Tensor scale = 1.0 / (i.cast(float32) + 1.0);
                                  return std::tuple{i + 1, cos(scale) * a * 0.5 + x[1](0), b * scale + x[1]};
                                },
                                std::tuple{tensor(0), x[0], x[1]});
                 return {i_end, a_end, b_end};
               }},
      LoopCase{"the same without functions of libm",
               {tensor({1.0, 2.0, 3.0}), tensor({{0.5, 0.25, 0.125}})},
               [](const Arguments& x) -> Arguments {
                 auto [i_end, a_end, b_end] =
                     while_loop([](Tensor i, Tensor, Tensor) { return less(i, steps); },
                                [&](Tensor i, Tensor a, Tensor b) {
                                  const Tensor scale = 1.0 / (i.cast(float32) + 1.0);
                                  return std::tuple{i + 1, exp(-scale) * a * 0.5 + reshape(b, {3}), b * scale + x[1]};
                                },
                                std::tuple{tensor(0), x[0], x[1]});
                 return {i_end, a_end, b_end};
               }},
      LoopCase{"an element of a vector",
               {tensor({1.0, 2.0, 3.0})},
               [](const Arguments& x) -> Arguments {
                 auto [i_end, a_end] = while_loop([](Tensor i, Tensor) { return less(i, steps); },
                                                  [](Tensor i, Tensor a) {
                                                    return std::tuple{i + 1, a * 0.5 + a(1)};
                                                  },
                                                  std::tuple{tensor(0), x[0]});
                 return {i_end, a_end};
               }},
      LoopCase{"a matrix whose rows are added to a column",
               {ones({2, 2})},
               [](const Arguments& x) -> Arguments {
                 auto [i_end, a_end] = while_loop([](Tensor i, Tensor) { return less(i, steps); },
                                                  [](Tensor i, Tensor a) {
                                                    return std::tuple{i + 1, transpose(a) * 0.5 + a};
                                                  },
                                                  std::tuple{tensor(0), x[0]});
                 return {i_end, a_end};
               }},
      LoopCase{"NaN, which ends a loop",
               {tensor(0.001)},
               [](const Arguments& x) -> Arguments {
                 auto [n_end, s_end] =
                     while_loop([](Tensor, Tensor s) { return less(s, 10.0); },
                                [](Tensor n, Tensor s) {
                                  return std::tuple{n + 1, where(greater(n, 1200), sqrt(-s), s + 1e-3)};
                                },
                                std::tuple{tensor(0), x[0]});
                 return {n_end, s_end};
               }},
      LoopCase{"a limit",
               {tensor(1.0)},
               [](const Arguments& x) -> Arguments {
                 return {while_loop([](Tensor s) { return greater(s, -1.0); }, [](Tensor s) { return s * 0.5 + 1.0; },
                                    x[0], {.maximum_iterations = steps})};
               }},
      LoopCase{"a condition that is a variable",
               {tensor(true), tensor(2.0)},
               [](const Arguments& x) -> Arguments {
                 auto [open_end, n_end, s_end] = while_loop([](Tensor open, Tensor, Tensor) { return open; },
                                                            [](Tensor, Tensor n, Tensor s) {
                                                              return std::tuple{less(n, steps), n + 1, s * 1.001};
                                                            },
                                                            std::tuple{x[0], tensor(0), x[1]});
                 return {open_end, n_end, s_end};
               }},
      LoopCase{"a condition that is negated",
               {tensor(2.0)},
               [](const Arguments& x) -> Arguments {
                 auto [n_end, s_end] =
                     while_loop([](Tensor n, Tensor s) { return logical_not((n >= steps) | (s > 1e9)); },
                                [](Tensor n, Tensor s) {
                                  return std::tuple{n + 1, s * 1.001};
                                },
                                std::tuple{tensor(0), x[0]});
                 return {n_end, s_end};
               }},
      LoopCase{"no iterations",
               {tensor(2.0)},
               [](const Arguments& x) -> Arguments {
                 return {while_loop([](Tensor s) { return less(s, 1.0); }, [](Tensor s) { return s * 0.5; }, x[0])};
               }},
      LoopCase{"a scan of numbers",
               {linspace(-1.0, 1.0, steps)},
               [](const Arguments& x) -> Arguments {
                 auto [last_end, ys_end] = scan(
                     [](Tensor s, Tensor e) {
                       const Tensor next = 0.9 * s + e;
                       return std::tuple{next, less(next, 0.0)};
                     },
                     tensor(0.25), x[0]);
                 return {last_end, ys_end};
               }},
      LoopCase{"a scan from the end, of several sequences into several stacks",
               {linspace(-1.0, 1.0, steps), arange(steps)},
               [](const Arguments& x) -> Arguments {
                 auto [last_end, ys_end] = scan(
                     [](Tensor s, const std::tuple<Tensor, Tensor>& e) {
                       const auto& [a, k] = e;
                       const Tensor next = tanh(s * a) + k.cast(float32) * 1e-3;
                       return std::tuple{next, std::tuple{s, k * 2, next.cast(float16)}};
                     },
                     tensor(0.25), std::tuple{x[0], x[1]}, {.reverse = true});
                 return {last_end, std::get<0>(ys_end), std::get<1>(ys_end), std::get<2>(ys_end)};
               }},
      LoopCase{"elements that pass through a scan",
               {linspace(-1.0, 1.0, steps), arange(steps)},
               [](const Arguments& x) -> Arguments {
                 auto [last_end, ys_end] = scan(
                     [](const std::tuple<Tensor, Tensor>&, const std::tuple<Tensor, Tensor>& e) {
                       return std::tuple{e, e};
                     },
                     std::tuple{tensor(0.0), tensor(0)}, std::tuple{x[0], x[1]});
                 return {std::get<0>(last_end), std::get<1>(last_end), std::get<0>(ys_end), std::get<1>(ys_end)};
               }},
      LoopCase{"gradients through a loop by its condition",
               {tensor(0.75)},
               [](const Arguments& x) -> Arguments {
                 GradientTape tape;
                 tape.watch(x[0]);
                 auto [i_end, s_end] = while_loop([](Tensor i, Tensor) { return less(i, steps); },
                                                  [&](Tensor i, Tensor s) {
                                                    return std::tuple{i + 1, tanh(s * x[0]) + 0.25};
                                                  },
                                                  std::tuple{tensor(0), x[0]});
                 return {s_end, tape.gradient(s_end, x[0])};
               }},
      LoopCase{"gradients through a scan",
               {linspace(-1.0, 1.0, steps), tensor(0.5)},
               [](const Arguments& x) -> Arguments {
                 GradientTape tape;
                 tape.watch(x[0]);
                 tape.watch(x[1]);
                 auto [last_end, ys_end] = scan(
                     [&](Tensor s, Tensor e) {
                       const Tensor next = sigmoid(s * x[1] + e);
                       return std::tuple{next, next * e};
                     },
                     x[1], x[0]);
                 const auto g = tape.gradient(last_end + reduce_sum(ys_end), {x[0], x[1]});
                 return {last_end, ys_end, g[0], g[1]};
               }},
      LoopCase{"a loop in a loop",
               {tensor(0.5)},
               [](const Arguments& x) -> Arguments {
                 auto [i_end, s_end] = while_loop([](Tensor i, Tensor) { return less(i, 60); },
                                                  [](Tensor i, Tensor s) {
                                                    auto [k_end, t_end] =
                                                        while_loop([&](Tensor k, Tensor) { return less(k, i); },
                                                                   [](Tensor k, Tensor t) {
                                                                     return std::tuple{k + 1, t * 0.99 + 0.01};
                                                                   },
                                                                   std::tuple{tensor(0), s});
                                                    return std::tuple{i + 1, t_end - 0.5 * s};
                                                  },
                                                  std::tuple{tensor(0), x[0]});
                 return {i_end, s_end};
               }},
  };
  return list;
}

}  // namespace

TEST_CASE("long loops give in a session the bits that they give eagerly") {
  for (const LoopCase& each : cases()) {
    CAPTURE(each.name);
    const std::vector<Tensor> expected = each.f(each.arguments);
    for (const SessionOptions& options : {SessionOptions{}, SessionOptions{.optimize = false}}) {
      CAPTURE(options.optimize);
      Graph graph;
      std::vector<Feed> feeds;
      std::vector<Tensor> fetches;
      {
        const auto scope = graph.as_default();
        std::vector<Tensor> arguments;
        for (const Tensor& argument : each.arguments) {
          arguments.push_back(placeholder(argument.dtype(), argument.shape()));
          feeds.push_back({arguments.back(), argument});
        }
        fetches = each.f(arguments);
      }
      const Session session(graph, options);
      for (int run = 0; run < 3; ++run) {
        CAPTURE(run);
        const std::vector<Tensor> found = session.run(fetches, feeds);
        REQUIRE(found.size() == expected.size());
        for (std::size_t i = 0; i < found.size(); ++i) {
          CAPTURE(i);
          check_same(found[i], expected[i]);
        }
      }
    }
  }
}

TEST_CASE("a loop without end ends at its time limit, when its run is cancelled, and when its session is closed") {
  const Graph graph;
  Tensor x, y;
  {
    const auto scope = graph.as_default();
    x = placeholder(float32, {});
    y = while_loop([](Tensor s) { return less(s, 2.0); }, [](Tensor s) { return s * 0.5; }, x, {.name = "endless"});
  }
  Session session(graph);
  for (int i = 0; i < 2; ++i) {
    CHECK(session.run(y, {{x, 3.0F}}).item<float>() == 3);  // a plan is there when the time begins
    const auto error = caught<DeadlineExceededError>([&] {
      session.run(y, {{x, 1.0F}}, {.timeout_in_ms = 100}, nullptr);
    });
    const std::string& message = error.message();
    const std::size_t at = message.find("'endless' has done ");
    REQUIRE(at != std::string::npos);
    CHECK(std::stoll(message.substr(at + 19)) > 0);
  }
  CHECK(session.run(y, {{x, 3.0F}}).item<float>() == 3);
  std::stop_source source;
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    source.request_stop();
  });
  CHECK_THROWS_AS(session.run(y, {{x, 1.0F}}, {.stop = source.get_token()}, nullptr), CancelledError);
  canceller.join();
  std::thread closer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    session.close();
  });
  // Without a timeout: the session alone ends it.
  CHECK(message_of<CancelledError>([&] {
          session.run(y, {{x, 1.0F}});
        }).starts_with("The session was closed: 'endless' has done "));
  closer.join();
  CHECK(message_of<FailedPreconditionError>([&] {
          session.run(y, {{x, 3.0F}});
        }) == "Attempted to use a closed Session.");
}

TEST_CASE("a long loop throws in a session what it throws eagerly, in the same iteration") {
  struct Case {
    std::string name;
    std::function<Tensor(Tensor i, Tensor s)> body;
  };
  const std::vector<Case> list{
      {"mod", [](Tensor i, Tensor s) { return s + mod(s + 5, 1200 - i); }},
      {"floor_divide", [](Tensor i, Tensor s) { return s - floor_divide(s, 1200 - i); }},
      {"power", [](Tensor i, Tensor s) { return s + power(i, 1200 - i); }},
      {"gather",
       [](Tensor i, Tensor s) {
         return s + gather(tensor({1, 2, 3}), floor_divide(i, 400));
       }},
      {"gather before the first",
       [](Tensor i, Tensor s) { return s + gather(zeros({1200}, {.dtype = int32}), 1199 - i); }},
      {"mod of vectors",
       [](Tensor i, Tensor s) {
         return s + mod(s, tensor({3, 1200, 7}) - i * tensor({0, 1, 0}));
       }},
  };
  for (const Case& each : list) {
    CAPTURE(each.name);
    const auto loop = [&](const Tensor& n) {
      const Tensor start = each.name == "mod of vectors" ? tensor({1, 2, 3}) : tensor(1);
      return std::get<1>(while_loop([&](Tensor i, Tensor) { return less(i, n); },
                                    [&](Tensor i, Tensor s) {
                                      return std::tuple{i + 1, each.body(i, s)};
                                    },
                                    std::tuple{tensor(0), start}));
    };
    const auto f = trace([&](const Tensor& n) { return loop(n); }, {spec(int32, {})});
    const int last = each.name == "power" ? 1201 : 1200;
    check_same(f(tensor(last)), loop(tensor(last)));
    const std::string expected = message_of<InvalidArgumentError>([&] { loop(tensor(steps)); });
    const auto reason = [](const std::string& message) { return message.substr(0, message.find(" [Op")); };
    for (int run = 0; run < 2; ++run)
      CHECK(reason(message_of<InvalidArgumentError>([&] { f(tensor(steps)); })) == reason(expected));
    check_same(f(tensor(last)), loop(tensor(last)));
  }
}

TEST_CASE("branches of a loop that are not small functions run as before") {
  struct Case {
    std::string name;
    std::function<Tensor(Tensor i, Tensor s)> body;
  };
  const std::vector<Case> list{
      {"a division that would fail",
       [](Tensor i, Tensor s) {
         return cond(
             equal(mod(i, 2), 0), [&] { return s + 1; }, [&] { return s + floor_divide(100, mod(i, 2)); });
       }},
      {"a lookup that would fail",
       [](Tensor i, Tensor s) {
         return cond(
             less(i, 3),
             [&] {
               return s + gather(tensor({1, 2, 3}), i);
             },
             [&] { return s; });
       }},
      {"many elements",
       [](Tensor i, Tensor s) {
         return cond(
             less(i, 3), [&] { return s + reduce_sum(zeros({40}, {.dtype = int32}) + i); }, [&] { return s; });
       }},
  };
  for (const Case& each : list) {
    CAPTURE(each.name);
    const auto loop = [&](const Tensor& start) {
      return std::get<1>(while_loop([&](Tensor i, Tensor) { return less(i, steps); },
                                    [&](Tensor i, Tensor s) {
                                      return std::tuple{i + 1, each.body(i, s)};
                                    },
                                    std::tuple{tensor(0), start}));
    };
    const auto f = trace([&](const Tensor& start) { return loop(start); }, {spec(int32, {})});
    check_same(f(tensor(1)), loop(tensor(1)));
  }
}

TEST_CASE("a plan keeps the code of its loop for values of other shapes") {
  const auto f = trace(
      [](const Tensor& x, const Tensor& n) {
        auto [i_end, s_end] = while_loop([&](Tensor i, Tensor) { return less(i, n); },
                                         [](Tensor i, Tensor s) {
                                           return std::tuple{i + 1, s * 0.75 + 1.0};
                                         },
                                         std::tuple{tensor(0), x});
        return s_end;
      },
      {spec(float32, {-1}), spec(int32, {})});
  for (const std::int64_t size : {1, 3, 40, 3, 16, 0, 17, 1}) {
    CAPTURE(size);
    const Tensor x = size > 0 ? linspace(0.0, 1.0, size) : zeros({0});
    Tensor expected = x;
    for (int i = 0; i < 1300; ++i) expected = expected * 0.75 + 1.0;
    check_same(f(x, tensor(1300)), expected);
  }
}

}  // namespace control_flow_code_test
