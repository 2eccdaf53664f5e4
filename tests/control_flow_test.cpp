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

#include "control_flow_programs.hpp"
#include "expect.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace control_flow_test {

using namespace tapestry;
using namespace tapestry::test;

namespace {

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
              // In the second derivative by a Variable that a loop changes, a graph sums what the iterations and their
              // gradients give to it by iteration, and eager code in the order of the tape. A loop in a branch that
              // changes shapes is computed again.
              const bool is_close =
                  i == 6 || (i > 3 && program.name.find("shapes behind a branch") != std::string::npos);
              CHECK_MESSAGE(same_numbers(actual[i], expected[i], is_close ? 1e-11 : 0), printed(actual[i]),
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
      if (program.name.find("Variable that") != std::string::npos) continue;   // a graph by hand orders no reads
      if (program.name.find("over rows that") != std::string::npos) continue;  // a mask needs its rank
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

TEST_CASE("gradients of a graph in a branch or a loop, by a Variable or a tensor of the graph around") {
  const Variable kept({0.5, -0.25}, {.name = "kept", .dtype = float64});
  const Variable changed({1.0, 2.0}, {.name = "changed", .dtype = float64});
  const auto f = [&](const Tensor& x, const Tensor& n) {
    const auto sum_of = [](const std::vector<Tensor>& all) { return all[0] + all[1] + all[2]; };
    const auto slopes = [&](const Tensor& s) -> Tensor {
      changed.assign_add(s);
      const auto y = [&] { return reduce_sum(s * x * kept * square(changed)); };
      const std::vector<Source> sources{x, kept, changed};
      if (s.is_symbolic()) return sum_of(gradients(y(), sources));
      GradientTape tape;
      tape.watch(x);
      return sum_of(tape.gradient(y(), sources));
    };
    const Tensor in_loop = test::counted(x, n, [&](const Tensor&, const Tensor& s) { return tanh(slopes(s)); });
    const Tensor in_branch = cond(
        less(n, 2), [&] { return slopes(x); }, [&] { return x; });
    return in_loop + in_branch + tapestry::map([&](const Tensor& row) { return slopes(row); }, stack({x, in_loop}));
  };
  const Tensor x = tensor<double>({0.75, -1.25}), initial = changed.value() * 1.0;
  const auto traced = trace(f, {spec(float64, {2}), spec(int32, {})});
  for (const int n : {0, 1, 3}) {
    CAPTURE(n);
    changed.assign(initial);
    const Tensor expected = f(x, tensor(n));
    changed.assign(initial);
    check_same(traced(x, tensor(n)), expected, 1e-14);
  }
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

TEST_CASE("derivatives of gradients that are taken in a branch or a loop, of a branch or a loop before it") {
  using Program = std::function<Tensor(const Tensor&)>;
  const std::vector<Program> before{
      [](const Tensor& x) {
        return while_loop([](Tensor y) { return reduce_sum(abs(y)) > 0.5; }, [&](Tensor y) { return sin(y) * x; }, x,
                          {.maximum_iterations = 3});
      },
      [](const Tensor& x) {
        return cond(
            x(0) > 0.0, [&] { return sin(x) * x; }, [&] { return exp(x); });
      },
      [](const Tensor& x) { return map([&](Tensor row) { return reduce_sum(sin(row * x)); }, x); }};
  const std::vector<std::function<Tensor(const Tensor&, const Program&)>> gradients{
      [](const Tensor& x, const Program& f) { return jacrev(f)(x); },
      [](const Tensor& x, const Program& f) { return hessian([&](const Tensor& z) { return reduce_sum(f(z)); })(x); },
      [](const Tensor& x, const Program& f) {
        const auto pull = vjp(f, x).second;
        return cond(
            x(1) < 0.0, [&] { return map([&](Tensor row) { return pull(row * x); }, x); },
            [&] { return expand_dims(x, 0); });
      },
      [](const Tensor& x, const Program& f) {
        return jvp(
                   [&](const Tensor& z) {
                     const auto pull = vjp(f, z).second;
                     return map([&](Tensor row) { return pull(row * z); }, z);
                   },
                   x, x)
            .second;
      }};
  const Tensor x = tensor<double>({0.4, -0.7, 1.1});
  for (std::size_t i = 0; i < before.size(); ++i)
    for (std::size_t k = 0; k < gradients.size(); ++k) {
      CAPTURE(i);
      CAPTURE(k);
      const auto f = [&](const Tensor& a) {
        GradientTape tape;
        tape.watch(a);
        return tape.gradient(reduce_sum(square(gradients[k](a, before[i]))), a);
      };
      for (const std::int64_t size : {-1, 3}) check_same(trace(f, {spec(float64, {size})})(x), f(x), 1e-12);
    }
}

TEST_CASE("a loop on known values asks a condition that draws, or changes a Variable, as often in a trace as eagerly") {
  Variable calls(0.0);
  const auto limit = [](const Tensor& v) { return v + 1.0; };
  const std::vector<std::pair<std::string, std::function<Tensor(const Tensor&)>>> conditions{
      {"draws", [](const Tensor& v) { return random::uniform({}, {.dtype = float64}) * v < 3.0; }},
      {"changes a Variable", [&](const Tensor& v) { return calls.assign_add(1.0) * v < 20.0; }}};
  for (const auto& each : conditions) {
    CAPTURE(each.first);
    const auto f = [&](const Tensor& x) {
      const Tensor y = while_loop(each.second, limit, tensor(1.0));
      return std::tuple{y * 1.0, x + random::uniform({}, {.dtype = float64})};
    };
    const auto traced = trace(f, {spec(float64, {})});
    for (const unsigned seed : {1U, 2U, 5U}) {
      random::seed(seed);
      calls.assign(0.0);
      const auto expected = f(tensor(0.0));
      const Tensor count = calls.value();
      random::seed(seed);
      calls.assign(0.0);
      const auto found = traced(tensor(0.0));
      check_same(std::get<0>(found), std::get<0>(expected));
      check_same(std::get<1>(found), std::get<1>(expected));
      check_same(calls.value(), count);
    }
  }
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

TEST_CASE("an index of any whole type that is out of range takes the last branch, also one beyond 32 bits") {
  const auto f = [](const Tensor& x, const Tensor& index) {
    return switch_case(index, {[&] { return x; }, [&] { return x * 2.0; }, [&] { return x * 3.0; }});
  };
  for (const DType type : {uint8, int32, int64})
    for (const std::int64_t index : {0L, 1L, 2L, 3L, 255L, -1L, INT32_MAX + 0L, INT32_MIN + 0L, 1L << 32,
                                     (1L << 40) + 1, -(1L << 32), INT64_MAX, INT64_MIN}) {
      const Tensor given = tensor(index).cast(type);
      CAPTURE(given);
      const auto number = given.item<std::int64_t>();
      const float expected = number < 0 || number > 2 ? 3 : static_cast<float>(number + 1);
      for (const DType known : {type, DType::unknown})
        CHECK(trace(f, {spec(float32, {}), spec(known, {})})(1.0, given).item<float>() == expected);
      CHECK(f(tensor(1.0), given).item<float>() == expected);
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
