#include <algorithm>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "kernels_support.hpp"

namespace kernels_conv_test {

using namespace tapestry;
using namespace tapestry::testing;

namespace {

struct Case {
  Shape x;
  std::int64_t out;
  Window2d window;
};

std::int64_t extent(std::int64_t size, std::int64_t window, std::int64_t stride, std::int64_t dilation,
                    std::int64_t pads) {
  return (size + pads - (window - 1) * dilation - 1) / stride + 1;
}
Shape result_shape(const Shape& x, const Window2d& w, std::int64_t out) {
  return {x[0], extent(x[1], w.height, w.stride_y, w.dilation_y, w.pad_top + w.pad_bottom),
          extent(x[2], w.width, w.stride_x, w.dilation_x, w.pad_left + w.pad_right), out};
}

const std::vector<Case> cases = {
    {{1, 5, 5, 1}, 1, {.height = 3, .width = 3}},
    {{2, 5, 6, 3}, 4, {.height = 1, .width = 1}},
    {{2, 5, 6, 3}, 4, {.height = 1, .width = 1, .stride_y = 2, .stride_x = 3}},
    {{2, 7, 6, 3}, 4, {.height = 3, .width = 2, .pad_top = 1, .pad_bottom = 1, .pad_right = 1}},
    {{2, 8, 9, 2},
     3,
     {.height = 3,
      .width = 3,
      .stride_y = 2,
      .stride_x = 2,
      .pad_top = 1,
      .pad_bottom = 1,
      .pad_left = 1,
      .pad_right = 1}},
    {{1, 9, 8, 2},
     3,
     {.height = 3,
      .width = 3,
      .dilation_y = 2,
      .dilation_x = 3,
      .pad_top = 2,
      .pad_bottom = 2,
      .pad_left = 3,
      .pad_right = 3}},
    {{2, 6, 6, 4},
     6,
     {.height = 3, .width = 3, .pad_top = 1, .pad_bottom = 1, .pad_left = 1, .pad_right = 1, .groups = 2}},
    {{2, 6, 7, 4}, 8, {.height = 2, .width = 3, .stride_x = 2, .pad_left = 1, .groups = 4}},
    {{1, 3, 3, 2}, 2, {.height = 2, .width = 2, .pad_top = 4, .pad_bottom = 3, .pad_left = 5, .pad_right = 2}},
    {{2, 17, 18, 20}, 17, {.height = 3, .width = 3, .pad_top = 1, .pad_bottom = 1, .pad_left = 1, .pad_right = 1}},
    {{1, 30, 11, 16}, 33, {.height = 3, .width = 3, .pad_left = 2}},
    {{2, 4, 6, 20}, 20, {.height = 2, .width = 2, .stride_y = 2, .stride_x = 2}},
    {{1, 5, 8, 3}, 3, {.height = 2, .width = 3, .stride_y = 2, .stride_x = 3, .pad_left = 1}},
    {{2, 9, 30, 3}, 35, {.height = 3, .width = 3, .pad_top = 1, .pad_bottom = 1, .pad_left = 1, .pad_right = 1}},
    {{3, 12, 21, 1}, 16, {.height = 5, .width = 5, .stride_y = 2, .stride_x = 2, .dilation_x = 2, .pad_left = 2}},
    {{0, 4, 4, 2}, 3, {.height = 2, .width = 2}},
    {{2, 4, 4, 0}, 3, {.height = 2, .width = 2}},
    {{2, 4, 4, 2}, 0, {.height = 2, .width = 2}},
    {{3, 40, 33, 8}, 16, {.height = 5, .width = 5, .pad_top = 2, .pad_bottom = 2, .pad_left = 2, .pad_right = 2}},
};

std::size_t at(const Shape& s, std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  return static_cast<std::size_t>(((a * s[1] + b) * s[2] + c) * s[3] + d);
}

/// Calls f(place in x, in the filter, in y) for every multiplication of a convolution.
template <class F>
void for_terms(const Case& c, const Shape& filter, const Shape& y, const F& f) {
  const Window2d& w = c.window;
  const std::int64_t in = c.x[3] / w.groups, out = c.out / w.groups;
  for (std::int64_t n = 0; n < y[0]; ++n)
    for (std::int64_t row = 0; row < y[1]; ++row)
      for (std::int64_t column = 0; column < y[2]; ++column)
        for (std::int64_t ky = 0; ky < w.height; ++ky)
          for (std::int64_t kx = 0; kx < w.width; ++kx) {
            const std::int64_t iy = row * w.stride_y - w.pad_top + ky * w.dilation_y;
            const std::int64_t ix = column * w.stride_x - w.pad_left + kx * w.dilation_x;
            if (iy < 0 || iy >= c.x[1] || ix < 0 || ix >= c.x[2]) continue;
            for (std::int64_t o = 0; o < c.out; ++o)
              for (std::int64_t i = 0; i < in; ++i)
                f(at(c.x, n, iy, ix, o / out * in + i), at(filter, ky, kx, i, o), at(y, n, row, column, o));
          }
}

void check(const Tensor& got, const std::vector<double>& expected) {
  const auto numbers = values(got);
  REQUIRE(numbers.size() == expected.size());
  double worst = 0, size = 1;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (!(std::abs(numbers[i] - expected[i]) <= worst)) worst = std::abs(numbers[i] - expected[i]);
    size = std::max(size, std::abs(expected[i]));
  }
  CHECK(worst <= size * (got.dtype() == float32 ? 2e-5 : 1e-13));
}

}  // namespace

TEST_CASE("a convolution and its gradients agree with seven loops") {
  for (const DType dtype : float_dtypes) {
    for (const Case& c : cases) {
      CAPTURE(to_string(c.x));
      CAPTURE(c.out);
      const Window2d& w = c.window;
      const Shape filter_shape{w.height, w.width, c.x[3] / w.groups, c.out}, y_shape = result_shape(c.x, w, c.out);
      const Tensor x = random_tensor(dtype, c.x, 1), filter = random_tensor(dtype, filter_shape, 2);
      const Tensor g = random_tensor(dtype, y_shape, 3);
      const auto xs = values(x), filters = values(filter), gs = values(g);
      std::vector<double> ys(gs.size(), 0), dxs(xs.size(), 0), dfilters(filters.size(), 0);
      for_terms(c, filter_shape, y_shape, [&](std::size_t i, std::size_t f, std::size_t o) {
        ys[o] += xs[i] * filters[f];
        dxs[i] += gs[o] * filters[f];
        dfilters[f] += gs[o] * xs[i];
      });
      const Tensor y = empty(dtype, y_shape), dx = empty(dtype, c.x), dfilter = empty(dtype, filter_shape);
      cpu_backend().conv2d(twisted(x), twisted(filter), w, y);
      check(y, ys);
      cpu_backend().conv2d_grad_input(twisted(g), twisted(filter), w, dx);
      check(dx, dxs);
      cpu_backend().conv2d_grad_filter(twisted(x), twisted(g), w, dfilter);
      check(dfilter, dfilters);
    }
  }
}

TEST_CASE("convolutions do not depend on the number of threads") {
  const Case& c = cases.back();
  const Window2d& w = c.window;
  const Shape filter_shape{w.height, w.width, c.x[3], c.out}, y_shape = result_shape(c.x, w, c.out);
  const Tensor x = random_tensor(float32, c.x, 1), filter = random_tensor(float32, filter_shape, 2);
  const Tensor g = random_tensor(float32, y_shape, 3);
  Backend& b = cpu_backend();
  CHECK(same_for_any_threads(float32, y_shape, [&](const Tensor& y) { b.conv2d(x, filter, w, y); }));
  CHECK(same_for_any_threads(float32, c.x, [&](const Tensor& y) { b.conv2d_grad_input(g, filter, w, y); }));
  CHECK(same_for_any_threads(float32, filter_shape, [&](const Tensor& y) { b.conv2d_grad_filter(x, g, w, y); }));
}

TEST_CASE("pooling and its gradients") {
  for (const DType dtype : float_dtypes) {
    for (const Case& c : cases) {
      const Window2d& w = c.window;
      if (w.groups != 1) continue;
      // Every window must see something of the image: the others' maximum is no number.
      if (w.pad_top >= (w.height - 1) * w.dilation_y + 1 || w.pad_left >= (w.width - 1) * w.dilation_x + 1) continue;
      CAPTURE(to_string(c.x));
      const Shape y_shape = result_shape(c.x, w, c.x[3]);
      const Tensor x = random_tensor(dtype, c.x, 1), g = random_tensor(dtype, y_shape, 3);
      const auto xs = values(x), gs = values(g);
      for (const PoolKind kind : {PoolKind::max, PoolKind::average}) {
        std::vector<double> ys(gs.size()), dxs(xs.size(), 0);
        std::size_t place = 0;
        for_each_index(y_shape, {}, [&](const std::vector<std::int64_t>& index, std::int64_t) {
          std::vector<std::size_t> seen;
          for (std::int64_t ky = 0; ky < w.height; ++ky)
            for (std::int64_t kx = 0; kx < w.width; ++kx) {
              const std::int64_t iy = index[1] * w.stride_y - w.pad_top + ky * w.dilation_y;
              const std::int64_t ix = index[2] * w.stride_x - w.pad_left + kx * w.dilation_x;
              if (iy >= 0 && iy < c.x[1] && ix >= 0 && ix < c.x[2]) seen.push_back(at(c.x, index[0], iy, ix, index[3]));
            }
          if (kind == PoolKind::max) {
            const auto best =
                *std::max_element(seen.begin(), seen.end(), [&](auto a, auto b) { return xs[a] < xs[b]; });
            ys[place] = xs[best];
            dxs[best] += gs[place];
          } else {
            double sum = 0;
            for (const std::size_t i : seen) sum += xs[i];
            ys[place] = sum / static_cast<double>(seen.size());
            for (const std::size_t i : seen) dxs[i] += gs[place] / static_cast<double>(seen.size());
          }
          ++place;
        });
        const Tensor y = empty(dtype, y_shape), dx = empty(dtype, c.x);
        cpu_backend().pool2d(kind, twisted(x), w, y);
        check(y, ys);
        cpu_backend().pool2d_grad(kind, twisted(x), twisted(y), twisted(g), w, dx);
        check(dx, dxs);
      }
    }
  }
}

TEST_CASE("the maximum of a window: padding never wins, NaN does, and of equals the first gets the gradient") {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  Backend& b = cpu_backend();
  const Window2d two{.height = 1, .width = 2, .stride_x = 2, .pad_left = 1, .pad_right = 1};
  const Tensor x = tensor_of(float32, {1, 1, 4, 1}, {-5, nan, 1, -infinity}), y = empty(float32, {1, 1, 3, 1});
  b.pool2d(PoolKind::max, x, two, y);
  CHECK(values(y)[0] == -5);
  CHECK(std::isnan(values(y)[1]));
  CHECK(values(y)[2] == -infinity);
  const Tensor dx = empty(float32, x.shape());
  b.pool2d_grad(PoolKind::max, x, y, tensor_of(float32, y.shape(), {1, 2, 3}), two, dx);
  CHECK(values(dx) == std::vector<double>{1, 2, 0, 3});

  const Window2d whole{.height = 2, .width = 2};
  const Tensor equal = tensor_of(float32, {1, 2, 2, 1}, {1, 7, 7, 7}), top = empty(float32, {1, 1, 1, 1});
  b.pool2d(PoolKind::max, equal, whole, top);
  const Tensor d = empty(float32, {1, 2, 2, 1});
  b.pool2d_grad(PoolKind::max, equal, top, tensor_of(float32, {1, 1, 1, 1}, {4}), whole, d);
  CHECK(values(d) == std::vector<double>{0, 4, 0, 0});
}

TEST_CASE("windows in the padding around an image of nothing") {
  const Window2d w{.height = 2, .width = 2, .pad_top = 1, .pad_bottom = 1, .pad_left = 1, .pad_right = 1};
  for (const DType dtype : float_dtypes) {
    for (const Shape& shape : {Shape{2, 0, 4, 3}, Shape{2, 4, 0, 3}, Shape{2, 0, 0, 3}}) {
      const Shape y_shape = result_shape(shape, w, 3);
      const std::vector<double> old(static_cast<std::size_t>(y_shape.size()), 777);
      const Tensor x = empty(dtype, shape), y = tensor_of(dtype, y_shape, old);
      cpu_backend().pool2d(PoolKind::max, x, w, y);
      for (const double each : values(y)) CHECK(each == -std::numeric_limits<double>::infinity());
      cpu_backend().pool2d(PoolKind::average, x, w, y);
      for (const double each : values(y)) CHECK(std::isnan(each));
      cpu_backend().conv2d(x, random_tensor(dtype, {2, 2, 3, 3}), w, y);
      for (const double each : values(y)) CHECK(each == 0);
    }
  }
}

TEST_CASE("pooling does not depend on the number of threads") {
  const Tensor x = random_tensor(float32, {4, 30, 30, 20}), g = random_tensor(float32, {4, 15, 15, 20}, 2);
  const Window2d w{.height = 3, .width = 3, .stride_y = 2, .stride_x = 2, .pad_top = 1, .pad_left = 1};
  const Tensor y = empty(float32, g.shape());
  Backend& b = cpu_backend();
  b.pool2d(PoolKind::max, x, w, y);
  for (const PoolKind kind : {PoolKind::max, PoolKind::average}) {
    CHECK(same_for_any_threads(float32, g.shape(), [&](const Tensor& to) { b.pool2d(kind, x, w, to); }));
    CHECK(same_for_any_threads(float32, x.shape(), [&](const Tensor& to) { b.pool2d_grad(kind, x, y, g, w, to); }));
  }
}

}  // namespace kernels_conv_test
