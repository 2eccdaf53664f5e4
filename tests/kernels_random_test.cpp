#include <algorithm>
#include <cmath>
#include <set>

#include <doctest/doctest.h>

#include "backend/cpu/kernels/random.hpp"
#include "backend/philox.hpp"
#include "kernels_support.hpp"

namespace kernels_random_test {

using namespace tapestry;
using namespace tapestry::testing;

namespace {

Tensor drawn(Distribution f, DType dtype, std::int64_t n, double a, double b, std::uint64_t key = 7,
             std::uint64_t offset = 0) {
  Tensor y = empty(dtype, {n});
  cpu_backend().random(f, key, offset, a, b, y);
  return y;
}

struct SampleMoments {
  double mean = 0, variance = 0, skew = 0, kurtosis = 0;
};
SampleMoments moments(const std::vector<double>& x) {
  SampleMoments m;
  const auto n = static_cast<double>(x.size());
  for (const double v : x) m.mean += v / n;
  for (const double v : x) m.variance += (v - m.mean) * (v - m.mean) / n;
  for (const double v : x) {
    const double z = (v - m.mean) / std::sqrt(m.variance);
    m.skew += z * z * z / n;
    m.kurtosis += z * z * z * z / n;
  }
  return m;
}

}  // namespace

TEST_CASE("Philox gives the published answers") {
  const auto zero = philox::block(0, 0);
  const philox::Word expected[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  CHECK(std::equal(expected, expected + 4, zero.words));
  constexpr philox::Word ones = 0xffffffff;
  const auto full = philox::scramble({{ones, ones, ones, ones}}, ones, ones);
  const philox::Word others[] = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
  CHECK(std::equal(others, others + 4, full.words));
}

TEST_CASE("element i comes from block i / 4 or i / 2, whoever draws it") {
  constexpr std::uint64_t key = 0x123456789abcdef0, offset = (std::uint64_t{1} << 32) - 3;
  const auto floats = values(drawn(Distribution::uniform, float32, 1001, 0, 1, key, offset));
  const auto doubles = values(drawn(Distribution::uniform, float64, 1001, 0, 1, key, offset));
  const auto whole = values(drawn(Distribution::uniform, int32, 1001, -5, 1000, key, offset));
  for (std::uint64_t i = 0; i < 1001; ++i) {
    const auto four = philox::block(key, offset + i / 4), two = philox::block(key, offset + i / 2);
    CHECK(floats[i] == static_cast<double>(philox::unit_float(four.words[i % 4])));
    CHECK(doubles[i] == philox::unit_double(two.words[i % 2 * 2], two.words[i % 2 * 2 + 1]));
    CHECK(whole[i] == std::floor(static_cast<double>(two.words[i % 2 * 2]) / 4294967296.0 * 1005) - 5);
  }
  for (const Distribution f :
       {Distribution::uniform, Distribution::normal, Distribution::truncated_normal, Distribution::bernoulli}) {
    for (const DType dtype : float_dtypes) {
      const std::int64_t per_block = dtype == float32 ? 4 : 2;
      const auto whole_run = values(drawn(f, dtype, 5000, 0.5, 2, key));
      const auto tail = values(drawn(f, dtype, 5000 - 40 * per_block, 0.5, 2, key, 40));
      CHECK(std::equal(tail.begin(), tail.end(), whole_run.begin() + 40 * per_block));
      const auto fewer = values(drawn(f, dtype, 13, 0.5, 2, key));
      CHECK(std::equal(fewer.begin(), fewer.end(), whole_run.begin()));
    }
  }
}

TEST_CASE("numbers do not depend on the number of threads") {
  for (const DType dtype : {float32, float64, int32, int64})
    CHECK(same_for_any_threads(dtype, {100003},
                               [](const Tensor& y) { cpu_backend().random(Distribution::uniform, 3, 5, 0, 100, y); }));
  for (const DType dtype : float_dtypes)
    CHECK(same_for_any_threads(
        dtype, {100003}, [](const Tensor& y) { cpu_backend().random(Distribution::truncated_normal, 3, 5, 0, 1, y); }));
}

#ifdef __x86_64__
TEST_CASE("the levels of the processor that fuse multiplications and additions give the same bits") {
  using namespace host;
  for (const RandomKind kind : {RandomKind::uniform, RandomKind::normal, RandomKind::truncated_normal}) {
    const auto drawn_by = [&](const RandomTable& table) {
      std::vector<float> numbers(1003);
      table.f32(kind, 9, 1, 1, 2, 3, numbers.data(), 1003);
      return numbers;
    };
    const auto plain = drawn_by(v2::random_table);
    if (cpu_level() < Level::v3) continue;
    const auto fused = drawn_by(v3::random_table);
    CHECK(are_close(plain, fused));
    if (kind == RandomKind::uniform) CHECK(plain == fused);
    if (cpu_level() >= Level::v4) CHECK(drawn_by(v4::random_table) == fused);
  }
}
#endif

TEST_CASE("uniform numbers fill their interval") {
  for (const DType dtype : float_dtypes) {
    const auto x = values(drawn(Distribution::uniform, dtype, 400000, 1, 2));
    const SampleMoments m = moments(x);
    CHECK(m.mean == doctest::Approx(1.5).epsilon(0.002));
    CHECK(m.variance == doctest::Approx(1.0 / 12).epsilon(0.01));
    CHECK(*std::min_element(x.begin(), x.end()) >= 1);
    CHECK(*std::max_element(x.begin(), x.end()) < 2);
    for (const double value : values(drawn(Distribution::uniform, dtype, 10000, -1, -1))) CHECK(value == -1);
  }
  // So narrow an interval that only its lower end is left.
  for (const double value : values(drawn(Distribution::uniform, float32, 5000, 1, std::nextafter(1.0F, 2.0F))))
    CHECK(value == 1);
  const auto dice = values(drawn(Distribution::uniform, int64, 60000, 1, 7));
  for (int face = 1; face <= 6; ++face)
    CHECK(std::count(dice.begin(), dice.end(), face) == doctest::Approx(10000).epsilon(0.05));
  const auto wide = values(drawn(Distribution::uniform, int64, 1000, -9e18, 9e18));
  CHECK(*std::min_element(wide.begin(), wide.end()) < -8e18);
  CHECK(*std::max_element(wide.begin(), wide.end()) > 8e18);
  CHECK(drawn(Distribution::uniform, float32, 0, 0, 1).size() == 0);
}

TEST_CASE("normal numbers have their moments and tails") {
  for (const DType dtype : float_dtypes) {
    const auto x = values(drawn(Distribution::normal, dtype, 1000000, 3, 2));
    const SampleMoments m = moments(x);
    CHECK(m.mean == doctest::Approx(3).epsilon(0.003));
    CHECK(m.variance == doctest::Approx(4).epsilon(0.01));
    CHECK(std::abs(m.skew) < 0.01);
    CHECK(m.kurtosis == doctest::Approx(3).epsilon(0.01));
    const auto beyond = std::count_if(x.begin(), x.end(), [](double v) { return std::abs(v - 3) > 6; });
    CHECK(static_cast<double>(beyond) / 1e6 == doctest::Approx(0.0027).epsilon(0.1));
    double neighbours = 0;  // Box and Muller's two numbers must not go together
    for (std::size_t i = 0; i + 1 < x.size(); i += 2) neighbours += (x[i] - 3) * (x[i + 1] - 3) / 4;
    CHECK(std::abs(neighbours / 5e5) < 0.01);
  }
  // Against the formula itself.
  const auto got = values(drawn(Distribution::normal, float64, 2000, 0, 1, 11));
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const auto block = philox::block(11, i);
    const double radius = std::sqrt(-2 * std::log(philox::unit_double(block.words[0], block.words[1]) + 0x1p-53));
    const double angle = 2 * 3.14159265358979323846 * philox::unit_double(block.words[2], block.words[3]);
    CHECK(std::abs(got[2 * i] - radius * std::cos(angle)) < 1e-14);
    CHECK(std::abs(got[2 * i + 1] - radius * std::sin(angle)) < 1e-14);
  }
}

TEST_CASE("truncated normal numbers stay within two deviations, bernoulli numbers are 0 or 1") {
  for (const DType dtype : float_dtypes) {
    const auto x = values(drawn(Distribution::truncated_normal, dtype, 300000, 1, 0.5));
    const SampleMoments m = moments(x);
    CHECK(m.mean == doctest::Approx(1).epsilon(0.005));
    CHECK(m.variance == doctest::Approx(0.25 * 0.7737).epsilon(0.01));
    CHECK(*std::max_element(x.begin(), x.end()) <= 2);
    CHECK(*std::min_element(x.begin(), x.end()) >= 0);
    const auto coins = values(drawn(Distribution::bernoulli, dtype, 200000, 0.3, 0));
    CHECK(std::set<double>(coins.begin(), coins.end()) == std::set<double>{0, 1});
    CHECK(moments(coins).mean == doctest::Approx(0.3).epsilon(0.02));
  }
}

}  // namespace kernels_random_test
