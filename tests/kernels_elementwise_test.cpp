// The drivers of the elementwise families over every layout, against plain loops over indices: fill, iota, unary,
// binary, ternary, copy and update.

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "kernels_support.hpp"
#include "tapestry/error.hpp"

namespace kernels_elementwise_test {

using namespace tapestry;
using namespace tapestry::testing;

namespace {

const std::vector<DType> number_dtypes = {uint8, int32, int64, float16, bfloat16, float32, float64};

/// A value as the dtype holds it, integers wrapped around.
double as(DType dtype, double value) {
  return detail::visit_dtype(dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
      return static_cast<double>(static_cast<T>(static_cast<std::int64_t>(value)));
    else
      return static_cast<double>(static_cast<T>(value));
  });
}

/// x as a view of `shape`, broadcast by NumPy's rules, read without any kernel.
std::vector<double> broadcast_values(const Tensor& x, const Shape& shape) {
  std::array<std::int64_t, Shape::max_rank> strides{};
  const int missing = shape.rank() - x.rank();
  for (int i = missing; i < shape.rank(); ++i)
    if (x.shape()[i - missing] != 1)
      strides[static_cast<std::size_t>(i)] = x.strides()[static_cast<std::size_t>(i - missing)];
  return values(detail::make_view(x, shape, {strides.data(), static_cast<std::size_t>(shape.rank())}));
}

/// The tensor itself and the same elements in other layouts.
std::vector<Tensor> layouts(const Tensor& x) {
  std::vector<Tensor> all = {x, twisted(x)};
  if (x.rank() >= 2) {
    // As the transpose of a contiguous tensor.
    std::vector<std::int64_t> sizes(x.shape().sizes().begin(), x.shape().sizes().end());
    std::swap(sizes[sizes.size() - 1], sizes[sizes.size() - 2]);
    const Tensor base = empty(x.dtype(), sizes);
    std::vector<std::int64_t> strides(base.strides().begin(), base.strides().end());
    std::swap(strides[strides.size() - 1], strides[strides.size() - 2]);
    const Tensor view = detail::make_view(base, x.shape(), strides);
    const auto numbers = values(x);
    std::size_t i = 0;
    for_each_index(view.shape(), view.strides(), [&](const auto&, std::int64_t offset) {
      detail::visit_dtype(x.dtype(),
                          [&]<class T>() { static_cast<T*>(view.impl().data)[offset] = static_cast<T>(numbers[i]); });
      ++i;
    });
    all.push_back(view);
  }
  return all;
}

struct Operands {
  Shape a, b;
};
const std::vector<Operands> broadcasts = {
    {{}, {}},
    {{1}, {5}},
    {{0, 3}, {3}},
    {{7}, {}},
    {{2, 3}, {3}},
    {{500, 3}, {3}},
    {{500, 3}, {500, 1}},
    {{4, 1}, {1, 6}},
    {{90, 1}, {1, 130}},
    {{70, 90}, {70, 90}},
    {{150, 80}, {150, 1}},
    {{2, 1, 70, 3}, {5, 1, 3}},
    {{3, 4, 5}, {3, 4, 5}},
    {{130, 70}, {70}},
    {{2, 3, 2, 3, 2, 3, 2, 3}, {2, 3, 2, 3, 1, 3, 2, 1}},
};

}  // namespace

TEST_CASE("binary: every layout and broadcast, all dtypes") {
  for (const DType dtype : number_dtypes)
    for (const Operands& operands : broadcasts) {
      const Shape &a_shape = operands.a, &b_shape = operands.b;
      const Shape shape = broadcast_shapes(a_shape, b_shape);
      for (const Tensor& a : layouts(random_tensor(dtype, a_shape, 3)))
        for (const Tensor& b : layouts(random_tensor(dtype, b_shape, 4))) {
          CAPTURE(to_string(dtype) + to_string(a_shape) + to_string(b_shape));
          const auto left = broadcast_values(a, shape), right = broadcast_values(b, shape);
          const Tensor difference = empty(dtype, shape), smaller = empty(boolean, shape);
          cpu_backend().binary(Binary::subtract, a, b, 0, difference);
          cpu_backend().binary(Binary::less, a, b, 0, smaller);
          const auto got = values(difference), got_smaller = values(smaller);
          bool right_difference = true, right_order = true;
          for (std::size_t i = 0; i < got.size(); ++i) {
            right_difference = right_difference && got[i] == as(dtype, left[i] - right[i]);
            right_order = right_order && got_smaller[i] == (left[i] < right[i] ? 1 : 0);
          }
          CHECK(right_difference);
          CHECK(right_order);
        }
    }
}

TEST_CASE("unary: every layout, all dtypes") {
  for (const DType dtype : number_dtypes)
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{5}, Shape{3, 4, 5}, Shape{100, 130}, Shape{3, 70, 2, 90}}) {
      const Tensor x = random_tensor(dtype, shape, 5);
      std::vector<Tensor> inputs = layouts(x);
      if (x.rank() > 0) inputs.push_back(repeated(x, 1u << (x.rank() - 1)));
      if (x.rank() > 1) inputs.push_back(repeated(x, 1));
      for (const Tensor& input : inputs) {
        CAPTURE(to_string(dtype) + to_string(shape));
        const Tensor y = empty(dtype, shape);
        cpu_backend().unary(Unary::square, input, 0, y);
        const auto numbers = values(input), got = values(y);
        bool right = true;
        for (std::size_t i = 0; i < got.size(); ++i) {
          const double square = dtype == float32 ? static_cast<double>(static_cast<float>(numbers[i] * numbers[i]))
                                                 : numbers[i] * numbers[i];
          right = right && got[i] == as(dtype, square);
        }
        CHECK(right);
      }
    }
}

TEST_CASE("ternary: clip and select, every layout and broadcast") {
  for (const DType dtype : dtypes_and_halves)
    for (const Operands& operands : broadcasts) {
      const Shape &a_shape = operands.a, &b_shape = operands.b;
      const Shape shape = broadcast_shapes(a_shape, b_shape);
      CAPTURE(to_string(dtype) + to_string(a_shape) + to_string(b_shape));
      for (const Tensor& condition : layouts(random_tensor(boolean, a_shape, 6)))
        for (const Tensor& b : layouts(random_tensor(dtype, b_shape, 7)))
          for (const Tensor& c : {random_tensor(dtype, {}, 8), random_tensor(dtype, a_shape, 8)}) {
            const Tensor y = empty(dtype, shape);
            cpu_backend().ternary(Ternary::select, condition, b, c, y);
            const auto when = broadcast_values(condition, shape), yes = broadcast_values(b, shape),
                       no = broadcast_values(c, shape), got = values(y);
            bool right = true;
            for (std::size_t i = 0; i < got.size(); ++i) right = right && got[i] == (when[i] != 0 ? yes[i] : no[i]);
            CHECK(right);
          }
      if (dtype == boolean) continue;
      const Tensor a = random_tensor(dtype, a_shape, 9), low = tensor_of(dtype, {}, {2}),
                   high = tensor_of(dtype, {}, {5});
      const Tensor y = empty(dtype, a_shape);
      cpu_backend().ternary(Ternary::clip, a, low, high, y);
      const auto before = values(a), after = values(y);
      bool right = true;
      for (std::size_t i = 0; i < after.size(); ++i)
        right = right && after[i] == std::min(std::max(before[i], 2.0), 5.0);
      CHECK(right);
    }
}

TEST_CASE("results beyond the caches, contiguous and transposed") {
  const Shape shape = {2900, 3001};  // 33 MiB
  const Tensor a = random_tensor(float32, shape, 1), row = random_tensor(float32, {3001}, 3);
  for (const Tensor& b : layouts(random_tensor(float32, shape, 2))) {
    const Tensor y = empty(float32, shape);
    cpu_backend().binary(Binary::add, a, b, 0, y);
    const auto left = values(a), right = values(b), got = values(y);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < got.size(); ++i) wrong += got[i] != static_cast<float>(left[i] + right[i]);
    CHECK(wrong == 0);
    const Tensor copied = empty(float32, shape);
    cpu_backend().copy(b, copied);
    CHECK(values(copied) == right);
    CHECK(same_for_any_threads(float32, shape,
                               [&](const Tensor& out) { cpu_backend().binary(Binary::multiply, b, row, 0, out); }));
    CHECK(
        same_for_any_threads(float32, shape, [&](const Tensor& out) { cpu_backend().unary(Unary::tanh, b, 0, out); }));
  }
  const Tensor column = random_tensor(float32, {shape[0], 1}, 4), y = empty(float32, shape);
  for (const Tensor& line : {row, column}) {
    cpu_backend().copy(line, y);
    CHECK(values(y) == broadcast_values(line, shape));
  }
  cpu_backend().binary(Binary::add, column, row, 0, y);
  const auto left = broadcast_values(column, shape), right = broadcast_values(row, shape), got = values(y);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i) wrong += got[i] != static_cast<float>(left[i] + right[i]);
  CHECK(wrong == 0);
}

TEST_CASE("integers: division by zero is an error, overflow wraps around") {
  for (const DType dtype : {uint8, int32, int64}) {
    const Tensor a = tensor_of(dtype, {3}, {7, 8, 9}), zero = tensor_of(dtype, {3}, {1, 0, 2}), y = empty(dtype, {3});
    for (const Binary f : {Binary::floor_mod, Binary::floor_divide}) {
      CHECK_THROWS_WITH_AS(cpu_backend().binary(f, a, zero, 0, y), "Integer division by zero", InvalidArgumentError);
      CHECK_THROWS_AS(cpu_backend().binary(f, a, tensor_of(dtype, {}, {0}), 0, y), InvalidArgumentError);
      CHECK_NOTHROW(cpu_backend().binary(f, empty(dtype, {0}), tensor_of(dtype, {}, {0}), 0, empty(dtype, {0})));
    }
  }
  const Tensor a = tensor_of(int32, {4}, {7, -7, 7, -7}), b = tensor_of(int32, {4}, {3, 3, -3, -3}),
               y = empty(int32, {4});
  cpu_backend().binary(Binary::floor_divide, a, b, 0, y);
  CHECK(values(y) == std::vector<double>{2, -3, -3, 2});
  cpu_backend().binary(Binary::floor_mod, a, b, 0, y);
  CHECK(values(y) == std::vector<double>{1, 2, -2, -1});

  const double lowest = std::numeric_limits<std::int32_t>::lowest();
  const Tensor extreme = tensor_of(int32, {1}, {lowest}), minus_one = tensor_of(int32, {1}, {-1}),
               one = empty(int32, {1});
  cpu_backend().binary(Binary::floor_divide, extreme, minus_one, 0, one);
  CHECK(values(one)[0] == lowest);
  cpu_backend().binary(Binary::floor_mod, extreme, minus_one, 0, one);
  CHECK(values(one)[0] == 0);
  cpu_backend().binary(Binary::subtract, extreme, tensor_of(int32, {1}, {1}), 0, one);
  CHECK(values(one)[0] == std::numeric_limits<std::int32_t>::max());

  const Tensor power = empty(int64, {4});
  cpu_backend().binary(Binary::power, tensor_of(int64, {4}, {3, -2, 0, 10}), tensor_of(int64, {4}, {4, 3, 0, 18}), 0,
                       power);
  CHECK(values(power) == std::vector<double>{81, -8, 1, 1e18});
  CHECK_THROWS_AS(cpu_backend().binary(Binary::power, a, minus_one, 0, y), InvalidArgumentError);
}

TEST_CASE("floats: the sign of a remainder is the divisor's, NaN goes through maximum and minimum") {
  const double nan = std::nan("");
  const Tensor a = tensor_of(float32, {4}, {7.5, -7.5, nan, 1}), b = tensor_of(float32, {4}, {2, 2, 1, nan});
  const Tensor y = empty(float32, {4});
  cpu_backend().binary(Binary::floor_mod, a, b, 0, y);
  CHECK(values(y)[0] == 1.5);
  CHECK(values(y)[1] == 0.5);
  for (const Binary f : {Binary::maximum, Binary::minimum}) {
    cpu_backend().binary(f, a, b, 0, y);
    CHECK(std::isnan(values(y)[2]));
    CHECK(std::isnan(values(y)[3]));
  }
  const Tensor no_nan = empty(float32, {4});
  cpu_backend().binary(Binary::divide_no_nan, a, tensor_of(float32, {4}, {0, 2, 0, 0}), 0, no_nan);
  CHECK(values(no_nan) == std::vector<double>{0, -3.75, 0, 0});
}

TEST_CASE("a function that an element type does not have is an error") {
  const Tensor x = tensor_of(int32, {2}, {1, 2});
  CHECK_THROWS_AS(cpu_backend().unary(Unary::exp, x, 0, empty(int32, {2})), InvalidArgumentError);
  const Tensor flag = tensor_of(boolean, {2}, {0, 1});
  CHECK_THROWS_AS(cpu_backend().binary(Binary::add, flag, flag, 0, empty(boolean, {2})), InvalidArgumentError);
}

TEST_CASE("copy converts every pair of types, from and to every layout") {
  for (const DType from : dtypes_and_halves)
    for (const DType to : dtypes_and_halves)
      for (const Shape& shape : {Shape{}, Shape{0, 2}, Shape{33}, Shape{70, 90}, Shape{40, 3, 50}}) {
        const Tensor x = random_tensor(from, shape, 11);
        for (const Tensor& input : layouts(x))
          for (const Tensor& y : layouts(random_tensor(to, shape, 12))) {
            CAPTURE(to_string(from) + " to " + to_string(to) + to_string(shape));
            cpu_backend().copy(input, y);
            const auto got = values(y), numbers = values(x);
            bool right = true;
            for (std::size_t i = 0; i < got.size(); ++i) {
              // A negative integer wraps around, a negative float does not.
              const double number = is_floating(from) && to == uint8 ? std::max(numbers[i], 0.0) : numbers[i];
              right = right && got[i] == (to == boolean ? number != 0 : as(to, number));
            }
            CHECK(right);
          }
      }
}

TEST_CASE("copy broadcasts, and writes only the elements of a strided view") {
  const Tensor y = empty(float32, {3, 50, 4});
  cpu_backend().copy(tensor_of(float32, {50, 1}, std::vector<double>(50, 2)), y);
  CHECK(values(y) == std::vector<double>(600, 2));

  const Tensor base = tensor_of(float32, {10, 10}, std::vector<double>(100, 0));
  const std::int64_t strides[] = {20, 3};
  const Tensor view = detail::make_view(base, {4, 3}, strides, 11);
  cpu_backend().copy(tensor_of(int32, {3}, {1, 2, 3}), view);
  double sum = 0;
  for (const double value : values(base)) sum += value;
  CHECK(sum == 4 * 6);
  CHECK(values(base)[11] == 1);
  CHECK(values(base)[14] == 2);
  CHECK(values(base)[77] == 3);
}

TEST_CASE("floats out of an integer type's range become its ends") {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor x = tensor_of(float32, {8}, {inf, -inf, std::nan(""), 3e9, -3e9, 1.9, -1.9, 2147483648.0});
  const Tensor narrow = empty(int32, {8}), wide = empty(int64, {8}), bytes = empty(uint8, {8});
  cpu_backend().copy(x, narrow);
  cpu_backend().copy(x, wide);
  cpu_backend().copy(x, bytes);
  CHECK(values(narrow) ==
        std::vector<double>{2147483647, -2147483648.0, 0, 2147483647, -2147483648.0, 1, -1, 2147483647});
  CHECK(values(wide)[3] == 3e9);
  CHECK(static_cast<std::int64_t*>(wide.impl().data)[0] == std::numeric_limits<std::int64_t>::max());
  CHECK(static_cast<std::int64_t*>(wide.impl().data)[1] == std::numeric_limits<std::int64_t>::lowest());
  CHECK(values(bytes) == std::vector<double>{255, 0, 0, 255, 0, 1, 0, 255});
}

TEST_CASE("fill and iota") {
  for (const DType dtype : dtypes_and_halves)
    for (const std::int64_t n : {0, 1, 77, 100000}) {
      const Tensor y = empty(dtype, {n});
      cpu_backend().fill(1, y);
      CHECK(values(y) == std::vector<double>(static_cast<std::size_t>(n), 1));
      if (dtype == boolean || dtype == uint8) continue;
      cpu_backend().iota(3, -0.5, y);
      bool right = true;
      for (std::int64_t i = 0; i < n; ++i) {
        const double value = 3 - 0.5 * static_cast<double>(i);
        right = right && element(y, i) == (is_floating(dtype) ? as(dtype, value) : std::trunc(value));
      }
      CHECK(right);
    }
}

TEST_CASE("update changes the variable and its slots in one pass") {
  for (const DType dtype : float_dtypes) {
    constexpr std::int64_t n = 20011;
    const Tensor gradient = random_tensor(dtype, {n}, 1), variable = random_tensor(dtype, {n}, 2);
    const Tensor s = random_tensor(dtype, {n}, 3), t = empty(dtype, {n});
    cpu_backend().unary(Unary::square, random_tensor(dtype, {n}, 4), 0, t);
    const auto g = values(gradient), v = values(variable), s_before = values(s), t_before = values(t);
    const double lr = 0.01, beta1 = 0.9, beta2 = 0.999, unbias = 1.25, epsilon = 1e-7, wd = 0.1;
    const Tensor p = tensor<double>({lr, beta1, 1 - beta1, beta2, 1 - beta2, unbias, epsilon, wd});
    const Tensor slots[] = {s, t};
    cpu_backend().update(Update::adam, p, gradient, slots, variable);
    const double tolerance = dtype == float32 ? 1e-5 : 1e-13;
    double worst = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double d = g[i] + wd * v[i];
      const double mean = beta1 * s_before[i] + (1 - beta1) * d, square = beta2 * t_before[i] + (1 - beta2) * d * d;
      const double expected = v[i] - lr * mean / (std::sqrt(square * unbias) + epsilon);
      const auto at = static_cast<std::int64_t>(i);
      worst = std::max({worst, std::fabs(element(variable, at) - expected) / (1 + std::fabs(expected)),
                        std::fabs(element(s, at) - mean) / (1 + std::fabs(mean)),
                        std::fabs(element(t, at) - square) / (1 + std::fabs(square))});
    }
    CHECK(worst < tolerance);
  }
}

}  // namespace kernels_elementwise_test
