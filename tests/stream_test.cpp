#include "tapestry/data/stream.hpp"

#include <atomic>
#include <functional>
#include <numeric>
#include <set>
#include <thread>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "refused.hpp"
#include "tapestry/checkpoint.hpp"
#include "tapestry/graph.hpp"
#include "tapestry/ops.hpp"
#include "temporary_folder.hpp"

namespace stream_test {

using namespace tapestry;
using namespace tapestry::test;
using data::Stream;

namespace {

using Numbers = std::vector<int>;

Numbers first(int count) {
  Numbers numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}
Stream<int> counted(int count) { return Stream<int>(first(count)); }

/// Slow for some elements, so that threads end in another order than they begin.
int squared(int x) {
  if (x % 7 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
  return x * x;
}

/// Pipelines of all stages, each with a number of threads.
struct Row {
  std::string name;
  std::function<Stream<int>(std::int64_t threads)> make;
};

Stream<int> parts(int x, std::int64_t) {
  return counted(x % 5).map([x](int i) { return 100 * x + i; });
}

const std::vector<Row>& rows() {
  static const std::vector<Row> rows{
      {"list", [](auto) { return counted(50); }},
      {"empty", [](auto) { return counted(0); }},
      {"map", [](auto n) { return counted(50).map(squared, {.threads = n}); }},
      {"filter",
       [](auto n) { return counted(50).map(squared, {.threads = n}).filter([](int x) { return x % 3 == 1; }); }},
      {"shuffle", [](auto n) { return counted(50).shuffle(8, {.seed = 3}).map(squared, {.threads = n}); }},
      {"shuffle of maps", [](auto n) { return counted(50).map(squared, {.threads = n}).shuffle(100, {.seed = 3}); }},
      {"interleave",
       [](auto n) {
         return counted(30).interleave([n](int x) { return parts(x, n); }, {.cycle = 3, .block = 2, .prefetch = n});
       }},
      {"batch",
       [](auto n) {
         return counted(50).batch(8).map([](const Tensor& x) { return reduce_sum(x).item<int>(); }, {.threads = n});
       }},
      {"whole batches",
       [](auto n) {
         return counted(50)
             .batch(8, {.drop_last = true})
             .map([](const Tensor& x) { return x(0).item<int>(); }, {.threads = n});
       }},
      {"prefetch", [](auto n) { return n > 0 ? counted(50).prefetch(n) : counted(50); }},
      {"repeat", [](auto n) { return counted(9).shuffle(9).map(squared, {.threads = n}).repeat(4); }},
      {"take of ever", [](auto n) { return counted(9).shuffle(4).repeat().map(squared, {.threads = n}).take(31); }},
      {"skip", [](auto n) { return counted(50).map(squared, {.threads = n}).skip(7).skip(3).take(100); }},
      {"shard", [](auto n) { return counted(50).shard(4, 1).map(squared, {.threads = n}).skip(2); }},
      {"generate",
       [](auto n) {
         return Stream<int>::generate([](std::int64_t epoch) {
                  return [i = static_cast<int>(epoch)]() mutable -> std::optional<int> {
                    return i < 20 ? std::optional(i++) : std::nullopt;
                  };
                })
             .map(squared, {.threads = n});
       }},
      {"all", [](auto n) {
         return counted(40)
             .shuffle(10, {.seed = 5})
             .interleave([n](int x) { return parts(x, n); }, {.cycle = 4, .prefetch = n})
             .map(squared, {.threads = n})
             .filter([](int x) { return x % 2 == 0; })
             .shuffle(6, {.seed = 6})
             .repeat(2)
             .prefetch(3);
       }}};
  return rows;
}

}  // namespace

TEST_CASE("Stream: the order does not depend on the number of threads") {
  for (const Row& row : rows()) {
    CAPTURE(row.name);
    Stream<int> one = row.make(0);
    const Numbers first_epoch = one.collect(), second_epoch = one.collect();
    CHECK(one.epoch() == 2);
    for (const std::int64_t threads : {1, 2, 5}) {
      Stream<int> several = row.make(threads);
      CHECK(several.collect() == first_epoch);
      CHECK(several.collect() == second_epoch);
    }
  }
}

TEST_CASE("Stream: a restored position goes on with the rest of the epoch") {
  for (const Row& row : rows()) {
    CAPTURE(row.name);
    for (const std::int64_t threads : {0, 2}) {
      Stream<int> whole = row.make(threads);
      whole.collect();
      const Numbers second = whole.collect(), third = whole.collect();
      for (std::size_t taken = 1; taken <= second.size(); taken += 1 + taken / 3) {
        Stream<int> stopped = row.make(threads);
        stopped.collect();
        std::size_t count = 0;
        for (int& each : stopped) {
          CHECK(each == second[count]);
          if (++count == taken) break;
        }
        Stream<int> resumed = row.make(2 - threads);
        resumed.load_state_dict(stopped.state_dict());
        CHECK(resumed.epoch() == 1);
        CHECK(resumed.collect() == Numbers(second.begin() + static_cast<std::ptrdiff_t>(taken), second.end()));
        CHECK(resumed.collect() == third);
        // Without a restored state, the loop that was left has ended its epoch.
        CHECK(stopped.epoch() == 2);
        CHECK(stopped.collect() == third);
      }
    }
  }
}

TEST_CASE("Stream: skipping makes what comes behind, and nothing else") {
  for (const Row& row : rows()) {
    CAPTURE(row.name);
    const Numbers all = row.make(0).collect();
    for (std::size_t count = 0; count < all.size() + 3; count += 3) {
      const auto cursor = row.make(0).open();
      CHECK(cursor->skip(static_cast<std::int64_t>(count)) == static_cast<std::int64_t>(std::min(count, all.size())));
      const auto next = cursor->next();
      CHECK(next.has_value() == (count < all.size()));
      if (next) CHECK(*next == all[count]);
    }
  }
  std::atomic<int> calls{0};
  auto counting = counted(100).map([&](int x) { return ++calls, x; }, {.threads = 2}).batch(10).skip(9);
  CHECK(counting.collect().size() == 1);
  CHECK(calls == 10);
}

TEST_CASE("Stream: what the stages give") {
  CHECK(counted(6).map([](int x) { return x + 0.5; }).collect() == std::vector<double>{0.5, 1.5, 2.5, 3.5, 4.5, 5.5});
  CHECK(counted(6).filter([](int x) { return x % 2 == 1; }).collect() == Numbers{1, 3, 5});
  CHECK(counted(6).take(2).collect() == Numbers{0, 1});
  CHECK(counted(6).take(0).collect().empty());
  CHECK(counted(6).skip(4).collect() == Numbers{4, 5});
  CHECK(counted(6).skip(9).collect().empty());
  CHECK(counted(3).repeat(2).collect() == Numbers{0, 1, 2, 0, 1, 2});
  CHECK(counted(3).repeat(0).collect().empty());
  CHECK(counted(0).repeat().collect().empty());
  CHECK(counted(7).shard(3, 0).collect() == Numbers{0, 3, 6});
  CHECK(counted(7).shard(3, 2).collect() == Numbers{2, 5});
  // TensorFlow's order; example_test.cpp compares others.
  CHECK(
      Stream<int>({1, 2, 3, 4})
          .interleave([](int x) { return counted(x).map([x](int i) { return 10 * x + i; }); }, {.cycle = 2, .block = 2})
          .collect() == Numbers{10, 20, 21, 30, 31, 32, 40, 41, 42, 43});
}

TEST_CASE("Stream: a shuffle is a permutation, another one in each epoch and for each seed") {
  const auto sorted = [](Numbers numbers) {
    std::sort(numbers.begin(), numbers.end());
    return numbers;
  };
  for (const int buffer : {1, 2, 10, 99, 100, 1000}) {
    Stream<int> one = counted(100).shuffle(buffer, {.seed = 1}), other = counted(100).shuffle(buffer, {.seed = 2});
    const Numbers a = one.collect(), b = one.collect(), c = other.collect();
    CHECK(sorted(a) == first(100));
    CHECK(sorted(b) == first(100));
    CHECK((buffer == 1) == (a == first(100)));
    CHECK((buffer == 1) == (a == b));
    CHECK((buffer == 1) == (a == c));
    // An element is drawn at the earliest when the buffer reaches it.
    for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] < static_cast<int>(i) + buffer);
  }
  // Each element comes first about equally often: 10 times of 100 draws, a standard deviation of 3.
  std::vector<int> counts(10);
  Stream<int> ten = counted(10).shuffle(10);
  for (int i = 0; i < 100; ++i) ++counts[static_cast<std::size_t>(ten.collect()[0])];
  for (const int each : counts) CHECK((each > 0 && each < 25));
  // The epochs of a repeated stream are those of a loop over it.
  Stream<int> loop = counted(20).shuffle(20, {.seed = 9});
  Numbers both = loop.collect();
  for (const int each : loop.collect()) both.push_back(each);
  CHECK(counted(20).shuffle(20, {.seed = 9}).repeat(2).collect() == both);
  CHECK(counted(20).shuffle(20, {.seed = 9}).repeat().take(40).collect() == both);
}

TEST_CASE("Stream: batches") {
  const auto shapes = [](auto stream) {
    std::vector<Shape> all;
    for (auto& each : stream) all.push_back(each.shape());
    return all;
  };
  CHECK(shapes(counted(7).batch(3)) == std::vector<Shape>{{3}, {3}, {1}});
  CHECK(shapes(counted(7).batch(3, {.drop_last = true})) == std::vector<Shape>{{3}, {3}});
  CHECK(counted(3).batch(3).collect()[0].dtype() == int32);

  // Any types of elements; those without tensors become lists.
  auto pair = counted(4).map([](int x) { return std::pair(tensor(x), 2.0F * static_cast<float>(x)); }).batch(4);
  auto [x, y] = pair.collect()[0];
  check_same(x, tensor({0, 1, 2, 3}));
  check_same(y, tensor({0.0, 2.0, 4.0, 6.0}));
  const auto array = counted(2).map([](int i) { return std::array{tensor(i), tensor(-i)}; }).batch(2).collect()[0];
  check_same(array[1], tensor({0, -1}));
  const auto list = counted(2).map([](int i) { return std::vector{tensor(i), tensor(-i)}; }).batch(2).collect()[0];
  check_same(list[1], tensor({0, -1}));
  const auto names = counted(2).map([](int i) { return StateDict{{"x", tensor(i)}}; }).batch(2).collect()[0];
  check_same(names.at("x"), tensor({0, 1}));
  const auto examples = counted(2)
                            .map([](int i) {
                              return data::Batch{full({3}, i), tensor(i)};
                            })
                            .batch(2)
                            .collect()[0];
  CHECK(examples.x.shape() == Shape{2, 3});
  const auto texts = counted(3).map([](int i) { return std::to_string(i); }).batch(2).collect();
  CHECK(texts == std::vector<std::vector<std::string>>{{"0", "1"}, {"2"}});

  // Padding along every axis.
  const auto triangle = [](int i) { return full({i, 3 - i}, i); };
  check_same(counted(4).map(triangle).batch(4, {.pad = -1}).collect()[0](range(0, 3)),
             tensor({{{-1, -1, -1}, {-1, -1, -1}, {-1, -1, -1}},
                     {{1, 1, -1}, {-1, -1, -1}, {-1, -1, -1}},
                     {{2, -1, -1}, {2, -1, -1}, {-1, -1, -1}}}));
}

TEST_CASE("Stream: what does not fit") {
  TAPESTRY_REFUSED(InvalidArgumentError, "`size` of a stream must be at least 1, not 0", counted(3).batch(0));
  TAPESTRY_REFUSED(InvalidArgumentError, "`buffer`", counted(3).shuffle(0));
  TAPESTRY_REFUSED(InvalidArgumentError, "`threads`", counted(3).map(squared, {.threads = -1}));
  TAPESTRY_REFUSED(InvalidArgumentError, "`ahead`", counted(3).prefetch(0));
  TAPESTRY_REFUSED(InvalidArgumentError, "`count`", counted(3).repeat(-2));
  TAPESTRY_REFUSED(InvalidArgumentError, "`count`", counted(3).take(-1));
  TAPESTRY_REFUSED(InvalidArgumentError, "`count`", counted(3).skip(-1));
  TAPESTRY_REFUSED(InvalidArgumentError, "There is no shard 3 of 3", counted(3).shard(3, 3));
  TAPESTRY_REFUSED(InvalidArgumentError, "There is no shard -1 of 3", counted(3).shard(3, -1));
  TAPESTRY_REFUSED(InvalidArgumentError, "`count` of a stream must be at least 1, not 0", counted(3).shard(0, 0));
  TAPESTRY_REFUSED(InvalidArgumentError, "`cycle`",
                   counted(3).interleave([](int) { return counted(1); }, {.cycle = 0}));

  const auto of_shape = [](const std::vector<Shape>& shapes) {
    return Stream<Shape>(shapes).map([](const Shape& shape) { return zeros(shape); });
  };
  TAPESTRY_REFUSED(InvalidArgumentError, "Element 1 of a batch is float32[3], the first one is float32[2]",
                   of_shape({{2}, {3}}).batch(2).collect());
  TAPESTRY_REFUSED(InvalidArgumentError, "`pad` would make shapes that differ equal",
                   of_shape({{2}, {3}}).batch(2).collect());
  TAPESTRY_REFUSED(InvalidArgumentError, "only sizes may differ, with `pad`",
                   of_shape({{2}, {2, 1}}).batch(2, {.pad = 0}).collect());
  TAPESTRY_REFUSED(InvalidArgumentError, "is int32[2], the first one is float32[2]; elements must have one dtype",
                   Stream<Tensor>({ones({2}), tensor({1, 2})}).batch(2).collect());
  // The errors of what `batch` calls.
  const Tensor whole = tensor({1, 2}), bytes = tensor<std::uint8_t>({1, 2});
  TAPESTRY_REFUSED(InvalidArgumentError, "`pad` of a batch: 9.5 does not fit the element type int32 at stream_test.cpp",
                   Stream<Tensor>({whole, whole(range(1))}).batch(2, {.pad = 9.5}).collect());
  TAPESTRY_REFUSED(InvalidArgumentError, "`pad` of a batch: -1 does not fit the element type uint8",
                   Stream<StateDict>({{{"x", bytes}}, {{"x", bytes(range(1))}}}).batch(2, {.pad = -1}).collect());
  TAPESTRY_REFUSED(InvalidArgumentError, "[Op:Pack]",
                   of_shape({{1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1}}).batch(2).collect());
  TAPESTRY_REFUSED(InvalidArgumentError, "empty Tensor",
                   counted(1).map([](int) { return Tensor(); }).batch(2).collect());
}

TEST_CASE("Stream: an error names the line of the function, and ends the loop") {
  for (const std::int64_t threads : {0, 3}) {
    CAPTURE(threads);
    Numbers seen;
    auto stream = counted(20).map(
        [](int x) {
          if (x == 5) throw std::runtime_error("five");
          return x;
        },
        {.threads = threads});
    const int map_line = __LINE__ - 6;
    const auto loop = [&] {
      for (int& each : stream) seen.push_back(each);
    };
    const Error error = caught<FailedPreconditionError>(loop);
    CHECK(error.message() == "The function of `map` has failed: five");
    CHECK(place(error) == "stream_test.cpp:" + std::to_string(map_line));
    CHECK(seen == first(5));
    // The original is kept.
    try {
      stream.collect();
    } catch (const FailedPreconditionError& outer) {
      CHECK_THROWS_AS(std::rethrow_if_nested(outer), std::runtime_error);
    }
    // The position is that of the elements that have been handed out, so that a next attempt goes on there.
    CHECK(stream.state_dict().at("element").item<int>() == 5);

    // An error of the library keeps its type and its line.
    std::atomic<int> line{0};  // several threads say it
    auto shapes = counted(3).map(
        [&](int) {
          line = __LINE__ + 1;
          return matmul(zeros({2, 3}), zeros({2, 3}));
        },
        {.threads = threads});
    const Error op_error = caught<InvalidArgumentError>([&] { shapes.collect(); });
    CHECK(op_error.op() == "MatMul");
    CHECK(place(op_error) == "stream_test.cpp:" + std::to_string(line));
  }
  const auto fails = [](auto...) -> bool { throw std::runtime_error("no"); };
  CHECK(message_of([&] { counted(3).filter(fails).collect(); }) == "The function of `filter` has failed: no");
  const auto no_stream = [](int) -> Stream<int> { throw std::runtime_error("no"); };
  CHECK(message_of([&] { counted(3).interleave(no_stream).collect(); }) ==
        "The function of `interleave` has failed: no");
}

TEST_CASE("Stream: threads work ahead, but not far, and end with the loop") {
  std::atomic<int> made{0};
  std::set<std::thread::id> makers;
  std::mutex mutex;
  auto stream = counted(200).map(
      [&](int x) {
        ++made;
        const std::lock_guard lock(mutex);
        makers.insert(std::this_thread::get_id());
        return x;
      },
      {.threads = 3});
  int taken = 0;
  for (const int x : stream) {
    CHECK(x == taken);
    CHECK(made <= ++taken + 6);
    if (taken == 50) break;
  }
  const int then = made;
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(made == then);
  CHECK(makers.count(std::this_thread::get_id()) == 0);
}

TEST_CASE("Stream: elements are eager where a graph is open") {
  Graph graph;
  const auto scope = graph.as_default();
  auto stream = counted(4).map([](int x) { return tensor(x) + 1; }).batch(2);
  for (const Tensor& each : stream) CHECK(!each.is_symbolic());
  CHECK(graph.operations().empty());
}

TEST_CASE("Stream: a checkpoint keeps the position") {
  const TemporaryFolder folder;
  const auto make = [] { return counted(20).shuffle(20, {.seed = 4}).batch(3); };
  auto stream = make();
  const Checkpoint checkpoint{.loader = &stream};
  stream.collect();
  int count = 0;
  for (auto& each : stream) {
    static_cast<void>(each);
    if (++count == 4) checkpoint.save(folder.path());
  }
  auto same = make(), expected = make();
  Checkpoint{.loader = &same}.restore(folder.path());
  expected.collect();
  const auto all = expected.collect(), rest = same.collect();
  REQUIRE(rest.size() == 3);
  for (std::size_t i = 0; i < rest.size(); ++i) check_same(rest[i], all[i + 4]);

  TAPESTRY_REFUSED(InvalidArgumentError, "No Stream stands at element -1 of epoch 0",
                   same.load_state_dict({{"epoch", tensor<std::int64_t>(0)}, {"element", tensor<std::int64_t>(-1)}}));
  TAPESTRY_REFUSED(InvalidArgumentError, "needs a number 'element'",
                   same.load_state_dict({{"epoch", tensor<std::int64_t>(0)}}));
  TAPESTRY_REFUSED(InvalidArgumentError, "of epoch 9223372036854775807",
                   same.load_state_dict({{"epoch", tensor(INT64_MAX)}, {"element", tensor<std::int64_t>(0)}}));
  auto thrice = counted(2).repeat(3);
  thrice.load_state_dict({{"epoch", tensor(INT64_MAX / 2)}, {"element", tensor<std::int64_t>(1)}});
  CHECK(thrice.collect().size() == 5);
  same.load_state_dict({{"epoch", tensor<std::int64_t>(0)}, {"element", tensor<std::int64_t>(8)}});
  CHECK(message_of([&] { same.collect(); }).find("behind element 8, but there are 7") != std::string::npos);
}

TEST_CASE("Stream: a copy has a position of its own") {
  Stream<int> one = counted(3).repeat(2);
  one.collect();
  Stream<int> copy = one;
  CHECK(copy.epoch() == 1);
  copy.collect();
  CHECK(copy.epoch() == 2);
  CHECK(one.epoch() == 1);
}

}  // namespace stream_test
