#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <doctest/doctest.h>

#include "backend/cpu/kernels/reduce.hpp"
#include "environment.hpp"
#include "kernels_support.hpp"

namespace kernels_reduce_test {

using namespace tapestry;
using namespace tapestry::testing;

namespace {

Shape without(const Shape& shape, std::uint32_t axes, bool keep) {
  Shape result;
  for (int i = 0; i < shape.rank(); ++i) {
    if ((axes >> i & 1) == 0) {
      result.push_back(shape.sizes()[i]);
    } else if (keep) {
      result.push_back(1);
    }
  }
  return result;
}

double combine(ReduceFunction f, double a, double b) {
  switch (f) {
    case ReduceFunction::sum:
    case ReduceFunction::mean:
      return a + b;
    case ReduceFunction::prod:
      return a * b;
    case ReduceFunction::max:
      return std::isnan(a) || a > b ? a : b;
    case ReduceFunction::min:
      return std::isnan(a) || a < b ? a : b;
    case ReduceFunction::any_true:
      return a != 0 || b != 0;
    default:
      return a != 0 && b != 0;
  }
}

/// One element after the other, in doubles.
std::vector<double> reference(ReduceFunction f, const Tensor& x, std::uint32_t axes) {
  std::map<std::vector<std::int64_t>, std::vector<double>> groups;
  for_each_index(x.shape(), x.strides(), [&](std::vector<std::int64_t> index, std::int64_t offset) {
    for (std::size_t i = 0; i < index.size(); ++i)
      if ((axes >> i & 1) != 0) index[i] = 0;
    groups[index].push_back(element(x, offset));
  });
  std::vector<double> result;
  for (const auto& [index, group] : groups) {
    double total = group[0];
    for (std::size_t i = 1; i < group.size(); ++i) total = combine(f, total, group[i]);
    result.push_back(f == ReduceFunction::mean ? total / static_cast<double>(group.size()) : total);
  }
  return result;
}

std::vector<double> reduced(ReduceFunction f, const Tensor& x, std::uint32_t axes, bool keep = false) {
  const Tensor y = empty(x.dtype(), without(x.shape(), axes, keep));
  cpu_backend().reduce(f, x, axes, y);
  return values(y);
}

/// Whole numbers wrap, means of them are cut towards zero.
double as_dtype(double value, DType dtype) {
  if (dtype == uint8) return static_cast<double>(static_cast<std::uint8_t>(static_cast<std::int64_t>(value)));
  return is_floating(dtype) ? value : std::trunc(value);
}

const std::vector<Shape> shapes = {
    {}, {1}, {7}, {3, 5}, {1, 6, 1}, {4, 3, 5}, {70, 33}, {600, 3}, {2, 300, 5}, {5, 2, 130}, {2, 1, 3, 2, 2, 1, 3, 2}};

}  // namespace

TEST_CASE("every reduction over every set of axes agrees with a plain loop, in any layout") {
  for (const ReduceFunction f : {ReduceFunction::sum, ReduceFunction::mean, ReduceFunction::max, ReduceFunction::min}) {
    for (const DType dtype : {uint8, int32, int64, float32, float64}) {
      for (const Shape& shape : shapes) {
        const Tensor x = random_tensor(dtype, shape);
        for (std::uint32_t axes = 0; axes < 1U << shape.rank(); ++axes) {
          if (shape.rank() == 8 && axes % 5 != 0) continue;
          for (const Tensor& layout : {x, twisted(x), repeated(x, 2), repeated(twisted(x), 5)}) {
            CAPTURE(static_cast<int>(f));
            CAPTURE(to_string(dtype));
            CAPTURE(to_string(shape));
            CAPTURE(axes);
            std::vector<double> expected = reference(f, layout, axes);
            if (dtype == uint8 && f == ReduceFunction::mean) {  // the sum wraps before the division
              const auto count = static_cast<double>(layout.size()) / static_cast<double>(expected.size());
              expected = reference(ReduceFunction::sum, layout, axes);
              for (double& value : expected) value = as_dtype(value, uint8) / count;
            }
            const std::vector<double> got = reduced(f, layout, axes);
            REQUIRE(got.size() == expected.size());
            double worst = 0;
            for (std::size_t i = 0; i < got.size(); ++i)
              worst = std::max(worst, std::abs(got[i] - as_dtype(expected[i], dtype)));
            const bool exact = f == ReduceFunction::max || f == ReduceFunction::min || !is_floating(dtype);
            REQUIRE(worst <= (exact ? 0.0 : dtype == float32 ? 2e-3 : 1e-10));
          }
        }
      }
    }
  }
}

TEST_CASE("operands in any layout give the bits of their row-major copies") {
  std::mt19937 generator(1);
  const auto below = [&](std::uint64_t n) { return generator() % n; };
  constexpr std::int64_t sizes[] = {1, 1, 1, 2, 3, 5, 0, 9, 17, 70, 300};
  const long cases = test::number_of_cases(10000);
  for (long i = 0; i < cases; ++i) {
    const DType dtype = dtypes_and_halves[below(dtypes_and_halves.size())];
    Shape shape;
    std::int64_t elements = 1;
    for (auto rank = below(6); rank > 0; --rank) {
      shape.push_back(sizes[below(std::size(sizes))]);
      elements *= std::max(shape.sizes().back(), std::int64_t{1});
    }
    if (elements > 20000) continue;
    const Tensor x = in_any_layout(dtype, shape, generator);
    const auto axes = static_cast<std::uint32_t>(below(1U << shape.rank()));
    const bool keep = below(2) == 0;
    // A product of many of these numbers is not exact.
    const std::vector<ReduceFunction> functions =
        dtype == boolean
            ? std::vector{ReduceFunction::any_true, ReduceFunction::all_true}
            : std::vector{ReduceFunction::sum, ReduceFunction::mean, ReduceFunction::max, ReduceFunction::min};
    const ReduceFunction f = functions[below(functions.size())];
    const auto result = [&](const Tensor& from) {
      const Shape reduced_shape = without(shape, axes, keep);
      const double before = is_floating(dtype) ? std::nan("") : 77;
      Tensor y =
          tensor_of(dtype, reduced_shape, std::vector<double>(static_cast<std::size_t>(reduced_shape.size()), before));
      cpu_backend().reduce(f, from, axes, y);
      return y;
    };
    CAPTURE(i);
    CAPTURE(to_string(dtype));
    CAPTURE(to_string(shape));
    CAPTURE(axes);
    CAPTURE(static_cast<int>(f));
    CHECK(same_bits(result(x), result(row_major(x))));
  }
}

TEST_CASE("products") {
  for (const DType dtype : float_dtypes) {
    Tensor x = random_tensor(dtype, {6, 50, 3});
    std::vector<double> numbers = values(x);
    for (double& number : numbers) number = 1 + number / 1000;
    x = tensor_of(dtype, x.shape(), numbers);
    for (std::uint32_t axes = 1; axes < 8; ++axes) {
      const auto expected = reference(ReduceFunction::prod, x, axes),
                 got = reduced(ReduceFunction::prod, twisted(x), axes);
      for (std::size_t i = 0; i < got.size(); ++i)
        CHECK(got[i] == doctest::Approx(expected[i]).epsilon(dtype == float32 ? 1e-5 : 1e-13));
    }
  }
  CHECK(reduced(ReduceFunction::prod, tensor_of(int32, {3}, {2, -3, 5}), 1) == std::vector<double>{-30});
  // 3^40 modulo 2^32, as a signed number
  CHECK(reduced(ReduceFunction::prod, tensor_of(int32, {40}, std::vector<double>(40, 3)), 1) ==
        std::vector<double>{static_cast<double>(static_cast<std::int32_t>(12157665459056928801ULL))});
}

TEST_CASE("whole numbers wrap") {
  const double big = 2147483647;
  CHECK(reduced(ReduceFunction::sum, tensor_of(int32, {3}, {big, 1, 5}), 1) == std::vector<double>{-2147483648.0 + 5});
  CHECK(reduced(ReduceFunction::sum, tensor_of(uint8, {300}, std::vector<double>(300, 1)), 1) ==
        std::vector<double>{44});
}

TEST_CASE("any and all") {
  const Tensor x = random_tensor(boolean, {3, 4, 5});
  for (std::uint32_t axes = 0; axes < 8; ++axes) {
    CHECK(reduced(ReduceFunction::any_true, twisted(x), axes) == reference(ReduceFunction::any_true, x, axes));
    CHECK(reduced(ReduceFunction::all_true, twisted(x), axes) == reference(ReduceFunction::all_true, x, axes));
  }
  std::vector<double> last_true(100000, 0);
  last_true.back() = 1;
  CHECK(reduced(ReduceFunction::any_true, tensor_of(boolean, {100000}, last_true), 1) == std::vector<double>{1});
  CHECK(reduced(ReduceFunction::all_true, tensor_of(boolean, {100000}, last_true), 1) == std::vector<double>{0});
}

TEST_CASE("NaN travels through a maximum and a minimum wherever it stands") {
  const double nan = std::nan("");
  for (const DType dtype : float_dtypes) {
    for (const std::int64_t length : {1, 5, 17, 64, 100, 5000, 70000}) {
      for (const std::int64_t place : {std::int64_t{0}, length / 2, length - 1}) {
        std::vector<double> numbers(static_cast<std::size_t>(length), 2);
        numbers[static_cast<std::size_t>(place)] = nan;
        for (const ReduceFunction f : {ReduceFunction::max, ReduceFunction::min, ReduceFunction::sum}) {
          CHECK(std::isnan(reduced(f, tensor_of(dtype, {length}, numbers), 1)[0]));
          CHECK(std::isnan(reduced(f, tensor_of(dtype, {length, 1}, numbers), 1)[0]));
        }
      }
    }
    const Tensor columns = tensor_of(dtype, {3, 2}, {1, 2, nan, 4, 5, 6});
    const auto got = reduced(ReduceFunction::max, columns, 1);
    CHECK(std::isnan(got[0]));
    CHECK(got[1] == 6);
  }
}

TEST_CASE("over nothing") {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const DType dtype : float_dtypes) {
    const Tensor x = empty(dtype, {0, 3});
    CHECK(reduced(ReduceFunction::sum, x, 1) == std::vector<double>{0, 0, 0});
    CHECK(reduced(ReduceFunction::prod, x, 1) == std::vector<double>{1, 1, 1});
    CHECK(reduced(ReduceFunction::max, x, 1) == std::vector<double>(3, -infinity));
    CHECK(reduced(ReduceFunction::min, x, 3) == std::vector<double>{infinity});
    CHECK(std::isnan(reduced(ReduceFunction::mean, x, 3)[0]));
    CHECK(reduced(ReduceFunction::sum, x, 2).empty());
  }
  const Tensor ints = empty(int32, {2, 0});
  CHECK(reduced(ReduceFunction::max, ints, 2) == std::vector<double>(2, -2147483648.0));
  CHECK(reduced(ReduceFunction::min, ints, 2) == std::vector<double>(2, 2147483647.0));
  CHECK(reduced(ReduceFunction::max, empty(uint8, {0}), 1) == std::vector<double>{0});
  CHECK(reduced(ReduceFunction::min, empty(uint8, {0}), 1) == std::vector<double>{255});
  CHECK(reduced(ReduceFunction::any_true, empty(boolean, {0}), 1) == std::vector<double>{0});
  CHECK(reduced(ReduceFunction::all_true, empty(boolean, {0}), 1) == std::vector<double>{1});
}

TEST_CASE("large sums are split, accurate, and the same for any number of threads") {
  const Tensor x = random_tensor(float32, {1 << 21}, 5);
  double exact = 0;
  for (const double value : values(x)) exact += value;
  const Tensor y = empty(float32, {});
  cpu_backend().reduce(ReduceFunction::sum, x, 1, y);
  CHECK(values(y)[0] == doctest::Approx(exact).epsilon(1e-7));

  const Tensor ones = tensor_of(float32, {3000000}, std::vector<double>(3000000, 0.1));
  cpu_backend().reduce(ReduceFunction::mean, ones, 1, y);
  CHECK(values(y)[0] == doctest::Approx(0.1).epsilon(1e-7));

  const auto view = [&](const Shape& shape) { return detail::make_view(x, shape, row_major_strides(shape)); };
  const auto sum = [&](const Tensor& from, std::uint32_t axes) {
    return same_for_any_threads(float32, without(from.shape(), axes, false),
                                [&](const Tensor& to) { cpu_backend().reduce(ReduceFunction::sum, from, axes, to); });
  };
  CHECK(sum(x, 1));
  CHECK(sum(view({2048, 1024}), 1));
  CHECK(sum(view({2048, 1024}), 2));
  CHECK(sum(view({1 << 20, 2}), 1));
  CHECK(sum(view({1 << 17, 16}), 1));
  CHECK(sum(view({8, 1 << 16, 4}), 2));
  CHECK(sum(view({16, 1 << 13, 16}), 5));
  CHECK(sum(twisted(view({128, 128, 128})), 6));
}

TEST_CASE("running sums and products") {
  for (const DType dtype : all_dtypes) {
    for (const Shape& shape : {Shape{5}, Shape{1}, Shape{3, 4, 5}, Shape{0, 3}, Shape{40, 3000}}) {
      const Tensor x = random_tensor(dtype, shape);
      for (int axis = 0; axis < shape.rank(); ++axis) {
        for (const bool exclusive : {false, true}) {
          for (const bool reverse : {false, true}) {
            const std::vector<double> from = values(x);
            std::vector<double> expected(from.size());
            std::int64_t inner = 1;
            for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape.sizes()[i];
            const std::int64_t length = shape.sizes()[axis];
            for (std::int64_t start = 0; start < x.size(); ++start) {
              if (start / inner % length != 0) continue;
              double total = 0;
              for (std::int64_t i = 0; i < length; ++i) {
                const auto place = static_cast<std::size_t>(start + (reverse ? length - 1 - i : i) * inner);
                const double before = total;
                total = dtype == boolean ? std::max(total, from[place]) : total + from[place];
                expected[place] = as_dtype(exclusive ? before : total, dtype);
              }
            }
            const Tensor y = empty(dtype, shape);
            cpu_backend().scan(Scan::sum, twisted(x), axis, exclusive, reverse, y);
            const std::vector<double> got = values(y);
            double worst = 0;
            for (std::size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::abs(got[i] - expected[i]));
            CHECK(worst <= (dtype == float32 ? 1e-3 : dtype == float64 ? 1e-10 : 0.0));
          }
        }
      }
    }
  }
  const Tensor y = empty(int32, {4});
  cpu_backend().scan(Scan::prod, tensor_of(int32, {4}, {1, 2, 3, 4}), 0, false, false, y);
  CHECK(values(y) == std::vector<double>{1, 2, 6, 24});
  cpu_backend().scan(Scan::prod, tensor_of(int32, {4}, {1, 2, 3, 4}), 0, true, true, y);
  CHECK(values(y) == std::vector<double>{24, 12, 4, 1});
}

TEST_CASE("positions of the largest and smallest") {
  const double nan = std::nan("");
  for (const DType dtype : dtypes_and_halves) {
    for (const Shape& shape : {Shape{9}, Shape{1}, Shape{3, 4, 5}, Shape{7, 0}, Shape{9000}, Shape{20, 3000}}) {
      const Tensor x = random_tensor(dtype, shape, 3);
      for (int axis = 0; axis < shape.rank(); ++axis) {
        if (shape.sizes()[axis] == 0) continue;
        for (const ArgReduce f : {ArgReduce::max, ArgReduce::min}) {
          for (const DType result : {int32, int64}) {
            const std::vector<double> from = values(x);
            std::int64_t inner = 1;
            for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape.sizes()[i];
            std::vector<double> expected;
            for (std::int64_t start = 0; start < x.size(); ++start) {
              if (start / inner % shape.sizes()[axis] != 0) continue;
              std::int64_t best = 0;
              for (std::int64_t i = 1; i < shape.sizes()[axis]; ++i) {
                const double value = from[static_cast<std::size_t>(start + i * inner)];
                const double so_far = from[static_cast<std::size_t>(start + best * inner)];
                if (f == ArgReduce::max ? value > so_far : value < so_far) best = i;
              }
              expected.push_back(static_cast<double>(best));
            }
            const Tensor y = empty(result, without(shape, 1U << axis, false));
            cpu_backend().arg_reduce(f, twisted(x), axis, y);
            CHECK(values(y) == expected);
          }
        }
      }
    }
  }
  const Tensor y = empty(int64, {});
  for (const DType dtype : float_dtypes) {
    std::vector<double> numbers(10000, 1);
    numbers[6000] = 5;
    numbers[7000] = nan;
    numbers[7001] = nan;
    cpu_backend().arg_reduce(ArgReduce::max, tensor_of(dtype, {10000}, numbers), 0, y);
    CHECK(values(y)[0] == 7000);
    const Tensor two = empty(int32, {2});
    cpu_backend().arg_reduce(ArgReduce::min, tensor_of(dtype, {3, 2}, {1, nan, -2, nan, nan, -3}), 0, two);
    CHECK(values(two) == std::vector<double>{2, 0});
  }
}

#ifdef __x86_64__
TEST_CASE("the levels of the processor give the same bits") {
  using namespace host;
  const Tensor x = random_tensor(float32, {70001}, 2);
  const auto sums = [&](const ReduceTable& table) {
    std::vector<float> result(300);
    const auto sum = table.sum[static_cast<std::size_t>(ReduceTypes::f32)];
    for (std::int64_t n = 0; n < 100; ++n)
      sum.rows(x.impl().data, n * 700 + n, 1, 1, 0, &result[static_cast<std::size_t>(n)], 1, 1, nullptr);
    sum.columns(x.impl().data, 350, 200, 200, 1, &result[100], 1, 1, {});
    return result;
  };
  const auto expected = sums(v2::reduce_table);
  if (cpu_level() >= Level::v3) CHECK(sums(v3::reduce_table) == expected);
  if (cpu_level() >= Level::v4) CHECK(sums(v4::reduce_table) == expected);
}
#endif

}  // namespace kernels_reduce_test
