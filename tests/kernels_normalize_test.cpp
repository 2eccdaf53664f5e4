#include <algorithm>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "backend/cpu/cpu_backend.hpp"
#include "backend/cpu/kernels/normalize.hpp"
#include "kernels_support.hpp"

namespace kernels_normalize_test {

using namespace tapestry;
using namespace tapestry::testing;

namespace {

const std::vector<Shape> shapes = {
    {}, {1}, {7}, {3, 5}, {2, 3, 64}, {5, 1}, {4, 100}, {2, 9000}, {2, 1, 2, 1, 2, 1, 2, 5}};

/// Calls f(first element, length) for every row.
template <class F>
void for_rows(const Shape& shape, const F& f) {
  const std::int64_t length = shape.rank() > 0 ? shape.sizes().back() : 1;
  for (std::int64_t i = 0; i < shape.size(); i += length)
    f(static_cast<std::size_t>(i), static_cast<std::size_t>(length));
}

void check(const Tensor& got, const std::vector<double>& expected) {
  const auto numbers = values(got);
  REQUIRE(numbers.size() == expected.size());
  const double tolerance = got.dtype() == float32 ? 2e-5 : 1e-12;
  double worst = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    worst = std::max(worst, std::abs(numbers[i] - expected[i]) / (1 + std::abs(expected[i])));
  CAPTURE(to_string(got.shape()));
  CHECK(worst <= tolerance);
}

Shape row_shape(Shape shape) {
  if (shape.rank() > 0) shape.set(shape.rank() - 1, 1);
  return shape;
}

}  // namespace

TEST_CASE("softmax and its gradient") {
  for (const DType dtype : float_dtypes) {
    for (const Shape& shape : shapes) {
      for (const bool logarithm : {false, true}) {
        const Tensor x = random_tensor(dtype, shape, 1), g = random_tensor(dtype, shape, 2);
        std::vector<double> expected = values(x);
        for_rows(shape, [&](std::size_t begin, std::size_t length) {
          double largest = expected[begin], total = 0;
          for (std::size_t i = 0; i < length; ++i) largest = std::max(largest, expected[begin + i]);
          for (std::size_t i = 0; i < length; ++i) total += std::exp(expected[begin + i] - largest);
          for (std::size_t i = 0; i < length; ++i) {
            double& value = expected[begin + i];
            value = logarithm ? value - largest - std::log(total) : std::exp(value - largest) / total;
          }
        });
        const Tensor y = empty(dtype, shape);
        cpu_backend().softmax(twisted(x), logarithm, y);
        check(y, expected);

        const auto gradient = values(g);
        const auto output = values(y);
        for_rows(shape, [&](std::size_t begin, std::size_t length) {
          double total = 0;
          for (std::size_t i = begin; i < begin + length; ++i) total += gradient[i] * (logarithm ? 1 : output[i]);
          for (std::size_t i = begin; i < begin + length; ++i)
            expected[i] = logarithm ? gradient[i] - std::exp(output[i]) * total : (gradient[i] - total) * output[i];
        });
        const Tensor dx = empty(dtype, shape);
        cpu_backend().softmax_grad(y, twisted(g), logarithm, dx);
        check(dx, expected);
      }
    }
  }
}

TEST_CASE("softmax of extreme rows") {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  for (const DType dtype : float_dtypes) {
    const Tensor y = empty(dtype, {4, 2});
    cpu_backend().softmax(tensor_of(dtype, {4, 2}, {1e5, 1e5, -1e30, 1e30, -infinity, 3, nan, 1}), false, y);
    const auto got = values(y);
    CHECK(std::vector<double>(got.begin(), got.begin() + 6) == std::vector<double>{0.5, 0.5, 0, 1, 0, 1});
    CHECK(std::isnan(got[6]));
    CHECK(std::isnan(got[7]));
    cpu_backend().softmax(tensor_of(dtype, {4, 2}, {1000, 0, 0, 1000, 5, 5, 0, 0}), true, y);
    CHECK(values(y)[1] == -1000);
    CHECK(values(y)[4] == doctest::Approx(-std::log(2.0)));
  }
  const Tensor nothing = empty(float32, {3, 0});
  cpu_backend().softmax(nothing, false, nothing);
}

TEST_CASE("normalization and its gradient") {
  const double epsilon = 1e-3;
  for (const DType dtype : float_dtypes) {
    for (const Shape& shape : shapes) {
      const Shape row = {shape.rank() > 0 ? shape.sizes().back() : 1};
      const Tensor x = random_tensor(dtype, shape, 1), g = random_tensor(dtype, shape, 2);
      const Tensor scale = random_tensor(dtype, row, 3), offset = random_tensor(dtype, row, 4);
      const auto factors = values(scale), addends = values(offset), gradient = values(g);
      std::vector<double> normal = values(x), expected, means, rstds;
      for_rows(shape, [&](std::size_t begin, std::size_t length) {
        double mean = 0, variance = 0;
        const auto count = static_cast<double>(length);
        for (std::size_t i = begin; i < begin + length; ++i) mean += normal[i] / count;
        for (std::size_t i = begin; i < begin + length; ++i)
          variance += (normal[i] - mean) * (normal[i] - mean) / count;
        const double rstd = 1 / std::sqrt(variance + epsilon);
        for (std::size_t i = 0; i < length; ++i) {
          double& value = normal[begin + i];
          value = (value - mean) * rstd;
          expected.push_back(value * factors[i] + addends[i]);
        }
        means.push_back(mean);
        rstds.push_back(rstd);
      });
      const Tensor y = empty(dtype, shape), mean = empty(dtype, row_shape(shape)),
                   rstd = empty(dtype, row_shape(shape));
      cpu_backend().normalize(twisted(x), twisted(scale), twisted(offset), epsilon, y, mean, rstd);
      check(y, expected);
      check(mean, means);
      check(rstd, rstds);

      std::vector<double> of_scale(factors.size()), of_offset(factors.size());
      for_rows(shape, [&](std::size_t begin, std::size_t length) {
        double first = 0, second = 0;
        const auto count = static_cast<double>(length);
        for (std::size_t i = 0; i < length; ++i) {
          const double of_normal = gradient[begin + i] * factors[i];
          first += of_normal / count;
          second += of_normal * normal[begin + i] / count;
          of_scale[i] += gradient[begin + i] * normal[begin + i];
          of_offset[i] += gradient[begin + i];
        }
        for (std::size_t i = 0; i < length; ++i)
          expected[begin + i] =
              rstds[begin / length] * (gradient[begin + i] * factors[i] - first - normal[begin + i] * second);
      });
      const Tensor dx = empty(dtype, shape), dscale = empty(dtype, row), doffset = empty(dtype, row);
      cpu_backend().normalize_grad(twisted(x), twisted(scale), twisted(mean), twisted(rstd), twisted(g), dx, dscale,
                                   doffset);
      check(dx, expected);
      check(dscale, of_scale);
      check(doffset, of_offset);
    }
  }
}

TEST_CASE("normalization of nothing") {
  const Tensor mean = empty(float32, {3, 1}), rstd = empty(float32, {3, 1}), none = empty(float32, {3, 0});
  const Tensor empty_row = empty(float32, {0});
  cpu_backend().normalize(none, empty_row, empty_row, 1e-3, none, mean, rstd);
  CHECK(std::isnan(values(mean)[2]));
  cpu_backend().normalize_grad(none, empty_row, mean, rstd, none, none, empty_row, empty_row);

  const Tensor no_rows = empty(float32, {0, 2}), of_no_row = empty(float32, {0, 1}), row = empty(float32, {2});
  const Tensor dscale = empty(float32, {2}), doffset = empty(float32, {2});
  cpu_backend().normalize_grad(no_rows, row, of_no_row, of_no_row, no_rows, no_rows, dscale, doffset);
  CHECK(values(dscale) == std::vector<double>{0, 0});
  CHECK(values(doffset) == std::vector<double>{0, 0});
}

TEST_CASE("rows do not depend on the number of threads") {
  for (const DType dtype : float_dtypes) {
    const Tensor x = random_tensor(dtype, {300, 333}, 1), g = random_tensor(dtype, {300, 333}, 2);
    const Tensor scale = random_tensor(dtype, {333}, 3), offset = random_tensor(dtype, {333}, 4);
    const Tensor mean = empty(dtype, {300, 1}), rstd = empty(dtype, {300, 1});
    const Tensor dx = empty(dtype, x.shape()), dscale = empty(dtype, {333}), doffset = empty(dtype, {333});
    Backend& backend = cpu_backend();
    CHECK(same_for_any_threads(dtype, x.shape(), [&](const Tensor& to) { backend.softmax(x, false, to); }));
    CHECK(same_for_any_threads(dtype, x.shape(), [&](const Tensor& to) { backend.softmax_grad(x, g, true, to); }));
    CHECK(same_for_any_threads(dtype, x.shape(),
                               [&](const Tensor& to) { backend.normalize(x, scale, offset, 1e-5, to, mean, rstd); }));
    CHECK(same_for_any_threads(dtype, x.shape(), [&](const Tensor& to) {
      backend.normalize_grad(x, scale, mean, rstd, g, to, dscale, doffset);
    }));
    CHECK(same_for_any_threads(dtype, dscale.shape(), [&](const Tensor& to) {
      backend.normalize_grad(x, scale, mean, rstd, g, dx, to, doffset);
    }));
  }
}

namespace {

/// What batch normalization of rows and its gradient give, by plain loops.
struct BatchNormalized {
  std::vector<double> y, mean, variance, dx, dscale, doffset;
};

BatchNormalized batch_normalized(std::size_t channels, const std::vector<double>& x, const std::vector<double>& scale,
                                 const std::vector<double>& offset, const std::vector<double>& g, double epsilon) {
  BatchNormalized all{std::vector<double>(x.size()), {}, {}, std::vector<double>(x.size()), {}, {}};
  const auto rows = static_cast<double>(x.size() / channels);
  for (std::size_t c = 0; c < channels; ++c) {
    const auto sum = [&](auto term) {
      double total = 0;
      for (std::size_t i = c; i < x.size(); i += channels) total += term(i);
      return total;
    };
    const double mean = sum([&](std::size_t i) { return x[i]; }) / rows;
    const double variance = sum([&](std::size_t i) { return (x[i] - mean) * (x[i] - mean); }) / rows;
    const double rstd = 1 / std::sqrt(variance + epsilon);
    const auto normal = [&](std::size_t i) { return (x[i] - mean) * rstd; };
    const double doffset = sum([&](std::size_t i) { return g[i]; });
    const double dscale = sum([&](std::size_t i) { return g[i] * normal(i); });
    for (std::size_t i = c; i < x.size(); i += channels) {
      all.y[i] = normal(i) * scale[c] + offset[c];
      all.dx[i] = scale[c] * rstd * (g[i] - doffset / rows - normal(i) * dscale / rows);
    }
    all.mean.push_back(mean);
    all.variance.push_back(variance);
    all.dscale.push_back(dscale);
    all.doffset.push_back(doffset);
  }
  return all;
}

const std::vector<Shape> batches = {{7, 1}, {3, 5}, {1, 4}, {2, 3, 64}, {9, 30, 3}, {70, 16}, {3000, 7}, {20, 2500}};

}  // namespace

TEST_CASE("normalization of batches and its gradient") {
  const double epsilon = 1e-3;
  for (const DType dtype : float_dtypes) {
    for (const Shape& shape : batches) {
      CAPTURE(to_string(shape));
      const Shape channels{shape.sizes().back()};
      const Tensor x = random_tensor(dtype, shape, 1), g = random_tensor(dtype, shape, 2);
      const Tensor scale = random_tensor(dtype, channels, 3), offset = random_tensor(dtype, channels, 4);
      const BatchNormalized due = batch_normalized(static_cast<std::size_t>(channels[0]), values(x), values(scale),
                                                   values(offset), values(g), epsilon);
      // The interface's own definition is that of devices without kernels for it.
      for (const bool own : {true, false}) {
        CAPTURE(own);
        host::CpuBackend cpu;
        const Tensor y = empty(dtype, shape), mean = empty(dtype, channels), variance = empty(dtype, channels);
        const Tensor dx = empty(dtype, shape), dscale = empty(dtype, channels), doffset = empty(dtype, channels);
        if (own) {
          cpu.batch_normalize(twisted(x), twisted(scale), twisted(offset), epsilon, y, mean, variance);
          cpu.batch_normalize_grad(twisted(x), twisted(scale), twisted(mean), twisted(variance), twisted(g), epsilon,
                                   dx, dscale, doffset);
        } else {
          cpu.Backend::batch_normalize(twisted(x), twisted(scale), twisted(offset), epsilon, y, mean, variance);
          cpu.Backend::batch_normalize_grad(twisted(x), twisted(scale), twisted(mean), twisted(variance), twisted(g),
                                            epsilon, dx, dscale, doffset);
        }
        check(y, due.y);
        check(mean, due.mean);
        check(variance, due.variance);
        check(dx, due.dx);
        check(dscale, due.dscale);
        check(doffset, due.doffset);
      }
    }
  }
}

TEST_CASE("the variance of a batch is exact where the mean is large beside it") {
  std::vector<double> numbers;
  for (int i = 0; i < 40000; ++i) numbers.push_back(5000 + i % 2);
  const Tensor x = tensor_of(float32, {40000, 1}, numbers), one = tensor_of(float32, {1}, {1});
  const Tensor y = empty(float32, x.shape()), mean = empty(float32, {1}), variance = empty(float32, {1});
  cpu_backend().batch_normalize(x, one, one, 0, y, mean, variance);
  CHECK(values(mean)[0] == doctest::Approx(5000.5));
  CHECK(values(variance)[0] == doctest::Approx(0.25));
}

TEST_CASE("normalization of a batch of nothing") {
  const Tensor none = empty(float32, {0, 2}), row = tensor_of(float32, {2}, {1, 1});
  const Tensor mean = empty(float32, {2}), variance = empty(float32, {2});
  cpu_backend().batch_normalize(none, row, row, 1e-3, none, mean, variance);
  CHECK(std::isnan(values(mean)[1]));
  CHECK(std::isnan(values(variance)[1]));
  const Tensor dscale = empty(float32, {2}), doffset = empty(float32, {2});
  cpu_backend().batch_normalize_grad(none, row, row, row, none, 1e-3, none, dscale, doffset);
  CHECK(values(dscale) == std::vector<double>{0, 0});
  CHECK(values(doffset) == std::vector<double>{0, 0});
  const Tensor no_channels = empty(float32, {3, 0}), empty_row = empty(float32, {0});
  cpu_backend().batch_normalize(no_channels, empty_row, empty_row, 1e-3, no_channels, empty_row, empty_row);
  cpu_backend().batch_normalize_grad(no_channels, empty_row, empty_row, empty_row, no_channels, 1e-3, no_channels,
                                     empty_row, empty_row);
}

TEST_CASE("batches do not depend on the number of threads") {
  for (const Shape& shape : {Shape{9000, 3}, Shape{300, 70}, Shape{40, 2500}}) {
    const Shape channels{shape[1]};
    const Tensor x = random_tensor(float32, shape, 1), g = random_tensor(float32, shape, 2);
    const Tensor scale = random_tensor(float32, channels, 3), mean = empty(float32, channels);
    const Tensor variance = empty(float32, channels), dx = empty(float32, shape), doffset = empty(float32, channels);
    Backend& backend = cpu_backend();
    CHECK(same_for_any_threads(
        float32, shape, [&](const Tensor& to) { backend.batch_normalize(x, scale, scale, 1e-5, to, mean, variance); }));
    CHECK(same_for_any_threads(float32, channels, [&](const Tensor& to) {
      backend.batch_normalize_grad(x, scale, mean, variance, g, 1e-5, dx, to, doffset);
    }));
  }
}

#ifdef __x86_64__
TEST_CASE("the levels of the processor that fuse multiplications and additions give the same bits") {
  using namespace host;
  for (const std::int64_t n : {3, 15, 16, 100, 5000}) {
    const Tensor x = random_tensor(float32, {7, n}, 2);
    const float* data = x.data<float>();
    const auto size = static_cast<std::size_t>(x.size());
    const auto outputs = [&](const NormalizeTable& table) {
      const auto row = static_cast<std::size_t>(n);
      std::vector<float> y(5 * size + 2 * row), mean(7), rstd(7);
      float* to = y.data();
      table.f32.softmax(data, 7, n, false, to);
      table.f32.softmax(data, 7, n, true, to + size);
      table.f32.softmax_grad(to, data, 7, n, false, to + 2 * size);
      table.f32.normalize(data, data + n, data + 2 * n, 7, n, 1e-5, to + 3 * size, mean.data(), rstd.data());
      table.f32.normalize_grad(data, data + n, mean.data(), rstd.data(), to, 7, n, to + 4 * size, to + 5 * size,
                               to + 5 * size + row);
      return y;
    };
    const auto plain = outputs(v2::normalize_table);
    if (cpu_level() < Level::v3) continue;
    const auto fused = outputs(v3::normalize_table);
    CHECK(are_close(plain, fused));
    if (cpu_level() >= Level::v4) CHECK(outputs(v4::normalize_table) == fused);
  }
}
#endif

}  // namespace kernels_normalize_test
