// Runs on a cluster while messages are late or lost and tasks are killed, by seeded schedules over memory. As many as
// TAPESTRY_SCHEDULES tells, from the seed TAPESTRY_SEED on: `TAPESTRY_SCHEDULES=10000 cluster_schedules_test`.

#include <array>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <random>
#include <thread>

#include <doctest/doctest.h>

#include "memory_cluster.hpp"
#include "tapestry/tapestry.hpp"

namespace cluster_schedules_test {

using namespace tapestry;
using namespace tapestry::test;

namespace {

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::stoull(text) : otherwise;
}

/// A graph over four tasks that adds what is fed to a Variable of the first one, after values have gone to and fro.
struct Sum {
  Sum() {
    const auto scope = graph.as_default();
    const auto at = [](const char* task) { return device(task); };
    {
      const auto on = at("/job:ps/task:0");
      total.emplace(tensor(std::int64_t{0}), VariableOptions{.name = "total"});
    }
    amount = placeholder(int64, {}, "amount");
    Tensor y;
    {
      const auto on = at("/job:worker/task:1");
      y = *total * 2 + amount;
    }
    {
      const auto on = at("/job:ps/task:1");
      y = y - *total * 2;
    }
    init = global_variables_initializer();
    const auto after = control_dependencies({y});
    sum = total->assign_add(stop_gradient(y));
  }
  Graph graph{};
  std::optional<Variable> total;
  Tensor amount, sum;
  Operation init;
};

struct Outcome {
  int finished = 0, lost = 0, kills = 0;
};

/// Each attempt adds another power of 4. So the digits of the sum tell which attempts were made, and how often.
Outcome run_schedule(std::uint64_t seed, const Sum& model) {
  constexpr int attempts = 10;
  std::mt19937_64 random(seed);
  Cluster cluster(5400, {}, seed * 1000 + 1);
  std::optional<Session> session;
  const auto attempt = [&](const auto& fetch, const Feeds& feeds) -> std::optional<Tensor> {
    try {
      if (!session) session.emplace(cluster.target(), model.graph, SessionOptions{.operation_timeout_in_ms = 60'000});
      return session->run(fetch, feeds);
    } catch (const UnavailableError&) {  // NOLINT(bugprone-empty-catch): the run is lost
    } catch (const AbortedError&) {
      session.reset();
    }
    return std::nullopt;
  };
  Outcome outcome;
  while (!attempt(model.init, {})) ++outcome.lost;
  std::vector<bool> succeeded;
  for (int i = 0; i < attempts; ++i) {
    std::jthread killer;
    if (random() % 8 == 0) {
      // A task without Variables, perhaps the master.
      const auto [job, task] =
          std::array{std::pair{"ps", 1}, std::pair{"worker", 0}, std::pair{"worker", 1}}[random() % 3];
      killer = std::jthread([&cluster, job = job, task = task, wait = random() % 1000] {
        std::this_thread::sleep_for(std::chrono::microseconds(wait));
        cluster.kill(job + std::to_string(task));
        cluster.start(job, task);
      });
      ++outcome.kills;
      if (!session) killer.join();  // the new session needs the target
    }
    succeeded.push_back(attempt(model.sum, {{model.amount, tensor(std::int64_t{1} << (2 * i))}}).has_value());
    if (killer.joinable()) killer.join();
    ++(succeeded.back() ? outcome.finished : outcome.lost);
  }
  std::optional<Tensor> value;
  while (!(value = attempt(*model.total, {}))) ++outcome.lost;
  for (int i = 0; i < attempts; ++i) {
    const std::int64_t times = value->item<std::int64_t>() >> (2 * i) & 3;
    CHECK_MESSAGE(times <= 1, "attempt ", i, " was made twice");
    CHECK_MESSAGE(times >= (succeeded[static_cast<std::size_t>(i)] ? 1 : 0), "attempt ", i, " was lost");
  }
  return outcome;
}

}  // namespace

TEST_CASE("when messages are lost and tasks are killed no run hangs, and no update is lost or made twice") {
  const std::uint64_t count = number_from("TAPESTRY_SCHEDULES", 200), first = number_from("TAPESTRY_SEED", 1);
  const Sum model;
  Outcome sum;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    INFO("seed ", seed);
    const Outcome each = run_schedule(seed, model);
    sum.finished += each.finished, sum.lost += each.lost, sum.kills += each.kills;
    if (seed % 1000 == 0) std::cout << seed << " schedules" << std::endl;
  }
  std::cout << count << " schedules: " << sum.finished << " updates, " << sum.lost << " runs lost, " << sum.kills
            << " tasks killed" << std::endl;
  CHECK(sum.finished > 0);
  CHECK((sum.lost > 0 || count < 20));
}

}  // namespace cluster_schedules_test
