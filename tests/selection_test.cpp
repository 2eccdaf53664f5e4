// Ops whose results have sizes that depend on values: against plain loops, eagerly, traced and in sessions, with
// gradients, and in branches and loops.

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "tapestry/tapestry.hpp"

namespace selection_test {

using namespace tapestry;
using namespace tapestry::test;

namespace {

struct Selection {
  std::string name;
  std::function<Tensor(const Tensor& x)> f;  ///< of float64 [batch, 3]
};

const std::vector<Selection>& selections() {
  static const std::vector<Selection> list{
      {"boolean_mask of rows", [](const Tensor& x) { return boolean_mask(x, greater(x(all, 0), 0.0)) * 2.0; }},
      {"boolean_mask of elements", [](const Tensor& x) { return square(x(greater(x, 0.0))); }},
      {"a mask of a mask",
       [](const Tensor& x) {
         const Tensor positive = x(greater(x, 0.0));
         return exp(positive(less(positive, 1.0)));
       }},
      {"the size of a mask in a shape",
       [](const Tensor& x) {
         const Tensor rows = boolean_mask(x, greater(x(all, 1), 0.0));
         return rows + ones({rows.shape()[0], 3}, {.dtype = float64});
       }},
      {"masked_assign of a number", [](const Tensor& x) { return masked_assign(x, greater(x, 0.5), 7.0) * x; }},
      {"masked_assign of values",
       [](const Tensor& x) {
         const Tensor mask = greater(x, 0.0);
         return masked_assign(x, mask, square(x(mask))) * x;
       }},
      {"masked_assign of rows",
       [](const Tensor& x) {
         const Tensor mask = greater(x(all, 0), 0.0);
         return masked_assign(sin(x), mask, exp(boolean_mask(x, mask)));
       }},
      {"partition and stitch",
       [](const Tensor& x) {
         const Tensor partitions = greater(x(all, 0), 0.0).cast(int32) + greater(x(all, 1), 0.0).cast(int32);
         const std::vector<Tensor> parts = dynamic_partition(x, partitions, 3);
         const Tensor counts = cumsum(ones_like(partitions));
         const std::vector<Tensor> places = dynamic_partition(counts - 1, partitions, 3);
         return dynamic_stitch(places, {parts[0] * 2.0, sin(parts[1]), exp(parts[2])});
       }},
      {"indices as numbers", [](const Tensor& x) { return nonzero(greater(x, 0.0)).cast(float64) * 0.5; }},
      {"counts of equal values",
       [](const Tensor& x) {
         const Unique found = unique(floor(x(all, 0)));
         return gather(found.counts, found.inverse).cast(float64) * x(all, 1) + reduce_sum(found.values);
       }},
      {"ragged and back",
       [](const Tensor& x) {
         const Tensor lengths = greater(x, 0.0).cast(int32);
         const Tensor per_row = reduce_sum(lengths, {1});
         const Tensor values = x(greater(x, 0.0));
         const Tensor padded = ragged_to_padded(values, per_row, -1.0);
         return padded_to_ragged(square(padded), per_row) * values;
       }},
      {"a mask in a branch",
       [](const Tensor& x) {
         return cond(
             greater(reduce_sum(x), 0.0), [&] { return reduce_sum(square(x(greater(x, 0.0)))); },
             [&] { return reduce_sum(x); });
       }},
      {"a mask in a loop",
       [](const Tensor& x) {
         const auto [last, sums] = scan(
             [&](Tensor sum, Tensor row) {
               const Tensor next = sum + reduce_sum(exp(row(greater(row, 0.0))));
               return std::tuple{next, next};
             },
             zeros({}, {.dtype = float64}), x);
         return sums * last;
       }},
      {"a mask of what a branch gives",
       [](const Tensor& x) {
         const Tensor y = cond(
             greater(x(0, 0), 0.0), [&] { return x(greater(x, 0.0)); }, [&] { return x(less(x, 0.0)); });
         return y * y;
       }},
  };
  return list;
}

/// The result and the gradient of the sum of its squares.
std::vector<Tensor> value_and_gradient(const Selection& program, const Tensor& x) {
  GradientTape tape;
  tape.watch(x);
  const Tensor y = program.f(x);
  const Tensor g = tape.gradient(reduce_sum(square(y)), {x}, {.unconnected = Unconnected::zero})[0];
  return std::vector<Tensor>{y, g};
}

}  // namespace

TEST_CASE("a value that is known when a graph is made has other sizes than were expected") {
  const Graph graph;
  const auto scope = graph.as_default();
  const Tensor found = nonzero(constant({true, true, true}));
  CHECK(found.shape() == Shape{-1, 1});
  const Tensor sum = found + constant(tensor<std::int64_t>({{1}, {2}}));
  CHECK(sum.shape() == Shape{2, 1});
  for (const std::vector<std::string>& disabled : {std::vector<std::string>{}, {"fold"}}) {
    Session session(graph, {.disabled_passes = disabled});
    CHECK(message_of<InvalidArgumentError>([&] { session.run(sum); }) == "Incompatible shapes: [3,1] vs. [2,1]");
  }
}

TEST_CASE("eager and traced, ops with sizes that depend on values give the same, with their gradients") {
  for (const Selection& program : selections()) {
    CAPTURE(program.name);
    const auto f = [&](const Tensor& x) { return value_and_gradient(program, x); };
    const auto known = trace(f, {spec(float64, {4, 3})});
    const auto unknown = trace(f, {spec(float64, {-1, 3})});
    random::seed(11);
    for (const std::int64_t batch : {4, 1, 7, 4, 4}) {
      const Tensor x = random::normal({batch, 3}, {.dtype = float64});
      const std::vector<Tensor> expected = f(x);
      const auto check = [&](const std::vector<Tensor>& actual) {
        for (std::size_t i = 0; i < 2; ++i) check_same(actual[i], expected[i]);
      };
      if (batch == 4) check(known(x));
      check(unknown(x));
    }
  }
}

TEST_CASE("unique numbers values of all types in the order in which they come") {
  for (const DType type : {boolean, uint8, int32, int64, float16, bfloat16, float32, float64})
    for (const double spread : {1.0, 40.0, 1e9}) {
      CAPTURE(to_string(type));
      CAPTURE(spread);
      random::seed(3);
      Tensor x = floor(random::normal({5000}, {.stddev = spread, .dtype = float64}));
      if (is_floating(type))
        x = concat({x, tensor<double>({0.0, -0.0, not_a_number, infinity, -infinity, -not_a_number, -infinity})}, 0);
      x = x.cast(type);
      const std::vector<double> elements = values(x);
      std::map<double, std::size_t> known;
      std::vector<double> different, inverse, counts;
      for (const double each : elements) {
        const std::size_t number =
            std::isnan(each) ? different.size() : known.try_emplace(each, different.size()).first->second;
        if (number == different.size()) {
          different.push_back(each);
          counts.push_back(0);
        }
        ++counts[number];
        inverse.push_back(static_cast<double>(number));
      }
      const Unique unique = tapestry::unique(x);
      CHECK(values(unique.inverse) == inverse);
      CHECK(values(unique.counts) == counts);
      check_values(unique.values, different);
      const auto zero = std::find(elements.begin(), elements.end(), 0.0);
      const auto found = std::find(different.begin(), different.end(), 0.0) - different.begin();
      if (zero != elements.end()) CHECK(std::signbit(values(unique.values)[found]) == std::signbit(*zero));
    }
}

TEST_CASE("nonzero counts through rows of all lengths and any number of axes") {
  random::seed(5);
  for (const Shape& shape : std::vector<Shape>{{},
                                               {0},
                                               {1},
                                               {700},
                                               {3, 300},
                                               {300, 3},
                                               {2, 0, 3},
                                               {0, 4},
                                               {4, 0},
                                               {2, 1, 3, 1, 2, 1, 2, 3},
                                               {1, 1, 1, 1, 1, 1, 1, 1}})
    for (const double share : {0.0, 0.3, 1.0}) {
      CAPTURE(shape);
      const Tensor x = (random::uniform(shape, {.dtype = float64}) < share).cast(int32) * 7;
      const std::vector<double> elements = values(x);
      std::vector<double> expected;
      for (std::size_t i = 0; i < elements.size(); ++i) {
        if (elements[i] == 0) continue;
        std::vector<double> index;
        std::size_t rest = i;
        for (int axis = x.rank(); axis-- > 0;) {
          const auto size = static_cast<std::size_t>(x.shape().sizes()[axis]);
          index.insert(index.begin(), static_cast<double>(rest % size));
          rest /= size;
        }
        expected.insert(expected.end(), index.begin(), index.end());
      }
      CHECK(values(nonzero(x)) == expected);
      CHECK(nonzero(x).shape()[1] == x.rank());
    }
}

TEST_CASE("a mask must fit, also where sizes are unknown until a graph runs") {
  const auto refused = [](const auto& f, const Tensor& x, const Tensor& mask) {
    const std::string text =
        "The mask " + to_string(mask.shape()) + " must have the shape of x, " + to_string(x.shape());
    CHECK(caught<InvalidArgumentError>([&] { f(x, mask); }).message().find(text) != std::string::npos);
    const auto traced = trace([&](const Tensor& a, const Tensor& b) { return f(a, b); },
                              {spec(x.dtype(), {-1, 3}), spec(boolean, {-1})});
    CHECK_THROWS_AS(traced(x, mask), InvalidArgumentError);
  };
  const Tensor x = ones({8, 3});
  for (const std::int64_t size : {1, 4, 9}) {
    const Tensor mask = full({size}, true, {.dtype = boolean});
    refused([](const Tensor& a, const Tensor& b) { return boolean_mask(a, b); }, x, mask);
    refused([](const Tensor& a, const Tensor& b) { return masked_assign(a, b, 1.0); }, x, mask);
    refused([](const Tensor& a, const Tensor& b) { return masked_assign(a, b, boolean_mask(a, b)); }, x, mask);
  }
}

TEST_CASE("indices in the place of a mask are told what takes them") {
  const Tensor x = ones({3, 2});
  const auto text = [](auto f) { return caught<InvalidArgumentError>(f).message(); };
  CHECK(text([&] {
          x(tensor({0, 2}));
        }) == "The mask must be bool, not int32; tp::gather takes parts by their indices");
  CHECK(text([&] { boolean_mask(x, ones({3})); }) == "The mask must be bool, not float32");
}

TEST_CASE("a run that is cut is explained up to the cut, and measured as a whole") {
  const Graph graph;
  const auto scope = graph.as_default();
  const Tensor x = placeholder(float32, {-1}, "x");
  const Tensor y = reduce_sum(square(x(greater(x, 0.0))));
  const Session session(graph);
  const Feeds feeds{{x, {1.0F, -2.0F, 3.0F}}};
  CHECK(printed(session.explain(y, feeds)).find("MaskedParts") != std::string::npos);
  RunMetadata metadata;
  CHECK(session.run(y, feeds, {.trace_level = TraceLevel::full}, &metadata).item<float>() == 10);
  CHECK(metadata.times.size() == metadata.plan.steps.size());
  CHECK(metadata.plan.steps.size() >= 3);
}

TEST_CASE("what follows a size that comes for the first time is planned without passes, and gives the same bits") {
  const auto f = [](const Tensor& x, const Tensor& mask) {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = reduce_sum(tanh(sin(boolean_mask(x, mask)) * 2.0 + 0.5));
    return std::pair{y, tape.gradient(y, x)};
  };
  const auto traced = trace(f, {spec(float32, {6}), spec(boolean, {6})});
  const Session session(traced.graph());
  const Tensor value = tensor<float>({0.25, -1.5, 3.0, 0.75, -0.5, 2.0});
  for (int count = 0; count <= 6; ++count) {
    CAPTURE(count);
    const Tensor chosen = arange(6) < count;
    const auto [y, slope] = f(value, chosen);
    std::size_t steps = 0;
    for (int time = 0; time < 3; ++time) {
      RunMetadata metadata;
      const std::vector<Tensor> results =
          session.run(traced.outputs(), {{traced.input(0), value}, {traced.input(1), chosen}}, {}, &metadata);
      check_same(results[0], y);
      check_same(results[1], slope);
      if (time == 1) CHECK(metadata.plan.steps.size() < steps);
      if (time == 2) CHECK(metadata.plan.steps.size() == steps);
      steps = metadata.plan.steps.size();
    }
  }
}

TEST_CASE("second derivatives of a branch in a branch that selects rows, where it is not taken") {
  const auto f = [](const Tensor& x, const Tensor& n) {
    GradientTape outer;
    outer.watch(x);
    GradientTape tape;
    tape.watch(x);
    const Tensor y = cond(
        n > 1,
        [&] {
          const auto selected = [&] { return reduce_sum(sin(boolean_mask(x, reduce_sum(x, {1}) > 0.0)), {0}); };
          return cond(n < 3, selected, [&] { return reduce_sum(x * x, {0}); });
        },
        [&] { return reduce_mean(cos(x), {0}); });
    return outer.gradient(reduce_sum(square(tape.gradient(reduce_sum(y), x))), x);
  };
  const auto traced = trace(f, {spec(float64, {-1, 3}), spec(int32, {})});
  for (const int n : {0, 2, 4})
    for (const std::int64_t batch : {4, 1}) {
      CAPTURE(n);
      const Tensor x = random::normal({batch, 3}, {.dtype = float64});
      check_same(traced(x, n), f(x, tensor(n)));
    }
}

}  // namespace selection_test
