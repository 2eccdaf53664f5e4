#include "tapestry/xtensor.hpp"

#include <string>
#include <type_traits>

#include <doctest/doctest.h>
#include <xtensor/xbuilder.hpp>
#include <xtensor/xmath.hpp>
#include <xtensor/xtensor.hpp>
#include <xtensor/xview.hpp>

#include "expect.hpp"
#include "kernels_support.hpp"

namespace xtensor_test {

using namespace tapestry;
using tapestry::test::message_of;
using tapestry::testing::random_tensor;
using tapestry::testing::tensor_of;
using tapestry::testing::twisted;
using tapestry::testing::values;

namespace {

// What the guard in tapestry/xtensor.hpp is for.
using Floats = xt::xarray<float>;
static_assert(std::is_same_v<decltype(xt::eval(std::declval<Floats&>() + std::declval<Floats&>())), Floats>);
static_assert(std::is_same_v<decltype(xt::eval(xt::sum(std::declval<Floats&>(), {0}))), Floats>);

}  // namespace

TEST_CASE("an evaluated xarray of rank 6 keeps its rank") {
  const Floats a = xt::ones<float>({1, 2, 1, 2, 1, 2});
  const auto b = xt::eval(a + a);
  CHECK(b.dimension() == 6);
  CHECK(b(0, 1, 0, 1, 0, 1) == 2.0F);
}

TEST_CASE("expressions become tensors") {
  const xt::xarray<double> a = {{1, 2, 3}, {4, 5, 6}};
  const Tensor sum = from_xt(a + 10);
  CHECK(sum.dtype() == float64);
  CHECK(sum.shape() == Shape{2, 3});
  CHECK(values(sum) == std::vector<double>{11, 12, 13, 14, 15, 16});
  CHECK(values(from_xt(xt::transpose(a))) == std::vector<double>{1, 4, 2, 5, 3, 6});
  CHECK(values(from_xt(xt::view(a, xt::all(), 1))) == std::vector<double>{2, 5});
  CHECK(values(from_xt(xt::sum(a, {0}))) == std::vector<double>{5, 7, 9});
  CHECK(values(from_xt(a > 2)) == std::vector<double>{0, 0, 1, 1, 1, 1});
  CHECK(from_xt(a > 2).dtype() == boolean);
  CHECK(from_xt(xt::xtensor<int, 1>{1, 2}).dtype() == int32);
  CHECK(from_xt(xt::xarray<long long>{1, 2}).dtype() == int64);
  CHECK(from_xt(xt::xarray<std::uint8_t>{1, 2}).dtype() == uint8);
  const Tensor scalar = from_xt(xt::sum(a));
  CHECK(scalar.rank() == 0);
  CHECK(values(scalar) == std::vector<double>{21});
  const xt::xarray<float> no_rows = xt::zeros<float>({0, 3});
  CHECK(from_xt(no_rows).shape() == Shape{0, 3});
  const xt::xarray<float, xt::layout_type::column_major> by_columns = {{1, 2}, {3, 4}};
  CHECK(values(from_xt(by_columns)) == std::vector<double>{1, 2, 3, 4});
  CHECK_THROWS_AS(from_xt(xt::xarray<float>(xt::ones<float>({1, 1, 1, 1, 1, 1, 1, 1, 1}))), InvalidArgumentError);
}

TEST_CASE("tensors become adaptors of their own memory") {
  Tensor t = random_tensor(float32, {3, 4});
  auto a = as_xt<float>(t);
  CHECK(a.data() == t.data<float>());
  CHECK(a.shape() == xt::dynamic_shape<std::size_t>{3, 4});
  CHECK(a(2, 3) == t.data<float>()[11]);
  static_assert(std::is_const_v<std::remove_reference_t<decltype(a(0, 0))>>);

  // The adaptor keeps the memory when the tensor is gone.
  const std::vector<double> before = values(t);
  t = Tensor();
  const xt::xarray<double> b = a * 2.0;
  CHECK(b(1, 1) == doctest::Approx(2 * before[5]));
  const auto c = as_xt<double>(tensor_of(float64, {2}, {3, 5}));
  CHECK(c(1) == 5);
  auto moved = std::move(a);
  CHECK(moved(0, 1) == doctest::Approx(before[1]));

  const Tensor view = twisted(random_tensor(int32, {2, 3, 2}));
  const auto d = as_xt<std::int32_t>(view);
  CHECK(std::vector<double>(d.begin(), d.end()) == values(view));
  CHECK(values(from_xt(as_xt<std::int32_t>(view) * 1)) == values(view));
  CHECK(as_xt<float>(tensor_of(float32, {}, {7}))() == 7.0F);
  CHECK(as_xt<bool>(tensor_of(boolean, {2}, {0, 1}))(1));
  CHECK(as_xt<float>(testing::empty(float32, {0, 2})).size() == 0);
}

TEST_CASE("another element type is refused") {
  const Tensor t = random_tensor(float32, {3});
  CHECK(message_of([&] { as_xt<double>(t); }) == "as_xt<float64>() of a float32 tensor");
  CHECK(message_of([&] { as_xt<std::int32_t>(t); }) == "as_xt<int32>() of a float32 tensor");
  CHECK_THROWS_AS(as_xt<float>(detail::make_symbolic(float32, {2})), FailedPreconditionError);
}

}  // namespace xtensor_test
