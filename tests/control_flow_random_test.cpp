// Random programs of branches and loops, nested in each other: eagerly and traced they give the same bits, with their
// gradients and the gradients of these.

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "environment.hpp"
#include "expect.hpp"
#include "tapestry/tapestry.hpp"

namespace control_flow_random_test {

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// A step computes a new value [batch, 3] from earlier ones, the values of the functions around it included.
struct Step {
  enum class Kind : std::uint8_t { sine, sum, product, activation, branch, loop, growing, scan, map, assign, draw };
  Kind kind = Kind::sine;
  std::size_t a = 0, b = 0;   ///< earlier values, counted from the last one
  std::int64_t number = 0;    ///< of iterations, of an activation, or the bound of a predicate
  std::vector<Step> body{};   ///< the first branch, or the body of a loop
  std::vector<Step> other{};  ///< the second branch
};

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}

  std::vector<Step> steps(int depth) {
    std::vector<Step> list(1 + below(3));
    for (Step& each : list) each = step(depth);
    return list;
  }

 private:
  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }

  Step step(int depth) {
    Step made{.kind = static_cast<Step::Kind>(below(depth > 0 ? 11 : 4)), .a = below(3), .b = below(4)};
    made.number = static_cast<std::int64_t>(below(4));
    if (depth > 0 && made.kind >= Step::Kind::branch && made.kind <= Step::Kind::map) made.body = steps(depth - 1);
    if (made.kind == Step::Kind::branch) made.other = steps(depth - 1);
    return made;
  }

  std::mt19937 random_;
};

/// Runs the steps of a program. `n` is a number that is fed.
class Machine {
 public:
  Machine(const Tensor& n, const Variable& w, const Variable& sum) : n_(n), w_(w), sum_(sum) {}

  Tensor run(const std::vector<Step>& steps, std::vector<Tensor> values) const {
    for (const Step& each : steps) values.push_back(result_of(each, values));
    return values.back();
  }

 private:
  Tensor result_of(const Step& step, const std::vector<Tensor>& values) const {
    const auto from_last = [&](std::size_t i) { return values[values.size() - 1 - i % values.size()]; };
    const Tensor a = from_last(step.a), b = from_last(step.b);
    switch (step.kind) {
      case Step::Kind::sum:
        return a * 0.5 + b;
      case Step::Kind::product:
        return tanh(a * b) + w_;
      case Step::Kind::activation:
        return activation(step.number, a, b);
      case Step::Kind::branch:
        return cond(
            less(n_, step.number + 1), [&] { return run(step.body, values); }, [&] { return run(step.other, values); });
      case Step::Kind::loop:
        return std::get<1>(while_loop([&](const Tensor& i, const Tensor&) { return less(i, n_ - step.number + 2); },
                                      [&](const Tensor& i, const Tensor& s) {
                                        return std::tuple{i + 1, tanh(run(step.body, with(values, s)))};
                                      },
                                      std::tuple{0, a}, {.recompute = step.number % 2 == 1 && is_pure(step.body)}));
      case Step::Kind::growing: {
        const Tensor grown =
            std::get<1>(while_loop([&](const Tensor& i, const Tensor&) { return less(i, minimum(n_, 2)); },
                                   [&](const Tensor& i, const Tensor& s) {
                                     const Tensor rows = a * reduce_mean(s, {0});
                                     return std::tuple{i + 1, concat({s * w_, run(step.body, with(values, rows))}, 0)};
                                   },
                                   std::tuple{0, a}, {.shape_invariants = {{}, {-1, 3}}}));
        return b + reduce_sum(sin(grown), {0});
      }
      case Step::Kind::scan:
        return std::get<1>(scan(
            [&](const Tensor& carried, const Tensor& row) {
              const Tensor next = tanh(run(step.body, with(values, carried)) + row);
              return std::tuple{next, reduce_sum(next, {0}) * row};
            },
            b, a, {.reverse = step.number % 2 == 1}));
      case Step::Kind::map:
        return tapestry::map(
            [&](const Tensor& row) { return reduce_sum(sin(run(step.body, with(values, a * row))), {0}); }, b);
      case Step::Kind::assign:
        sum_.assign_add(reduce_sum(sin(a), {0}));
        return b + sum_;
      case Step::Kind::draw:
        return a + random::normal({3}, {.dtype = float64}) * b;
      default:
        return sin(a) * w_;
    }
  }

  /// Functions whose gradients need their results, or sizes.
  static Tensor activation(std::int64_t number, const Tensor& a, const Tensor& b) {
    switch (number) {
      case 0:
        return exp(sin(a)) * 0.5;
      case 1:
        return sigmoid(a) - sqrt(square(b) + 1.0);
      case 2:
        return softmax(a) * 2.0;
      default:
        return a / (1.0 + reduce_max(square(b))) + matmul(tanh(b), ones({3, 3}, {.dtype = float64})) * 0.1;
    }
  }

  /// Whether the steps neither change the Variable nor draw random numbers, so that a loop can compute them again.
  static bool is_pure(const std::vector<Step>& steps) {
    return std::none_of(steps.begin(), steps.end(), [](const Step& each) {
      return each.kind == Step::Kind::assign || each.kind == Step::Kind::draw || !is_pure(each.body) ||
             !is_pure(each.other);
    });
  }

  static std::vector<Tensor> with(std::vector<Tensor> values, const Tensor& last) {
    values.push_back(last);
    return values;
  }

  Tensor n_;
  Variable w_, sum_;
};

/// Whether a loop in a function has iterations, or loops in it, whose tensors differ in shape. A gradient of the second
/// order computes these again, so that it is a sum in another order.
bool recomputes(const std::vector<Step>& steps, bool is_function = false, bool is_iteration = false) {
  return std::any_of(steps.begin(), steps.end(), [&](const Step& each) {
    if ((is_function && each.kind == Step::Kind::growing) || (is_iteration && each.kind == Step::Kind::loop))
      return true;
    const bool repeats = is_function && each.kind != Step::Kind::branch;
    return recomputes(each.body, true, is_iteration || repeats) || recomputes(each.other, true, is_iteration);
  });
}

void check_close(const Tensor& actual, const Tensor& expected) {
  REQUIRE(actual.shape() == expected.shape());
  const double scale = 1.0 + reduce_max(abs(expected)).item<double>();
  const double error = reduce_max(abs(actual - expected)).item<double>();
  CHECK_MESSAGE(error <= 1e-9 * scale, "error ", error, " of ", scale);
}

}  // namespace

TEST_CASE(
    "random programs of branches and loops: eager and traced give the same bits, with gradients of order 1 and 2") {
  const unsigned first = seed_of_cases(0);
  for (unsigned seed = first; seed < first + static_cast<unsigned>(number_of_cases(60)); ++seed) {
    CAPTURE(seed);
    const std::vector<Step> program = Generator(seed).steps(seed % 4 == 3 ? 3 : 2);
    const Variable w({0.5, -0.25, 1.25}, {.name = "w", .dtype = float64});
    const Variable sum({0.125, 0.5, -1.0}, {.name = "sum", .trainable = false, .dtype = float64});
    const Tensor initial = sum.value() * 1.0;
    const auto f = [&](const Tensor& x, const Tensor& n) {
      GradientTape outer, tape;
      outer.watch(x);
      tape.watch(x);
      const Tensor y = Machine(n, w, sum).run(program, {x, x * 0.5});
      const auto g = tape.gradient(reduce_sum(sin(y)), {x, w}, {.unconnected = Unconnected::zero});
      const Tensor slope = reduce_sum(sin(g[0])) + reduce_sum(sin(g[1]));
      const auto h = outer.gradient(slope, {x, w}, {.unconnected = Unconnected::zero});
      return std::vector<Tensor>{y, g[0], g[1], h[0], h[1]};
    };
    const auto traced = trace(f, {spec(float64, {-1, 3}), spec(int32, {})});
    for (const int n : {0, 1, 3}) {
      CAPTURE(n);
      random::seed(seed);
      const Tensor x = random::normal({2, 3}, {.dtype = float64});
      const random::State state = random::state();
      sum.assign(initial);
      const std::vector<Tensor> expected = f(x, tensor(n));
      const Tensor expected_sum = sum.value() * 1.0;
      random::set_state(state);
      sum.assign(initial);
      const std::vector<Tensor> actual = traced(x, tensor(n));
      for (std::size_t i = 0; i < expected.size(); ++i) {
        CAPTURE(i);
        const bool is_close = i >= 3 && recomputes(program);
        is_close ? check_close(actual[i], expected[i]) : check_same(actual[i], expected[i]);
      }
      CHECK(same_bits(sum.value() * 1.0, expected_sum));
    }
  }
}

}  // namespace control_flow_random_test
