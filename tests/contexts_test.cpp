// A gradient is the same wherever it is taken: eagerly, in graphs and traces, in functions of graphs, forward, and by
// tapes inside and outside of all of these.

#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test::contexts_test {
namespace {

using Function = std::function<Tensor(const Tensor& w, const Tensor& x)>;

struct Program {
  std::string name;
  Function f;  ///< from two float64[3] to a scalar
};

Tensor is_first_positive(const Tensor& x) { return greater(x(0), 0.0); }

const std::vector<Program>& programs() {
  static const auto& list = *new std::vector<Program>{
      {"products", [](const Tensor& w, const Tensor& x) { return reduce_sum(w * w * x); }},
      {"concat",
       [](const Tensor& w, const Tensor& x) {
         return reduce_sum(sin(concat({w * w, x}, 0)));
       }},
      {"stack",
       [](const Tensor& w, const Tensor& x) {
         return reduce_sum(stack({exp(w), x * w}));
       }},
      {"where", [](const Tensor& w, const Tensor& x) { return reduce_sum(where(greater(x, 0.0), w * w, x)); }},
      {"einsum",
       [](const Tensor& w, const Tensor& x) {
         return einsum("i,i->", {w * 2.0, x});
       }},
      {"gather", [](const Tensor& w, const Tensor& x) { return reduce_sum(gather(w * w, argmax(x)) * x); }},
      {"sort", [](const Tensor& w, const Tensor& x) { return reduce_sum(sort(w * w + x) * x); }},
      {"slice_update",
       [](const Tensor& w, const Tensor& x) {
         return reduce_sum(slice_update(x, (w * w)(range(0, 2)), range(1, 3)) * x);
       }},
      {"loss", [](const Tensor& w, const Tensor& x) { return reduce_sum(softmax_cross_entropy(softmax(x), w * w)); }},
      {"branch",
       [](const Tensor& w, const Tensor& x) {
         return reduce_sum(cond(
             is_first_positive(x), [&] { return square(w) * x; }, [&] { return w; }));
       }},
      {"case",
       [](const Tensor& w, const Tensor& x) {
         return reduce_sum(switch_case(argmax(x), {[&] { return w; }, [&] { return w * w * x; }, [&] { return x; }}));
       }},
      {"loop",
       [](const Tensor& w, const Tensor& x) {
         return reduce_sum(std::get<1>(while_loop([](const Tensor& i, const Tensor&) { return less(i, 3); },
                                                  [&](const Tensor& i, const Tensor& s) {
                                                    return std::tuple{i + 1, s * (w * w)};
                                                  },
                                                  std::tuple{std::int64_t{0}, x})));
       }},
      {"scan",
       [](const Tensor& w, const Tensor& x) {
         const auto [last, all_sums] = scan(
             [&](const Tensor& sum, const Tensor& e) {
               const Tensor next = sum * reduce_sum(sin(w)) + e;
               return std::pair{next, next};
             },
             zeros({}, {.dtype = float64}), x);
         return last + reduce_sum(all_sums);
       }},
      {"map",
       [](const Tensor& w, const Tensor& x) {
         return reduce_sum(map([&](const Tensor& e) { return e * reduce_sum(w * w); }, x));
       }},
      {"a loop in a branch in a branch",
       [](const Tensor& w, const Tensor& x) {
         const auto loop = [&] { return map([&](const Tensor& e) { return e * reduce_sum(exp(w)); }, x); };
         return reduce_sum(cond(
             is_first_positive(x), [&] { return cond(greater(x(1), 0.0), loop, [&] { return w; }); },
             [&] { return w; }));
       }},
      {"vmap",
       [](const Tensor& w, const Tensor& x) {
         return reduce_sum(vmap([&](const Tensor& e) { return e * reduce_sum(w * w); })(x));
       }},
      {"map in vmap",
       [](const Tensor& w, const Tensor& x) {
         return reduce_sum(
             vmap([&](const Tensor& e) { return map([&](const Tensor& u) { return u * e * (w * w)(0); }, w); })(x));
       }},
      {"a tape in a branch",
       [](const Tensor& w, const Tensor& x) {
         const auto slope = [&] {
           GradientTape tape;
           tape.watch(w);
           const Tensor y = reduce_sum(w * w * w * x);
           return tape.gradient(y, w);
         };
         return reduce_sum(cond(is_first_positive(x), slope, [&] { return w; }));
       }},
      {"jvp by x",
       [](const Tensor& w, const Tensor& x) {
         return reduce_sum(jvp([&](const Tensor& a) { return a * a * (w * w); }, x, ones_like(x)).second);
       }},
      {"jvp by w",
       [](const Tensor& w, const Tensor& x) {
         return reduce_sum(jvp([&](const Tensor& a) { return a * a * a * x; }, w, ones_like(w)).second);
       }},
      {"custom_gradient",
       [](const Tensor& w, const Tensor& x) {
         const auto product = custom_gradient([](const Tensor& a, const Tensor& b) {
           return CustomGradient{a * b, [=](const Tensor& g) -> Tensors { return {g * b, g * a}; }};
         });
         return reduce_sum(product(w * w, x));
       }},
      {"recompute",
       [](const Tensor& w, const Tensor& x) {
         return reduce_sum(recompute([](const Tensor& a, const Tensor& b) { return sin(a) * b; })(w * w, x));
       }},
  };
  return list;
}

const Tensor& w_value() {
  static const Tensor value = tensor<double>({0.3, -0.7, 1.1});
  return value;
}
const Tensor& x_value() {
  static const Tensor value = tensor<double>({1.0, 2.0, -0.5});
  return value;
}

Tensor slope(const Function& f, const Tensor& w, const Tensor& x) {
  GradientTape tape;
  tape.watch(w);
  return tape.gradient(f(w, x), w);
}

/// The gradient in a graph built by hand, which is open or not.
Tensor in_graph(const Function& f, bool is_open, std::int64_t size) {
  const Graph graph;
  const auto in_scope = [&](const auto& make) {
    const auto scope = graph.as_default();
    return make();
  };
  const Tensor x = in_scope([&] { return placeholder(float64, {size}); });
  const auto make = [&] { return slope(f, w_value(), x); };
  return Session(graph).run(is_open ? in_scope(make) : make(), {{x, x_value()}});
}

struct Context {
  std::string name;
  std::function<Tensor(const Function& f)> gradient;
};

const std::vector<Context>& contexts() {
  static const auto& list = *new std::vector<Context>{
      {"in an open graph", [](const Function& f) { return in_graph(f, true, 3); }},
      {"in a graph that is not open", [](const Function& f) { return in_graph(f, false, 3); }},
      {"in a graph that does not know the size", [](const Function& f) { return in_graph(f, true, -1); }},
      {"a tape in a trace",
       [](const Function& f) {
         return trace([&](const Tensor& x) { return slope(f, w_value(), x); }, {spec(float64, {3})})(x_value());
       }},
      {"a tape in a trace, of its argument",
       [](const Function& f) {
         const auto both = [&](const Tensor& w, const Tensor& x) { return slope(f, w, x); };
         return trace(both, {spec(float64, {3}), spec(float64, {-1})})(w_value(), x_value());
       }},
      {"a trace in a tape",
       [](const Function& f) {
         const auto traced =
             trace([&](const Tensor& w, const Tensor& x) { return f(w, x); }, {spec(float64, {3}), spec(float64, {3})});
         return slope([&](const Tensor& w, const Tensor& x) { return traced(w, x); }, w_value(), x_value());
       }},
      {"a trace that has captured the tensor, in a tape",
       [](const Function& f) {
         const auto traced = trace([&](const Tensor& x) { return f(w_value(), x); }, {spec(float64, {3})});
         return slope([&](const Tensor&, const Tensor& x) { return traced(x); }, w_value(), x_value());
       }},
      {"by a Variable",
       [](const Function& f) {
         const Variable v(w_value());
         GradientTape tape;
         return tape.gradient(f(v, x_value()), v);
       }},
      {"by a Variable, in a trace",
       [](const Function& f) {
         const Variable v(w_value());
         const auto traced = trace(
             [&](const Tensor& x) {
               GradientTape tape;
               return tape.gradient(f(v, x), v);
             },
             {spec(float64, {3})});
         return traced(x_value());
       }},
      {"a tape in a branch",
       [](const Function& f) {
         const auto traced = trace(
             [&](const Tensor& w, const Tensor& x) {
               return cond(
                   is_first_positive(x), [&] { return slope(f, w, x); }, [&] { return w; });
             },
             {spec(float64, {3}), spec(float64, {3})});
         return traced(w_value(), x_value());
       }},
      {"a tape in a loop",
       [](const Function& f) {
         const auto traced = trace(
             [&](const Tensor& w, const Tensor& x) {
               return map([&](const Tensor& row) { return slope(f, w, row); }, expand_dims(x, 0))(0);
             },
             {spec(float64, {3}), spec(float64, {3})});
         return traced(w_value(), x_value());
       }},
      {"a tape in vmap",
       [](const Function& f) {
         return vmap([&](const Tensor& row) { return slope(f, w_value(), row); })(stack({x_value(), x_value()}))(1);
       }},
      {"vmap in a tape",
       [](const Function& f) {
         const auto of_row = [&](const Tensor& w, const Tensor& x) {
           return vmap([&](const Tensor& row) { return f(w, row); })(expand_dims(x, 0))(0);
         };
         return slope(of_row, w_value(), x_value());
       }},
      {"jvp",
       [](const Function& f) {
         const auto of_w = [&](const Tensor& w) { return f(w, x_value()); };
         const auto along = [&](const Tensor& direction) { return jvp(of_w, w_value(), direction).second; };
         const Tensor unit = eye(3, 3, {.dtype = float64});
         return stack({along(unit(0)), along(unit(1)), along(unit(2))});
       }},
      {"jacfwd", [](const Function& f) { return jacfwd([&](const Tensor& w) { return f(w, x_value()); })(w_value()); }},
  };
  return list;
}

TEST_CASE("a gradient is the same in every context") {
  for (const Program& program : programs()) {
    CAPTURE(program.name);
    const Tensor expected = slope(program.f, w_value(), x_value());
    for (const Context& context : contexts()) {
      CAPTURE(context.name);
      const Tensor found = context.gradient(program.f);
      REQUIRE(found);
      check_same(found, expected, 1e-13);
    }
  }
}

TEST_CASE("a second derivative is the same in every context") {
  for (const Program& program : programs()) {
    CAPTURE(program.name);
    const Function f = [&](const Tensor& w, const Tensor& x) { return reduce_sum(slope(program.f, w, x) * cos(w)); };
    const Tensor expected = slope(f, w_value(), x_value());
    for (const Context& context : contexts()) {
      CAPTURE(context.name);
      const Tensor found = context.gradient(f);
      REQUIRE(found);
      check_same(found, expected, 1e-12);
    }
  }
}

}  // namespace
}  // namespace tapestry::test::contexts_test
