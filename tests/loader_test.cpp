#include "tapestry/data/loader.hpp"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <thread>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "refused.hpp"
#include "tapestry/graph.hpp"
#include "tapestry/ops.hpp"

namespace loader_test {

using namespace tapestry;
using namespace tapestry::test;
using data::Batch;
using data::Loader;
using data::LoaderOptions;

namespace {

data::Dataset numbered(std::int64_t rows) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(rows));
  std::iota(numbers.begin(), numbers.end(), 0);
  std::vector<float> doubled;
  for (const auto i : numbers) doubled.insert(doubled.end(), {static_cast<float>(i), static_cast<float>(2 * i)});
  return {tensor(doubled, Shape{rows, 2}), tensor(numbers)};
}

std::vector<std::int64_t> epoch(Loader& loader) {
  std::vector<std::int64_t> rows;
  for (auto [x, y] : loader) {
    const auto numbers = y.to_vector<std::int64_t>();
    const auto pairs = x.to_vector<float>();
    REQUIRE(x.shape() == Shape{y.shape()[0], 2});
    for (std::size_t i = 0; i < numbers.size(); ++i) REQUIRE(pairs[2 * i + 1] == 2.0F * static_cast<float>(numbers[i]));
    rows.insert(rows.end(), numbers.begin(), numbers.end());
  }
  return rows;
}

/// Row numbers of the batches from here to the end of `epochs` epochs.
std::vector<std::int64_t> rest(Loader& loader, std::int64_t epochs) {
  std::vector<std::int64_t> rows;
  while (loader.epoch() < epochs)
    for (auto [x, y] : loader) {
      const auto numbers = y.to_vector<std::int64_t>();
      rows.insert(rows.end(), numbers.begin(), numbers.end());
    }
  return rows;
}

}  // namespace

TEST_CASE("Loader: in order") {
  Loader loader(numbered(7), {.batch = 3});
  CHECK(loader.size() == 3);
  std::vector<std::int64_t> sizes;
  for (auto [x, y] : loader) sizes.push_back(y.size());
  CHECK(sizes == std::vector<std::int64_t>{3, 3, 1});
  CHECK(epoch(loader) == numbered(7).y.to_vector<std::int64_t>());
  for (auto [x, y] : loader) CHECK(x.data<float>() == loader.dataset().x(y(0).item<int>()).data<float>());

  Loader whole(numbered(7), {.batch = 3, .drop_last = true});
  CHECK(whole.size() == 2);
  CHECK(epoch(whole).size() == 6);
  CHECK(Loader(numbered(2), {.batch = 3, .drop_last = true}).size() == 0);
  Loader none(numbered(0), {.batch = 3});
  CHECK(none.size() == 0);
  CHECK(epoch(none).empty());
}

TEST_CASE("Loader: shuffled") {
  const auto sorted = [](std::vector<std::int64_t> rows) {
    std::sort(rows.begin(), rows.end());
    return rows;
  };
  const auto in_order = numbered(100).y.to_vector<std::int64_t>();
  Loader one(numbered(100), {.batch = 8, .shuffle = true, .seed = 1});
  Loader same(numbered(100), {.batch = 16, .shuffle = true, .seed = 1});
  Loader other(numbered(100), {.batch = 8, .shuffle = true, .seed = 2});
  const auto first = epoch(one), second = epoch(one);
  CHECK(sorted(first) == in_order);
  CHECK(sorted(second) == in_order);
  CHECK(first != in_order);
  CHECK(first != second);
  CHECK(first == epoch(same));
  CHECK(second == epoch(same));
  CHECK(first != epoch(other));
  // The same order on every machine; the numbers are from an implementation in another language.
  CHECK(std::vector(first.begin(), first.begin() + 5) == std::vector<std::int64_t>{75, 74, 84, 24, 61});

  Loader short_epochs(numbered(100), {.batch = 8, .shuffle = true, .drop_last = true});
  CHECK(epoch(short_epochs).size() == 96);
}

TEST_CASE("Loader: what does not fit") {
  CHECK_THROWS_AS(Loader(numbered(3), {.batch = 0}), InvalidArgumentError);
  TAPESTRY_REFUSED(InvalidArgumentError, "need the same number of rows, but their shapes are [3,2] and [4]",
                   Loader({numbered(3).x, numbered(4).y}));
  TAPESTRY_REFUSED(InvalidArgumentError,
                   "The examples and their targets need a first axis, the rows, but their shapes are [] and []",
                   Loader({tensor(1.0), tensor(1)}));
  TAPESTRY_REFUSED(InvalidArgumentError, "need a first axis, the rows, but their shapes are [3,2] and []",
                   data::split({numbered(3).x, tensor(1)}, 0.5));
  TAPESTRY_REFUSED(InvalidArgumentError, "The arrays need a first axis, the rows, but one is a scalar",
                   data::TupleLoader({numbered(3).x, tensor(1)}));
  CHECK_THROWS_AS(Loader(data::Dataset{}), FailedPreconditionError);
}

TEST_CASE("Loader: transforms and prefetching") {
  const auto halve = [](const Batch& batch) { return Batch{batch.x * 0.5, batch.y}; };
  for (const bool shuffle : {false, true}) {
    Loader plain(numbered(100), {.batch = 8, .shuffle = shuffle, .seed = 3});
    for (const std::int64_t prefetch : {0, 1, 3, 100}) {
      Loader ahead(numbered(100),
                   {.batch = 8, .shuffle = shuffle, .seed = 3, .transform = halve, .prefetch = prefetch});
      for (int turn = 0; turn < 3; ++turn) {
        Loader same = plain;
        auto expected = same.begin();
        for (auto [x, y] : ahead) {
          REQUIRE(!(expected == same.end()));
          CHECK(same_bits(x, (*expected).x * 0.5));
          CHECK(same_bits(y, (*expected).y));
          ++expected;
        }
        CHECK(expected == same.end());
        if (turn < 2) CHECK(epoch(plain).size() == 100);
      }
      plain = Loader(numbered(100), {.batch = 8, .shuffle = shuffle, .seed = 3});
    }
  }
}

TEST_CASE("Loader: a prefetched transform runs on another thread, and not far ahead") {
  std::atomic<int> made{0};
  std::thread::id maker;
  const auto count = [&](const Batch& batch) {
    maker = std::this_thread::get_id();
    ++made;
    return batch;
  };
  Loader loader(numbered(100), {.batch = 1, .transform = count, .prefetch = 4});
  int taken = 0;
  for (auto [x, y] : loader) {
    // Those taken, those that wait, and one that waits for room.
    CHECK(made <= ++taken + 4 + 1);
    if (taken == 50) break;
  }
  // The thread has ended with the loop.
  const int then = made;
  CHECK(maker != std::this_thread::get_id());
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(made == then);
  CHECK(loader.epoch() == 1);
  for (auto [x, y] : loader) {
    CHECK(loader.epoch() == 1);
    break;
  }
}

TEST_CASE("Loader: loops left early, at any moment") {
  for (int stop = 0; stop < 60; ++stop) {
    Loader loader(numbered(64), {.batch = 2, .shuffle = true, .prefetch = 1 + stop % 5});
    int i = 0;
    for (auto [x, y] : loader)
      if (i++ == stop) break;
    auto untouched = loader.begin();
  }
}

TEST_CASE("Loader: what a transform throws comes out of the loop") {
  for (const std::int64_t prefetch : {0, 2}) {
    int calls = 0;
    const auto fail = [&](const Batch& batch) -> Batch {
      if (++calls == 4) throw OutOfRangeError("the fourth");
      return batch;
    };
    Loader loader(numbered(20), {.batch = 2, .transform = fail, .prefetch = prefetch});
    std::int64_t seen = 0;
    const auto loop = [&] {
      for (auto [x, y] : loader) ++seen;
    };
    CHECK_THROWS_WITH_AS(loop(), doctest::Contains("the fourth"), OutOfRangeError);
    CHECK(seen == 3);
    // The next loop is another epoch.
    loop();
    CHECK(seen == 3 + 10);
    CHECK(loader.epoch() == 2);
  }
}

TEST_CASE("Loader: a position that was saved goes on with the batches that were left") {
  const auto make = [] { return Loader(numbered(50), {.batch = 7, .shuffle = true, .seed = 5, .prefetch = 2}); };
  Loader whole = make();
  const auto expected = rest(whole, 3);
  CHECK(expected.size() == 150);
  std::size_t handed = 0;
  Loader loader = make();
  while (loader.epoch() < 3)
    for (auto [x, y] : loader) {
      handed += static_cast<std::size_t>(y.size());
      Loader resumed = make();
      resumed.load_state_dict(loader.state_dict());
      const auto left = rest(resumed, 3);
      CHECK(std::vector(expected.begin() + static_cast<std::ptrdiff_t>(handed), expected.end()) == left);
    }
  CHECK(handed == 150);
}

TEST_CASE("Loader: a position in the middle of an epoch counts for one loop") {
  Loader loader(numbered(10), {.batch = 2});
  loader.load_state_dict({{"epoch", tensor(std::int64_t{4})}, {"batch", tensor(std::int64_t{3})}});
  CHECK(loader.epoch() == 4);
  CHECK(epoch(loader) == std::vector<std::int64_t>{6, 7, 8, 9});
  CHECK(loader.epoch() == 5);
  CHECK(epoch(loader).size() == 10);

  loader.load_state_dict({{"epoch", tensor(std::int64_t{0})}, {"batch", tensor(std::int64_t{0})}});
  for (int i = 0; i < 2; ++i)
    for (auto [x, y] : loader) {
      CHECK(y(0).item<int>() == 0);
      CHECK(loader.epoch() == i);
      break;
    }
}

TEST_CASE("Loader: positions that are none") {
  Loader loader(numbered(10), {.batch = 2});
  const auto state = [](std::int64_t epoch, std::int64_t batch) {
    return StateDict{{"epoch", tensor(epoch)}, {"batch", tensor(batch)}};
  };
  TAPESTRY_REFUSED(InvalidArgumentError, "needs a number 'epoch'", loader.load_state_dict({}));
  TAPESTRY_REFUSED(InvalidArgumentError, "needs a number 'batch'",
                   loader.load_state_dict({{"epoch", tensor(std::int64_t{1})}, {"batch", tensor(1.0)}}));
  TAPESTRY_REFUSED(InvalidArgumentError, "No Loader with 5 batches", loader.load_state_dict(state(0, 5)));
  TAPESTRY_REFUSED(InvalidArgumentError, "No Loader with 5 batches", loader.load_state_dict(state(-1, 0)));
  TAPESTRY_REFUSED(InvalidArgumentError, "No Loader with 5 batches", loader.load_state_dict(state(INT64_MAX, 0)));
  TAPESTRY_REFUSED(InvalidArgumentError, "No Loader with 5 batches", loader.load_state_dict(state(0, -1)));
  CHECK(loader.epoch() == 0);
  CHECK(epoch(loader).size() == 10);
}

TEST_CASE("Loader: batches are eager where a graph is being built") {
  Graph graph;
  const auto scope = graph.as_default();
  for (const bool shuffle : {false, true}) {
    Loader loader(numbered(10), {.batch = 4, .shuffle = shuffle});
    for (auto [x, y] : loader) CHECK_FALSE(x.is_symbolic());
  }
  CHECK(graph.operations().empty());
}

TEST_CASE("split") {
  const auto rows = [](const data::Dataset& set) { return set.y.to_vector<std::int64_t>(); };
  const auto [train, validation] = data::split(numbered(10), 0.25, {.shuffle = false});
  CHECK(rows(train) == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6});
  CHECK(rows(validation) == std::vector<std::int64_t>{7, 8, 9});

  const auto mixed = data::split(numbered(100), 0.2, {.seed = 1}), same = data::split(numbered(100), 0.2, {.seed = 1}),
             other = data::split(numbered(100), 0.2, {.seed = 2});
  CHECK(mixed.validation.size() == 20);
  CHECK(rows(mixed.train) == rows(same.train));
  CHECK(rows(mixed.validation) != rows(other.validation));
  auto both = rows(mixed.train);
  for (const auto row : rows(mixed.validation)) both.push_back(row);
  std::sort(both.begin(), both.end());
  CHECK(both == rows(numbered(100)));
  for (const auto& part : {mixed.train, mixed.validation})
    for (std::int64_t i = 0; i < part.size(); ++i)
      CHECK(part.x(i, 1).item<std::int64_t>() == 2 * part.y(i).item<std::int64_t>());

  for (const double fraction : {-0.5, 0.0, 0.01, 0.99, 1.0, 2.0, 1e300, not_a_number})
    TAPESTRY_REFUSED(InvalidArgumentError, "of 10 rows leaves a part", data::split(numbered(10), fraction));
}

TEST_CASE("Loader: a loop that was left has ended its epoch, at once") {
  for (const std::int64_t prefetch : {0, 2}) {
    const LoaderOptions options{.batch = 2, .shuffle = true, .seed = 3, .prefetch = prefetch};
    // Each epoch is left behind batch `stop`; the orders are those of whole epochs.
    for (std::size_t stop = 1; stop <= 5; ++stop) {
      Loader whole(numbered(10), options), loader(numbered(10), options);
      int loops = 0;
      while (loader.epoch() < 3) {
        REQUIRE(loops++ < 3);
        const auto expected = epoch(whole);
        std::vector<std::int64_t> seen;
        for (auto [x, y] : loader) {
          const auto numbers = y.to_vector<std::int64_t>();
          seen.insert(seen.end(), numbers.begin(), numbers.end());
          if (seen.size() == 2 * stop) break;
        }
        CHECK(seen == std::vector(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(2 * stop)));
        CHECK(loader.epoch() == loops);

        // What is saved now goes on with the batches that were left.
        Loader restored(numbered(10), options);
        restored.load_state_dict(loader.state_dict());
        CHECK(restored.epoch() == (stop == 5 ? loops : loops - 1));
        if (stop < 5)
          CHECK(epoch(restored) ==
                std::vector(expected.begin() + static_cast<std::ptrdiff_t>(2 * stop), expected.end()));
        CHECK(restored.epoch() == loops);
      }
      CHECK(loops == 3);
    }
  }
}

TEST_CASE("Loader: a loop that throws ends its epoch; a state that is loaded in a loop is not touched by its end") {
  Loader loader(numbered(6), {.batch = 2});
  const auto loop = [&] {
    for (auto [x, y] : loader) throw OutOfRangeError("mine");
  };
  CHECK_THROWS_AS(loop(), OutOfRangeError);
  CHECK(loader.epoch() == 1);

  Loader middle(numbered(6), {.batch = 2});
  StateDict state;
  for (auto [x, y] : middle) {
    state = middle.state_dict();
    break;
  }
  for (auto [x, y] : loader) {
    loader.load_state_dict(state);
    break;
  }
  CHECK(loader.epoch() == 0);
  CHECK(epoch(loader) == std::vector<std::int64_t>{2, 3, 4, 5});
}

TEST_CASE("TupleLoader: the rows of any number of arrays") {
  const Tensor ids = arange(0, 10), mask = ids * 2, labels = stack({ids * 3, ids * 4}, 1);
  for (const std::int64_t prefetch : {0, 2}) {
    data::TupleLoader loader({ids, mask, labels}, {.batch = 4, .shuffle = true, .seed = 1, .prefetch = prefetch});
    Loader pairs({ids, mask}, {.batch = 4, .shuffle = true, .seed = 1});
    CHECK(loader.size() == 3);
    auto expected = pairs.begin();
    for (auto [a, b, c] : loader) {
      CHECK(same_bits(a, (*expected).x));
      CHECK(same_bits(b, a * 2));
      CHECK(same_bits(c, stack({a * 3, a * 4}, 1)));
      ++expected;
    }
    CHECK(loader.epoch() == 1);
  }
  data::TupleLoader one({ids}, {.batch = 5, .transform = [](const std::array<Tensor, 1>& batch) {
                                  return std::array<Tensor, 1>{batch[0] + 1};
                                }});
  for (auto [a] : one) CHECK(a(0).item<int>() % 5 == 1);
  CHECK_THROWS_AS(data::TupleLoader({ids, ids, arange(0, 9)}), InvalidArgumentError);
  CHECK_THROWS_AS(data::TupleLoader({ids, Tensor()}), FailedPreconditionError);
}

}  // namespace loader_test
