// The CPU's scalar mathematics: accuracy against libm in long double, special values, and the promise that an element's
// bits depend neither on its place in the array nor, where multiplications and additions are fused, on the level of
// x86-64.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "backend/cpu/kernels/elementwise.hpp"

namespace kernels_math_test {

using namespace tapestry;
using Long = long double;

namespace {

struct Named {
  std::string name;
  Unary f;
  Long (*exact)(Long);
  double low, high;                  ///< the interval of the samples
  double bound_float, bound_double;  ///< units in the last place
};

Long sigmoid(Long x) { return 1 / (1 + std::exp(-x)); }
Long softplus(Long x) { return (x > 0 ? x : 0) + std::log1p(std::exp(-std::fabs(x))); }
template <Long (*f)(Long)>
Long call(Long x) {
  return f(x);
}

const Named functions[] = {
    {"exp", Unary::exp, [](Long x) { return std::exp(x); }, -104, 89, 1.1, 1.1},
    {"expm1", Unary::expm1, [](Long x) { return std::expm1(x); }, -20, 89, 1.8, 2.3},
    {"log", Unary::log, [](Long x) { return std::log(x); }, 0, 1e38, 0.9, 0.9},
    {"log1p", Unary::log1p, [](Long x) { return std::log1p(x); }, -1, 1e38, 1.4, 1.4},
    {"sin", Unary::sin, [](Long x) { return std::sin(x); }, -1e7, 1e7, 0.51, 0.6},
    {"cos", Unary::cos, [](Long x) { return std::cos(x); }, -1e7, 1e7, 0.51, 0.6},
    {"tan", Unary::tan, [](Long x) { return std::tan(x); }, -1e7, 1e7, 0.51, 0.7},
    {"asin", Unary::asin, [](Long x) { return std::asin(x); }, -1, 1, 0.51, 0.6},
    {"acos", Unary::acos, [](Long x) { return std::acos(x); }, -1, 1, 0.51, 0.6},
    {"atan", Unary::atan, [](Long x) { return std::atan(x); }, -1e38, 1e38, 0.51, 0.6},
    {"sinh", Unary::sinh, [](Long x) { return std::sinh(x); }, -90, 90, 0.51, 2},
    {"cosh", Unary::cosh, [](Long x) { return std::cosh(x); }, -90, 90, 0.51, 1.1},
    {"tanh", Unary::tanh, [](Long x) { return std::tanh(x); }, -12, 12, 2.5, 2.6},
    {"erf", Unary::erf, [](Long x) { return std::erf(x); }, -5, 5, 1.4, 1.1},
    {"sigmoid", Unary::sigmoid, call<sigmoid>, -104, 30, 2.4, 2.4},
    {"softplus", Unary::softplus, call<softplus>, -104, 100, 1.8, 1.8},
};

template <class T>
constexpr DType dtype = std::is_same_v<T, float> ? float32 : float64;

template <class T>
using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

template <class T>
Bits<T> bits(T x) {
  Bits<T> result;
  std::memcpy(&result, &x, sizeof x);
  return result;
}

template <class T>
T from_bits(Bits<T> pattern) {
  T result;
  std::memcpy(&result, &pattern, sizeof pattern);
  return result;
}

/// The error in units of the last place of the exact value's rounding; infinite where only one of the two is a number.
template <class T>
double error(T got, Long exact) {
  if (std::isnan(exact)) return std::isnan(got) ? 0 : std::numeric_limits<double>::infinity();
  const T rounded = static_cast<T>(exact);
  if (std::isinf(rounded) || !std::isfinite(got)) {
    // Half a unit around the threshold of overflow either result is right.
    const Long largest = std::numeric_limits<T>::max();
    const bool at_threshold = std::fabs(std::fabs(exact) / largest - 1) < 4 * std::numeric_limits<T>::epsilon();
    return got == rounded || (at_threshold && !std::isnan(got)) ? 0 : std::numeric_limits<double>::infinity();
  }
  const T magnitude = std::fabs(rounded);
  T unit = std::nextafter(magnitude, std::numeric_limits<T>::infinity()) - magnitude;
  if (std::isinf(unit)) unit = magnitude - std::nextafter(magnitude, T(0));
  return static_cast<double>(std::fabs(static_cast<Long>(got) - exact) / unit);
}

/// Numbers of the whole interval, near zero, and of every magnitude.
template <class T>
std::vector<T> samples(double low, double high, std::size_t count = 40000) {
  std::mt19937_64 generator(7);
  std::uniform_real_distribution<double> wide(std::max(low, -1e7), std::min(high, 1e7));
  std::uniform_real_distribution<double> narrow(std::max(low, -1.0), std::min(high, 1.0));
  std::vector<T> x;
  while (x.size() < count) {
    x.push_back(static_cast<T>(wide(generator)));
    x.push_back(static_cast<T>(narrow(generator)));
    T any;
    const auto pattern = static_cast<Bits<T>>(generator());
    std::memcpy(&any, &pattern, sizeof any);
    if (any >= static_cast<T>(low) && any <= static_cast<T>(high)) x.push_back(any);
  }
  return x;
}

template <class T>
std::vector<T> special_values() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> x = {0,
                      T(0.5),
                      1,
                      2,
                      T(1e-5),
                      T(1e30),
                      T(3e5),
                      T(1.1e6),
                      T(3e9),
                      T(88.8),
                      T(709.7),
                      T(709.8),
                      Limits::infinity(),
                      Limits::max(),
                      Limits::min(),
                      Limits::denorm_min(),
                      Limits::epsilon()};
  for (std::size_t i = x.size(); i-- > 0;) x.push_back(-x[i]);
  const Bits<T> nan = bits(Limits::quiet_NaN()), sign = bits(T(-0.0));
  for (const Bits<T> further : {0, 1, 0xff, 0x1ff, 0x7ff})
    for (const Bits<T> pattern : {nan | further, nan | further | sign}) x.push_back(from_bits<T>(pattern));
  return x;
}

template <class T>
std::vector<T> run(const host::UnaryTable& table, Unary f, const std::vector<T>& x) {
  std::vector<T> y(x.size());
  table.rows[static_cast<std::size_t>(f)][static_cast<std::size_t>(dtype<T>)](x.data(), y.data(),
                                                                              static_cast<std::int64_t>(x.size()), 0.3);
  return y;
}

struct LevelTables {
  std::string name;
  const host::UnaryTable* unary;
  const host::BinaryTable* binary;
};
std::vector<LevelTables> levels() {
#ifdef __x86_64__
  std::vector<LevelTables> all = {{"v2", &host::v2::unary_table, &host::v2::binary_table}};
  if (host::cpu_level() >= host::Level::v3) all.push_back({"v3", &host::v3::unary_table, &host::v3::binary_table});
  if (host::cpu_level() >= host::Level::v4) all.push_back({"v4", &host::v4::unary_table, &host::v4::binary_table});
  return all;
#else
  return {{"portable", &host::portable::unary_table, &host::portable::binary_table}};
#endif
}

/// The level that gives the same bits: v3 and v4 both fuse multiplications and additions, v2 cannot.
const LevelTables& twin_of(const LevelTables& level, const std::vector<LevelTables>& all) {
  return level.name == "v4" ? all[1] : level;
}

template <class T>
bool same(T a, T b) {
  return bits(a) == bits(b) || (std::isnan(a) && std::isnan(b));
}

const std::vector<Unary> all_float_functions = [] {
  std::vector<Unary> all;
#define TAPESTRY_LIST(name, formula) all.push_back(Unary::name);
  TAPESTRY_UNARY_FLOAT(TAPESTRY_LIST)
  TAPESTRY_UNARY_NUMBER(TAPESTRY_LIST)
#undef TAPESTRY_LIST
  return all;
}();

}  // namespace

TEST_CASE_TEMPLATE("the functions are accurate", T, float, double) {
  for (const Named& function : functions) {
    CAPTURE(function.name);
    const auto x = samples<T>(function.low, function.high);
    std::vector<Long> exact;
    for (const T each : x) exact.push_back(function.exact(each));
    for (const LevelTables& level : levels()) {
      CAPTURE(level.name);
      const auto y = run(*level.unary, function.f, x);
      double worst = 0;
      T where = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double e = error(y[i], exact[i]);
        if (e > worst) {
          worst = e;
          where = x[i];
        }
      }
      CAPTURE(where);
      CHECK(worst <= (sizeof(T) == 4 ? function.bound_float : function.bound_double));
    }
  }
}

TEST_CASE_TEMPLATE("special values follow Annex F of C", T, float, double) {
  for (const Named& function : functions) {
    CAPTURE(function.name);
    const auto x = special_values<T>();
    for (const LevelTables& level : levels()) {
      CAPTURE(level.name);
      const auto y = run(*level.unary, function.f, x);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const Long exact = function.exact(x[i]);
        CAPTURE(x[i]);
        CHECK(error(y[i], exact) <= 3);
        if (y[i] == 0) CHECK(std::signbit(y[i]) == std::signbit(static_cast<T>(exact)));
      }
    }
  }
}

TEST_CASE_TEMPLATE("an element's bits depend neither on the level nor on its place", T, float, double) {
  auto x = samples<T>(-100, 100, 1037);
  for (const T special : special_values<T>()) x.push_back(special);
  const auto at = static_cast<std::size_t>(dtype<T>);
  for (const Unary f : all_float_functions) {
    CAPTURE(static_cast<int>(f));
    const std::vector<LevelTables> all = levels();
    for (const LevelTables& level : all) {
      CAPTURE(level.name);
      const auto expected = run(*twin_of(level, all).unary, f, x);
      const host::UnaryRow row = level.unary->rows[static_cast<std::size_t>(f)][at];
      for (std::size_t first = 0; first < 19; ++first) {
        std::vector<T> y(x.size() - first);
        row(x.data() + first, y.data(), static_cast<std::int64_t>(y.size()), 0.3);
        bool all_same = true;
        for (std::size_t i = 0; i < y.size(); ++i) all_same = all_same && same(y[i], expected[first + i]);
        CHECK(all_same);
      }
      bool alone_same = true;
      for (std::size_t i = 0; i < x.size(); ++i) {
        T y;
        row(&x[i], &y, 1, 0.3);
        alone_same = alone_same && same(y, expected[i]);
      }
      CHECK(alone_same);
    }
  }
}

TEST_CASE_TEMPLATE("a binary element's bits depend neither on the level, its place, nor on broadcasting", T, float,
                   double) {
  auto a = samples<T>(-30, 30, 600);
  for (const T special : special_values<T>()) a.push_back(special);
  std::vector<T> b(a.rbegin(), a.rend());
  const auto at = static_cast<std::size_t>(dtype<T>);
  const auto n = static_cast<std::int64_t>(a.size());
  for (const Binary f : {Binary::power, Binary::atan2, Binary::floor_mod, Binary::floor_divide, Binary::divide,
                         Binary::xlogy, Binary::softplus_grad, Binary::gelu_grad, Binary::maximum}) {
    CAPTURE(static_cast<int>(f));
    const std::vector<LevelTables> all = levels();
    for (const LevelTables& level : all) {
      CAPTURE(level.name);
      std::vector<T> expected(a.size());
      twin_of(level, all)
          .binary->rows[static_cast<std::size_t>(f)][at](a.data(), 1, b.data(), 1, expected.data(), n, 0.3);
      const host::BinaryRow row = level.binary->rows[static_cast<std::size_t>(f)][at];
      std::vector<T> y(a.size());
      row(a.data(), 1, b.data(), 1, y.data(), n, 0.3);
      bool all_same = true;
      for (std::size_t i = 0; i < y.size(); ++i) all_same = all_same && same(y[i], expected[i]);
      CHECK(all_same);
      bool scalars_same = true;
      for (std::size_t i = 0; i < y.size(); i += 7) {
        std::vector<T> left(a.size()), right(a.size());
        row(&a[i], 0, b.data(), 1, left.data(), n, 0.3);
        row(a.data(), 1, &b[i], 0, right.data(), n, 0.3);
        scalars_same = scalars_same && same(left[i], expected[i]) && same(right[i], expected[i]);
      }
      CHECK(scalars_same);
    }
  }
}

TEST_CASE("power and atan2 agree with libm, special values included") {
  auto a = special_values<float>();
  for (const float x : {3.0f, -3.0f, 0.1f, 1.5f, 25.0f, -1.0f, 0.99999994f, 1.0000001f}) a.push_back(x);
  for (const float x : a)
    for (const float y : a) {
      CAPTURE(x);
      CAPTURE(y);
      float power = 0, angle = 0;
      const auto type = static_cast<std::size_t>(float32);
      host::binary_kernels().rows[static_cast<std::size_t>(Binary::power)][type](&x, 1, &y, 1, &power, 1, 0);
      host::binary_kernels().rows[static_cast<std::size_t>(Binary::atan2)][type](&x, 1, &y, 1, &angle, 1, 0);
      const Long exact_power = std::pow(static_cast<Long>(x), static_cast<Long>(y));
      CHECK(error(power, exact_power) <= 0.51);
      if (power == 0) CHECK(std::signbit(power) == std::signbit(static_cast<float>(exact_power)));
      const Long exact_angle = std::atan2(static_cast<Long>(x), static_cast<Long>(y));
      CHECK(error(angle, exact_angle) <= 0.51);
      if (angle == 0) CHECK(std::signbit(angle) == std::signbit(static_cast<float>(exact_angle)));
    }
  for (int i = 1; i <= 1000; ++i) {
    const float x = static_cast<float>(i), two = 2, half = 0.5f;
    float square = 0, root = 0;
    const auto row =
        host::binary_kernels().rows[static_cast<std::size_t>(Binary::power)][static_cast<std::size_t>(float32)];
    row(&x, 1, &two, 1, &square, 1, 0);
    row(&x, 1, &half, 1, &root, 1, 0);
    CHECK(square == x * x);
    CHECK(root == std::sqrt(x));
  }
}

}  // namespace kernels_math_test
