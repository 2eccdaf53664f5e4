// Branches and loops that change Variables.

#include <functional>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "tapestry/tapestry.hpp"

namespace control_flow_state_test {

using namespace tapestry;
using namespace tapestry::test;

TEST_CASE("loops in loops that change a Variable are traced a number of times that grows with their depth") {
  const Variable v(1.0, {.name = "v"}), w(tensor(0), {.name = "w", .trainable = false});
  std::vector<int> calls;
  const std::function<Tensor(const Tensor&, std::size_t)> loop = [&](const Tensor& x, std::size_t depth) {
    return std::get<1>(while_loop([](Tensor i, Tensor) { return less(i, 2); },
                                  [&](Tensor i, Tensor s) {
                                    ++calls[depth];
                                    const Tensor before = v.value();
                                    // Only the innermost loop, and in one of two branches, changes the other Variable.
                                    if (depth + 1 == calls.size()) {
                                      v.assign(before * 0.5 + s);
                                      cond(
                                          greater(s, 0.0), [&] { w.assign_add(1); }, [&] {});
                                    } else {
                                      s = loop(s, depth + 1);
                                      v.assign(v + before);
                                    }
                                    return std::tuple{i + 1, s * 0.25 + v + w.value().cast(float32)};
                                  },
                                  std::tuple{tensor(0), x}));
  };
  for (const std::size_t depth : {1, 2, 3, 4, 6}) {
    CAPTURE(depth);
    v.assign(1.0);
    w.assign(0);
    calls.assign(depth, 0);
    const Tensor expected = loop(tensor(0.5), 0), last = v.value() * 1.0, count = w.value() + 0;
    v.assign(1.0);
    w.assign(0);
    calls.assign(depth, 0);
    const auto f = trace([&](const Tensor& x) { return loop(x, 0); }, {spec(float32, {})});
    for (std::size_t i = 0; i < depth; ++i) CHECK(calls[i] <= static_cast<int>(i) + 3);
    check_same(f(tensor(0.5)), expected);
    check_same(v.value(), last);
    check_same(w.value(), count);
  }
  // What the loops change may differ each time that they are traced.
  int traces = 0;
  const auto g = trace(
      [&](const Tensor& x) {
        return while_loop([](Tensor s) { return less(s, 10.0); },
                          [&](Tensor s) {
                            const Tensor before = v.value();
                            const bool is_first = ++traces == 1;
                            const Tensor t = while_loop([](Tensor u) { return less(u, 5.0); },
                                                        [&](Tensor u) {
                                                          if (is_first) v.assign(u);
                                                          return u + v + 1.0;
                                                        },
                                                        s);
                            v.assign(before + 1.0);
                            return t + v + 1.0;
                          },
                          x);
      },
      {spec(float32, {})});
  v.assign(1.0);
  traces = 1;
  const Tensor found = g(tensor(0.5)), after = v.value() * 1.0;
  v.assign(1.0);
  check_same(while_loop([](Tensor s) { return less(s, 10.0); },
                        [&](Tensor s) {
                          const Tensor before = v.value();
                          const Tensor t = while_loop([](Tensor u) { return less(u, 5.0); },
                                                      [&](Tensor u) { return u + v + 1.0; }, s);
                          v.assign(before + 1.0);
                          return t + v + 1.0;
                        },
                        tensor(0.5)),
             found);
  check_same(v.value(), after);
}

TEST_CASE("a gradient does not run again what a constant of a branch or of a loop waits for") {
  const Variable count(0.0F, {.name = "count", .trainable = false});
  const Graph graph;
  const auto scope = graph.as_default();
  const Tensor x = placeholder(float32, {}), chosen = placeholder(boolean, {});
  const auto cube = [&](const Tensor& h) {
    const auto after = control_dependencies({count.assign_add(1.0F).op(), identity(chosen).op()});
    return h * h * constant(3.0F);
  };
  const Tensor branch = cond(
      chosen, [&] { return cube(x); }, [&] { return sin(x); });
  const Tensor loop = std::get<1>(while_loop([](const Tensor& i, const Tensor&) { return less(i, 3); },
                                             [&](const Tensor& i, const Tensor& s) {
                                               return std::tuple{i + 1, cube(s)};
                                             },
                                             std::tuple{0, x}));
  const Tensor of_branch = gradients({branch}, {x})[0], of_loop = gradients({loop}, {x})[0], counted = count.value();
  const Session session(graph);
  session.run(global_variables_initializer());
  const auto slope = [&](const Tensor& of) { return session.run(of, {{x, 0.5F}, {chosen, true}}).item<float>(); };
  for (int i = 1; i <= 3; ++i) {
    CHECK(slope(of_branch) == 3.0F);
    CHECK(session.run(counted).item<float>() == static_cast<float>(i));
  }
  for (int i = 1; i <= 3; ++i) {
    CHECK(slope(of_loop) == 136.6875F);
    CHECK(session.run(counted).item<float>() == static_cast<float>(3 + 3 * i));
  }
}

TEST_CASE("loops over tensors of 8 axes that change Variables or draw random numbers have gradients") {
  const Shape shape{2, 1, 3, 1, 2, 1, 1, 2};
  const Variable v(ones(shape, float64), {.name = "v"}), count(zeros({}, float64), {.trainable = false});
  const auto repeat = [&](const std::function<Tensor(const Tensor&)>& body, const Tensor& x, const Tensor& n) {
    return std::get<1>(while_loop([&](Tensor i, Tensor) { return less(i, n); },
                                  [&](Tensor i, Tensor s) {
                                    return std::tuple{i + 1, body(s)};
                                  },
                                  std::tuple{0, x}));
  };
  const std::vector<std::function<Tensor(const Tensor&)>> bodies{
      [&](const Tensor& s) {
        count.assign_add(1.0);
        return sin(s * v) + s * count;
      },
      [&](const Tensor& s) {
        v.assign(v * 0.5 + square(s));
        return v * s;
      },
      [&](const Tensor& s) { return s * random::normal(s.shape(), {.dtype = float64}) + exp(s); },
      [&](const Tensor& s) { return where(greater(s, 0.3), dropout(s, 0.5) * s, tanh(s) * v); },
  };
  const std::vector<Shape> specs{
      shape, {-1, 1, 3, 1, 2, 1, 1, 2}, {-1, 1, 3, 1, 2, 1, 1, -1}, {-1, 1, -1, -1, 2, 1, -1, -1}};
  const Tensor x = sin(reshape(arange(24.0, {.dtype = float64}), shape)) * 0.7;
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    CAPTURE(i);
    const auto derivatives = [&](const Tensor& start, const Tensor& n) {
      const auto first = [&] {
        GradientTape tape;
        tape.watch(start);
        const Tensor y = repeat(bodies[i], start, n);
        return std::tuple{y, tape.gradient(y, start)};
      };
      GradientTape tape;
      tape.watch(start);
      const auto [y, slope] = first();
      return std::tuple{y, slope, tape.gradient(slope, start, {.unconnected = Unconnected::zero})};
    };
    const auto begin = [&] {
      v.assign(ones(shape, float64));
      count.assign(0.0);
      random::seed(7);
    };
    for (const Shape& given : specs) {
      CAPTURE(given);
      for (const int n : {0, 1, 4}) {
        CAPTURE(n);
        begin();
        const auto [y, slope, curvature] = derivatives(x, tensor(n));
        const auto traced = trace(derivatives, {spec(float64, given), spec(int32, {})});
        begin();
        const auto [traced_y, traced_slope, traced_curvature] = traced(x, tensor(n));
        check_same(traced_y, y);
        check_same(traced_slope, slope);
        check_same(traced_curvature, curvature, 1e-12);
      }
    }
  }
}

}  // namespace control_flow_state_test
