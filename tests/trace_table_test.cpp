// The table of docs/graphs.md, "What a trace can and cannot do", line by line: each line has a function here that runs
// eagerly, and does in a trace what the line says.

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "op_cases/op_cases.hpp"
#include "tapestry/tapestry.hpp"

namespace trace_table_test {

using namespace tapestry;
using namespace tapestry::test;

namespace {

struct Line {
  std::string code;
  std::string answer;                        ///< "the same" as eagerly, or the class of the error
  std::function<Tensor(const Tensor& x)> f;  ///< of [batch, 3]
};

/// A Variable and an optimizer that start anew for each call of a line.
struct State {
  Variable w{tensor({1.0, 2.0, 3.0}), {.name = "w"}};
  train::AdamOptimizer adam{0.1};
};

std::vector<Line> lines(State& state) {
  const Variable& w = state.w;
  return {
      {"zeros({x.shape()[0], 2}), random::normal(x.shape()), reshape(x, {x.shape()[0], -1})", "the same",
       [](const Tensor& x) {
         return zeros({x.shape()[0], 3}) + random::normal(x.shape()) + reshape(x, {x.shape()[0], -1});
       }},
      {"tape.gradient, tapes in tapes, grad, jvp, vjp", "the same",
       [](const Tensor& x) {
         return jvp([](const Tensor& z) { return grad([](const Tensor& t) { return reduce_sum(sin(t) * t); })(z); }, x,
                    ones_like(x))
             .second;
       }},
      {"tape.jacobian, tape.batch_jacobian, jacobian, jacrev, jacfwd, hessian", "the same",
       [](const Tensor& x) {
         GradientTape tape({.persistent = true});
         tape.watch(x);
         const Tensor y = x * reduce_sum(x, 1, {.keep_dims = true});
         const auto f = [](const Tensor& z) { return sin(z) * reduce_sum(z, 1, {.keep_dims = true}); };
         return tape.jacobian(y, x) + jacobian(f)(x) + jacrev(f)(x) * jacfwd(f)(x) +
                hessian([&](const Tensor& z) { return reduce_sum(square(f(z))); })(x) +
                reduce_sum(tape.batch_jacobian(y, x));
       }},
      {"vmap(f)(x), also where f differentiates, draws random numbers, or branches by values", "the same",
       [](const Tensor& x) {
         return vmap([](const Tensor& row) {
           const Tensor slope = grad([](const Tensor& z) { return reduce_sum(sin(z) * z); })(row);
           return cond(
               greater(reduce_sum(row), 0.0), [&] { return slope + random::normal({3}); },
               [&] { return slope * random::uniform_like(row); });
         })(x);
       }},
      {"optimizer.minimize, apply_gradients, w.assign(...), and reads behind them", "the same",
       [&state](const Tensor& x) {
         state.adam.minimize([&] { return reduce_mean(square(x * state.w)); }, {state.w});
         state.w.assign_add(reduce_sum(x, 0));
         return state.w * 2.0;
       }},
      {"dropout, random::*, layers in training mode", "the same",
       [](const Tensor& x) { return dropout(x, 0.5) + random::uniform_like(x); }},
      {"recompute(f)(x), custom_gradient(f)(x)", "the same",
       [](const Tensor& x) {
         GradientTape tape;
         tape.watch(x);
         return tape.gradient(recompute([](const Tensor& z) { return sin(z) * dropout(z, 0.5); })(x), x);
       }},
      {"recompute(f)(x) with a branch or loop in f that draws random numbers or changes Variables", "the same",
       [](const Tensor& x) {
         GradientTape tape;
         tape.watch(x);
         const auto repeated = recompute([](const Tensor& z) {
           return std::get<1>(while_loop([](const Tensor& i, const Tensor&) { return less(i, 2); },
                                         [](const Tensor& i, const Tensor& y) {
                                           return std::tuple{i + 1, y * random::uniform_like(y)};
                                         },
                                         std::tuple{std::int64_t{0}, z}));
         });
         return tape.gradient(repeated(x), x);
       }},
      {"x(all, 0), x(range(0, 1)), slice_update, concat, gather, where", "the same",
       [](const Tensor& x) {
         return where(x > 0, concat({x(all, range(0, 1)), x(all, range(1, 3))}, 1), -x);
       }},
      {"for (int i = 0; i < 3; ++i) y = f(y);", "the same",
       [&w](const Tensor& x) {
         Tensor y = x;
         for (int i = 0; i < 3; ++i) y = tanh(y * w);
         return y;
       }},
      {"if (x.rank() == 2), if (x.shape()[1] > 2), x.dtype()", "the same",
       [](const Tensor& x) { return x.rank() == 2 && x.shape()[1] > 2 ? x * 2.0 : x; }},
      {"size(x, 0), shape(x), size(x)", "the same",
       [](const Tensor& x) { return reduce_sum(x, 0) / size(x, 0).cast(float32); }},
      {"another traced function", "the same",
       [](const Tensor& x) {
         static const auto inner = trace([](Tensor z) { return z * z; }, {spec(float32, {-1, 3})});
         return inner(x) + 1.0;
       }},
      {"cond, switch_case, while_loop, scan, map by values of x, or over x", "the same",
       [](const Tensor& x) {
         const Tensor halved = while_loop([](Tensor y) { return greater(reduce_max(abs(y)), 0.25); },
                                          [](Tensor y) { return y * 0.5; }, x);
         Tensor sum, sums;  // clang 14 captures no structured bindings
         std::tie(sum, sums) = scan(
             [](Tensor before, Tensor row) {
               return std::pair{before + row, before};
             },
             zeros({3}), halved);
         const Tensor y = cond(
             greater(reduce_sum(x), 0.0), [&] { return sums + sum; }, [&] { return sums - sum; });
         return switch_case(argmax(sum).cast(int32), {[&] { return -y; }, [&] { return y * 2.0; }}) +
                map([](Tensor row) { return square(row); }, x);
       }},
      {"x.item<T>(), x.to_vector<T>(), x.data<T>(), so that C++ decides by values", "FailedPreconditionError",
       [](const Tensor& x) { return reduce_sum(x).item<float>() > 0 ? x : -x; }},
      {"x.shape()[0] or x.size() as a number: a loop, arithmetic, arange, range, one_hot, eye",
       "FailedPreconditionError", [](const Tensor& x) { return reduce_sum(x) / x.size(); }},
      {"unstack(x) along an axis of unknown size", "InvalidArgumentError",
       [](const Tensor& x) { return unstack(x)[0]; }},
      {"a recurrent layer over an unknown number of steps", "the same",
       [](const Tensor& x) {
         random::seed(3);
         const nn::RecurrentOptions both{.layers = 2, .bidirectional = true};
         const nn::RNN rnn(3, 2, both);
         const nn::GRU gru(3, 2, both);
         const nn::LSTM lstm(3, 2, both);
         const Tensor steps = expand_dims(x, 0);
         return concat({rnn(steps).output, gru(steps).output, lstm(steps).output}, -1);
       }},
      {"Variable v(y) of a computed value", "InvalidArgumentError",
       [](const Tensor& x) { return Variable(reduce_sum(x, 0)).value(); }},
  };
}

std::string class_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const FailedPreconditionError&) {
    return "FailedPreconditionError";
  } catch (const InvalidArgumentError&) {
    return "InvalidArgumentError";
  } catch (const UnimplementedError&) {
    return "UnimplementedError";
  } catch (const Error& error) {
    return error.what();
  }
  return "the same";
}

}  // namespace

TEST_CASE("each line of the table") {
  State eager_state, traced_state;
  const std::vector<Line> eager = lines(eager_state), traced = lines(traced_state);
  const Tensor x = numbers({4, 3}, -1, 1, 1).cast(float32);
  for (std::size_t i = 0; i < eager.size(); ++i) {
    CAPTURE(eager[i].code);
    random::seed(7);
    const Tensor expected = eager[i].f(x);
    CHECK(class_of([&] {
            const auto f = trace(traced[i].f, {spec(float32, {-1, 3}, "x")});
            random::seed(7);
            CHECK(same_bits(f(x), expected));
          }) == eager[i].answer);
  }
}

TEST_CASE("what nothing needs is not run, and so not refused") {
  const Tensor x = ones({4, 3});
  const auto unused = [](Tensor t) {
    reshape(t, {5, 5});
    return t;
  };
  CHECK_THROWS_AS(unused(x), InvalidArgumentError);
  CHECK(same_bits(trace(unused, {spec(float32, {-1, 3})})(x), x));
  const auto unconnected = [](Tensor t) {
    GradientTape tape;
    tape.watch(t);
    return tape.gradient(ones_like(t), t, {.output_gradients = ones({5, 3}), .unconnected = Unconnected::zero});
  };
  CHECK_THROWS_AS(unconnected(x), InvalidArgumentError);
  CHECK(same_bits(trace(unconnected, {spec(float32, {-1, 3})})(x), zeros({4, 3})));
}

TEST_CASE("the page has these lines") {
  std::ifstream page(GRAPHS_PAGE);
  REQUIRE(page.good());
  std::vector<std::pair<std::string, std::string>> table;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line == "| in the function | in a trace |")
      inside = true;
    else if (inside && line.empty())
      break;
    else if (inside && line.find("---") == std::string::npos) {
      const std::size_t middle = line.find(" | ", 2);
      std::string code = line.substr(2, middle - 2), answer = line.substr(middle + 3, line.size() - middle - 5);
      std::erase(code, '`');
      std::erase(answer, '`');
      table.emplace_back(code, answer.substr(0, answer.find(':')));
    }
  }
  State state;
  const std::vector<Line> expected = lines(state);
  REQUIRE(table.size() == expected.size());
  for (std::size_t i = 0; i < table.size(); ++i) {
    CHECK(table[i].first == expected[i].code);
    CHECK(table[i].second == expected[i].answer);
  }
}

}  // namespace trace_table_test
