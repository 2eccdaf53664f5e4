// Branches and loops in TensorFlow's files: what is written and read again gives the same bits, with the gradients that
// the file holds, and is written alike the next time.

#include <doctest/doctest.h>

#include "expect.hpp"
#include "flow_models.hpp"
#include "tapestry/tapestry.hpp"

using namespace tapestry;
using namespace tapestry::test;

TEST_CASE("branches and loops are written and read again, with their gradients") {
  for (const FlowModel& model : flow_models()) {
    CAPTURE(model.name);
    for (const bool with_gradient : {false, true}) {
      const Variable w({0.5, -0.25, 1.25}, {.name = "w", .dtype = float64});
      const Variable sum({0.125, 0.5, -1.0}, {.name = "sum", .trainable = false, .dtype = float64});
      const auto f = [&](const Tensor& x, const Tensor& n) -> std::vector<Tensor> {
        if (!with_gradient) return {model.f(x, n, w, sum)};
        GradientTape tape;
        tape.watch(x);
        const Tensor y = model.f(x, n, w, sum);
        const auto found = tape.gradient(reduce_sum(sin(y)), {x, w}, {.unconnected = Unconnected::zero});
        return {y, found[0], found[1]};
      };
      const auto traced = trace(f, {spec(float64, {-1, 3}), spec(int32, {})});
      const std::string bytes = traced.graph().as_graph_def();
      CHECK(bytes == traced.graph().as_graph_def());
      const Graph again = Graph::from_graph_def(bytes);
      const Tensor initial = sum.value() * 1.0;
      for (const int n : {0, 1, 2, 3, 5}) {
        CAPTURE(n);
        const Tensor x = tensor({{0.5, -1.0, 0.25}, {1.5, 0.75, -0.5}}).cast(float64);
        sum.assign(initial);
        const std::vector<Tensor> expected = traced(x, tensor(n));
        Session session(again);
        session.run(again.get_operation_by_name("init"));
        for (std::size_t i = 0; i < expected.size(); ++i) {
          CAPTURE(i);
          session.run(again.get_operation_by_name("init"));
          const Tensor actual =
              session.run(traced.output(i).name(), {{traced.input(0).name(), x}, {traced.input(1).name(), tensor(n)}});
          CHECK_MESSAGE(same_bits(actual, expected[i]), printed(actual), printed(expected[i]));
        }
      }
    }
  }
}
