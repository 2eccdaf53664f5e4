#include "serve/batcher.hpp"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include <doctest/doctest.h>

#include "models.hpp"
#include "serve/servable.hpp"

// Requests that run together.

namespace tapestry::serve::batcher_test {
namespace {

Tensor column(const std::vector<float>& values) { return tensor(values); }

/// Squares, and notes the sizes of what it is given.
struct Squares {
  std::mutex mutex{};
  std::vector<std::int64_t> sizes{};

  NamedTensors operator()(const std::string&, const NamedTensors& inputs, Deadline) {
    const Tensor x = inputs.at("x");
    const std::lock_guard lock(mutex);
    sizes.push_back(x.shape().sizes()[0]);
    for (const float each : x.to_vector<float>())
      if (each < 0) throw InvalidArgumentError("negative");
    return {{"y", x * x}};
  }
};

TEST_CASE("requests that come together run together") {
  Squares squares;
  Batcher batcher({.max_batch_size = 4, .batch_timeout_micros = 60'000'000}, std::ref(squares));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      const auto value = static_cast<float>(i);
      const Tensor y = batcher.run("s", {{"x", column({value})}}, soon()).at("y");
      CHECK(y.to_vector<float>() == std::vector<float>{value * value});
    });
  for (std::thread& each : threads) each.join();
  CHECK(squares.sizes == std::vector<std::int64_t>{4});  // a timeout of a minute has not passed
}

TEST_CASE("a batch is filled up to an allowed size, and too large requests run alone") {
  Squares squares;
  Batcher batcher({.max_batch_size = 6, .allowed_batch_sizes = {1, 4, 6}}, std::ref(squares));
  const auto run = [&](const std::vector<float>& x) {
    return batcher.run("s", {{"x", column(x)}}, soon()).at("y").to_vector<float>();
  };
  CHECK(run({1, 2, 3}) == std::vector<float>{1, 4, 9});
  CHECK(run({1, 2, 3, 4, 5}) == std::vector<float>{1, 4, 9, 16, 25});
  CHECK(run({1, 2, 3, 4, 5, 6, 7}) == std::vector<float>{1, 4, 9, 16, 25, 36, 49});
  CHECK(run({}).empty());
  CHECK(squares.sizes == std::vector<std::int64_t>{4, 6, 7, 0});
}

TEST_CASE("a large request runs in pieces where that is allowed") {
  Squares squares;
  Batcher batcher({.max_batch_size = 6, .enable_large_batch_splitting = true, .max_execution_batch_size = 3},
                  std::ref(squares));
  const auto run = [&](const std::vector<float>& x) {
    return batcher.run("s", {{"x", column(x)}}, soon()).at("y").to_vector<float>();
  };
  CHECK(run({1, 2, 3, 4, 5, 6, 7}) == std::vector<float>{1, 4, 9, 16, 25, 36, 49});
  CHECK(run({1, 2}) == std::vector<float>{1, 4});
  CHECK(squares.sizes == std::vector<std::int64_t>{3, 3, 1, 2});
  CHECK_THROWS_WITH(run({1, 2, 3, 4, -5}), "negative");
}

TEST_CASE("requests of several lengths are filled up and joined where that is allowed") {
  std::vector<Tensor> joined;
  Batcher batcher({.max_batch_size = 2, .batch_timeout_micros = 60'000'000, .pad_variable_length_inputs = true},
                  [&](const auto&, const NamedTensors& inputs, const auto&) {
                    joined.push_back(inputs.at("x"));
                    return NamedTensors{{"y", reduce_sum(inputs.at("x"), 1)}};
                  });
  std::vector<std::thread> threads;
  for (const Tensor& x : {tensor({{1.F, 2.F, 3.F}}), tensor({{7.F}})})
    threads.emplace_back([&batcher, x] {
      const float sum = batcher.run("s", {{"x", x}}, soon()).at("y").item<float>();
      CHECK(sum == (x.size() == 3 ? 6 : 21));  // of 7, 7, 7
    });
  for (std::thread& each : threads) each.join();
  REQUIRE(joined.size() == 1);
  CHECK(joined[0].shape() == Shape{2, 3});
}

TEST_CASE("a request that runs alone sees no other rows unless sizes are given") {
  Squares squares;
  Batcher batcher({.max_batch_size = 8}, std::ref(squares));
  const Tensor y = batcher.run("s", {{"x", column({1, 2, 3})}}, soon()).at("y");
  CHECK(y.to_vector<float>() == std::vector<float>{1, 4, 9});
  CHECK(squares.sizes == std::vector<std::int64_t>{3});
}

TEST_CASE("the mistake of one request is told to that one only") {
  Squares squares;
  Batcher batcher({.max_batch_size = 3, .batch_timeout_micros = 60'000'000}, std::ref(squares));
  std::vector<std::thread> threads;
  std::atomic<int> refused = 0, answered = 0;
  for (const float value : {2.F, -1.F, 3.F})
    threads.emplace_back([&, value] {
      try {
        const Tensor y = batcher.run("s", {{"x", column({value})}}, soon()).at("y");
        CHECK(y.item<float>() == value * value);
        ++answered;
      } catch (const InvalidArgumentError& error) {
        CHECK(error.message() == "negative");
        CHECK(value < 0);
        ++refused;
      }
    });
  for (std::thread& each : threads) each.join();
  CHECK(refused == 1);
  CHECK(answered == 2);
}

TEST_CASE("requests of other shapes and signatures are not joined; too many are refused, and some wait too long") {
  std::mutex mutex;
  std::condition_variable changed;
  bool go_on = false, begun = false;
  const auto wait = [&](const std::string&, const NamedTensors& inputs, Deadline) {
    std::unique_lock lock(mutex);
    begun = true;
    changed.notify_all();
    changed.wait(lock, [&] { return go_on; });
    return NamedTensors{{"y", inputs.at("x")}};
  };
  Batcher batcher({.max_batch_size = 8, .max_enqueued_batches = 2, .num_batch_threads = 1}, wait);
  const auto run = [&](const std::string& signature, const Tensor& x, Deadline deadline = soon()) {
    return batcher.run(signature, {{"x", x}}, deadline).at("y");
  };
  std::vector<std::thread> threads;
  threads.emplace_back([&] { CHECK(run("a", column({1, 2})).size() == 2); });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return begun; });
  }
  const auto wait_for = [&](std::size_t count) {
    while (batcher.waiting() < count) std::this_thread::yield();
  };
  threads.emplace_back([&] { CHECK(run("a", zeros({1, 2})).rank() == 2); });
  wait_for(1);
  threads.emplace_back([&] { CHECK(run("b", column({3})).size() == 1); });
  wait_for(2);
  // This one may join the last one, if it has the time.
  CHECK_THROWS_AS(run("b", column({4}), std::chrono::steady_clock::now()), DeadlineExceededError);
  CHECK_THROWS_WITH(run("c", column({5})), "The batch scheduling queue to which this task was submitted is full");
  CHECK_THROWS_AS(run("c", column({5})), UnavailableError);
  {
    const std::lock_guard lock(mutex);
    go_on = true;
  }
  changed.notify_all();
  for (std::thread& each : threads) each.join();
  CHECK(batcher.waiting() == 0);
}

/// A model whose runs wait until they may go on, or until nobody waits for their answers.
class Held {
 public:
  NamedTensors operator()(const std::string&, const NamedTensors& inputs, const Deadline& deadline) {
    std::unique_lock lock(mutex_);
    ++begun_;
    changed_.notify_all();
    changed_.wait(lock, deadline.gone(), [&] { return go_on_; });
    require_time(deadline);
    return {{"y", inputs.at("x")}};
  }
  void wait_for_runs(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return begun_ >= count; });
  }
  void go_on() {
    const std::lock_guard lock(mutex_);
    go_on_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool go_on_ = false;
  int begun_ = 0;
};

TEST_CASE(
    "requests leave the queue when their time is over or their clients have gone, and others lead their batches") {
  Held model;
  Batcher batcher({.max_batch_size = 8, .batch_timeout_micros = 1000, .num_batch_threads = 1}, std::ref(model));
  const auto run = [&](float value, const Deadline& deadline = soon()) {
    return batcher.run("s", {{"x", column({value})}}, deadline).at("y").to_vector<float>();
  };
  std::vector<std::thread> threads;
  threads.emplace_back([&] { CHECK(run(1) == std::vector<float>{1}); });
  model.wait_for_runs(1);
  // The first of a batch leads it, and is gone later.
  std::stop_source client;
  threads.emplace_back([&] { CHECK_THROWS_AS(run(2, {soon(), client.get_token()}), CancelledError); });
  while (batcher.waiting() < 1) std::this_thread::yield();
  CHECK_THROWS_AS(run(3, std::chrono::steady_clock::now() + std::chrono::milliseconds(20)), DeadlineExceededError);
  threads.emplace_back([&] { CHECK(run(4) == std::vector<float>{4}); });
  client.request_stop();
  threads[1].join();
  CHECK_THROWS_AS(run(5, {soon(), client.get_token()}), CancelledError);
  CHECK(batcher.waiting() <= 1);
  model.go_on();
  threads[0].join();
  threads[2].join();
  CHECK(batcher.waiting() == 0);
}

TEST_CASE("a batch is stopped when all of its clients have gone, and not before") {
  Held model;
  Batcher batcher({.max_batch_size = 2, .batch_timeout_micros = 60'000'000}, std::ref(model));
  std::stop_source first, second;
  std::atomic<int> cancelled = 0;
  std::vector<std::thread> threads;
  for (std::stop_source* client : {&first, &second})
    threads.emplace_back([&, client] {
      CHECK_THROWS_AS(batcher.run("s", {{"x", column({1})}}, {soon(), client->get_token()}), CancelledError);
      ++cancelled;
    });
  model.wait_for_runs(1);
  first.request_stop();
  second.request_stop();  // which ends the run, as nobody lets it go on
  for (std::thread& each : threads) each.join();
  CHECK(cancelled == 2);
}

TEST_CASE("a model whose outputs have no rows is served with batches, too") {
  const TemporaryFolder folder;
  write_model(folder / "sum" / "1", [] {
    const Tensor x = placeholder(float32, {-1}, "x");
    return Signature{.inputs = {{"x", x}}, .outputs = {{"y", reduce_sum(x)}}};
  });
  const Servable sum("sum", 1, folder / "sum" / "1", {.batching = BatchingOptions{.max_batch_size = 8}});
  const auto y = sum.run("serving_default", {{"x", column({1, 2, 3})}}, soon()).at("y");
  CHECK(std::get<Tensor>(y).item<float>() == 6);
}

TEST_CASE("batching options that make no sense") {
  const auto refuses = [](const BatchingOptions& options) {
    CHECK_THROWS_AS(Batcher(options, [](const auto&...) { return NamedTensors(); }), InvalidArgumentError);
  };
  refuses({.max_batch_size = 0});
  refuses({.batch_timeout_micros = -1});
  refuses({.max_enqueued_batches = 0});
  refuses({.num_batch_threads = 0});
  refuses({.max_batch_size = 8, .allowed_batch_sizes = {4}});
  refuses({.max_batch_size = 8, .allowed_batch_sizes = {4, 2, 8}});
  refuses({.max_batch_size = 8, .allowed_batch_sizes = {0, 8}});
}

}  // namespace
}  // namespace tapestry::serve::batcher_test
