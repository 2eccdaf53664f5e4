#include "tapestry/random.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <thread>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "tapestry/graph.hpp"
#include "tapestry/ops.hpp"
#include "tapestry/trace.hpp"

namespace tapestry::test::random_test {
namespace {

double mean(const Tensor& x) { return reduce_mean(x.cast(float64)).item<double>(); }
double deviation(const Tensor& x) { return std::sqrt(variance(x.cast(float64)).item<double>()); }

}  // namespace

TEST_CASE("a seed decides all numbers, and a state is a place in the stream") {
  random::seed(42);
  const Tensor first = random::normal({3, 5}), second = random::normal({3, 5});
  CHECK(values(first) != values(second));
  random::seed(42);
  check_same(random::normal({3, 5}), first);
  const random::State state = random::state();
  CHECK(state == random::State{42, 15});
  check_same(random::normal({3, 5}), second);
  random::set_state(state);
  check_same(random::normal({3, 5}), second);
  random::seed(43);
  CHECK(values(random::normal({3, 5})) != values(first));
}

TEST_CASE("numbers do not depend on the number of threads") {
  const int threads = num_threads();
  for (const DType dtype : {float32, float64, int64}) {
    const auto draw = [&](int count) {
      random::seed(5);
      set_num_threads(count);
      return random::uniform({100001}, {.low = 0, .high = 1000, .dtype = dtype});
    };
    check_same(draw(3), draw(1));
    set_num_threads(threads);
  }
}

TEST_CASE("threads share the stream without drawing a number twice") {
  random::seed(1);
  std::vector<double> all[2];
  {
    std::vector<std::thread> workers;
    for (auto& mine : all)
      workers.emplace_back([&mine] {
        for (int i = 0; i < 50; ++i)
          for (const double each : values(random::uniform({20}, {.dtype = float64}))) mine.push_back(each);
      });
    for (std::thread& worker : workers) worker.join();
  }
  CHECK(random::state().offset == 2000);
  all[0].insert(all[0].end(), all[1].begin(), all[1].end());
  std::sort(all[0].begin(), all[0].end());
  CHECK(std::adjacent_find(all[0].begin(), all[0].end()) == all[0].end());
}

TEST_CASE("a trace draws what its function draws, needed or not") {
  const auto f = [](const Tensor& x) {
    random::normal({5});
    Tensor y = x + random::uniform({2});
    random::normal({3});
    return y;
  };
  const auto traced = trace(f, {spec(float32, {2})});
  for (const bool in_trace : {false, true}) {
    CAPTURE(in_trace);
    random::seed(11);
    const Tensor once = in_trace ? traced(zeros({2})) : f(zeros({2}));
    const Tensor again = in_trace ? traced(zeros({2})) : f(zeros({2}));
    random::seed(11);
    check_same(once, f(zeros({2})));
    check_same(again, f(zeros({2})));
  }
}

TEST_CASE("the distributions are those asked for") {
  random::seed(11);
  const Shape shape{200000};
  for (const DType dtype : {float32, float64}) {
    const Tensor normal = random::normal(shape, {.mean = 3, .stddev = 2, .dtype = dtype});
    CHECK(normal.dtype() == dtype);
    CHECK(mean(normal) == doctest::Approx(3).epsilon(0.01));
    CHECK(deviation(normal) == doctest::Approx(2).epsilon(0.01));
    CHECK(mean(greater(normal, 3 + 2 * 1.0)) == doctest::Approx(0.158655).epsilon(0.03));

    const Tensor cut = random::truncated_normal(shape, {.mean = 3, .stddev = 2, .dtype = dtype});
    CHECK(reduce_min(cut).item<double>() >= -1);
    CHECK(reduce_max(cut).item<double>() <= 7);
    CHECK(deviation(cut) == doctest::Approx(2 * 0.879626).epsilon(0.01));

    const Tensor uniform = random::uniform(shape, {.low = -1, .high = 3, .dtype = dtype});
    CHECK(reduce_min(uniform).item<double>() >= -1);
    CHECK(reduce_max(uniform).item<double>() < 3);
    CHECK(mean(uniform) == doctest::Approx(1).epsilon(0.02));
    CHECK(deviation(uniform) == doctest::Approx(4 / std::sqrt(12.0)).epsilon(0.01));

    const Tensor coin = random::bernoulli(shape, 0.3, {.dtype = dtype});
    CHECK(mean(coin) == doctest::Approx(0.3).epsilon(0.02));
    check_same(coin * coin, coin);
  }
  check_values(random::bernoulli({4}, 1), {1, 1, 1, 1});
  check_values(random::bernoulli({4}, 0), {0, 0, 0, 0});
  check_values(random::normal({2}, {.mean = 5, .stddev = 0}), {5, 5});
}

TEST_CASE("whole numbers are spread over their range") {
  random::seed(3);
  const Tensor x = random::randint(-2, 4, {60000});
  CHECK(x.dtype() == int64);
  for (int value = -2; value < 4; ++value) CHECK(mean(equal(x, value)) == doctest::Approx(1.0 / 6).epsilon(0.05));
  CHECK(random::randint(0, 2, {3}, int32).dtype() == int32);
  CHECK(random::uniform({3}, {.low = 0, .high = 5, .dtype = int32}).dtype() == int32);
}

TEST_CASE("categorical draws each class as often as its logit says, and one number of the stream for each") {
  random::seed(4);
  constexpr std::int64_t count = 40000;
  const double never = -infinity;
  const Tensor logits = tensor<double>({{0, 1, never, 2}, {300, never, 300, 299}, {never, -4, -4, -4}});
  for (const DType dtype : {float32, float64}) {
    const std::uint64_t before = random::state().offset;
    const Tensor drawn = random::categorical(logits.cast(dtype), count);
    CHECK(random::state().offset - before == 3 * count);
    CHECK(drawn.dtype() == int64);
    CHECK(drawn.shape() == Shape{3, count});
    const Tensor expected = softmax(logits);
    for (int row = 0; row < 3; ++row)
      for (int k = 0; k < 4; ++k) {
        INFO("row ", row, ", class ", k);
        const double p = expected(row, k).item<double>(), found = mean(equal(drawn(row), k));
        // Four deviations of a binomial distribution.
        CHECK(std::abs(found - p) <= 4 * std::sqrt(p * (1 - p) / count));
      }
  }
  // Samples are independent of each other: neighbours are equal as often as two draws are.
  const Tensor coins = random::categorical(zeros({2}), count);
  CHECK(coins.shape() == Shape{count});
  CHECK(mean(equal(coins(range(1, count)), coins(range(0, count - 1)))) == doctest::Approx(0.5).epsilon(0.02));

  CHECK(random::categorical({{1, 2}}).dtype() == int64);
  CHECK(random::categorical(zeros({0, 3}), 2).shape() == Shape{0, 2});
  check_values(random::categorical({{never, never}, {not_a_number, 0.0}}, 2), {0, 0, 0, 0});
  for (const auto& [bad, samples] :
       {std::pair{zeros({2, 0}), 1}, {zeros({2, 2, 2}), 1}, {zeros({}), 1}, {zeros({2}), -1}})
    CHECK_THROWS_AS(random::categorical(bad, samples), InvalidArgumentError);
}

TEST_CASE("permutations hold every number once") {
  random::seed(9);
  const std::vector<double> order = values(random::permutation(1000));
  std::vector<double> sorted = order, expected(1000);
  std::iota(expected.begin(), expected.end(), 0);
  CHECK(order != expected);
  std::sort(sorted.begin(), sorted.end());
  CHECK(sorted == expected);
  // Every one of the 6 orders of 3 numbers is as likely as the others.
  std::vector<int> count(27);
  for (int i = 0; i < 6000; ++i) {
    const auto p = values(random::permutation(3));
    ++count[static_cast<std::size_t>(9 * p[0] + 3 * p[1] + p[2])];
  }
  for (const int each : count) CHECK((each == 0 || (each > 870 && each < 1130)));
  CHECK(std::count(count.begin(), count.end(), 0) == 21);

  const Tensor rows = tensor({{1, 10}, {2, 20}, {3, 30}, {4, 40}});
  const Tensor shuffled = random::shuffle(rows);
  check_same(shuffled(all, 1), shuffled(all, 0) * 10);
  check_same(sort(shuffled, 0), rows);
  CHECK(random::permutation(0).shape() == Shape{0});
}

TEST_CASE("random functions say what they cannot do") {
  const auto dtype = caught<InvalidArgumentError>([] { random::normal({2}, {.dtype = int32}); });
  CHECK(place(dtype) == line_before());
  CHECK(dtype.message() ==
        "Value for attr 'dtype' of int32 is not in the list of allowed values: half, bfloat16, float, double");
  CHECK_THROWS_AS(random::normal({2}, {.stddev = -1}), InvalidArgumentError);
  CHECK_THROWS_AS(random::normal({-1}), InvalidArgumentError);
  CHECK(caught([] { random::randint(3, 3, {2}); }).message().starts_with("Need minval < maxval, got 3"));
  CHECK_THROWS_AS(random::randint(0, 2, {2}, float32), InvalidArgumentError);
  CHECK_THROWS_AS(random::randint(0, (std::int64_t{1} << 53) + 1, {2}), InvalidArgumentError);
  CHECK_THROWS_AS(random::uniform({2}, {.low = 1, .high = 1}), InvalidArgumentError);
  CHECK_THROWS_AS(random::bernoulli({2}, 1.5), InvalidArgumentError);
  CHECK_THROWS_AS(random::permutation(-1), InvalidArgumentError);
  CHECK_THROWS_AS(random::shuffle(tensor(1.0)), InvalidArgumentError);
}

}  // namespace tapestry::test::random_test
