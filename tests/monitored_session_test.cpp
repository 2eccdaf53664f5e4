// Training sessions in this process, and on servers over memory.

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "memory_plugin.hpp"
#include "refused.hpp"
#include "same_bits.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace monitored_session_test {

using namespace tapestry;
using namespace tapestry::test;
using train::MonitoredSession;
using train::MonitoredSessionOptions;

namespace {

/// A regression with Variables that initializers compute, slots, and, if asked, random numbers and a global step.
struct Regression {
  Graph graph{};
  Tensor x, loss;
  Operation step;
  std::vector<Variable> variables;
};

Regression make_model(bool noise = false, bool counted = true) {
  Regression model;
  const auto scope = model.graph.as_default();
  const Variable w(zeros({3, 1}) + 0.5, {.name = "w"}), b(0.25, {.name = "b"});
  model.x = placeholder(float32, {-1, 3}, "x");
  Tensor x = model.x;
  if (noise) x = x + random::normal_like(x) * 0.1;
  model.loss = reduce_mean(square(matmul(x, w) + b - 1.0));
  train::ApplyOptions options;
  if (counted) options.global_step = train::global_step();
  model.step = train::AdamOptimizer(0.05).minimize(model.loss, options);
  model.variables = model.graph.variables();
  return model;
}

Tensor batch(int i) { return reshape(cos(arange(12.0) * (i + 1.0)), {4, 3}).cast(float32); }

/// The losses from here on, and the Variables at the end.
std::vector<Tensor> trained(MonitoredSession& training, const Regression& model, int first, int last) {
  std::vector<Tensor> results;
  for (int i = first; i < last; ++i)
    results.push_back(std::get<0>(training.run(std::tuple{model.loss, model.step}, {{model.x, batch(i)}})));
  for (const Variable& each : model.variables) results.push_back(training.session().run(each));
  return results;
}

void check_same_end(const std::vector<Tensor>& whole, const std::vector<Tensor>& resumed) {
  REQUIRE(resumed.size() <= whole.size());
  for (std::size_t i = 0; i < resumed.size(); ++i)
    CHECK(same_bits(whole[whole.size() - resumed.size() + i], resumed[i]));
}

std::string in(const TemporaryFolder& folder, const char* name) { return (folder / name).string(); }

/// A server at a port that it can have again.
Server at_port(int port) {
  return Server(ClusterSpec({{"worker", {"localhost:" + std::to_string(port)}}}), {.job = "worker", .task = 0});
}

}  // namespace

TEST_CASE("other threads use the graph while a session begins") {
  const Server server = at_port(4999);
  for (const std::string& target : {std::string(), server.target()}) {
    CAPTURE(target);
    const Regression model = make_model();
    std::future<std::int64_t> version;
    bool was_free = false;
    MonitoredSessionOptions options;
    options.hooks.push_back({.after_create = [&](const Session&) {
      version = std::async(std::launch::async, [&] { return model.graph.version(); });
      was_free = version.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
    }});
    const MonitoredSession training(target, model.graph, options);
    CHECK(was_free);
    CHECK(version.get() == model.graph.version());
  }
}

TEST_CASE("a training that is resumed has the bits of an unbroken one") {
  for (const bool remote : {false, true})
    for (const bool counted : {true, false}) {
      INFO("on a server: ", remote, ", with a global step: ", counted);
      const auto train_in = [&](const std::string& folder, int first, int last) {
        random::seed(folder.ends_with("whole") || first == 0 ? 7 : 1000);  // the checkpoint has the right one
        std::optional<Server> server;
        if (remote) server = Server::create_local_server();
        const Regression model = make_model(!remote, counted);
        MonitoredSession training(remote ? server->target() : "", model.graph,
                                  {.checkpoint_dir = folder, .save_checkpoint_steps = 4});
        CHECK(training.step() == first);
        auto results = trained(training, model, first, last);
        training.close();
        CHECK(training.should_stop());
        return results;
      };
      const TemporaryFolder folder;
      const auto whole = train_in(in(folder, "whole"), 0, 9);
      train_in(in(folder, "parts"), 0, 6);
      CHECK(latest_checkpoint(in(folder, "parts")) == (in(folder, "parts/model.ckpt-6")));
      check_same_end(whole, train_in(in(folder, "parts"), 6, 9));
    }
}

TEST_CASE("a training ends at its last step, and tells hooks what happens") {
  for (const bool remote : {false, true}) {
    INFO("on a server: ", remote);
    const TemporaryFolder folder;
    std::optional<Server> server;
    if (remote) server = Server::create_local_server();
    const Regression model = make_model();
    std::vector<std::int64_t> steps;
    int created = 0, ended = 0;
    MonitoredSessionOptions options{
        .checkpoint_dir = in(folder, "new/folder"), .save_checkpoint_steps = 2, .max_to_keep = 2, .stop_at_step = 5};
    options.hooks.push_back({.fetches = {model.loss},
                             .after_create = [&](const Session&) { ++created; },
                             .after_run =
                                 [&](train::SessionRun& run) {
                                   REQUIRE(run.values.size() == 1);
                                   CHECK(run.values[0].item<float>() > 0);
                                   steps.push_back(run.step);
                                 },
                             .end = [&](const Session&, std::int64_t step) { ended += static_cast<int>(step); }});
    {
      MonitoredSession training(remote ? server->target() : "", model.graph, options);
      while (!training.should_stop()) training.run(model.step, {{model.x, batch(0)}});
      CHECK_THROWS_AS(training.run(model.step, {{model.x, batch(0)}}), FailedPreconditionError);
      training.close();
      CHECK_THROWS_AS(training.session(), FailedPreconditionError);
    }
    CHECK(steps == std::vector<std::int64_t>{1, 2, 3, 4, 5});
    CHECK(created == 1);
    CHECK(ended == 5);
    const auto state = get_checkpoint_state(in(folder, "new/folder"));
    REQUIRE(state);
    CHECK(state->all ==
          std::vector<std::string>{in(folder, "new/folder/model.ckpt-4"), in(folder, "new/folder/model.ckpt-5")});
    std::size_t files = 0;
    for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator(in(folder, "new/folder"))) ++files;
    CHECK(files == 5);
    CHECK(tensor_bundle::load(*latest_checkpoint(in(folder, "new/folder"))).at("global_step").item<std::int64_t>() ==
          5);

    // One that has ended ends at once.
    const Regression again = make_model();
    MonitoredSession ended_training(remote ? server->target() : "", again.graph,
                                    {.checkpoint_dir = in(folder, "new/folder"), .stop_at_step = 5});
    CHECK(ended_training.should_stop());
  }
}

TEST_CASE("a hook and request_stop end a training") {
  const Regression model = make_model();
  MonitoredSessionOptions options;
  options.hooks.push_back({.after_run = [](train::SessionRun& run) { run.stop = run.step == 3; }});
  MonitoredSession training("", model.graph, options);
  int runs = 0;
  while (!training.should_stop()) training.run(model.step, {{model.x, batch(0)}}), ++runs;
  CHECK(runs == 3);

  MonitoredSession other("", make_model().graph);
  CHECK(!other.should_stop());
  other.request_stop();
  CHECK(other.should_stop());
}

TEST_CASE("workers wait for the chief") {
  const Server server = Server::create_local_server();
  const Regression chiefs = make_model(), others = make_model();
  std::optional<Tensor> seen;
  std::thread worker([&] {
    MonitoredSession training(server.target(), others.graph, {.is_chief = false, .max_wait_secs = 20});
    seen = training.session().run("w:0");
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const MonitoredSession chief(server.target(), chiefs.graph);
  worker.join();
  REQUIRE(seen);
  check_values(*seen, {0.5, 0.5, 0.5});

  Session::reset(server.target());
  const Regression late = make_model();
  const auto wait = [&] { MonitoredSession(server.target(), late.graph, {.is_chief = false, .max_wait_secs = 0.5}); };
  CHECK_THROWS_WITH_AS(wait(), doctest::Contains("the chief has not initialized the Variables 'w'"),
                       DeadlineExceededError);
}

TEST_CASE("a training goes on when its server was lost") {
  const TemporaryFolder folder;
  std::optional<Server> server = at_port(4001);
  const Regression model = make_model(), alone = make_model();
  int created = 0;
  MonitoredSessionOptions options{
      .checkpoint_dir = in(folder, "lost"), .save_checkpoint_steps = 2, .max_wait_secs = 20};
  options.hooks.push_back({.after_create = [&](const Session&) { ++created; }});
  MonitoredSession training(server->target(), model.graph, options);
  MonitoredSession local("", alone.graph);
  for (int i = 0; i < 4; ++i) training.run(model.step, {{model.x, batch(i)}});
  server.reset();
  std::thread restart([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    server = at_port(4001);
  });
  trained(training, model, 4, 6);
  restart.join();
  CHECK(created == 2);
  CHECK(training.step() == 6);
  check_same_end(trained(local, alone, 0, 7), trained(training, model, 6, 7));
  server.reset();
  MonitoredSessionOptions hasty{.max_wait_secs = 0.05};
  CHECK_THROWS_AS(MonitoredSession("memory://localhost:4001", model.graph, hasty), DeadlineExceededError);
}

TEST_CASE("what a training session refuses") {
  const TemporaryFolder folder;
  const Regression model = make_model();
  for (const MonitoredSessionOptions& bad :
       {MonitoredSessionOptions{.save_checkpoint_steps = -1}, MonitoredSessionOptions{.save_checkpoint_secs = -1},
        MonitoredSessionOptions{.max_to_keep = -1}, MonitoredSessionOptions{.stop_at_step = -1},
        MonitoredSessionOptions{.max_wait_secs = -1}})
    CHECK_THROWS_AS(MonitoredSession("", model.graph, bad), InvalidArgumentError);

  for (const bool remote : {false, true}) {
    const Server server = Server::create_local_server();
    const std::string target = remote ? server.target() : "";
    const std::string prefix = in(folder, "c/model.ckpt-1");
    const auto restored = [&](const StateDict& values) {
      tensor_bundle::save(prefix, values);
      update_checkpoint_state(in(folder, "c"), {.latest = prefix});
      MonitoredSession(target, make_model().graph, {.checkpoint_dir = in(folder, "c")});
    };
    CHECK_THROWS_WITH_AS(restored({{"b", tensor(0.5)}}), doctest::Contains("lacks 'w'"), NotFoundError);
    CHECK_THROWS_WITH_AS(restored({{"b", tensor(0.5)}, {"w", zeros({3, 2})}}), doctest::Contains("'w' is float32[3,2]"),
                         InvalidArgumentError);
    const auto train_in = [&](const char* name, Where where = Where::here()) {
      MonitoredSession(target, make_model().graph, {.checkpoint_dir = in(folder, name)}, where);
    };
    std::ofstream(prefix + ".index") << "short";
    TAPESTRY_REFUSED(DataLossError, "no table of LevelDB", train_in("c"));
    std::ofstream(in(folder, "c/checkpoint")) << "junk";
    TAPESTRY_REFUSED(DataLossError, "no CheckpointState", train_in("c"));
    std::ofstream(in(folder, "file")) << "no folder";
    TAPESTRY_REFUSED(NotFoundError, "Not a directory", train_in("file"));
  }
  const Graph graph;
  const auto scope = graph.as_default();
  const Variable step(zeros({2}), {.name = "global_step"});
  CHECK_THROWS_AS(train::global_step(), InvalidArgumentError);
}

}  // namespace monitored_session_test
