// Operators on tensors: what they mean, and what does not compile.

#include <concepts>
#include <utility>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "tapestry/tapestry.hpp"

namespace operators_test {

using namespace tapestry;
using namespace tapestry::test;

namespace {

template <class A, class B>
concept CanAnd = requires(A a, B b) {
  a&& b;
};
template <class A, class B>
concept CanOr = requires(A a, B b) {
  a || b;
};
template <class A, class B>
concept CanEqual = requires(A a, B b) {
  a == b;
};
template <class A, class B>
concept CanDiffer = requires(A a, B b) {
  a != b;
};
template <class C>
concept CanChoose = requires(C condition, Tensor a) {
  where(condition, a, a);
};
template <class A, class B>
concept CanAdd = requires(B b) {
  std::declval<A>() += b;
};

// Elements have `&` and `|`; whether a handle is empty is asked by `!t`, `bool(t)` and `if (t)`.
static_assert(!CanAnd<Tensor, Tensor> && !CanAnd<Tensor, bool> && !CanAnd<bool, Tensor> && !CanAnd<Tensor&, Variable>);
static_assert(!CanOr<Tensor, Tensor> && !CanOr<Tensor, bool> && !CanOr<bool, Tensor> && !CanOr<Variable, Tensor>);
static_assert(!CanEqual<Tensor, Tensor> && !CanEqual<Tensor, double> && !CanEqual<int, Tensor> &&
              !CanEqual<Tensor, Variable>);
static_assert(!CanDiffer<Tensor, Tensor> && !CanDiffer<Tensor, double> && !CanDiffer<int, Tensor>);
static_assert(!CanAnd<Variable, Variable> && !CanOr<Variable, Variable> && !CanEqual<Variable, Variable>);
static_assert(CanChoose<Tensor> && !CanChoose<bool>);
static_assert(CanAdd<Tensor&, Tensor> && CanAdd<Tensor&, double> && !CanAdd<Tensor, Tensor> &&
              !CanAdd<Variable&, Tensor>);

}  // namespace

TEST_CASE("comparisons are elementwise, beside numbers too") {
  const Tensor x = tensor({1.0, 2.0, 3.0}), y = tensor({3.0, 2.0, 1.0});
  check_same(x < y, less(x, y));
  check_same(x <= y, less_equal(x, y));
  check_same(x > y, greater(x, y));
  check_same(x >= y, greater_equal(x, y));
  CHECK((x > 1.5).dtype() == boolean);
  CHECK(values(x > 1.5) == std::vector<double>{0, 1, 1});
  CHECK(values(2 >= x) == std::vector<double>{1, 1, 0});
  Variable w(tensor({0.0, 5.0, 5.0}));
  CHECK(values(w < x) == std::vector<double>{1, 0, 0});
}

TEST_CASE("masks: & | ^ ~ elementwise") {
  const Tensor a = tensor({true, true, false, false}), b = tensor({true, false, true, false});
  CHECK(values(a & b) == std::vector<double>{1, 0, 0, 0});
  CHECK(values(a | b) == std::vector<double>{1, 1, 1, 0});
  CHECK(values(a ^ b) == std::vector<double>{0, 1, 1, 0});
  CHECK(values(~a) == std::vector<double>{0, 0, 1, 1});
  CHECK(values(a & true) == std::vector<double>{1, 1, 0, 0});
  const Tensor x = tensor({-1.0, 0.5, 2.0});
  CHECK(values((x > 0) & (x < 1)) == std::vector<double>{0, 1, 0});
  CHECK_THROWS_AS(x & x, InvalidArgumentError);
  CHECK_THROWS_AS(x ^ x, InvalidArgumentError);
  CHECK_THROWS_AS(~x, InvalidArgumentError);
  const auto traced =
      trace([](Tensor t) { return ((t > 0) & ~(t > 1)) | ((t < -5) ^ (t > 3)); }, {spec(float32, {-1})});
  const Tensor t = tensor({-6.0, -1.0, 0.5, 2.0, 4.0});
  CHECK(values(traced(t)) == std::vector<double>{1, 0, 1, 0, 1});
}

TEST_CASE("+= and its kin give the handle a new value and leave the tensor as it was") {
  Tensor x = tensor({1.0, 2.0});
  const Tensor before = x;
  x += tensor({10.0, 20.0});
  CHECK(values(x) == std::vector<double>{11, 22});
  x -= 1.0;
  x *= 2;
  x /= tensor({2.0, 6.0});
  CHECK(values(x) == std::vector<double>{10, 7});
  CHECK(values(before) == std::vector<double>{1, 2});
  Tensor mask = tensor({true, false});
  mask &= tensor({true, true});
  mask |= tensor({false, false});
  mask ^= tensor({true, true});
  CHECK(values(mask) == std::vector<double>{0, 1});
  const Tensor& result = x += x;
  CHECK(result.is(x));
}

TEST_CASE("+= is recorded and traced, and blames its line") {
  const auto f = [](Tensor x) {
    GradientTape tape;
    tape.watch(x);
    Tensor sum = zeros_like(x);
    for (int i = 1; i <= 3; ++i) sum += power(x, i);
    sum *= 2.0;
    return tape.gradient(sum, x);
  };
  const Tensor x = tensor({1.0, 2.0});
  check_values(f(x), {12, 34});
  CHECK(same_bits(f(x), trace(f, {spec(float32, {-1})})(x)));
  Tensor y = zeros({2});
  const Error error = caught([&] { y += zeros({3}); });
  CHECK(place(error) == line_before());
  CHECK(to_string(y.shape()) == "[2]");
}

TEST_CASE("operators of tensors do not stand in the way of the language's") {
  const Tensor x = zeros({4, 6});
  CHECK(x.shape()[0] + x.shape()[1] == 10);
  CHECK(static_cast<double>(x.shape()[0]) * 2.5 == 10.0);
  CHECK(static_cast<int>(x.shape()[0]) == 4);
  CHECK((x.shape()[1] & 3) == 2);
  CHECK((x.shape()[0] < x.shape()[1] && 5 > x.shape()[0]));
  CHECK(~x.shape()[0] == -5);
  CHECK(x.shape()[1] % 4 == 2);
  CHECK((float64 > float32 || float32 != float64));
}

TEST_CASE("the handle is asked by !, bool and if") {
  Tensor none, some = zeros({});
  CHECK(!none);
  CHECK((bool(some) && !bool(none)));
  if (none) FAIL("an empty handle");
}

}  // namespace operators_test
