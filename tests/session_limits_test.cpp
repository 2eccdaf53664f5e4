// What bounds a session: the time that a run may take, and the plans that are kept.

#include <chrono>
#include <thread>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "graph/graph_state.hpp"
#include "tapestry/tapestry.hpp"
#include "toy_backend.hpp"

namespace tapestry::test::session_limits_test {
namespace {

constexpr std::int64_t nap = 50;  ///< of "Nap", in milliseconds; no run can be done with it sooner

/// Its input, a while later.
Tensor sleep_on(const Tensor& x, std::string_view name = "nap") {
  static const Op& op = register_op({.name = "Nap", .infer = same_shape, .cpu = [](const Call& call) {
                                       std::this_thread::sleep_for(std::chrono::milliseconds(nap));
                                       *call.output_data<float>() = *call.input(0).data<float>();
                                     }});
  return apply_op(op.name, {x}, {}, name);
}

/// The plans that are still there of those that have run.
class Plans {
 public:
  explicit Plans(const Session& session) : session_(session) {}

  /// Runs the fetch with so many elements; returns whether that was with a plan that had run before and is still kept.
  bool run(const Tensor& fetch, const Tensor& feed, std::int64_t size) {
    RunMetadata metadata;
    CHECK(session_.run(fetch, {{feed, std::vector<float>(static_cast<std::size_t>(size), 1.0F)}}, {}, &metadata)
              .shape() == Shape{size});
    const std::shared_ptr<detail::GraphState>& plan = metadata.graph.state();
    const bool known = std::any_of(plans_.begin(), plans_.end(), [&](const auto& each) { return each.lock() == plan; });
    if (!known) plans_.push_back(plan);
    return known;
  }
  std::ptrdiff_t alive() const {
    return std::count_if(plans_.begin(), plans_.end(), [](const auto& each) { return !each.expired(); });
  }

 private:
  const Session& session_;
  std::vector<std::weak_ptr<detail::GraphState>> plans_;
};

}  // namespace

TEST_CASE("a run that takes longer than it may ends between two steps, and the session goes on") {
  for (const bool optimize : {false, true})
    for (const TraceLevel trace : {TraceLevel::none, TraceLevel::full}) {
      Variable before(0.0F, {.name = "before"}), after(0.0F, {.name = "after"});
      const Graph graph;
      Tensor x, y, twice;
      {
        const auto scope = graph.as_default();
        x = placeholder(float32, {}, "x");
        twice = x * 2.0F;
        y = after.assign_add(sleep_on(before.assign_add(x))) * 2.0F;
      }
      const Session session(graph, {.optimize = optimize});
      const RunOptions hasty{.trace_level = trace, .timeout_in_ms = 1}, patient{.timeout_in_ms = 1 << 30};
      RunMetadata metadata;
      const Where here = Where::here();
      const auto error = caught<DeadlineExceededError>([&] { session.run(y, {{x, 3.0F}}, hasty, &metadata, here); });
      CHECK(error.code() == Code::deadline_exceeded);
      CHECK(error.message().starts_with("Timed out waiting for notification: after 1 ms "));
      CHECK(to_string(error.where()) == to_string(here));
      CHECK(after.value().item<float>() == 0);
      const auto result = session.run(y, {{x, 4.0F}}, patient, nullptr).item<float>();
      CHECK(result == 2 * before.value().item<float>());
      CHECK(session.run(twice, {{x, 4.0F}}, {.timeout_in_ms = std::numeric_limits<std::int64_t>::max()}, nullptr)
                .item<float>() == 8);
      CHECK_THROWS_AS(session.run(x, {{x, 4.0F}}, {.timeout_in_ms = -1}), InvalidArgumentError);
    }
}

TEST_CASE("the parts of a run on several devices end together") {
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor x = placeholder(float32, {}, "x");
  Tensor slow;
  {
    const auto place = device(toy_device());
    slow = sleep_on(square(x));
  }
  const auto place = device(cpu());
  const Tensor y = slow + x;
  Session session(graph);
  for (int i = 0; i < 2; ++i) {
    const auto error = caught<DeadlineExceededError>([&] {
      session.run(y, {{x, 3.0F}}, {.timeout_in_ms = 1}, nullptr);
    });
    CHECK(error.message().starts_with("Timed out waiting for notification: after 1 ms "));
    CHECK(session.run(y, {{x, 3.0F}}).item<float>() == 12);
  }
}

TEST_CASE("a run waits for an earlier one no longer than it may") {
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor x = placeholder(float32, {}, "x"), y = sleep_on(x) + 1.0F;
  Session session(graph);
  session.run(y, {{x, 1.0F}});
  std::atomic<bool> done = false;
  std::thread other([&] {
    while (!done) session.run(y, {{x, 1.0F}});
  });
  for (int i = 0; i < 4; ++i)
    CHECK_THROWS_AS(session.run(y, {{x, 2.0F}}, {.timeout_in_ms = nap / 5}, nullptr), DeadlineExceededError);
  done = true;
  other.join();
  CHECK(session.run(y, {{x, 2.0F}}).item<float>() == 3);
}

TEST_CASE("the plan that has not run for the longest time is dropped") {
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor x = placeholder(float32, {-1}, "x"), y = square(x), z = x + 1.0F;
  Session session(graph, {.most_plans = 3});
  Plans plans(session);
  for (const std::int64_t size : {1, 2, 3}) CHECK_FALSE(plans.run(y, x, size));
  CHECK(plans.run(y, x, 1));        // now 2 is the oldest
  CHECK_FALSE(plans.run(z, x, 1));  // and gone
  CHECK(plans.alive() == 3);
  CHECK(plans.run(y, x, 3));
  CHECK(plans.run(y, x, 1));
  CHECK_FALSE(plans.run(y, x, 2));
  CHECK_FALSE(plans.run(z, x, 1));
  for (std::int64_t size = 1; size <= 100; ++size) plans.run(y, x, size);
  CHECK(plans.alive() == 3);
  session.close();
  CHECK(plans.alive() == 0);
}

TEST_CASE("by default there are 64, and no plan need be kept") {
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor x = placeholder(float32, {-1}, "x"), y = square(x);
  Session session(graph), forgetful(graph, {.most_plans = 0});
  Plans plans(session), forgotten(forgetful);
  for (std::int64_t size = 1; size <= 70; ++size) plans.run(y, x, size);
  CHECK(plans.alive() == 64);
  for (int i = 0; i < 2; ++i) CHECK_FALSE(forgotten.run(y, x, 2));
  CHECK(forgotten.alive() == 0);
}

TEST_CASE("a callable keeps its plan") {
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor x = placeholder(float32, {-1}, "x"), y = square(x);
  Session session(graph, {.most_plans = 1});
  Plans plans(session);
  plans.run(y, x, 3);
  {
    const auto f = session.make_callable(y, {x});
    CHECK(f(std::vector<float>{1, 1, 1}).shape() == Shape{3});
    plans.run(y, x, 4);
    CHECK(plans.alive() == 2);
    check_values(f(std::vector<float>{1, 1, 1}), {1, 1, 1});
  }
  CHECK(plans.alive() == 1);
}

TEST_CASE("threads may run more shapes than plans are kept") {
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor x = placeholder(float32, {-1}, "x"), y = x * 2.0F + 1.0F;
  Session session(graph, {.most_plans = 2});
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const Tensor result =
            session.run(y, {{x, std::vector<float>(static_cast<std::size_t>(1 + (i + t) % 5), 1.0F)}});
        if (result.shape() != Shape{1 + (i + t) % 5} || result.to_vector<float>().back() != 3) ++wrong;
      }
    });
  for (std::thread& each : threads) each.join();
  CHECK(wrong == 0);
}

}  // namespace tapestry::test::session_limits_test
