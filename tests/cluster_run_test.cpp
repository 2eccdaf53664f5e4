// Graphs that are split among the tasks of a cluster, over memory.

#include <atomic>
#include <chrono>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <thread>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "io/rpc/messages.hpp"
#include "memory_plugin.hpp"
#include "refused.hpp"
#include "same_bits.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

using namespace tapestry;
using namespace tapestry::test;
namespace rpc = tapestry::io::rpc;

namespace {

/// A channel that delays calls, and loses requests and replies.
class FaultyChannel final : public detail::Channel {
 public:
  FaultyChannel(std::shared_ptr<detail::Channel> channel, std::uint64_t seed)
      : channel_(std::move(channel)), random_(seed) {}

  detail::Reply call(const std::string& method, detail::Pieces request, const detail::CallOptions& options) override {
    std::uint64_t fate = 0;
    {
      const std::lock_guard lock(mutex_);
      fate = random_();
    }
    const bool may_fail = method.ends_with("RunGraph") || method.ends_with("RecvTensor") ||
                          method.ends_with("RegisterGraph") || method.ends_with("CleanupGraph");
    if (fate % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(fate / 4 % 500));
    if (may_fail && fate % 31 == 0) throw UnavailableError("the request was lost");
    detail::Reply reply = channel_->call(method, std::move(request), options);
    if (may_fail && fate % 37 == 0) throw UnavailableError("the reply was lost");
    return reply;
  }

 private:
  std::shared_ptr<detail::Channel> channel_;
  std::mutex mutex_;
  std::mt19937_64 random_;
};

/// The memory transport, which counts the calls of each method, and has faults between tasks if it has a seed.
class CountingTransport final : public detail::Transport {
 public:
  std::shared_ptr<detail::Channel> connect(const std::string& address) override {
    auto channel = detail::memory_transport().connect(address);
    if (seed == 0) return channel;
    return std::make_shared<FaultyChannel>(std::move(channel), seed++);
  }
  std::unique_ptr<detail::Listener> listen(const detail::ListenOptions& options,
                                           detail::RequestHandler handler) override {
    return detail::memory_transport().listen(
        options, [this, handler](std::string_view method, std::string_view request, std::stop_token stop) {
          {
            const std::lock_guard lock(mutex_);
            ++calls_[std::string(method.substr(method.rfind('/') + 1))];
          }
          return handler(method, request, std::move(stop));
        });
  }
  int calls(const std::string& method) {
    const std::lock_guard lock(mutex_);
    return calls_[method];
  }

  std::atomic<std::uint64_t> seed = 0;

 private:
  std::mutex mutex_;
  std::map<std::string, int> calls_;
};

/// Two parameter servers and two workers.
class Cluster {
 public:
  explicit Cluster(int first_port, const ServerOptions& options = {}, std::uint64_t seed = 0) : options_(options) {
    transport.seed = seed;
    const auto at = [&](int i) { return "localhost:" + std::to_string(first_port + i); };
    spec = ClusterSpec({{"ps", {at(0), at(1)}}, {"worker", {at(2), at(3)}}});
    for (const char* job : {"ps", "worker"})
      for (const int task : {0, 1}) start(job, task);
  }
  void start(const std::string& job, int task) {
    ServerOptions own = options_;
    own.job = job, own.task = task;
    servers_[job + std::to_string(task)] = detail::make_master(transport, "memory", spec, own);
  }
  void kill(const std::string& name) {
    servers_.at(name)->stop();
    servers_.erase(name);
  }
  std::string target(const std::string& name = "worker0") const { return servers_.at(name)->target(); }

  CountingTransport transport;
  ClusterSpec spec;

 private:
  ServerOptions options_;
  std::map<std::string, std::shared_ptr<Server::Service>> servers_;
};

struct Training {
  Graph graph{};
  Tensor x, y, loss;
  Operation step, init;
  std::vector<Variable> variables;
};

template <class Optimizer>
Training mlp(Optimizer optimizer, const ClusterSpec& cluster, int worker = 0) {
  Training model;
  const auto scope = model.graph.as_default();
  const auto placed =
      device(train::replica_device_setter(cluster, {.worker_device = "/job:worker/task:" + std::to_string(worker)}));
  const Variable w(full({4, 8}, 0.25F), {.name = "w"}), v(full({8, 1}, 0.5F), {.name = "v"}),
      b(sin(arange(8.0)).cast(float32), {.name = "b"});
  model.x = placeholder(float32, {-1, 4}, "x"), model.y = placeholder(float32, {-1, 1}, "y");
  model.loss = reduce_mean(square(matmul(tanh(matmul(model.x, w) + b), v) - model.y));
  model.step = optimizer.minimize(model.loss, {.global_step = train::global_step()});
  model.init = global_variables_initializer();
  model.variables = {w, v, b};
  return model;
}

Tensor batch(int i, const Shape& shape) {
  return reshape(cos(arange(static_cast<double>(shape.size())) * (i + 1.0)), shape).cast(float32);
}

Tensor one_step(const Session& session, const Training& model, int i) {
  return std::get<0>(
      session.run(std::tuple{model.loss, model.step}, {{model.x, batch(i, {6, 4})}, {model.y, batch(i, {6, 1})}}));
}

std::vector<Tensor> trained(const Session& session, const Training& model) {
  std::vector<Tensor> results;
  session.run(model.init);
  for (int i = 0; i < 5; ++i) results.push_back(one_step(session, model, i));
  for (const Variable& each : model.variables) results.push_back(session.run(each));
  return results;
}

}  // namespace

TEST_CASE("a graph on several tasks trains as in this process, to the bit") {
  const Cluster cluster(5000);
  const auto check = [&](const char* name, bool exact, auto make) {
    INFO(std::string(name));
    const Training here = mlp(make(), ClusterSpec()), there = mlp(make(), cluster.spec);
    const auto split = trained(Session(cluster.target(), there.graph), there),
               whole = trained(Session(here.graph, {.allow_soft_placement = true}), here);
    if (exact) {
      check_same_bits(split, whole);
    } else {
      for (std::size_t i = 0; i < whole.size(); ++i) check_same(split[i], whole[i], 1e-4);
    }
    Session::reset(cluster.target());
  };
  check("gradient descent", true, [] { return train::GradientDescentOptimizer(0.1); });
  check("momentum", true, [] { return train::MomentumOptimizer(0.1, 0.9); });
  check("Adagrad", true, [] { return train::AdagradOptimizer(0.1); });
  // The powers of its rates travel as float32.
  check("Adam", false, [] { return train::AdamOptimizer(0.01); });
}

TEST_CASE("the example of three tasks: each tensor crosses once") {
  Cluster cluster(5010);
  Graph graph;
  const auto scope = graph.as_default();
  std::optional<Variable> w, b, s;
  {
    const auto on = device("/job:ps/task:0");
    w = Variable(3.0F, {.name = "w"}), b = Variable(1.0F, {.name = "b"});
  }
  {
    const auto on = device("/job:ps/task:1");
    s = Variable(0.0F, {.name = "s"});
  }
  Tensor x, y, sum;
  {
    const auto on = device("/job:worker/task:0");
    x = placeholder(float32, {}, "x");
    y = add(multiply(*w, x), *b, "y");
    sum = s->assign_add(y);
  }
  const Session session(cluster.target(), graph);
  session.run(global_variables_initializer());
  CHECK(session.run(sum, {{x, 2.0}}).item<float>() == 7);
  // Only w, b and y, and the new value of s, which is fetched, and no constant: four, each by one call.
  const int before = cluster.transport.calls("RecvTensor"), graphs = cluster.transport.calls("RegisterGraph"),
            runs = cluster.transport.calls("RunGraph");
  CHECK(session.run(sum, {{x, 3.0}}).item<float>() == 17);
  CHECK(cluster.transport.calls("RecvTensor") - before == 4);
  CHECK(cluster.transport.calls("RegisterGraph") == graphs);
  CHECK(cluster.transport.calls("RunGraph") - runs == 2);
  check_values(session.run(*s), {17});
}

TEST_CASE("workers train the Variables of the parameter servers together") {
  const Cluster cluster(5020);
  std::vector<std::thread> workers;
  std::atomic<int> failed = 0;
  constexpr int steps = 20;
  for (const int worker : {0, 1})
    workers.emplace_back([&, worker] {
      try {
        const Training model = mlp(train::GradientDescentOptimizer(0.05), cluster.spec, worker);
        train::MonitoredSession training(cluster.target("worker" + std::to_string(worker)), model.graph,
                                         {.is_chief = worker == 0, .max_wait_secs = 20});
        for (int i = 0; i < steps; ++i)
          training.run(model.step, {{model.x, batch(i, {6, 4})}, {model.y, batch(i, {6, 1})}});
        training.session().run("global_step:0");
      } catch (const Error& error) {
        std::cerr << error.what() << std::endl;
        ++failed;
      }
    });
  for (std::thread& each : workers) each.join();
  CHECK(failed == 0);
  const Training model = mlp(train::GradientDescentOptimizer(0.05), cluster.spec);
  const Session session(cluster.target("ps1"), model.graph);
  CHECK(session.run("global_step:0").item<std::int64_t>() == 2 * steps);
}

TEST_CASE("an error of a task has the line of the program, and leaves the session usable") {
  const Cluster cluster(5030);
  const Tensor seven = ones({7});
  Graph graph;
  const auto scope = graph.as_default();
  Tensor x, bad, good;
  {
    const auto on = device("/job:ps/task:0");
    x = placeholder(float32, {-1}, "x");
    bad = reshape(x, {7}, "bad");
  }
  {
    const auto on = device("/job:worker/task:1");
    good = reduce_sum(bad * 2.0);
  }
  const Session session(cluster.target(), graph);
  const auto now = [] { return std::chrono::steady_clock::now(); };
  const auto begin = now();
  for (int i = 0; i < 3; ++i) {
    CHECK_THROWS_WITH_AS(session.run(good, {{x, {1.0, 2.0}}}), doctest::Contains("cluster_run_test.cpp"),
                         InvalidArgumentError);
    CHECK(session.run(good, {{x, seven}}).item<float>() == 14);
  }
  CHECK(now() - begin < std::chrono::seconds(5));

  const auto elsewhere = device("/job:gpu/task:3");
  const Tensor lost = good + 1.0;
  CHECK_THROWS_WITH_AS(session.run(lost, {{x, seven}}), doctest::Contains("/job:gpu"), InvalidArgumentError);
  TAPESTRY_REFUSED(UnimplementedError, "several parts", session.partial_run_setup({good}, {x}));
  const Session narrow(cluster.target(), graph, {.device_filters = {"/job:worker/task:0", "/job:ps"}});
  CHECK_THROWS_WITH_AS(narrow.run(good, {{x, seven}}), doctest::Contains("/job:worker/task:1"), InvalidArgumentError);
  CHECK(narrow.list_devices().size() == 3);
  CHECK(session.list_devices().size() == 4);
}

TEST_CASE("callables, several fetches, branches and traces across tasks") {
  const Cluster cluster(5040);
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor a = placeholder(float32, {-1}, "a"), b = placeholder(float32, {-1}, "b");
  Tensor sum, branch, rows, flat;
  {
    const auto on = device("/job:ps/task:1");
    sum = add(a, b, "sum");
    rows = reshape(sum, {sum.shape()[0], 1});
  }
  {
    const auto on = device("/job:worker/task:1");
    branch = cond(
        less(reduce_sum(sum), 3.0), [&] { return sum * 2.0; }, [&] { return sum; });
    flat = matmul(rows, ones_like(rows), {.transpose_a = true});
  }
  const Session local(graph, {.allow_soft_placement = true}), there(cluster.target(), graph);
  const std::vector<Tensor> fetches{branch, sum, flat, a, branch};
  for (const double each : {1.0, 2.0}) {
    const Feeds feeds{{a, {each, 1.0}}, {b, {0.5, -1.0}}};
    check_same_bits(there.run(fetches, feeds), local.run(fetches, feeds));
  }
  check_values(there.run(branch, {{sum, {2.0}}}), {4});
  const auto f = there.make_callable({flat, sum}, {a, b});
  check_values(f(tensor({1.0, 2.0}), tensor({1.0, 1.0}))[1], {2, 3});
  check_values(f(tensor({1.0}), tensor({1.0}))[0], {2});
  RunMetadata metadata;
  there.run(branch, {{a, {1.0}}, {b, {1.0}}}, {.trace_level = TraceLevel::full}, &metadata);
  std::set<std::string> tasks;
  for (const auto& each : metadata.plan.steps) tasks.insert(each.task);
  CHECK(tasks.contains("/job:ps/replica:0/task:1"));
  CHECK(tasks.contains("/job:worker/replica:0/task:1"));
}

TEST_CASE("a task that vanishes ends the step, and a training goes on when it is back") {
  Cluster cluster(5050);
  const TemporaryFolder folder;
  const Training model = mlp(train::MomentumOptimizer(0.1, 0.9), cluster.spec),
                 alone = mlp(train::MomentumOptimizer(0.1, 0.9), ClusterSpec());
  Graph waiting;
  Tensor endless;
  {
    const auto scope = waiting.as_default();
    const auto on = device("/job:ps/task:1");
    endless = std::get<0>(while_loop([](const Tensor& i) { return less(i, 1 << 30); },
                                     [](const Tensor& i) { return std::tuple{tp::mod(i + 1, 1 << 20)}; },
                                     std::tuple{constant(0)}));
  }
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    cluster.kill("ps1");
  });
  const Session session(cluster.target(), waiting);
  CHECK_THROWS_AS(session.run(endless), Error);
  killer.join();

  cluster.start("ps", 1);
  train::MonitoredSession training(cluster.target(), model.graph,
                                   {.checkpoint_dir = (folder / "c").string(), .save_checkpoint_steps = 1});
  const Session local(alone.graph, {.allow_soft_placement = true});
  local.run(alone.init);
  for (int i = 0; i < 6; ++i) {
    if (i == 3) cluster.kill("ps0"), cluster.start("ps", 0);
    if (i == 5) cluster.kill("worker0"), cluster.start("worker", 0);
    const Tensor there = std::get<0>(
        training.run(std::tuple{model.loss, model.step}, {{model.x, batch(i, {6, 4})}, {model.y, batch(i, {6, 1})}}));
    INFO(i);
    CHECK(same_bits(there, one_step(local, alone, i)));
  }
}

TEST_CASE("a session waits for tasks that start later, until its deadline") {
  Cluster cluster(5060);
  cluster.kill("ps0");
  const Training model = mlp(train::GradientDescentOptimizer(0.1), cluster.spec);
  const Session hasty(cluster.target(), model.graph, {.operation_timeout_in_ms = 50});
  CHECK_THROWS_AS(hasty.run(model.init), DeadlineExceededError);
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    cluster.start("ps", 0);
  });
  const Session patient(cluster.target(), model.graph);
  patient.run(model.init);
  late.join();
  CHECK(patient.run(model.variables[2]).shape() == Shape{8});
}

TEST_CASE("isolated sessions have Variables of their own on all tasks") {
  const Cluster cluster(5070);
  const Training model = mlp(train::GradientDescentOptimizer(0.1), cluster.spec);
  const Session shared(cluster.target(), model.graph),
      own(cluster.target(), model.graph, {.isolate_session_state = true});
  shared.run(model.init);
  CHECK_THROWS_AS(own.run(model.variables[0]), FailedPreconditionError);
  own.run(model.init);
  one_step(own, model, 1);
  CHECK(!same_bits(shared.run(model.variables[0]), own.run(model.variables[0])));
}

TEST_CASE("with lost messages no run hangs, and no update is lost or made twice") {
  int finished = 0, lost = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    INFO("seed ", seed);
    Cluster cluster(5100, {}, seed * 1000);
    Graph graph;
    const auto scope = graph.as_default();
    std::optional<Variable> s;
    {
      const auto on = device("/job:ps/task:0");
      s = Variable(0.0F, {.name = "s"});
    }
    Tensor y, sum;
    {
      const auto on = device("/job:worker/task:1");
      y = *s * 2.0 + 1.0;
    }
    {
      const auto on = device("/job:ps/task:1");
      y = y - *s * 2.0;
    }
    {
      const auto after = control_dependencies({y});
      sum = s->assign_add(stop_gradient(y));
    }
    const Session session(cluster.target(), graph, {.operation_timeout_in_ms = 20'000});
    const auto attempt = [&](const auto& fetch) -> std::optional<Tensor> {
      try {
        return session.run(fetch);
      } catch (const UnavailableError&) {
        return std::nullopt;
      }
    };
    while (!attempt(global_variables_initializer())) ++lost;
    double least = 0, most = 0;
    for (int i = 0; i < 10; ++i) {
      ++most;
      if (attempt(sum)) ++least, ++finished;
    }
    std::optional<Tensor> value;
    while (!(value = attempt(*s))) ++lost;
    lost += static_cast<int>(most - least);
    CHECK(value->item<float>() >= least);
    CHECK(value->item<float>() <= most);
  }
  CHECK(finished > 100);
  CHECK(lost > 10);
}

TEST_CASE("a task that gets garbage goes on") {
  const Cluster cluster(5200);
  const auto channel = detail::memory_transport().connect("localhost:5202");
  std::mt19937_64 random(1);
  const auto call = [&](const std::string& method, const std::string& bytes) {
    detail::Pieces request;
    request.add(bytes);
    try {
      channel->call("/tensorflow.WorkerService/" + method, std::move(request), {.timeout_in_ms = 20});
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): it may be refused, or wait for ever
    }
  };
  for (const char* method : {"RegisterGraph", "RunGraph", "RecvTensor", "CleanupGraph", "GetStatus", "CleanupAll",
                             "CreateWorkerSession", "DeleteWorkerSession", "DeregisterGraph", "Nonsense"})
    for (int i = 0; i < 40; ++i) {
      std::string bytes(random() % 40, ' ');
      for (char& each : bytes) each = static_cast<char>(random() % 4 == 0 ? random() : random() % 24);
      call(method, bytes);
    }
  // Graphs that contradict themselves.
  for (const char* text : {"node { name: 'a' op: '_Send' }", "node { name: 'a' op: 'Add' input: 'b' }",
                           "node { name: 'a' op: 'NoOp' input: '^a' }",
                           "node { name: 'a' op: '_Recv' } node { name: 'a' "
                           "op: '_Recv' }",
                           "node { name: 'a' op: '_Recv' } node { name: 'b' op: 'Relu' input: 'a' }"}) {
    io::GraphDef graph = io::decode(io::from_text(text));
    const auto registered = rpc::encode(rpc::RegisterGraphRequest{.graph_def = io::encode(graph)}).joined();
    call("RegisterGraph", registered);
  }
  for (int i = 0; i < 20; ++i)
    call("RunGraph", rpc::encode(rpc::RunGraphRequest{.graph_handle = std::to_string(i), .step_id = i}).joined());
  const Training model = mlp(train::GradientDescentOptimizer(0.1), cluster.spec);
  const Session session(cluster.target(), model.graph);
  session.run(model.init);
  CHECK(one_step(session, model, 0).item<float>() > 0);
}
