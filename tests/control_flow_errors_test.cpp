// Errors of branches and loops: what is refused, when, and at which line; and that other calls go on.

#include <algorithm>
#include <functional>
#include <stop_token>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "control_flow_programs.hpp"
#include "expect.hpp"
#include "flow_models.hpp"
#include "io/tensorflow/graph_def.hpp"
#include "tapestry/tapestry.hpp"

namespace control_flow_errors_test {

using namespace tapestry;
using namespace tapestry::test;

TEST_CASE("a function that failed for one shape fails again for it, and runs for others") {
  const auto f = trace(
      [](const Tensor& n, const Tensor& x, const Tensor& y) {
        return cond(
            less(n, 1), [&] { return reduce_sum(x + y(all)); }, [&] { return reduce_sum(x); });
      },
      {spec(int32, {}), spec(float32, {-1}), spec(float32, {-1})});
  const Tensor two = ones({2}), three = ones({3});
  for (int i = 0; i < 3; ++i) {
    CHECK(f(0, two, two).item<float>() == 4);
    CHECK_THROWS_AS(f(0, two, three), InvalidArgumentError);
    CHECK_THROWS_AS(f(0, two, three), InvalidArgumentError);
    CHECK(f(0, three, three).item<float>() == 6);
  }
}

TEST_CASE("a loop whose mask does not fit fails at the same iteration every time") {
  const auto f = trace(
      [](const Tensor& masks, const Tensor& x) {
        return std::get<1>(scan(
            [&](const Tensor& s, const Tensor& row) {
              const Tensor rows = boolean_mask(x, row);
              return std::tuple{s, reduce_sum(matmul(rows, ones({2, 2})))};
            },
            zeros({}), masks));
      },
      {spec(boolean, {-1, -1}), spec(float32, {-1, -1})});
  const Tensor masks = full({2, 3}, true, {.dtype = boolean});
  for (int i = 0; i < 3; ++i) {
    CHECK_THROWS_AS(f(masks, ones({3, 4})), InvalidArgumentError);
    CHECK(f(masks, ones({3, 2})).to_vector<float>() == std::vector<float>{12, 12});
  }
}

TEST_CASE("a function that makes a Variable and changes it after it was read is refused") {
  const auto f = [](const Tensor& n) {
    return cond(
        less(n, 1),
        [] {
          const Variable own(1.0, {.name = "own"});
          Tensor before = own + 0.0;
          own.assign(2.0);
          return before;
        },
        [] { return constant(0.0F); });
  };
  const std::string message = caught<InvalidArgumentError>([&] { trace(f, {spec(int32, {})}); }).message();
  CHECK(message.find("makes a Variable 'own' and changes it") != std::string::npos);
}

TEST_CASE("a branch that returns a Variable's handle is refused") {
  const Graph graph;
  const Graph::Scope open(graph);
  const Variable w({1.0F, 2.0F}, {.name = "w"});
  const Tensor p = placeholder(boolean, {}, "p");
  Tensor handle = graph.get_tensor_by_name("w:0");
  REQUIRE(handle.dtype() == DType::resource);
  const std::string message = caught<UnimplementedError>([&] {
                                cond(
                                    p, [&] { return handle; }, [&] { return handle; });
                              }).message();
  INFO(message);
  CHECK(message.find("returned 'w:0', the handle of a Variable; it can return") != std::string::npos);
  CHECK(cond(
            p, [&] { return w.value(); }, [&] { return -w.value(); })
            .shape() == Shape{2});
}

TEST_CASE("a branch that cannot run with these sizes matters only where it is taken") {
  const auto f = [](const Tensor& x) {
    return cond(
        less(size(x, 0), 3),
        [&] {
          return reduce_sum(matmul(reshape(x, {2, 1}), ones({1, 2})));
        },
        [&] { return reduce_sum(x); });
  };
  const auto traced = trace(f, {spec(float32, {-1})});
  for (const std::int64_t size : {2, 3, 5}) check_same(traced(ones({size})), f(ones({size})));
  const Error refused = caught<InvalidArgumentError>([&] { traced(ones({1})); });
  CHECK(place(refused) == place(caught<InvalidArgumentError>([&] { f(ones({1})); })));
}

TEST_CASE("a function that calls itself in a branch runs eagerly, and is an error in a trace") {
  const std::function<Tensor(const Tensor&)> factorial = [&](const Tensor& n) {
    return cond(
        less(n, 2), [&] { return n * 0 + 1; }, [&] { return n * factorial(n - 1); });
  };
  CHECK(factorial(tensor(4)).item<std::int32_t>() == 24);
  for (int i = 0; i < 2; ++i) {
    const Error refused = caught<InvalidArgumentError>([&] { trace(factorial, {spec(int32, {})}); });
    CHECK(refused.message().find("it is a while_loop") != std::string::npos);
    CHECK(refused.where().line > 0);
  }
}

TEST_CASE("a loop whose variable would change its shape is refused when it does") {
  const auto f = [](const Tensor& x, const Tensor& n) {
    return std::get<1>(while_loop([&](const Tensor& i, const Tensor&) { return less(i, n); },
                                  [](const Tensor& i, const Tensor& s) {
                                    return std::tuple{i + 1, concat({s, s}, 0)};
                                  },
                                  std::tuple{0, x}));
  };
  const auto traced = trace(f, {spec(float32, {-1}), spec(int32, {})});
  const Tensor x = ones({2});
  for (int i = 0; i < 2; ++i) {
    check_same(traced(x, 0), x);
    CHECK(message_of<InvalidArgumentError>([&] { traced(x, 1); }).find("shape_invariants") != std::string::npos);
    CHECK_THROWS_AS(f(x, tensor(1)), InvalidArgumentError);
  }
}

TEST_CASE("a shape invariant that contradicts the first value is refused, in a graph in the run") {
  const auto loop = [](const Tensor& x, const Shape& invariant) {
    return while_loop([](const Tensor& v) { return less(reduce_sum(v), 30.0); },
                      [](const Tensor& v) { return v * 2.0; }, x, {.shape_invariants = {invariant}});
  };
  const std::vector<Shape> shapes{Shape{2, 3}, Shape{-1, 3}, Shape{2, -1}, Shape{-1, -1}, Shape{4, 3}, Shape{6}};
  const Tensor x = ones({2, 3});
  for (const Shape& known : shapes) {
    if (!can_be(known, x.shape())) continue;
    for (const Shape& invariant : shapes) {
      CAPTURE(known);
      CAPTURE(invariant);
      const auto traced = [&] {
        return trace([&](const Tensor& v) { return loop(v, invariant); }, {spec(float32, known)})(x);
      };
      if (can_be(invariant, x.shape())) {
        CHECK(same_bits(traced(), loop(x, invariant)));
        continue;
      }
      const Error refused = caught<InvalidArgumentError>(traced);
      CHECK(refused.message().find("not compatible with") != std::string::npos);
      CHECK(place(refused) == place(caught<InvalidArgumentError>([&] { loop(x, invariant); })));
    }
  }
}

TEST_CASE("what a function over sequences returns is checked, and errors name the user's line") {
  using List = std::vector<Tensor>;
  const Tensor zero = zeros({}), two = ones({2}), no_elements = zeros({0});
  const auto lacks_carried = [&](const Tensor& x) {
    return std::get<1>(scan(
        [](const List& c, const Tensor& e) {
          return std::pair{List{c[0]}, e};
        },
        List{zero, zero}, x));
  };
  const char* const counts = "The body of the loop takes 2 loop variables and returns 1";
  for (const Tensor& x : {two, no_elements})
    CHECK(message_of<InvalidArgumentError>([&] { lacks_carried(x); }).find(counts) != std::string::npos);
  CHECK(message_of<InvalidArgumentError>([&] { trace(lacks_carried, {spec(float32, {-1})}); }).find(counts) !=
        std::string::npos);
  CHECK_THROWS_AS(scan(
                      [](const Tensor& c, const Tensor& e) {
                        return std::pair{stack({c, c}), e};
                      },
                      zero, no_elements),
                  InvalidArgumentError);
  const auto widens = [&](const Tensor& x) {
    return std::get<0>(scan([](const Tensor& c, const Tensor& e) { return std::pair{c.cast(float64), e}; }, zero, x));
  };
  const std::string widened = message_of<InvalidArgumentError>([&] { widens(two); });
  CHECK(widened.find("'variable 0' enters the loop with shape [] and type float32") != std::string::npos);
  CHECK(message_of<InvalidArgumentError>([&] { trace(widens, {spec(float32, {-1})}); }) == widened);
  for (const int step : {1, -1}) {
    int count = 3;
    const auto varies = [&](const Tensor& e) { return List(static_cast<std::size_t>(count += step), e); };
    const std::string message = message_of<InvalidArgumentError>([&] { map(varies, two); });
    CHECK(message == (step > 0 ? "The body returns 5 outputs for element 1, and 4 before"
                               : "The body returns 1 outputs for element 1, and 2 before"));
  }
  const auto unequal = [](const Tensor& e) { return ones({e.item<int>()}); };
  const Error error = caught<InvalidArgumentError>([&] { map(unequal, tensor({1, 2})); });
  CHECK(place(error) == line_before());
  const Error of_map = caught<InvalidArgumentError>([&] { map([](const Tensor& e) { return e; }, tensor(1)); });
  CHECK(of_map.op() == "map");
}

TEST_CASE("a branch that does not fit the sizes is refused only where it is taken") {
  const std::vector<std::pair<std::string, std::function<Tensor(const Tensor& x, const Tensor& y)>>> functions{
      {"an index",
       [](const Tensor& x, const Tensor&) {
         return cond(
             size(x, 0) > 1, [&] { return x(1); }, [&] { return reduce_sum(x); });
       }},
      {"sizes that are equal",
       [](const Tensor& x, const Tensor& y) {
         return cond(
             equal(size(x, 0), size(y, 0)), [&] { return reduce_sum(x * y); }, [&] { return reduce_sum(x); });
       }},
      {"a branch in a branch",
       [](const Tensor& x, const Tensor&) {
         return cond(
             size(x, 0) > 0,
             [&] {
               return cond(
                   size(x, 0) > 1, [&] { return x(1) * x(0); }, [&] { return x(0); });
             },
             [&] { return tensor(7.0); });
       }},
      {"cases",
       [](const Tensor& x, const Tensor&) {
         return switch_case(
             minimum(size(x, 0), 2).cast(int32),
             {[&] { return zeros({1}); }, [&] { return top_k(x, 1).values; }, [&] { return top_k(x, 2).values; }});
       }},
      {"an empty maximum",
       [](const Tensor& x, const Tensor&) {
         return cond(
             size(x, 0) > 0, [&] { return gather(x, argmax(x)); }, [&] { return tensor(-1.0); });
       }},
      {"a loop that does not run",
       [](const Tensor& x, const Tensor& y) {
         return std::get<1>(while_loop([](Tensor i, Tensor) { return i < 0; },
                                       [&](Tensor i, Tensor sum) {
                                         return std::tuple{i + 1, sum + x(5)};
                                       },
                                       std::tuple{size(x, 0), reduce_sum(y)}));
       }},
      {"a branch that is always wrong",
       [](const Tensor& x, const Tensor&) {
         return cond(
             reduce_sum(x) > 0.5, [&] { return x(range(0, 2)) + ones({3}); }, [&] { return x; });
       }},
  };
  for (const auto& function : functions) {
    const auto& f = function.second;
    CAPTURE(function.first);
    const auto gradient = [&f](const Tensor& x, const Tensor& y) {
      GradientTape tape;
      tape.watch(x);
      // The sum of no gradients is -0 in a graph.
      return tape.gradient(f(x, y), x, {.unconnected = Unconnected::zero}) + 0.0;
    };
    for (const std::function<Tensor(const Tensor&, const Tensor&)>& each :
         {f, std::function<Tensor(const Tensor&, const Tensor&)>(gradient)}) {
      const auto traced = trace(each, {spec(float32, {-1}), spec(float32, {-1})});
      const Graph file = Graph::from_graph_def(traced.graph().as_graph_def());
      Session reloaded(file);
      for (const auto& sizes : {std::pair{0, 3}, {1, 3}, {3, 3}, {3, 1}, {2, 0}}) {
        const int rows = sizes.first, others = sizes.second;
        CAPTURE(rows);
        CAPTURE(others);
        const Tensor x = sin(ones({rows}) + cumsum(ones({rows}))), y = ones({others});
        const auto again = [&] {
          return reloaded.run(traced.output().name(), {{traced.input(0).name(), x}, {traced.input(1).name(), y}});
        };
        Tensor eager;
        try {
          eager = each(x, y);
        } catch (const InvalidArgumentError&) {
        }
        if (eager) {
          CHECK(same_bits(traced(x, y), eager));
          CHECK(same_bits(again(), eager));
        } else {
          CHECK(message_of<InvalidArgumentError>([&] { traced(x, y); }) != "");
          CHECK_THROWS_AS(again(), InvalidArgumentError);
        }
      }
    }
  }
}

TEST_CASE("a predicate that is no bool is refused, eagerly and traced") {
  const auto choose = [](const Tensor& p) {
    return cond(
        p, [] { return tensor(1.0f); }, [] { return tensor(2.0f); });
  };
  const auto count = [](const Tensor& p) {
    return while_loop([&](Tensor) { return p; }, [](Tensor i) { return i + 1; }, 0);
  };
  for (const Tensor& p : {tensor(0.5f), tensor(1), tensor(std::int64_t{0})}) {
    const std::string dtype = to_string(p.dtype());
    const auto message = [](const auto& f) { return caught<InvalidArgumentError>(f).message(); };
    const auto says = [&](const std::string& what, const std::string& text) {
      CHECK_MESSAGE(text.find(what + " must be bool, not " + dtype) != std::string::npos, text);
    };
    says("The predicate", message([&] { choose(p); }));
    says("The condition of the loop", message([&] { count(p); }));
    says("The predicate", message([&] { trace(choose, {spec(p.dtype(), {})}); }));
    says("The condition of the loop", message([&] { trace(count, {spec(p.dtype(), {})}); }));
  }
}

namespace {

std::stop_source stopping;
int calls_until_stop = 0;

/// The input. One of the calls stops the run.
Tensor stops(const Tensor& x) {
  static const Op& op = register_op({.name = "StopsRun",
                                     .infer = same_shape,
                                     .cpu =
                                         [](const Call& call) {
                                           if (--calls_until_stop == 0) stopping.request_stop();
                                           std::copy_n(call.input(0).contiguous().data<float>(), call.output().size(),
                                                       call.output_data<float>());
                                         },
                                     .gradient = [](const Call&, const Tensor& g) { return stops(g); },
                                     .needs = needs_nothing});
  return apply(op, {x});
}

/// Repeats the body until the elements are below 0.
Tensor repeat(const std::string& name, const Tensor& x, const std::function<Tensor(Tensor)>& body) {
  return while_loop([](const Tensor& s) { return reduce_max(s) >= 0.0F; }, body, x, {.name = name});
}

struct Stopped {
  std::string name;
  std::function<Tensor(Tensor)> f;  ///< of a vector of the number 10
  int call;                         ///< of `stops`, which stops the run
  std::string progress;             ///< the beginning of the message, before the steps of the innermost function
};

std::vector<Stopped> stopped_runs() {
  const auto stops_and_falls = [](const Tensor& s) { return stops(s) - 1.0F; };
  const auto inner = [=](const Tensor& s) { return s + repeat("inner", s, stops_and_falls) * 6.0F; };
  const auto gradient_of_loop = [](bool recompute) {
    return [=](const Tensor& x) {
      GradientTape tape;
      tape.watch(x);
      const Tensor y =
          while_loop([](const Tensor& s) { return reduce_max(s) < 1e4F; }, [](const Tensor& s) { return stops(s) * s; },
                     x, {.recompute = recompute, .name = "loop"});
      return tape.gradient(reduce_sum(y), x);
    };
  };
  return {
      {"a condition",
       [](const Tensor& x) {
         return while_loop([](const Tensor& s) { return reduce_max(stops(s)) >= 0.0F; },
                           [](const Tensor& s) { return s - 1.0F; }, x, {.name = "loop"});
       },
       3, "'loop' has done 2 iterations, in it "},
      {"a body", [=](const Tensor& x) { return repeat("loop", x, stops_and_falls); }, 3,
       "'loop' has done 2 iterations, in it "},
      {"between iterations",
       [](const Tensor& x) {
         return map([](const Tensor& s) { return stops(s); }, stack(std::vector<Tensor>{x, x, x, x}), {.name = "map"});
       },
       3, "'map' has done 3 iterations"},
      {"a loop in a loop", [=](const Tensor& x) { return repeat("outer", x, inner); }, 13,
       "'outer' has done 1 iterations, in it 'inner' has done 1 iterations, in it "},
      {"a branch",
       [=](const Tensor& x) {
         return cond(
             reduce_max(x) < 0.0F, [&] { return x; }, [&] { return stops(stops(x)) * 2.0F; }, "branch");
       },
       1, "'branch' runs else, in it "},
      {"one of many branches",
       [=](const Tensor& x) {
         const auto branch = [=] { return stops(stops(x)) * 2.0F; };
         return switch_case(reduce_max(x).cast(int32), {[=] { return x; }, branch}, "branch");
       },
       1, "'branch' runs branch_1, in it "},
      {"a loop in a branch in a loop",
       [=](const Tensor& x) {
         return repeat("outer", x, [=](const Tensor& s) {
           return cond(
               reduce_max(s) > 9.0F, [&] { return s - 1.0F; }, [&] { return inner(s); }, "branch");
         });
       },
       2, "'outer' has done 1 iterations, in it 'branch' runs else, in it 'inner' has done 1 iterations, in it "},
      {"a loop's gradient", gradient_of_loop(false), 4,
       "'gradients/loop_grad/StatelessWhile' has done 1 iterations, in it "},
      {"the gradient of a loop that computes again", gradient_of_loop(true), 4,
       "'gradients/loop_grad/StatelessWhile' has come back to iteration 1, in it "},
      {"the gradient of a loop that computes again, later", gradient_of_loop(true), 6,
       "'gradients/loop_grad/StatelessWhile' has come back to iteration 0, in it "},
  };
}

}  // namespace

TEST_CASE("the error of a run that ends in a loop or a branch tells how far each of them has come") {
  for (const Stopped& each : stopped_runs())
    for (const std::int64_t size : {1, 2000})  // what loops carry is copied if it is small
      for (const bool optimize : {true, false})
        for (const bool measured : {true, false}) {
          CAPTURE(each.name);
          CAPTURE(size);
          CAPTURE(optimize);
          CAPTURE(measured);
          const Graph graph;
          Tensor x, y;
          {
            const auto scope = graph.as_default();
            x = placeholder(float32, {size});
            y = each.f(x);
          }
          const Session session(graph, {.optimize = optimize});
          for (int run = 0; run < 2; ++run) {
            calls_until_stop = each.call;
            stopping = std::stop_source();
            RunMetadata metadata;
            RunOptions options{.stop = stopping.get_token()};
            if (measured) options.trace_level = TraceLevel::full;
            const std::string message = message_of<CancelledError>([&] {
              session.run(y, {{x, full({size}, 10.0F)}}, options, &metadata);
            });
            CHECK(message.starts_with("The run was cancelled: " + each.progress));
            calls_until_stop = 0;
            CHECK(session.run(y, {{x, full({size}, 10.0F)}}).size() > 0);
          }
        }
}

TEST_CASE("a scalar that is fed where a loop takes a sequence is refused") {
  const auto rows = [](const Tensor& x) { return map([](const Tensor& row) { return row * 2.0F; }, x); };
  const std::vector<std::pair<std::string, std::function<Tensor(Tensor)>>> programs{
      {"map", rows},
      {"scan",
       [](const Tensor& x) {
         return std::get<0>(scan(
             [](const Tensor& s, const Tensor& row) {
               return std::pair{s + reduce_sum(row), row};
             },
             zeros({}), x));
       }},
      {"map in a branch",
       [&](const Tensor& x) {
         return cond(
             reduce_sum(x) > 0.0F, [&] { return rows(x); }, [&] { return x; });
       }},
      {"map in a loop",
       [&](const Tensor& x) { return while_loop([](const Tensor& s) { return reduce_sum(s) < 9.0F; }, rows, x); }},
  };
  for (const auto& each : programs)
    for (const bool optimize : {true, false}) {
      CAPTURE(each.first);
      CAPTURE(optimize);
      const Graph graph;
      Tensor x, y;
      {
        const auto scope = graph.as_default();
        x = placeholder(float32);
        y = each.second(x);
      }
      const Session session(graph, {.optimize = optimize});
      for (int run = 0; run < 2; ++run) {
        CHECK(message_of<InvalidArgumentError>([&] {
                session.run(y, {{x, 1.0F}});
              }) == "A sequence needs an axis 0, but its shape is []");
        CHECK(session.run(y, {{x, ones({2, 3})}}).size() > 0);
      }
    }
}

TEST_CASE("a file that lies about which lists of a loop have elements of different shapes gives an error or values") {
  const Variable sum({0.125, 0.5, -1.0}, {.name = "sum", .trainable = false, .dtype = float64});
  const auto loops_and_gradient = [&](const Tensor& x, const Tensor& n) -> std::vector<Tensor> {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = counted(x, n, [&](const Tensor& i, const Tensor& s) {
      return counted(s, i, [&](const Tensor&, const Tensor& t) {
        sum.assign_add(reduce_sum(t, {0}));
        return sin(t * sum);
      });
    });
    return {y, tape.gradient(y, x)};
  };
  const auto traced = trace(loops_and_gradient, {spec(float64, {-1, 3}), spec(int32, {})});
  const io::GraphDef file = io::decode(traced.graph().as_graph_def());
  const Tensor x = tensor({{0.5, -1.0, 0.25}, {1.5, 0.75, -0.5}}).cast(float64);
  const std::string input = traced.input(0).name(), times = traced.input(1).name(), slope = traced.output(1).name();
  const auto run = [&](const io::GraphDef& def) {
    const Session session(Graph::from_graph_def(io::encode(def)));
    session.run(session.graph().get_operation_by_name("init"));
    return session.run(slope, {{input, x}, {times, tensor(4)}});
  };
  const Tensor expected = run(file);
  int hints = 0, refused = 0;
  for (std::size_t at = 0; at < file.nodes.size(); ++at) {
    const auto found = file.nodes[at].attrs.find("_tapestry_ragged");
    if (found == file.nodes[at].attrs.end()) continue;
    ++hints;
    const std::int64_t variables = static_cast<std::int64_t>(file.nodes[at].inputs.size());
    for (std::int64_t number = -1; number <= variables; ++number) {
      CAPTURE(number);
      io::GraphDef lying = file;
      lying.nodes[at].attrs["_tapestry_ragged"] = io::ListDef{.ints = {number}};
      try {
        CHECK(run(lying).shape() == x.shape());
      } catch (const Error&) {
        ++refused;
      }
    }
  }
  CHECK(hints == 2);
  CHECK(refused > 0);
  CHECK(same_bits(run(file), expected));
}

TEST_CASE("operations of branches and loops, and of their derivatives, stand at lines of the program") {
  const Variable w(tensor<double>({0.5, -0.25, 1.0})), sum(tensor<double>({0.0, 0.0, 0.0}), {.trainable = false});
  for (const control_flow_test::FlowProgram& program : control_flow_test::programs()) {
    CAPTURE(program.name);
    const auto f = [&](const Tensor& x, const Tensor& n) {
      GradientTape tape;
      tape.watch(x);
      const Tensor y = program.f(x, n, w, sum);
      return tape.gradient(reduce_sum(square(y)), {x}, {.unconnected = Unconnected::zero})[0];
    };
    const Graph graph = trace(f, {spec(float64, {-1, 3}), spec(int32, {})}).graph();
    for (const Operation& each : graph.operations()) {
      CAPTURE(each.name());
      CHECK(std::string(each.where().file ? each.where().file : "").find("src/") == std::string::npos);
    }
  }
  const auto loop = [](const Tensor& x) {
    return while_loop([](Tensor y) { return reduce_sum(y) > 1.0; }, [&](Tensor y) { return sin(y) * x; }, x);
  };
  const Graph of_loop = trace(jacrev(loop), {spec(float64, {-1})}).graph();
  for (const Operation& each : of_loop.operations()) {
    CAPTURE(each.name());
    CHECK(std::string(each.where().file ? each.where().file : "").find("src/") == std::string::npos);
  }
}

TEST_CASE("a condition that is true when the graph is made is refused, unless something else ends the loop") {
  int calls = 0;
  const auto counts = [&](Tensor) { return calls++ < 2; };
  const auto doubled = [](Tensor x) { return x * 2.0; };
  CHECK(values(while_loop(counts, doubled, tensor(1.0))) == std::vector<double>{4});
  calls = 0;
  const auto refused = caught<InvalidArgumentError>(
      [&] { trace([&](Tensor x) { return while_loop(counts, doubled, x); }, {spec(float32, {})}); });
  CHECK(refused.message().find("the loop would never end") != std::string::npos);
  CHECK(place(refused).starts_with("control_flow_errors_test.cpp"));
  const auto ended = [&](Tensor x) {
    return while_loop([](Tensor) { return true; }, doubled, x, {.maximum_iterations = 3});
  };
  CHECK(trace(ended, {spec(float32, {})})(1.0).item<float>() == 8);
  // A tensor says that this is meant.
  const auto forever = [&](Tensor x) { return while_loop([](Tensor) { return tensor(true); }, doubled, x); };
  const auto traced = trace(forever, {spec(float32, {})});
  const Session session(traced.graph());
  CHECK_THROWS_AS(session.run(traced.output(0), {{traced.input(0), 1.0F}}, {.timeout_in_ms = 50}),
                  DeadlineExceededError);
}

}  // namespace control_flow_errors_test
