// Every op and its gradient on operands in any layout, against row-major copies of them.

#include <doctest/doctest.h>

#include "environment.hpp"
#include "expect.hpp"
#include "op_cases/layouts.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test::op_layouts_test {

TEST_CASE("no layout of operands makes a difference") {
  const LayoutSearch search = search_layouts(cpu(), seed_of_cases(1), number_of_cases(10000));
  MESSAGE(search.ran, " cases ran, ", search.refused, " were refused, ", search.traced, " ran as a plan, too");
  for (const std::string& each : search.differences) FAIL_CHECK(each);
  CHECK(search.ran > search.refused);
}

// The gradient of a mean is one number for all elements, which takes no memory of its own.
TEST_CASE("the gradient of the mean of a batch of products of one row") {
  const Tensor x = reshape(arange(64 * 8).cast(float32), {64, 1, 8}), w = reshape(arange(8).cast(float32), {8, 1});
  GradientTape tape;
  tape.watch(x);
  tape.watch(w);
  const auto [dx, dw] = tape.gradient(reduce_mean(matmul(x, w)), x, w);
  check_same(dx, broadcast_to(reshape(w, {1, 1, 8}) / 64.0F, {64, 1, 8}));
  check_same(dw, reshape(reduce_mean(x, {0}), {8, 1}));
}

}  // namespace tapestry::test::op_layouts_test
