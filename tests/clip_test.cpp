// Clipping by norm and by global norm.

#include "tapestry/train/clip.hpp"

#include "expect.hpp"
#include "tapestry/ops.hpp"
#include "tapestry/tape.hpp"

namespace clip_test {

using namespace tapestry;
using namespace tapestry::test;

namespace {

TEST_CASE("clip_by_norm scales down what is too long, and nothing else") {
  const Tensor x = tensor({3.0, -4.0});
  check_values(clip_by_norm(x, 1), {0.6, -0.8}, 1e-7);
  check_values(clip_by_norm(x, 5), {3, -4});
  check_values(clip_by_norm(x, 100), {3, -4}, 1e-7);
  check_values(clip_by_norm(zeros({2}), 1), {0, 0});
  CHECK(clip_by_norm(zeros({0}), 1).size() == 0);
  CHECK(clip_by_norm(tensor<double>(-2.0), 1).item<double>() == -1);
  CHECK(to_string(clip_by_norm(ones({2, 3}, {.dtype = float64}), 1).shape()) == "[2,3]");
}

TEST_CASE("norms that are not finite, as in TensorFlow") {
  check_values(clip_by_norm(tensor({not_a_number, 1.0}), 1), {not_a_number, not_a_number});
  check_values(clip_by_norm(tensor({infinity, 1.0}), 1), {not_a_number, 0});
  for (const double bad : {not_a_number, infinity}) {
    const auto [clipped, norm] = clip_by_global_norm({tensor({bad, 1.0}), tensor(2.0)}, 1);
    CHECK_FALSE(std::isfinite(norm.item<double>()));
    check_values(clipped[0], {not_a_number, not_a_number});
    check_values(clipped[1], {not_a_number});
  }
}

TEST_CASE("clip_by_global_norm scales all by one factor") {
  const Tensor a = tensor({{1.0, 2.0}}), b = tensor(2.0), absent;
  CHECK(global_norm({a, absent, b}).item<double>() == 3);
  const auto [clipped, norm] = clip_by_global_norm({a, absent, b}, 1.5);
  CHECK(norm.item<double>() == 3);
  REQUIRE(clipped.size() == 3);
  check_values(clipped[0], {0.5, 1});
  CHECK(to_string(clipped[0].shape()) == "[1,2]");
  CHECK_FALSE(clipped[1]);
  check_values(clipped[2], {1});
  const auto [same, same_norm] = clip_by_global_norm(std::array{a, b}, 7);
  check_values(same[0], {1, 2});
  check_values(same[1], {2});
}

TEST_CASE("of zeros, and of nothing") {
  const auto [zero, zero_norm] = clip_by_global_norm({zeros({3})}, 1);
  CHECK(zero_norm.item<double>() == 0);
  check_values(zero[0], {0, 0, 0});
  const auto [nothing, norm] = clip_by_global_norm({Tensor(), Tensor()}, 1);
  CHECK(nothing.size() == 2);
  CHECK(norm.item<double>() == 0);
  CHECK(global_norm(std::vector<Tensor>{}).item<double>() == 0);
}

TEST_CASE("a gradient through clip_by_global_norm keeps its digits where the norm is large") {
  const auto first = [](const Tensor& x) { return clip_by_global_norm({x}, 5).first[0](0); };
  const Tensor exact = grad(first)(tensor<double>({9000, 12000}));
  const Tensor found = grad(first)(tensor({9000.0F, 12000.0F}));
  CHECK(values(exact)[0] == doctest::Approx(16. / 75000));
  CHECK(values(exact)[1] == doctest::Approx(-12. / 75000));
  for (std::size_t i = 0; i < 2; ++i) CHECK(values(found)[i] == doctest::Approx(values(exact)[i]).epsilon(1e-5));
}

TEST_CASE("gradients pass, also where the norm is 0") {
  const Tensor x = tensor<double>({3, 4}), zero = tensor<double>({0, 0});
  // y_0 = x_0 / |x|: dy_0 = (x_1^2, -x_0 x_1) / |x|^3
  check_values(grad([](const Tensor& v) { return clip_by_norm(v, 1)(0); })(x), {16.0 / 125, -12.0 / 125}, 1e-15);
  check_values(grad([](const Tensor& v) { return clip_by_norm(v, 10)(0); })(x), {1, 0}, 1e-15);
  check_values(grad([](const Tensor& v) { return reduce_sum(clip_by_norm(v, 1)); })(zero), {1, 1});
  check_values(grad([](const Tensor& v) { return global_norm({v}); })(zero), {0, 0});
}

TEST_CASE("limits that make no sense are refused with the line") {
  const Tensor x = tensor({3.0, 4.0});
  const auto error = caught<InvalidArgumentError>([&] { clip_by_norm(x, 0); });
  CHECK(place(error) == line_before());
  CHECK(error.message() == "clip_norm must be a positive, finite number, got 0.000000");
  CHECK_THROWS_AS(clip_by_global_norm({x}, -1), InvalidArgumentError);
  CHECK_THROWS_AS(clip_by_norm(x, not_a_number), InvalidArgumentError);
  CHECK_THROWS_AS(clip_by_global_norm({x}, infinity), InvalidArgumentError);
}

}  // namespace

}  // namespace clip_test
