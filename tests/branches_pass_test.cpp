// Which branches the pass "branches" computes and chooses from, with the bits unchanged.

#include <algorithm>
#include <functional>
#include <string>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "op_cases/op_cases.hpp"
#include "planned.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test::branches_pass_test {
namespace {

/// The types that the pass leaves of f(x).
Types left_of(const std::function<Tensor(const Tensor&)>& f, const Tensor& x) {
  Planned graph({x}, [&](const Arguments& arguments) { return Arguments{f(arguments[0])}; });
  graph.apply({"branches", "prune"});
  return graph.types();
}

}  // namespace

TEST_CASE("branches: small ones are computed and chosen from") {
  using Body = std::function<Tensor(const Tensor&)>;
  const auto types = [](const Body& then_body, const Body& else_body, const Tensor& x) {
    return left_of(
        [&](const Tensor& v) {
          return cond(
              less(reshape(v, {-1})(0), 1.0), [&] { return then_body(v); }, [&] { return else_body(v); });
        },
        x);
  };
  const auto has_branches = [&](const Body& then_body, const Tensor& x) {
    const Types left = types(
        then_body, [](const Tensor& v) { return v; }, x);
    return std::any_of(left.begin(), left.end(), [](const std::string& type) { return type.ends_with("If"); });
  };
  const Tensor few = numbers({4, 4}, -2, 2, 1).cast(float32), many = numbers({17}, -2, 2, 1).cast(float32);
  CHECK(!has_branches([](const Tensor& v) { return exp(v) * 2.0; }, few));
  CHECK(!has_branches([](const Tensor&) { return ones({4, 4}); }, few));
  const auto nested = [](const Tensor& v) {
    return cond(
        less(v, -1.0), [&] { return -v; }, [&] { return v * v; });
  };
  CHECK(!has_branches(nested, tensor(0.5)));
  CHECK(has_branches([](const Tensor& v) { return exp(v) * 2.0; }, many));
  CHECK(has_branches([](const Tensor& v) { return v + reduce_sum(v); }, few));
  CHECK(has_branches([](const Tensor& v) { return mod(v.cast(int32), 3).cast(float32); }, few));
  // The results of all branches, chosen from by number; out of range, the last.
  const auto by_number = [](const Tensor& v) {
    return switch_case(v, {[&] { return v + 1; }, [&] { return v * v; }, [&] { return -v; }});
  };
  for (const int number : {-1, 0, 1, 2, 7})
    CHECK(left_of(by_number, tensor(number)) == Types{"AddV2", "Equal", "Equal", "Mul", "Neg", "SelectV2", "SelectV2"});
}

}  // namespace tapestry::test::branches_pass_test
