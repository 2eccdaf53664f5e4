#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <doctest/doctest.h>

#include "kernels_support.hpp"

namespace kernels_sort_test {

using namespace tapestry;
using namespace tapestry::testing;

namespace {

/// Positions of a row in order, by a stable sort.
std::vector<std::size_t> order(const std::vector<double>& row, bool largest) {
  std::vector<std::size_t> positions(row.size());
  std::iota(positions.begin(), positions.end(), std::size_t{0});
  const auto before = [](double a, double b) { return !std::isnan(a) && (std::isnan(b) || a < b); };
  std::stable_sort(positions.begin(), positions.end(), [&](std::size_t a, std::size_t b) {
    return largest ? before(row[b], row[a]) : before(row[a], row[b]);
  });
  return positions;
}

void check(const Tensor& x, std::int64_t k, bool largest, DType index_dtype) {
  Shape shape = x.shape();
  shape.set(shape.rank() - 1, k);
  const Tensor top = empty(x.dtype(), shape), positions = empty(index_dtype, shape);
  cpu_backend().top_k(x, k, largest, top, positions);
  const auto from = values(x), got = values(top), places = values(positions);
  const auto n = static_cast<std::size_t>(x.shape().back()), count = static_cast<std::size_t>(k);
  for (std::size_t row = 0; n > 0 && row < from.size() / n; ++row) {
    const std::vector<double> numbers(from.begin() + static_cast<std::ptrdiff_t>(row * n),
                                      from.begin() + static_cast<std::ptrdiff_t>((row + 1) * n));
    const auto expected = order(numbers, largest);
    for (std::size_t i = 0; i < count; ++i) {
      REQUIRE(places[row * count + i] == static_cast<double>(expected[i]));
      const double value = got[row * count + i];
      REQUIRE((value == numbers[expected[i]] || (std::isnan(value) && std::isnan(numbers[expected[i]]))));
    }
  }
}

}  // namespace

TEST_CASE("the first k in order, ties by position") {
  for (const DType dtype : dtypes_and_halves)
    for (const Shape& shape : {Shape{1}, Shape{10}, Shape{3, 0}, Shape{0, 4}, Shape{4, 200}, Shape{2, 3, 2, 30}})
      for (const bool largest : {false, true})
        for (const DType index_dtype : {int32, int64})
          for (const std::int64_t k :
               {std::int64_t{0}, std::int64_t{1}, shape.sizes().back() / 2, shape.sizes().back()})
            if (k <= shape.back()) {
              check(random_tensor(dtype, shape), k, largest, index_dtype);
              check(twisted(random_tensor(dtype, shape)), k, largest, index_dtype);
            }
}

TEST_CASE("NaN is the largest, and zeros of either sign are equal") {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  for (const DType dtype : float_dtypes) {
    const Tensor x = tensor_of(dtype, {9}, {0.0, -0.0, nan, infinity, -1, -nan, -infinity, 1e-30, -1e-30});
    for (const bool largest : {false, true})
      for (const std::int64_t k : {1, 4, 9}) check(x, k, largest, int32);
  }
  check(tensor_of(int64, {4}, {-9e18, 9e18, 0, -1}), 4, true, int64);
}

TEST_CASE("rows on several threads") {
  const Tensor x = random_tensor(float32, {400, 50});
  const Tensor positions = empty(int32, {400, 5});
  CHECK(
      same_for_any_threads(float32, {400, 5}, [&](const Tensor& y) { cpu_backend().top_k(x, 5, true, y, positions); }));
}

}  // namespace kernels_sort_test
