// `recompute` and `custom_gradient` in traces and in graphs made by hand: what they give eagerly, to second order, for
// batches of any size.

#include <functional>
#include <optional>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "op_cases/op_cases.hpp"
#include "tapestry/tapestry.hpp"

namespace recompute_test {

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// log(1 + exp(x)) with a gradient of its own, twice what the right one is, so that a test sees whose it is.
Tensor own_softplus(const Tensor& x) {
  return custom_gradient([](const Tensor& z) -> CustomGradient {
    const Tensor e = exp(z);
    return {log(1.0 + e), [e](const Tensor& g) -> Tensors { return {2.0 * g * (1.0 - 1.0 / (1.0 + e))}; }};
  })(x);
}

struct Case {
  std::string name;
  std::function<Tensor(const Tensor& x, const Variable& w)> f;  ///< of [batch, 3], float64
};

const std::vector<Case>& cases() {
  static const std::vector<Case> list{
      {"custom_gradient", [](const Tensor& x, const Variable& w) { return own_softplus(x * w); }},
      {"custom_gradient of two arguments",
       [](const Tensor& x, const Variable& w) {
         return custom_gradient([](const Tensor& a, const Tensor& b) -> CustomGradient {
           return {a * b, [=](const Tensor& g) -> Tensors { return {3.0 * g * b, sum_like(g * square(a), b)}; }};
         })(x, w.value());
       }},
      {"custom_gradient of a list",
       [](const Tensor& x, const Variable& w) {
         const auto product = [](const std::vector<Tensor>& all) -> CustomGradient {
           return {all[0] * all[1] * all[2], [=](const Tensor& g) -> std::vector<Tensor> {
                     return {3.0 * g * all[1] * all[2], sum_like(g * square(all[0]), all[1]), g * all[0]};
                   }};
         };
         return custom_gradient(product)({x, w, sin(x)});
       }},
      {"custom_gradient of a result",
       [](const Tensor& x, const Variable& w) { return square(own_softplus(sin(x) + w)); }},
      {"recompute",
       [](const Tensor& x, const Variable& w) {
         return recompute([&w](const Tensor& z) { return tanh(z * w) + square(z); })(x);
       }},
      {"recompute of a list",
       [](const Tensor& x, const Variable& w) {
         const auto f = [](const std::vector<Tensor>& all) { return std::pair{all[0] * all[1], sin(all[0])}; };
         const auto [product, sine] = recompute(f)({x, w});
         return product * sine;
       }},
      {"recompute of one tensor twice",
       [](const Tensor& x, const Variable& w) {
         return recompute([](const Tensor& a, const Tensor& b) { return sin(a) * exp(b); })(x, x) * w;
       }},
      {"recompute of one tensor more than once, whose gradients meet others",
       [](const Tensor& x, const Variable& w) {
         const auto f = [](const Tensor& a, const Tensor& b, const Tensor& c) { return sin(a * b) + tanh(c) * b; };
         const Tensor y = recompute(f)(x, x, x);
         return y * 0.3 + x * 0.7 * w;
       }},
      {"recompute of a Variable's value that the function also reads",
       [](const Tensor& x, const Variable& w) {
         const auto f = [&w](const Tensor& a, const Tensor& b) { return sin(a * b) * w + tanh(w + a) * b; };
         const Tensor y = recompute(f)(x, w.value());
         return y * 0.3 + x * 0.7 * w;
       }},
      {"recompute with dropout",
       [](const Tensor& x, const Variable& w) {
         return recompute([&w](const Tensor& z) { return dropout(tanh(z * w), 0.5) * dropout(z, 0.5); })(x);
       }},
      {"recompute in recompute",
       [](const Tensor& x, const Variable& w) {
         const auto inner = [&w](const Tensor& z) { return dropout(sin(z), 0.5) + w; };
         return recompute([inner](const Tensor& z) { return recompute(inner)(z * z) * dropout(z, 0.5); })(x);
       }},
      {"recompute of a custom_gradient",
       [](const Tensor& x, const Variable& w) {
         return recompute([&w](const Tensor& z) { return own_softplus(z) * w; })(square(x));
       }},
      {"one block behind the other",
       [](const Tensor& x, const Variable& w) {
         Tensor y = x;
         for (int i = 0; i < 3; ++i) y = recompute([&w](const Tensor& z) { return tanh(z * w + sin(z)); })(y);
         return y;
       }},
      {"sizes of the batch inside",
       [](const Tensor& x, const Variable& w) {
         return recompute([&w](const Tensor& z) {
           return reshape(z, {z.shape()[0], -1}) * w + random::normal(z.shape(), {.dtype = float64});
         })(x);
       }},
  };
  return list;
}

/// The value, the gradients by x and w, and the gradients of a function of those.
Tensors to_second_order(const Case& each, const Tensor& x, const Variable& w) {
  GradientTape outer;
  outer.watch(x);
  GradientTape inner;
  inner.watch(x);
  const Tensor y = each.f(x, w);
  const auto [dx, dw] = inner.gradient(reduce_sum(y), x, w);
  const auto [ddx, ddw] = outer.gradient(reduce_sum(square(dx)) + reduce_sum(dw * dw), x, w);
  return {y, dx, dw, ddx, ddw};
}

}  // namespace

TEST_CASE("traced with an unknown batch: the bits of eager mode, to second order") {
  for (const Case& each : cases()) {
    CAPTURE(each.name);
    Variable w(tensor<double>({0.5, -1.5, 2.0}));
    const auto traced =
        trace([&](Tensor x) { return std::vector<Tensor>(to_second_order(each, x, w)); }, {spec(float64, {-1, 3})});
    for (const std::int64_t batch : {4, 1, 7}) {
      CAPTURE(batch);
      const Tensor x = numbers({batch, 3}, -1, 1, 3);
      random::seed(5);
      const Tensors eager = to_second_order(each, x, w);
      random::seed(5);
      const std::vector<Tensor> found = traced(x);
      REQUIRE(found.size() == eager.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        CAPTURE(i);
        // A walk over a graph may add up the parts of a second derivative in another order.
        check_same(found[i], eager[i], i < 3 ? 0 : 1e-12);
      }
    }
  }
}

TEST_CASE("in a graph made by hand, of known and of unknown rank") {
  for (const bool known_rank : {true, false}) {
    for (const Case& each : cases()) {
      CAPTURE(known_rank);
      CAPTURE(each.name);
      if (!known_rank && each.name == "sizes of the batch inside") continue;  // a size of an axis needs a rank
      Graph graph;
      std::optional<Variable> w;
      Tensor x;
      std::vector<Tensor> fetches;
      {
        const auto scope = graph.as_default();
        w.emplace(tensor<double>({0.5, -1.5, 2.0}));
        x = known_rank ? placeholder(float64, {-1, 3}) : placeholder(float64, Shape::unknown_rank());
        const Tensor y = each.f(x, *w);
        const std::vector<Tensor> first = gradients(reduce_sum(y), {x, *w});
        fetches = gradients(reduce_sum(square(first[0])) + reduce_sum(square(first[1])), {x, *w});
        fetches.insert(fetches.begin(), {y, first[0], first[1]});
      }
      Session session(graph);
      for (const std::int64_t batch : {2, 5}) {
        const Tensor fed = numbers({batch, 3}, -1, 1, 3);
        random::seed(5);
        const std::vector<Tensor> found = session.run(fetches, {{x, fed}});
        random::seed(5);
        const Tensors eager = to_second_order(each, fed, *w);
        for (std::size_t i = 0; i < found.size(); ++i) {
          CAPTURE(i);
          check_same(found[i], eager[i], 1e-12);
        }
      }
    }
  }
}

TEST_CASE("a custom gradient of unknown dtype that draws random numbers is refused when it is run") {
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor x = placeholder();
  const Tensor y = custom_gradient([](const Tensor& z) -> CustomGradient {
    const Tensor mask = random::bernoulli_like(z);
    return {z * mask, [mask](const Tensor& g) -> Tensors { return {g * mask}; }};
  })(x);
  const Tensor dx = gradients(reduce_sum(y), {x})[0];
  Session session;
  CHECK(message_of<UnimplementedError>([&] {
          session.run(dx, {{x, {1.0, 2.0}}});
        }).find("placeholder a shape") != std::string::npos);
}

TEST_CASE("a custom gradient that draws takes a gradient of known values where it is traced") {
  const auto f = [](const Tensor& x) {
    const Tensor known = tensor<double>({1.0, 2.0, 3.0});
    GradientTape tape;
    tape.watch(known);
    const Tensor y = custom_gradient([](const Tensor& a) {
      const Tensor drawn = random::uniform({3}, {.dtype = float64});
      return CustomGradient{a + drawn, [drawn](const Tensor& g) -> Tensors { return {g * drawn}; }};
    })(known);
    return x + tape.gradient(y, known, {.output_gradients = tensor<double>({0.5, 1.5, 2.5})});
  };
  random::seed(4);
  const Tensor expected = f(tensor<double>({1.0, 1.0, 1.0}));
  const auto traced = trace(f, {spec(float64, {3})});
  random::seed(4);
  check_same(traced(tensor<double>({1.0, 1.0, 1.0})), expected);
}

TEST_CASE("loops and branches that draw random numbers are computed once in a graph, and have their own gradients") {
  const auto drawn_in_loop = [](const Tensor& start) {
    return std::get<1>(while_loop([](const Tensor& i, const Tensor&) { return less(i, 3); },
                                  [](const Tensor& i, const Tensor& s) {
                                    return std::tuple{i + 1, sin(s) * random::normal({2})};
                                  },
                                  std::tuple{std::int64_t{0}, start}));
  };
  const auto drawn_in_branch = [](const Tensor& x) {
    return cond(
        reduce_sum(x) > 0.0, [&] { return exp(x * random::uniform({2})); }, [&] { return x * x; });
  };
  const std::vector<std::function<Tensor(const Tensor&)>> functions{
      drawn_in_loop,
      drawn_in_branch,
      [&](const Tensor& x) { return dropout(x, 0.5) * drawn_in_loop(cos(x)); },
      [&](const Tensor& x) { return x * recompute(drawn_in_loop)(square(x)); },
      [&](const Tensor& x) {
        return recompute([](const Tensor& y) { return dropout(exp(y), 0.5); })(drawn_in_branch(x));
      },
  };
  const Tensor x = tensor<double>({0.5, 1.25});
  for (std::size_t i = 0; i < functions.size(); ++i) {
    const auto& f = functions[i];
    for (const bool recomputes : {false, true}) {
      INFO("function ", i, ", recomputed: ", recomputes);
      const auto derivatives = [&](const Tensor& at) -> std::vector<Tensor> {
        GradientTape outer, inner;
        outer.watch(at);
        inner.watch(at);
        const Tensor y = recomputes ? recompute(f)(at) : f(at), slope = inner.gradient(y, at);
        return {y, slope, outer.gradient(slope, at)};
      };
      const auto drawn = [&](const auto& function) {
        random::seed(9);
        return std::vector<Tensor>(function(x));
      };
      const std::vector<Tensor> expected = drawn(derivatives);
      for (const std::int64_t size : {2, -1}) {
        const std::vector<Tensor> found = drawn(trace(derivatives, {spec(float64, {size}, "x")}));
        for (std::size_t k = 0; k < expected.size(); ++k) check_same(found[k], expected[k], 1e-12);
      }
    }
  }
}

TEST_CASE("a recomputed loop of a graph that changes a Variable changes it once") {
  const Variable count(0.0), w(3.0);
  const auto f = recompute([&](const Tensor& x) {
    return std::get<1>(while_loop([](const Tensor& i, const Tensor&) { return less(i, 3); },
                                  [&](const Tensor& i, const Tensor& s) {
                                    return std::tuple{i + 1, s * w + count.assign_add(1.0) * 0.0};
                                  },
                                  std::tuple{std::int64_t{0}, x}));
  });
  const auto step = trace(
      [&](const Tensor& x) {
        GradientTape tape;
        const Tensor y = f(x);
        return tape.gradient(y, w);
      },
      {spec(float64, {})});
  CHECK(step(tensor(2.0)).item<double>() == 54);
  CHECK(count.value().item<double>() == 3);
}

TEST_CASE("a value read before an assignment is the one that is recomputed with") {
  const auto step = [](Tensor x, Variable w) {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = recompute([&w](const Tensor& z) { return z * z * w; })(x);
    w.assign(w * 10.0);
    return tape.gradient(y, x);
  };
  Variable eager(tensor<double>(2.0)), traced(tensor<double>(2.0));
  const auto f = trace([&](Tensor x) { return step(x, traced); }, {spec(float64, {-1})});
  const Tensor x = tensor<double>({1, 3});
  for (int i = 0; i < 2; ++i) CHECK(same_bits(f(x), step(x, eager)));
}

namespace {

/// A step that changes Variables in between, and reads them before and after; what it returns, and its gradients by x
/// and w.
struct Counting {
  explicit Counting(bool again) : recomputes(again) {}

  Tensor value(const Tensor& x) const {
    const Tensor before = average * x, changed = count.assign_add(1.0);
    average.assign(0.9 * average + 0.1 * reduce_sum(x) * w);
    return before * tanh(x * w) * count + average * sin(w) * changed;
  }
  std::vector<Tensor> operator()(const Tensor& x) const {
    GradientTape outer;
    outer.watch(x);
    GradientTape tape;
    tape.watch(x);
    const auto f = [this](const Tensor& v) { return value(v); };
    const Tensor y = recomputes ? recompute(f)(x) : f(x);
    const auto [dx, dw] = tape.gradient(y, x, w);
    return {y, dx, dw, outer.gradient(reduce_sum(dx * dx), x)};
  }

  bool recomputes;
  Variable w{2.0, {.dtype = float64}};
  Variable count{0.0, {.trainable = false, .dtype = float64}}, average{1.0, {.trainable = false, .dtype = float64}};
};

}  // namespace

TEST_CASE("what a recomputed function changes is changed once, and the second run reads what the first one read") {
  const Counting plain(false), again(true), traced(true), unknown(true);
  const auto call = trace([&](const Tensor& x) { return traced(x); }, {spec(float64, {3})});
  const auto call_unknown = trace([&](const Tensor& x) { return unknown(x); }, {spec(float64, {-1})});
  const Tensor x = tensor<double>({0.3, -1.0, 2.0});
  for (int step = 1; step <= 3; ++step) {
    const std::vector<Tensor> expected = plain(x);
    for (const auto& found : {again(x), call(x), call_unknown(x)})
      for (std::size_t i = 0; i < expected.size(); ++i) check_same(found[i], expected[i], 1e-14);
    for (const Counting* each : {&again, &traced, &unknown}) {
      CHECK(each->count.value().item<double>() == step);
      check_same(each->average, plain.average, 1e-14);
    }
  }
  const Counting nested(true);
  const auto twice =
      recompute([&](const Tensor& v) { return recompute([&](const Tensor& u) { return nested.value(u); })(v); });
  GradientTape tape;
  tape.watch(x);
  CHECK(bool(tape.gradient(twice(x), x)));
  CHECK(nested.count.value().item<double>() == 1);
  nn::BatchNorm norm(3);
  const auto normalized = recompute([&](const Tensor& v) { return norm(v); });
  GradientTape other;
  CHECK(bool(other.gradient(reduce_sum(sin(normalized(ones({2, 3})))), norm.weight)));
  CHECK(norm.num_batches_tracked.value().item<std::int64_t>() == 1);
}

TEST_CASE("a recomputed function that does something else the second time is refused") {
  const Variable a(2.0), b(3.0);
  int calls = 0;
  const auto reads = recompute([&](const Tensor& x) { return x * (++calls == 1 ? a : b); });
  const auto changes = recompute([&](const Tensor& x) {
    if (++calls == 2) a.assign(7.0);
    return x * x;
  });
  for (const auto& f : {std::function<Tensor(const Tensor&)>(reads), std::function<Tensor(const Tensor&)>(changes)}) {
    calls = 0;
    GradientTape tape;
    const Tensor x = ones({});
    tape.watch(x);
    const Tensor y = f(x);
    CHECK_THROWS_WITH_AS(tape.gradient(y, x), doctest::Contains("did something else the second time"),
                         FailedPreconditionError);
  }
  CHECK(a.value().item<float>() == 2);
}

TEST_CASE("a plan keeps less memory with recompute than without") {
  const auto deep = [](bool again) {
    return trace(
        [again](Tensor x) {
          const auto block = [](const Tensor& z) {
            Tensor y = z;
            for (int i = 0; i < 6; ++i) y = matmul(sin(y), ones({64, 64}) / 64.0);
            return y;
          };
          GradientTape tape;
          tape.watch(x);
          Tensor y = x;
          for (int i = 0; i < 6; ++i) y = again ? recompute(block)(y) : block(y);
          return tape.gradient(y, x);
        },
        {spec(float32, {-1, 64}, "x")});
  };
  const auto bytes_of = [](const auto& traced) {
    RunMetadata metadata;
    Session(traced.graph()).run(traced.output(), {{traced.input(), ones({256, 64})}}, {}, &metadata);
    std::int64_t bytes = 0;
    for (const auto& arena : metadata.plan.arenas) bytes += arena.bytes;
    return bytes;
  };
  const auto kept = deep(false), recomputed = deep(true);
  CHECK(bytes_of(recomputed) < bytes_of(kept) / 2);
  const Tensor x = numbers({256, 64}, -1, 1, 1).cast(float32);
  CHECK(same_bits(kept(x), recomputed(x)));
}

TEST_CASE("as files: the value and the gradient that were computed") {
  const auto traced = trace(
      [](Tensor x) {
        GradientTape tape;
        tape.watch(x);
        const Tensor y = recompute([](const Tensor& z) { return own_softplus(z) * z; })(x);
        return std::vector<Tensor>{y, tape.gradient(y, x)};
      },
      {spec(float32, {-1}, "x")});
  const Graph loaded = Graph::from_graph_def(traced.graph().as_graph_def());
  const Tensor x = tensor({-1.0, 0.5, 3.0});
  const std::vector<Tensor> expected = traced(x);
  for (std::size_t i = 0; i < 2; ++i)
    CHECK(same_bits(Session(loaded).run(traced.output(i).name(), {{"x:0", x}}), expected[i]));
}

}  // namespace recompute_test
