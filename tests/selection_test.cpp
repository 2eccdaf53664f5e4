// Ops whose results have sizes that depend on values: against plain loops, eagerly, traced and in sessions, with
// gradients, and in branches and loops.

#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "tapestry/tapestry.hpp"

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
