// The element functions of the CUDA kernels against the CPU backend: compiled by nvcc, but for the host, they run
// without a GPU. What remains to be seen on one is CUDA's own exp, sin and so on.

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "host_formulas.hpp"
#include "kernels_support.hpp"

namespace tapestry::testing {
namespace {

using gpu::HostLoop;

gpu::Type type_of(DType dtype) { return static_cast<gpu::Type>(dtype); }

constexpr std::int64_t count = 2000;

/// Ordinary numbers, and for floats those where functions are not ordinary.
Tensor arguments(DType dtype, unsigned seed) {
  Tensor x = random_tensor(dtype, {count}, seed);
  if (!is_floating(dtype)) return x;
  constexpr double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> special = {0.0,  -0.0,         1,     -1,     0.5, -0.5, 2.5, -2.5, inf,
                                       -inf, std::nan(""), 1e-30, -1e-30, 88,  -104, 700, -700, 1e5};
  detail::visit_dtype(dtype, [&]<class T>() {
    for (std::size_t i = 0; i < special.size(); ++i)
      detail::mutable_data<T>(x)[static_cast<std::size_t>(seed) * 31 % 97 + i] = static_cast<T>(special[i]);
    // Half of the rest is small, so that asin and its like have something to do.
    for (std::int64_t i = 200; i < count; i += 2) {
      T& each = detail::mutable_data<T>(x)[i];
      each = static_cast<T>(each / 16);
    }
  });
  return x;
}

/// Whole numbers by which others can be divided, and to which they can be raised.
Tensor positive(const Tensor& x) {
  std::vector<double> numbers = values(x);
  for (double& number : numbers) number = 1 + std::fmod(std::abs(number), 6);
  return tensor_of(x.dtype(), x.shape(), numbers);
}

Tensor run(HostLoop loop, const Tensor& a, const Tensor& b, const Tensor& c, double number, DType to) {
  Tensor y = empty(to, {count});
  loop(a.impl().data, b.impl().data, c.impl().data, y.impl().data, count, number);
  return y;
}

void check_agreement(const Tensor& actual, const Tensor& expected, const std::string& name) {
  // Both stay within some units in the last place of the true value.
  const double tolerance = actual.dtype() == float32 ? 2e-6 : actual.dtype() == float64 ? 1e-14 : 0;
  for (std::int64_t i = 0; i < actual.size(); ++i) {
    const double a = element(actual, i), b = element(expected, i);
    const bool agree = a == b || (std::isnan(a) && std::isnan(b)) ||
                       std::abs(a - b) <= tolerance * std::max({1.0, std::abs(a), std::abs(b)});
    if (agree) continue;
    FAIL_CHECK(name, " of ", to_string(actual.dtype()), ", element ", i, ": ", a, ", not ", b);
    return;
  }
}

/// Whether the CPU has a function for a type; if so, `expected` holds its results.
template <class F>
bool is_defined(const F& f) {
  try {
    f();
    return true;
  } catch (const InvalidArgumentError&) {
    return false;
  }
}

TEST_SUITE("CUDA formulas on the host") {
  TEST_CASE("unary functions are the CPU's") {
    for (int i = 0; i <= static_cast<int>(Unary::logical_not); ++i) {
      const auto f = static_cast<Unary>(i);
      for (const DType dtype : all_dtypes) {
        const Tensor x = arguments(dtype, 1);
        const bool predicate = f == Unary::is_nan || f == Unary::is_finite;
        const Tensor expected = empty(predicate ? boolean : dtype, {count});
        const HostLoop loop = gpu::host_unary(f, type_of(dtype));
        INFO("unary ", i, " of ", to_string(dtype));
        REQUIRE(is_defined([&] { cpu_backend().unary(f, x, 0.3, expected); }) == (loop != nullptr));
        if (loop) check_agreement(run(loop, x, x, x, 0.3, expected.dtype()), expected, "unary " + std::to_string(i));
      }
    }
  }

  TEST_CASE("binary functions are the CPU's") {
    for (int i = 0; i <= static_cast<int>(Binary::logical_or); ++i) {
      const auto f = static_cast<Binary>(i);
      for (const DType dtype : all_dtypes) {
        const bool partial =
            is_integer(dtype) && (f == Binary::floor_mod || f == Binary::floor_divide || f == Binary::power);
        const Tensor a = arguments(dtype, 1), b = partial ? positive(arguments(dtype, 2)) : arguments(dtype, 2);
        const bool predicate = f >= Binary::equal;
        const Tensor expected = empty(predicate ? boolean : dtype, {count});
        const HostLoop loop = gpu::host_binary(f, type_of(dtype));
        INFO("binary ", i, " of ", to_string(dtype));
        REQUIRE(is_defined([&] { cpu_backend().binary(f, a, b, 0.3, expected); }) == (loop != nullptr));
        if (loop) check_agreement(run(loop, a, b, a, 0.3, expected.dtype()), expected, "binary " + std::to_string(i));
      }
    }
  }

  TEST_CASE("ternary functions are the CPU's") {
    for (const Ternary f : {Ternary::clip, Ternary::select}) {
      for (const DType dtype : all_dtypes) {
        const Tensor a = arguments(f == Ternary::select ? boolean : dtype, 1);
        const Tensor b = arguments(dtype, 2), c = arguments(dtype, 3), expected = empty(dtype, {count});
        const HostLoop loop = gpu::host_ternary(f, type_of(dtype));
        REQUIRE(is_defined([&] { cpu_backend().ternary(f, a, b, c, expected); }) == (loop != nullptr));
        if (loop) check_agreement(run(loop, a, b, c, 0, dtype), expected, "ternary");
      }
    }
  }

  TEST_CASE("conversions are the CPU's, also out of range") {
    for (const DType from : all_dtypes) {
      Tensor x = arguments(from, 1);
      if (is_floating(from)) {
        const std::vector<double> far = {255, 255.5, 256, -1, 2147483647, 2147483648.0, -2147483649.0, 9.3e18, -9.3e18};
        detail::visit_dtype(from, [&]<class T>() {
          for (std::size_t i = 0; i < far.size(); ++i) detail::mutable_data<T>(x)[300 + i] = static_cast<T>(far[i]);
        });
      }
      for (const DType to : all_dtypes) {
        const Tensor expected = empty(to, {count});
        cpu_backend().copy(x, expected);
        const Tensor actual = run(gpu::host_convert(type_of(from), type_of(to)), x, x, x, 0, to);
        for (std::int64_t i = 0; i < count; ++i) {
          INFO(to_string(from), " to ", to_string(to), ", ", element(x, i));
          const double a = element(actual, i), b = element(expected, i);
          REQUIRE((a == b || (std::isnan(a) && std::isnan(b))));
        }
      }
    }
  }

  TEST_CASE("random numbers have the CPU's bits") {
    constexpr std::uint64_t key = 0x123456789abcdef0, offset = (std::uint64_t{1} << 32) - 100;
    for (const DType dtype : float_dtypes) {
      for (const auto f :
           {Distribution::uniform, Distribution::bernoulli, Distribution::normal, Distribution::truncated_normal}) {
        const double a = f == Distribution::bernoulli ? 0.3 : -1.5, b = 2.25;
        const Tensor expected = empty(dtype, {count}), actual = empty(dtype, {count});
        cpu_backend().random(f, key, offset, a, b, expected);
        const double top = dtype == float32 ? std::nextafter(2.25F, 0.0F) : std::nextafter(2.25, 0.0);
        gpu::host_floats(type_of(dtype), static_cast<gpu::RandomKind>(f), key, offset, a, b, top, actual.impl().data,
                         count);
        // A processor that cannot fuse a multiplication with an addition has other last bits.
        const bool exact = f == Distribution::uniform || f == Distribution::bernoulli || __builtin_cpu_supports("fma");
        for (std::int64_t i = 0; i < count; ++i) {
          INFO(to_string(dtype), ", distribution ", static_cast<int>(f), ", element ", i);
          const double difference = std::abs(element(actual, i) - element(expected, i));
          REQUIRE(difference <= (exact ? 0.0 : 1e-5));
        }
      }
    }
    for (const DType dtype : {int32, int64}) {
      const Tensor expected = empty(dtype, {count}), actual = empty(dtype, {count});
      cpu_backend().random(Distribution::uniform, key, offset, -5, 1000, expected);
      gpu::host_whole(type_of(dtype), key, offset, -5, 1005, actual.impl().data, count);
      CHECK(values(actual) == values(expected));
    }
  }
}

}  // namespace
}  // namespace tapestry::testing
