#include <algorithm>
#include <cmath>
#include <string>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "kernels_support.hpp"

namespace kernels_linalg_test {

using namespace tapestry;
using namespace tapestry::testing;
using tapestry::test::message_of;

namespace {

struct Case {
  Shape batch;
  std::int64_t n, k;
};
const std::vector<Case> cases = {{{}, 1, 1}, {{}, 1, 3}, {{}, 2, 1},  {{}, 5, 3},     {{}, 3, 5},  {{}, 40, 7},
                                 {{}, 0, 3}, {{}, 3, 0}, {{3}, 4, 2}, {{2, 3}, 3, 3}, {{0}, 2, 2}, {{200}, 2, 1}};

Shape matrix(const Shape& batch, std::int64_t rows, std::int64_t columns) {
  Shape shape = batch;
  shape.push_back(rows);
  shape.push_back(columns);
  return shape;
}

/// a b of contiguous matrices in doubles, by three loops.
std::vector<double> product(const std::vector<double>& a, const std::vector<double>& b, std::int64_t m, std::int64_t k,
                            std::int64_t n, bool transpose_a = false, bool transpose_b = false) {
  const std::int64_t batch = m * k > 0 ? static_cast<std::int64_t>(a.size()) / (m * k) : 0;
  std::vector<double> y;
  for (std::int64_t c = 0; c < batch; ++c)
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t p = 0; p < k; ++p)
          sum += a[static_cast<std::size_t>(c * m * k + (transpose_a ? p * m + i : i * k + p))] *
                 b[static_cast<std::size_t>(c * k * n + (transpose_b ? j * k + p : p * n + j))];
        y.push_back(sum);
      }
  return y;
}

void check_close(const std::vector<double>& got, const std::vector<double>& expected, DType dtype) {
  REQUIRE(got.size() == expected.size());
  double worst = 0, size = 1;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!(std::abs(got[i] - expected[i]) <= worst)) worst = std::abs(got[i] - expected[i]);
    size = std::max(size, std::abs(expected[i]));
  }
  CHECK(worst <= size * (dtype == float32 ? 2e-4 : 1e-11));
}

void run(Linalg f, std::initializer_list<Tensor> inputs, std::initializer_list<Tensor> outputs, bool adjoint = false) {
  cpu_backend().linalg(f, {inputs.begin(), inputs.size()}, adjoint, {outputs.begin(), outputs.size()});
}

/// Well conditioned: random, with a heavy diagonal.
Tensor regular(DType dtype, const Case& c) {
  const Shape shape = matrix(c.batch, c.n, c.n);
  std::vector<double> numbers = values(random_tensor(float64, shape, 3));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto place = static_cast<std::int64_t>(i) % (c.n * c.n);
    if (place / c.n == place % c.n) numbers[i] += 60 * (numbers[i] < 0 ? -1 : 1);
  }
  return tensor_of(dtype, shape, numbers);
}

}  // namespace

TEST_CASE("solve, inverse and triangular_solve undo a product") {
  for (const DType dtype : float_dtypes) {
    for (const Case& c : cases) {
      CAPTURE(c.n);
      CAPTURE(c.k);
      const Tensor a = regular(dtype, c), b = random_tensor(dtype, matrix(c.batch, c.n, c.k), 5);
      for (const bool adjoint : {false, true}) {
        const Tensor x = empty(dtype, b.shape());
        run(Linalg::solve, {twisted(a), twisted(b)}, {x}, adjoint);
        if (x.size() > 0) check_close(product(values(a), values(x), c.n, c.n, c.k, adjoint), values(b), dtype);

        std::vector<double> lower = values(a);
        for (std::size_t i = 0; i < lower.size(); ++i) {
          const auto place = static_cast<std::int64_t>(i) % (c.n * c.n);
          if (place % c.n > place / c.n) lower[i] = 0;
        }
        run(Linalg::triangular_solve, {a, b}, {x}, adjoint);  // what stands above the diagonal is not read
        if (x.size() > 0) check_close(product(lower, values(x), c.n, c.n, c.k, adjoint), values(b), dtype);
      }
      const Tensor inverse = empty(dtype, a.shape());
      run(Linalg::inverse, {a}, {inverse});
      if (a.size() > 0) {
        std::vector<double> identity = values(a);
        for (std::size_t i = 0; i < identity.size(); ++i) {
          const auto place = static_cast<std::int64_t>(i) % (c.n * c.n);
          identity[i] = place / c.n == place % c.n;
        }
        check_close(product(values(a), values(inverse), c.n, c.n, c.n), identity, dtype);
        check_close(product(values(inverse), values(a), c.n, c.n, c.n), identity, dtype);
      }
    }
  }
}

TEST_CASE("cholesky") {
  for (const DType dtype : float_dtypes) {
    for (const Case& c : cases) {
      const auto root = values(regular(dtype, c));
      const Tensor a = tensor_of(dtype, matrix(c.batch, c.n, c.n), product(root, root, c.n, c.n, c.n, false, true));
      const Tensor l = empty(dtype, a.shape());
      run(Linalg::cholesky, {twisted(a)}, {l});
      const auto factor = values(l);
      if (a.size() > 0) check_close(product(factor, factor, c.n, c.n, c.n, false, true), values(a), dtype);
      for (std::size_t i = 0; i < factor.size(); ++i) {
        const auto place = static_cast<std::int64_t>(i) % (c.n * c.n);
        if (place % c.n > place / c.n) CHECK(factor[i] == 0);
      }
    }
  }
}

TEST_CASE("singular value decomposition, thin") {
  for (const DType dtype : float_dtypes) {
    for (const Case& c : cases) {
      const std::int64_t k = std::min(c.n, c.k);
      Shape singular = c.batch;
      singular.push_back(k);
      const Tensor a = random_tensor(dtype, matrix(c.batch, c.n, c.k), 7);
      const Tensor s = empty(dtype, singular), u = empty(dtype, matrix(c.batch, c.n, k)),
                   v = empty(dtype, matrix(c.batch, c.k, k));
      run(Linalg::svd, {twisted(a)}, {s, u, v});
      if (a.size() == 0) continue;
      const auto values_s = values(s);
      std::vector<double> scaled = values(u), identity;
      const auto columns = static_cast<std::size_t>(k);
      for (std::size_t i = 0; i < scaled.size(); ++i)
        scaled[i] *= values_s[i / (columns * static_cast<std::size_t>(c.n)) * columns + i % columns];
      check_close(product(scaled, values(v), c.n, k, c.k, false, true), values(a), dtype);
      for (std::size_t i = 0; i < values_s.size(); ++i) {
        CHECK(values_s[i] >= 0);
        if (i % columns > 0) CHECK(values_s[i] <= values_s[i - 1]);
      }
      const auto batch = static_cast<std::size_t>(c.batch.size());
      for (std::size_t i = 0; i < batch * columns * columns; ++i)
        identity.push_back(i % (columns * columns) / columns == i % columns);
      check_close(product(values(u), values(u), k, c.n, k, true), identity, dtype);
      check_close(product(values(v), values(v), k, c.k, k, true), identity, dtype);
    }
  }
  const Tensor bad = tensor_of(float32, {2, 1}, {1, std::nan("")}), s = empty(float32, {1});
  run(Linalg::svd, {bad}, {s, empty(float32, {2, 1}), empty(float32, {1, 1})});
  CHECK(std::isnan(values(s)[0]));
}

TEST_CASE("matrices without an answer are refused in TensorFlow's words") {
  for (const DType dtype : float_dtypes) {
    const Tensor singular = tensor_of(dtype, {2, 2}, {1, 2, 2, 4}), indefinite = tensor_of(dtype, {2, 2}, {1, 2, 2, 1});
    const Tensor x = empty(dtype, {2, 2});
    const std::string no_inverse = "Input matrix is not invertible.";
    CHECK(message_of([&] { run(Linalg::inverse, {singular}, {x}); }) == no_inverse);
    CHECK(message_of([&] { run(Linalg::solve, {singular, indefinite}, {x}); }) == no_inverse);
    CHECK(message_of([&] {
            run(Linalg::triangular_solve, {tensor_of(dtype, {2, 2}, {1, 0, 2, 0}), singular}, {x});
          }) == no_inverse);
    CHECK(message_of([&] { run(Linalg::cholesky, {indefinite}, {x}); }) ==
          "Cholesky decomposition was not successful. The input might not be valid.");
    const Tensor none = tensor_of(dtype, {1, 1}, {std::nan("")});
    CHECK(message_of([&] {
            run(Linalg::cholesky, {none}, {empty(dtype, {1, 1})});
          }) == "Cholesky decomposition was not successful. The input might not be valid.");
  }
}

}  // namespace kernels_linalg_test
