#include <cmath>
#include <cstdlib>
#include <string>

#include <doctest/doctest.h>

#include "backend/cpu/blas.hpp"
#include "backend/cpu/levels.hpp"
#include "environment.hpp"
#include "kernels_support.hpp"

namespace kernels_matmul_test {

extern "C" {
int openblas_get_num_threads();
char* openblas_get_corename();
}

using namespace tapestry;
using namespace tapestry::testing;

namespace {

struct Case {
  Shape batch;
  std::int64_t m, n, k;
};

std::string strides_of(const Tensor& x) {
  std::string text;
  for (const std::int64_t each : x.strides()) text += std::to_string(each) + " ";
  return text;
}

Shape matrix(const Shape& batch, std::int64_t rows, std::int64_t columns, bool transposed = false) {
  Shape shape = batch;
  shape.push_back(transposed ? columns : rows);
  shape.push_back(transposed ? rows : columns);
  return shape;
}

std::vector<double> reference(const Tensor& a, const Tensor& b, bool ta, bool tb, const Shape& shape, std::int64_t k) {
  std::vector<double> result;
  const auto at = [](const Tensor& x, std::vector<std::int64_t> index, std::int64_t i, std::int64_t j,
                     bool transposed) {
    index[index.size() - 2] = transposed ? j : i;
    index[index.size() - 1] = transposed ? i : j;
    std::int64_t offset = 0;
    for (std::size_t axis = 0; axis < index.size(); ++axis) offset += index[axis] * x.strides()[axis];
    return element(x, offset);
  };
  for_each_index(shape, {}, [&](const std::vector<std::int64_t>& index, std::int64_t) {
    double sum = 0;
    const std::int64_t i = index[index.size() - 2], j = index[index.size() - 1];
    for (std::int64_t p = 0; p < k; ++p) sum += at(a, index, i, p, ta) * at(b, index, p, j, tb);
    result.push_back(sum);
  });
  return result;
}

void check(const Tensor& a, const Tensor& b, bool ta, bool tb, const Case& c) {
  const Tensor y = empty(a.dtype(), matrix(c.batch, c.m, c.n));
  cpu_backend().gemm(a, b, ta, tb, y);
  const auto expected = reference(a, b, ta, tb, y.shape(), c.k), got = values(y);
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    double want = expected[i];
    if (a.dtype() == uint8) want = static_cast<std::uint8_t>(static_cast<std::int64_t>(want));
    if (!(std::abs(got[i] - want) <= worst)) worst = std::abs(got[i] - want);
  }
  CAPTURE(to_string(a.dtype()));
  CAPTURE(c.m);
  CAPTURE(c.n);
  CAPTURE(c.k);
  CAPTURE(ta);
  CAPTURE(tb);
  const double size = static_cast<double>(c.k) + 1;
  REQUIRE(worst <= (a.dtype() == float32 ? 4e-4 * size : a.dtype() == float64 ? 1e-12 * size : 0.0));
}

/// Divides the elements in their memory. Those that share one are divided once.
void divide_by_three(const Tensor& x) {
  const std::vector<double> numbers = values(x);
  std::size_t i = 0;
  for_each_index(x.shape(), x.strides(), [&](const auto&, std::int64_t offset) {
    detail::visit_dtype(x.dtype(),
                        [&]<class T>() { static_cast<T*>(x.impl().data)[offset] = static_cast<T>(numbers[i] / 3); });
    ++i;
  });
}

/// Compares the product of operands in layouts that the generator draws with that of row-major copies, bit by bit, and
/// with the numbers of three loops, where it holds their sum.
void check_any_layout(DType dtype, const Case& c, std::mt19937& generator, bool with_loops) {
  const bool ta = generator() % 2 == 0, tb = generator() % 2 == 0;
  const Tensor a = in_any_layout(dtype, matrix(c.batch, c.m, c.k, ta), generator),
               b = in_any_layout(dtype, matrix(c.batch, c.k, c.n, tb), generator);
  // Sums of thirds are rounded, so that the order of summation shows. OpenBLAS chooses it by the layout.
  const bool rounds =
      (dtype == float32 || dtype == float64) && host::cpu_level() >= host::Level::v3 && generator() % 2 == 0;
  if (rounds) divide_by_three(a);
  const auto product = [&](const Tensor& x, const Tensor& z) {
    const Shape shape = matrix(c.batch, c.m, c.n);
    const double before = is_floating(dtype) ? std::nan("") : 77;
    Tensor y = tensor_of(dtype, shape, std::vector<double>(static_cast<std::size_t>(shape.size()), before));
    cpu_backend().gemm(x, z, ta, tb, y);
    return y;
  };
  const Tensor found = product(a, b);
  CAPTURE(to_string(dtype));
  CAPTURE(to_string(a.shape()));
  CAPTURE(to_string(b.shape()));
  CAPTURE(strides_of(a));
  CAPTURE(strides_of(b));
  CAPTURE(ta);
  CAPTURE(tb);
  CHECK(same_bits(found, product(row_major(a), row_major(b))));
  const bool exact = dtype != uint8 && !is_half(dtype) && !rounds;  // uint8 wraps, halves are rounded
  if (exact && with_loops) CHECK(values(found) == reference(a, b, ta, tb, found.shape(), c.k));
}

}  // namespace

TEST_CASE("products agree with three loops: sizes, transposes, layouts, batches, dtypes") {
  std::vector<Case> cases;
  for (const std::int64_t m : {1, 2, 5, 33})
    for (const std::int64_t n : {1, 2, 3, 8, 17})
      for (const std::int64_t k : {1, 2, 4, 8, 19}) cases.push_back({{}, m, n, k});
  for (const Case& c : {Case{{}, 0, 3, 4}, Case{{}, 3, 0, 4}, Case{{}, 3, 4, 0}, Case{{0}, 2, 2, 2}, Case{{3}, 2, 5, 0},
                        Case{{3}, 4, 5, 6}, Case{{2, 3}, 1, 7, 5}, Case{{2, 1, 3}, 6, 1, 5}, Case{{2, 2}, 20, 4, 2},
                        Case{{1, 2, 1, 2, 1, 2}, 3, 3, 3}, Case{{}, 70, 90, 40}, Case{{}, 200, 4, 2}})
    cases.push_back(c);
  for (const DType dtype : {uint8, int32, int64, float32, float64}) {
    for (const Case& c : cases) {
      for (const bool ta : {false, true}) {
        for (const bool tb : {false, true}) {
          const Tensor a = random_tensor(dtype, matrix(c.batch, c.m, c.k, ta), 1);
          const Tensor b = random_tensor(dtype, matrix(c.batch, c.k, c.n, tb), 2);
          check(a, b, ta, tb, c);
          check(twisted(a), b, ta, tb, c);
          check(a, twisted(b), ta, tb, c);
          check(repeated(a, 1), repeated(b, 3), ta, tb, c);
        }
      }
    }
  }
}

TEST_CASE("operands in any layout give the bits of their row-major copies") {
  std::mt19937 generator(1);
  const auto below = [&](unsigned n) { return generator() % n; };
  const auto size = [&] {
    constexpr std::int64_t sizes[] = {1, 1, 1, 2, 3, 4, 5, 8, 0, 9, 17, 40};
    return sizes[below(std::size(sizes))];
  };
  const DType dtypes[] = {uint8, int32, int64, float16, bfloat16, float32, float64};
  const long cases = test::number_of_cases(6000);
  for (long i = 0; i < cases; ++i) {
    Case c{{}, size(), size(), size()};
    std::int64_t work =
        std::max(c.m, std::int64_t{1}) * std::max(c.n, std::int64_t{1}) * std::max(c.k, std::int64_t{1});
    for (auto rank = below(4); rank > 0; --rank) {
      c.batch.push_back(size());
      work *= std::max(c.batch.sizes().back(), std::int64_t{1});
    }
    CAPTURE(i);
    if (work <= 40000) check_any_layout(dtypes[below(std::size(dtypes))], c, generator, true);
  }
}

TEST_CASE("so do those of large products, which are cut into blocks") {
  std::mt19937 generator(2);
  for (const Case& c :
       {Case{{}, 1, 700, 400}, Case{{}, 800, 1, 330}, Case{{}, 300, 290, 40}, Case{{}, 1025, 20, 150},
        Case{{}, 33, 1100, 90}, Case{{}, 2100, 40, 40}, Case{{2, 40}, 1, 50, 40}, Case{{3}, 200, 130, 120}})
    for (const DType dtype : {float32, float64})
      for (int i = 0; i < 3; ++i) check_any_layout(dtype, c, generator, false);
}

TEST_CASE("a batch that shares one operand") {
  for (const DType dtype : {int32, float32, float64}) {
    for (const bool ta : {false, true}) {
      const Case c{{4, 3}, 5, 6, 7};
      const Tensor a = random_tensor(dtype, matrix(c.batch, c.m, c.k, ta), 1);
      const Tensor b = random_tensor(dtype, matrix(c.batch, c.k, c.n), 2);
      check(a, repeated(b, 3), ta, false, c);
      check(repeated(a, 3), b, ta, false, c);
      check(a, repeated(twisted(b), 3), ta, false, c);
      check(repeated(a, 1), repeated(b, 2), ta, false, c);
    }
  }
}

TEST_CASE("large products are cut the same way for any number of threads") {
  for (const DType dtype : float_dtypes) {
    const Case c{{}, 300, 290, 110};
    const Tensor a = random_tensor(dtype, {c.m, c.k}, 1), b = random_tensor(dtype, {c.k, c.n}, 2);
    check(a, b, false, false, c);
    CHECK(same_for_any_threads(dtype, {c.m, c.n}, [&](const Tensor& y) { cpu_backend().gemm(a, b, false, false, y); }));
    const Tensor wide = random_tensor(dtype, {700, 800}, 3), row = random_tensor(dtype, {1, 700}, 4);
    check(row, wide, false, false, {{}, 1, 800, 700});
    check(wide, row, true, true, {{}, 800, 1, 700});
    check(row, wide, false, false, {{}, 1, 800, 700});
    CHECK(same_for_any_threads(dtype, {1, 800},
                               [&](const Tensor& y) { cpu_backend().gemm(row, wide, false, false, y); }));
    CHECK(
        same_for_any_threads(dtype, {800, 1}, [&](const Tensor& y) { cpu_backend().gemm(wide, row, true, true, y); }));
    const Tensor many = random_tensor(dtype, {50, 40, 30}, 5), others = random_tensor(dtype, {50, 30, 20}, 6);
    check(many, others, false, false, {{50}, 40, 20, 30});
    CHECK(same_for_any_threads(dtype, {50, 40, 20},
                               [&](const Tensor& y) { cpu_backend().gemm(many, others, false, false, y); }));
  }
  const Tensor a = random_tensor(int64, {100, 90}, 1), b = random_tensor(int64, {90, 1100}, 2);
  check(a, b, false, false, {{}, 100, 1100, 90});
}

TEST_CASE("whole numbers wrap") {
  const Tensor a = tensor_of(int32, {1, 2}, {65536, 3}), b = tensor_of(int32, {2, 1}, {65536, 5});
  const Tensor y = empty(int32, {1, 1});
  cpu_backend().gemm(a, b, false, false, y);
  CHECK(values(y)[0] == 15);
}

TEST_CASE("NaN is not lost beside a zero, nor what the output held kept") {
  const double nan = std::nan("");
  for (const DType dtype : float_dtypes) {
    for (const std::int64_t m : {1, 3, 40}) {
      for (const std::int64_t n : {1, 4, 50}) {
        for (const std::int64_t k : {1, 2, 60}) {
          std::vector<double> numbers(static_cast<std::size_t>(k * n), 1);
          numbers.back() = nan;
          const Tensor zeros = tensor_of(dtype, {m, k}, std::vector<double>(static_cast<std::size_t>(m * k), 0));
          const Tensor y = tensor_of(dtype, {m, n}, std::vector<double>(static_cast<std::size_t>(m * n), nan));
          cpu_backend().gemm(zeros, tensor_of(dtype, {k, n}, numbers), false, false, y);
          const auto got = values(y);
          for (std::size_t i = 0; i < got.size(); ++i) {
            const bool last = static_cast<std::int64_t>(i) % n == n - 1;
            CHECK(std::isnan(got[i]) == last);
          }
          std::vector<double> left(static_cast<std::size_t>(m * k), 1);
          left.back() = nan;
          cpu_backend().gemm(tensor_of(dtype, {m, k}, left),
                             tensor_of(dtype, {k, n}, std::vector<double>(static_cast<std::size_t>(k * n), 0)), false,
                             false, y);
          CHECK(std::isnan(values(y).back()));
        }
      }
    }
  }
}

TEST_CASE("OpenBLAS runs in one thread, on kernels that suit the processor") {
  host::prepare_blas();
  CHECK(openblas_get_num_threads() == 1);
  if (host::cpu_level() >= host::Level::v3 && !std::getenv("OPENBLAS_CORETYPE"))
    CHECK(std::string(openblas_get_corename()) != "Prescott");
}

}  // namespace kernels_matmul_test
