// Resized images: TensorFlow's numbers for every method and all places of pixels, types, what is refused.

#include <doctest/doctest.h>

#include "expect.hpp"
#include "tapestry/tapestry.hpp"

namespace tapestry::test::resize_test {
namespace {

using enum ResizeMethod;
using enum PixelCenters;

struct Case {
  ResizeMethod method;
  PixelCenters centers;
  std::vector<float> smaller, larger;  ///< the five pixels as three, and as seven
};

}  // namespace

TEST_CASE("the numbers of TensorFlow") {
  const std::vector<Case> cases{
      {bilinear, half_pixel, {2, -2, 5.66667F}, {1, 2.71429F, 2.28571F, -2, 1.57143F, 4.71429F, 7}},
      {bilinear, legacy, {1, 0, 4.33333F}, {1, 3.14286F, 1.42857F, -1.28571F, 2.28571F, 5.28572F, 7}},
      {bilinear, align_corners, {1, -2, 7}, {1, 3, 2, -2, 1.33333F, 4.33333F, 7}},
      {nearest, half_pixel, {1, -2, 7}, {1, 4, 4, -2, 3, 3, 7}},
      {nearest, legacy, {1, 4, 3}, {1, 1, 4, -2, -2, 3, 7}},
      {nearest, align_corners, {1, -2, 7}, {1, 4, 4, -2, 3, 3, 7}},
      {bicubic, half_pixel, {2.03312F, -2, 6.07013F}, {0.82552F, 3.07696F, 2.61792F, -2, 1.32079F, 5.09482F, 7.23264F}},
      {bicubic, legacy, {1, -0.50236F, 4.8134F}, {1, 3.8633F, 1.40119F, -1.92032F, 2.00345F, 5.71382F, 7.43744F}},
      {bicubic, align_corners, {1, -2, 7}, {1, 3.72328F, 2.16919F, -2, 0.6504F, 4.8134F, 7}},
      {area, half_pixel, {2.2F, 0.2F, 5.4F}, {1, 2.8F, 2.8F, -2, 2, 4.6F, 7}},
      {area, align_corners, {2.5F, 0.5F, 7}, {1, 2.5F, 4, -2, 0.5F, 3, 7}},
  };
  const Tensor pixels = tensor<float>({1, 4, -2, 3, 7});
  for (const Case& each : cases) {
    CAPTURE(static_cast<int>(each.method));
    CAPTURE(static_cast<int>(each.centers));
    const ResizeOptions options{.method = each.method, .centers = each.centers};
    for (const std::vector<float>& expected : {each.smaller, each.larger}) {
      const auto size = static_cast<std::int64_t>(expected.size());
      check_same(resize(reshape(pixels, {1, 5, 1, 1}), {size, 1}, options), reshape(tensor(expected), {1, size, 1, 1}),
                 2e-5);
      check_same(resize(reshape(pixels, {1, 1, 5, 1}), {1, size}, options), reshape(tensor(expected), {1, 1, size, 1}),
                 2e-5);
    }
  }
}

TEST_CASE("types: the nearest pixels keep theirs, other integers become float32") {
  const Tensor image = tensor({{{{1}}, {{3}}}});
  for (const DType dtype : {uint8, int64, float16, float64}) {
    CAPTURE(to_string(dtype));
    const Tensor x = image.cast(dtype);
    CHECK(resize(x, {4, 1}, {.method = nearest}).dtype() == dtype);
    CHECK(resize(x, {4, 1}).dtype() == (is_floating(dtype) ? dtype : float32));
    check_same(resize(x, {4, 1}).cast(float64), tensor<double>({{{{1}}, {{1.5}}, {{2.5}}, {{3}}}}));
  }
}

TEST_CASE("areas of many pixels, with a few operations") {
  const Tensor x = random::normal({1, 60, 7, 2});
  const auto f = [](const Tensor& image) { return resize(image, {4, 7}, {.method = area}); };
  check_same(f(x), reshape(reduce_mean(reshape(x, {4, 15, 14}), 1), {1, 4, 7, 2}), 1e-6);
  CHECK(trace(f, {spec(x)}).graph().operations().size() < 10);
  // An infinite pixel counts only where it is.
  check_same(
      resize(reshape(tensor({infinity, 2.0, 3.0, 4.0, 5.0}), {1, 5, 1, 1}).cast(float32), {3, 1}, {.method = area}),
      reshape(tensor({infinity, 3.0, 4.6}), {1, 3, 1, 1}).cast(float32), 1e-6);
}

TEST_CASE("what is refused") {
  const Tensor x = ones({1, 2, 3, 1});
  CHECK(message_of<InvalidArgumentError>([&] {
          resize(ones({2, 3, 1}), 4);
        }) == "images must be [batch, height, width, channels], but their shape is [2,3,1]");
  CHECK(message_of<InvalidArgumentError>([&] {
          resize(x, {0, 4});
        }) == "images of [1,2,3,1] cannot be made images of height 0 and width 4");
  CHECK(message_of<InvalidArgumentError>([&] {
          trace([](const Tensor& images) { return resize(images, 4); }, {spec(float32, {-1, -1, 3, 1})});
        }) == "height and width must be known, but the shape of the images is [?,?,3,1]");
}

}  // namespace tapestry::test::resize_test
