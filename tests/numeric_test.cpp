// Functions that are composed of others: infinities, ends, sizes that a trace does not know, what is refused. Their
// values and derivatives are rows of the op table.

#include <cmath>
#include <functional>
#include <limits>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test::numeric_test {

TEST_CASE("infinities and NaN") {
  const Tensor a = tensor<double>({infinity, -infinity, -infinity, 1000}),
               b = tensor<double>({infinity, -infinity, 2, 0});
  check_same(logaddexp(a, b), tensor<double>({infinity, -infinity, 2, 1000}));
  check_same(nan_to_num(tensor<float>({NAN, HUGE_VALF, -HUGE_VALF})),
             tensor<float>({0, std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest()}));
  CHECK(isclose(tensor(NAN), tensor(NAN), {.equal_nan = true}).item<bool>());
  CHECK_FALSE(allclose(tensor({1.0, 2.0}), tensor({1.0, 2.1})).item<bool>());
  const int large = 1 << 24;  // behind which float32 has no odd numbers
  CHECK_FALSE(isclose(tensor(large), tensor(large + 1), {.rtol = 0}).item<bool>());
  CHECK_FALSE(isclose(large, tensor(large + 1), {.rtol = 0}).item<bool>());
  CHECK(grad([](const Tensor& x) { return reduce_sum(nan_to_num(x) * 3.0); })(tensor<double>({infinity, 1}))
            .to_vector<double>() == std::vector<double>{0, 3});
  check_same(cumulative_logsumexp(tensor<double>({-800, -1000, 700})), tensor<double>({-800, -800, 700}), 1e-12);
}

TEST_CASE("quantiles of infinities and NaN") {
  for (const DType dtype : {float32, float64}) {
    const auto median_of = [&](const Tensor& x) { return median(x.cast(dtype)).cast(float64).item<double>(); };
    CHECK(median_of(tensor<double>({1, infinity, infinity})) == infinity);
    CHECK(median_of(tensor<double>({-infinity, -infinity, 1, 2})) == -infinity);
    CHECK(median_of(tensor<double>({infinity, infinity, infinity, 2})) == infinity);
    CHECK(median_of(tensor<double>({-infinity, 1, infinity})) == 1);
    CHECK(std::isnan(median_of(tensor<double>({1, NAN, 2}))));
    check_same(quantile(tensor<double>({{NAN, 1}, {3, 3}}).cast(dtype), 0.5, 0), tensor<double>({NAN, 2}).cast(dtype));
  }
  check_same(grad([](const Tensor& x) { return median(x); })(tensor<double>({1, 5, 2, 9})),
             tensor<double>({0, 0.5, 0.5, 0}));
}

TEST_CASE("derivatives of logaddexp where both are equal, and where they are infinite") {
  const auto by_both = [](const Tensor& x, const Tensor& y) {
    return grad([](const Tensor& a, const Tensor& b) { return reduce_sum(logaddexp(a, b)); })(x, y);
  };
  const Tensor x = tensor<double>({0, -3, infinity, -infinity, -infinity, 0}),
               y = tensor<double>({0, -3, infinity, -infinity, 2, -infinity});
  const auto [by_x, by_y] = by_both(x, y);
  check_same(by_x, tensor<double>({0.5, 0.5, 1, 1, 0, 1}));
  check_same(by_y, tensor<double>({0.5, 0.5, 0, 0, 1, 0}));
  const auto twice = hessian([](const Tensor& t) { return logaddexp(t(0), t(1)); })(tensor<double>({2, 2}));
  check_same(twice, tensor<double>({{0.25, -0.25}, {-0.25, 0.25}}));
  check_same(grad([](const Tensor& t) { return reduce_sum(cumulative_logsumexp(t)); })(tensor<double>({1, 1, 1})),
             tensor<double>({11.0 / 6, 5.0 / 6, 1.0 / 3}), 1e-12);
  check_same(grad([](const Tensor& t) { return reduce_sum(cumulative_logsumexp(t)); })(
                 tensor<double>({-infinity, 0, -infinity})),
             tensor<double>({1, 2, 0}));
}

TEST_CASE("running combinations along an axis of unknown size") {
  const auto f = [](const Tensor& x) {
    return std::vector<Tensor>{cummax(x, 1), cummin(x), cumulative_logsumexp(x, -1)};
  };
  const auto gradients = [&](const Tensor& x) {
    std::vector<Tensor> found;
    for (std::size_t i = 0; i < 3; ++i)
      found.push_back(grad([&](const Tensor& y) { return reduce_sum(square(f(y)[i])); })(x));
    return found;
  };
  const auto traced = trace(f, {spec(float64, {-1, -1})});
  const auto traced_gradients = trace(gradients, {spec(float64, {-1, -1})});
  for (const Shape& shape : {Shape{3, 5}, Shape{1, 1}, Shape{9, 0}, Shape{0, 4}, Shape{2, 17}}) {
    CAPTURE(to_string(shape));
    const Tensor x = random::normal(shape, {.dtype = float64});
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(same_bits(traced(x)[i], f(x)[i]));
      check_same(traced_gradients(x)[i], gradients(x)[i], 1e-12);
    }
  }
}

/// What `op` gives, and its derivatives up to the third order, against products that are written out.
void check_products(const std::function<Tensor(const Tensor&)>& op, const std::function<Tensor(const Tensor&)>& loops) {
  const auto once = [](auto f) { return [f](const Tensor& t) { return jacrev(f)(t); }; };
  for (const Init& factors : std::initializer_list<Init>{
           {2, 3, 5, 7}, {0, 3, 5, 7}, {2, 0, 5, 0}, {0, 0, 5, 7}, {0, 0, 0, 7}, {0, 0, 0, 0}}) {
    const Tensor x = tensor<double>(factors);
    CAPTURE(x.to_vector<double>());
    check_same(op(x), loops(x));
    check_same(once(op)(x), once(loops)(x));
    check_same(once(once(op))(x), once(once(loops))(x));
    check_same(once(once(once(op)))(x), once(once(once(loops)))(x));
  }
}

TEST_CASE("derivatives of products with zeros, of any order") {
  const auto product = [](const Tensor& x, std::initializer_list<int> places) {
    Tensor y = tensor<double>(1);
    for (const int place : places) y = y * x(place);
    return y;
  };
  check_products([](const Tensor& x) { return reduce_prod(x); },
                 [&](const Tensor& x) {
                   return product(x, {0, 1, 2, 3});
                 });
  check_products([](const Tensor& x) { return cumprod(x); },
                 [&](const Tensor& x) {
                   return stack({x(0), product(x, {0, 1}), product(x, {0, 1, 2}), product(x, {0, 1, 2, 3})});
                 });
  check_products([](const Tensor& x) { return cumprod(x, 0, {.exclusive = true, .reverse = true}); },
                 [&](const Tensor& x) {
                   return stack({product(x, {1, 2, 3}), product(x, {2, 3}), x(3), tensor<double>(1)});
                 });
  check_products(
      [](const Tensor& x) {
        return unsorted_segment_prod(x, tensor({1, 0, 1, 1}), 3);
      },
      [&](const Tensor& x) {
        return stack({x(1), product(x, {0, 2, 3}), tensor<double>(1)});
      });
  check_products(
      [](const Tensor& x) {
        return unsorted_segment_prod(reshape(x, {2, 2}), tensor({{1, 0}, {1, 1}}), 2);
      },
      [&](const Tensor& x) {
        return stack({x(1), product(x, {0, 2, 3})});
      });
}

TEST_CASE("quantiles and lines through NaN and infinities") {
  const Tensor x = tensor<double>({{NAN, 1, 2}, {infinity, 1, infinity}, {-infinity, -infinity, 3}});
  check_same(median(x, 1), tensor<double>({NAN, infinity, -infinity}));
  check_same(quantile(x, 1, 1), tensor<double>({NAN, infinity, 3}));
  check_same(quantile(x, 0, 1), tensor<double>({NAN, 1, -infinity}));
  check_same(median(tensor<double>({1, NAN})), tensor<double>(NAN));
  check_same(grad([](const Tensor& t) { return reduce_sum(median(t, 1)); })(x(range(1, 3))),
             tensor<double>({{1, 0, 0}, {0, 1, 0}}));
  check_same(interp(tensor<double>({NAN, 0.5, infinity}), tensor<double>({0, 1}), tensor<double>({2, 4})),
             tensor<double>({NAN, 3, 4}));
}

TEST_CASE("the gradient of a deviation of equal elements is 0") {
  const Tensor x = tensor<double>({{2, 2, 2}, {1, 2, 3}});
  const Tensor g = grad([](const Tensor& t) { return reduce_sum(reduce_std(t, 1)); })(x);
  check_same(g, tensor<double>({{0, 0, 0}, {-std::sqrt(1.0 / 6), 0, std::sqrt(1.0 / 6)}}), 1e-12);
  check_same(reduce_std(x, 1), tensor<double>({0, std::sqrt(2.0 / 3)}), 1e-12);
}

TEST_CASE("acosh of the largest numbers") {
  for (const DType dtype : {float32, float64, bfloat16}) {
    const double most = dtype == float64 ? std::numeric_limits<double>::max() : 3e38;
    check_same(
        acosh(tensor<double>(most).cast(dtype)).cast(float64),
        tensor<double>(std::acosh(tensor<double>(most).cast(dtype).cast(float64).item<double>() / 4) + std::log(4)),
        1e-2);
  }
}

TEST_CASE("diagonals and differences of any number") {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max(),
                         least = std::numeric_limits<std::int64_t>::min();
  const Tensor x = tensor({{1, 2}, {3, 4}}), none = zeros({2, 2}, int32);
  check_same(tril(x, most), x);
  check_same(tril(x, least), none);
  check_same(triu(x, least), x);
  check_same(triu(x, most), none);
  CHECK(diff(x, most).shape() == Shape{2, 0});
}

TEST_CASE("ends, empty ranges and whole numbers") {
  const Tensor x = tensor({3, 1, 2, 10});
  check_same(quantile(x, 0), tensor(1.0F));
  check_same(quantile(x, 1), tensor(10.0F));
  check_same(median(x, 0, {.keep_dims = true}), tensor({2.5F}));
  check_same(cummax(x), tensor({3, 3, 3, 10}));
  check_same(diff(x, 0), x);
  check_same(diff(tensor({{1, 4}, {9, 5}}), 1, 0), tensor({{8, 1}}));
  check_same(bincount(tensor<std::int64_t>({5, 5}), 0), zeros({0}, int32));
  check_same(searchsorted(tensor({1, 3}), tensor({{0, 3}}), Side::right), tensor({{0, 2}}));
  check_same(rot90(x(newaxis), 4), x(newaxis));
  CHECK(meshgrid({tensor({1, 2}), tensor({3}), tensor({4, 5, 6})})[2].shape() == Shape{1, 2, 3});
}

TEST_CASE("sizes that a trace does not know") {
  const auto f = [](const Tensor& x, const Tensor& y) {
    return std::vector<Tensor>{quantile(x, 0.25, 0),
                               searchsorted(sort(x), y),
                               interp(y, sort(x), x),
                               cov(x),
                               bincount(y.cast(int32), x.shape()[0]),
                               kron(x(newaxis), y(all, newaxis)),
                               meshgrid({x, y})[1],
                               trapezoid(y)};
  };
  const auto traced = trace(f, {spec(float64, {-1}), spec(float64, {-1})});
  for (const std::int64_t size : {3, 5}) {
    const Tensor x = random::normal({size}, {.dtype = float64}), y = random::normal({4}, {.dtype = float64}) * 3.0;
    const std::vector<Tensor> expected = f(x, y), found = traced(x, y);
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(same_bits(found[i], expected[i]));
  }
}

TEST_CASE("what is refused") {
  const Tensor x = ones({2, 3});
  const auto message = [](const auto& f) { return message_of<InvalidArgumentError>(f); };
  CHECK(message([&] { quantile(x, 1.5, 0); }) == "q must be in [0, 1], but is 1.500000");
  CHECK(message([&] { median(zeros({0})); }) == "axis 0 of x has no elements, its shape is [0]");
  CHECK(message([&] { quantile(zeros({2, 0}), 0.5, 1); }) == "axis 1 of x has no elements, its shape is [2,0]");
  CHECK(median(zeros({0, 2}), 1).shape() == Shape{0});
  CHECK(message([&] { diff(x, -1); }) == "n must not be negative, but is -1");
  CHECK(message([&] { histogram_fixed_width(x, 1, 0); }) ==
        "low must be below high and bins at least 1, but they are 1.000000, 0.000000 and 100");
  CHECK(message([&] { searchsorted(x, x); }) == "sorted must be a vector, but its shape is [2,3]");
  CHECK(message([&] { interp(x, ones({3}), ones({2})); }) ==
        "xp and fp must be vectors of one length, but their shapes are [3] and [2]");
  CHECK(message([&] { meshgrid({ones({2}), x}); }) == "all arguments must be vectors, but one has the shape [2,3]");
  CHECK(message([&] { trapezoid(x, ones({2}), 1); }) ==
        "x must have the shape of y, [2,3], or be [size of axis 1], but its shape is [2]");
  CHECK(message([&] {
          trapezoid(x, ones({2, 1}), -1);
        }) == "x must have the shape of y, [2,3], or be [size of axis -1], but its shape is [2,1]");
  CHECK(message([&] { kron(x, ones({2})); }) == "a and b must be matrices, but their shapes are [2,3] and [2]");
  CHECK(message([&] {
          cov(ones({2, 2, 2}));
        }) == "x must be [observations] or [variables, observations], but its shape is [2,2,2]");
}

}  // namespace tapestry::test::numeric_test
