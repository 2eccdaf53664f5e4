// Synchronous training on parameter servers, and TensorFlow's queues and accumulators, over memory.

#include <atomic>
#include <chrono>
#include <functional>
#include <iostream>
#include <thread>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "io/tensorflow/graph_def.hpp"
#include "memory_cluster.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"

namespace sync_replicas_test {

using namespace tapestry;
using namespace tapestry::test;

namespace {

using OptimizerPtr = std::unique_ptr<train::Optimizer>;

/// A model with weights, a bias and an embedding, trained by several workers together.
struct Replica {
  Replica(OptimizerPtr given, const ClusterSpec& cluster, int worker, int replicas, int total = 0)
      : optimizer(std::move(given)), opt(*optimizer, replicas, {.total_num_replicas = total}) {
    const auto scope = graph.as_default();
    const auto placed =
        device(train::replica_device_setter(cluster, {.worker_device = "/job:worker/task:" + std::to_string(worker)}));
    make_model();
    step = opt.minimize(loss, {.global_step = train::global_step()});
  }
  /// The same in this process, for one worker.
  explicit Replica(OptimizerPtr given) : optimizer(std::move(given)), opt(*optimizer, 1) {
    const auto scope = graph.as_default();
    make_model();
    step = optimizer->minimize(loss, {.global_step = train::global_step()});
    init = global_variables_initializer();
  }
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  Feeds feeds(const Tensor& points, const Tensor& rows) const { return {{x, points}, {ids, rows}}; }

  Graph graph{};
  OptimizerPtr optimizer;
  train::SyncReplicasOptimizer opt;
  Tensor x, ids, loss;
  Operation step, init;
  std::vector<Variable> variables;

 private:
  void make_model() {
    const Variable w(full({4, 3}, 0.25F), {.name = "w"}), b(sin(arange(3.0)).cast(float32), {.name = "b"}),
        table(reshape(cos(arange(30.0)), {10, 3}).cast(float32), {.name = "table"});
    x = placeholder(float32, {-1, 4}, "x"), ids = placeholder(int64, {-1}, "ids");
    loss = reduce_mean(square(tanh(matmul(x, w) + b) * embedding_lookup(table, ids) - 0.5));
    variables = {w, b, table};
  }
};

constexpr std::int64_t rows_each = 4;

Tensor points_of(int worker, std::int64_t step) {
  const double seed = 3.0 * worker + 7.0 * static_cast<double>(step) + 1;
  return reshape(cos(arange(4.0 * rows_each) * seed), {rows_each, 4}).cast(float32);
}
/// Some ids are the same for several workers, and some twice in a batch.
Tensor ids_of(int worker, std::int64_t step) {
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < rows_each; ++i) ids.push_back((i * i + worker * 3 + step) % 10);
  return tensor(ids, {rows_each});
}

std::vector<Tensor> values_of(const std::function<Tensor(const Variable&)>& run, const Replica& model) {
  std::vector<Tensor> values;
  for (const Variable& each : model.variables) values.push_back(run(each));
  return values;
}

/// Runs f on a thread for each worker, and fails if one throws.
void for_workers(int workers, const std::function<void(int)>& f) {
  std::atomic<int> failed = 0;
  std::vector<std::thread> threads;
  for (int worker = 0; worker < workers; ++worker)
    threads.emplace_back([&, worker] {
      try {
        f(worker);
      } catch (const std::exception& error) {
        std::cerr << "worker " << worker << ": " << error.what() << std::endl;
        ++failed;
      }
    });
  for (std::thread& each : threads) each.join();
  CHECK(failed == 0);
}

OptimizerPtr descent() { return std::make_unique<train::GradientDescentOptimizer>(0.1); }

train::MonitoredSessionOptions options_of(const Replica& model, int worker, std::int64_t steps,
                                          const std::string& folder = {}) {
  return {.is_chief = worker == 0,
          .checkpoint_dir = folder,
          .save_checkpoint_steps = 1,
          .stop_at_step = steps,
          .hooks = {model.opt.make_session_run_hook(worker == 0)},
          .max_wait_secs = 60};
}

std::string name_of(int worker) { return "worker" + std::to_string(worker); }

/// Graphs as files have them, for ops of TensorFlow's that Tapestry has no functions for.
Graph graph_of(const std::string& nodes) { return Graph::from_graph_def(io::from_text(nodes)); }

}  // namespace

TEST_CASE("synchronous steps of several workers equal those of one with the joint batch") {
  constexpr int steps = 5;
  const std::vector<std::pair<const char*, std::function<OptimizerPtr()>>> optimizers = {
      {"gradient descent", descent},
      {"momentum", [] { return std::make_unique<train::MomentumOptimizer>(0.1, 0.9); }},
      {"Adagrad", [] { return std::make_unique<train::AdagradOptimizer>(0.1); }},
      {"Adam", [] { return std::make_unique<train::AdamOptimizer>(0.01); }}};
  const Cluster cluster(5300, {}, 0, 3);
  for (const auto& optimizer : optimizers)
    for (const int workers : {1, 2, 3}) {
      INFO(std::string(optimizer.first), " with ", workers, " workers");
      const auto& make = optimizer.second;
      for_workers(workers, [&](int worker) {
        const Replica model(make(), cluster.spec, worker, workers);
        train::MonitoredSession training(cluster.target(name_of(worker)), model.graph,
                                         options_of(model, worker, steps));
        std::int64_t runs = 0;
        for (; !training.should_stop(); ++runs)
          training.run(model.step, model.feeds(points_of(worker, runs), ids_of(worker, runs)));
        if (runs != steps) throw InternalError("made " + std::to_string(runs) + " runs");
      });
      const Replica joint(make());
      const Session local(joint.graph);
      local.run(joint.init);
      for (std::int64_t i = 0; i < steps; ++i) {
        std::vector<Tensor> points, ids;
        for (int worker = 0; worker < workers; ++worker)
          points.push_back(points_of(worker, i)), ids.push_back(ids_of(worker, i));
        local.run(joint.step, joint.feeds(concat(points), concat(ids)));
      }
      const Replica reader(make(), cluster.spec, 0, workers);
      const Session remote(cluster.target("ps1"), reader.graph);
      const auto there = values_of([&](const Variable&each) { return remote.run(each); }, reader),
                 here = values_of([&](const Variable&each) { return local.run(each); }, joint);
      for (std::size_t i = 0; i < here.size(); ++i) check_same(there[i], here[i], 1e-4);
      CHECK(remote.run("global_step:0").item<std::int64_t>() == steps);
      Session::reset(cluster.target());
    }
}

TEST_CASE("the gradient of a worker that is late is dropped") {
  const Cluster cluster(5320);
  // One gradient makes a step, and two workers wait for it.
  const Replica first(descent(), cluster.spec, 0, 1, 2), second(descent(), cluster.spec, 1, 1, 2);
  Graph counts = graph_of(R"(
    node { name: "a" op: "ConditionalAccumulator" device: "/job:ps/task:0"
      attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shared_name" value { s: "w:0/grad_accum" } }
      attr { key: "reduction_type" value { s: "MEAN" } } }
    node { name: "n" op: "AccumulatorNumAccumulated" input: "a" device: "/job:ps/task:0" })");
  const Session a(cluster.target("worker0"), first.graph), b(cluster.target("worker1"), second.graph),
      counting(cluster.target("worker0"), counts);
  {
    const auto scope = first.graph.as_default();
    a.run(global_variables_initializer());
  }
  a.run(first.opt.operations().chief_init), b.run(second.opt.operations().local_init);
  const auto values = [&] { return values_of([&](const Variable& each) { return a.run(each); }, first); };
  const auto run = [](const Session& session, const Replica& model, int i) {
    session.run(model.step, model.feeds(points_of(0, i), ids_of(0, i)));
  };
  const auto step_with = [&](const Session& session, const Replica& model, int i) {
    std::thread worker([&] { run(session, model, i); });
    a.run(first.opt.operations().sync);
    worker.join();
  };
  step_with(a, first, 0);
  const auto after_one = values();
  run(b, second, 1);  // of step 0: dropped, and a token is there for it
  CHECK(counting.run("n:0").item<std::int32_t>() == 0);
  const auto unchanged = values();
  for (std::size_t i = 0; i < after_one.size(); ++i) check_same(unchanged[i], after_one[i], 0);
  step_with(b, second, 1);  // of step 1

  const Replica joint(descent());
  const Session local(joint.graph);
  local.run(joint.init);
  for (const int i : {0, 1}) run(local, joint, i);
  const auto here = values_of([&](const Variable&each) { return local.run(each); }, joint), there = values();
  for (std::size_t i = 0; i < here.size(); ++i) check_same(there[i], here[i], 1e-5);
}

TEST_CASE("with a backup worker, a training goes on when one is killed") {
  Cluster cluster(5330, {}, 0, 3);
  constexpr std::int64_t steps = 12;
  for_workers(3, [&](int worker) {
    const Replica model(descent(), cluster.spec, worker, 2, 3);
    train::MonitoredSession training(cluster.target(name_of(worker)), model.graph, options_of(model, worker, steps));
    for (std::int64_t i = 0; !training.should_stop(); ++i) {
      if (worker == 2 && i == 2) return cluster.kill("worker2");
      training.run(model.step, model.feeds(points_of(worker, i), ids_of(worker, i)));
    }
  });
  const Replica reader(descent(), cluster.spec, 0, 2, 3);
  CHECK(Session(cluster.target("ps0"), reader.graph).run("global_step:0").item<std::int64_t>() >= steps);
}

TEST_CASE("a synchronous training ends when each of its tasks is killed once and comes back") {
  for (const std::string lost : {"worker1", "worker0", "ps0", "ps1"}) {
    INFO(lost);
    Cluster cluster(5340);
    const TemporaryFolder folder;
    constexpr std::int64_t steps = 8;
    std::atomic<bool> was_killed = false;
    for_workers(2, [&](int worker) {
      const Replica model(descent(), cluster.spec, worker, 2);
      train::MonitoredSession training(
          cluster.target(name_of(worker)), model.graph,
          options_of(model, worker, steps, worker == 0 ? (folder / lost).string() : std::string()));
      while (!training.should_stop()) {
        if (worker == 0 && training.step() == 3 && !was_killed.exchange(true)) {
          cluster.kill(lost);
          cluster.start(lost.substr(0, lost.size() - 1), lost.back() - '0');
        }
        training.run(model.step, model.feeds(points_of(worker, training.step()), ids_of(worker, training.step())));
      }
    });
    const Replica reader(descent(), cluster.spec, 0, 2);
    CHECK(Session(cluster.target("ps0"), reader.graph).run("global_step:0").item<std::int64_t>() >= steps);
    CHECK(was_killed);
  }
}

TEST_CASE("when the tokens are closed, no worker waits any longer") {
  const Cluster cluster(5350);
  std::atomic<int> ended = 0;
  for_workers(2, [&](int worker) {
    const Replica model(descent(), cluster.spec, worker, 2);
    train::MonitoredSession training(cluster.target(name_of(worker)), model.graph, options_of(model, worker, 100));
    try {
      for (std::int64_t i = 0; !training.should_stop(); ++i) {
        if (worker == 1 && i == 2) training.session().run(model.opt.operations().close);
        training.run(model.step, model.feeds(points_of(worker, i), ids_of(worker, i)));
      }
    } catch (const OutOfRangeError&) {
      ++ended;
    } catch (const CancelledError&) {
      CHECK(worker == 0);  // the chief may tell why it made no step
      ++ended;
    }
  });
  CHECK(ended == 2);
}

TEST_CASE("queues of a server give what was put in, in order, and may wait") {
  const Server server = Server::create_local_server();
  const std::string queue = R"(
    node { name: "q" op: "FIFOQueueV2"
      attr { key: "component_types" value { list { type: DT_INT64 type: DT_FLOAT } } }
      attr { key: "shapes" value { list { shape { } shape { dim { size: 2 } } } } }
      attr { key: "capacity" value { i: 3 } } attr { key: "shared_name" value { s: "queue" } } }
    node { name: "i" op: "Placeholder" attr { key: "dtype" value { type: DT_INT64 } } }
    node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
    node { name: "put" op: "QueueEnqueueV2" input: "q" input: "i" input: "x"
      attr { key: "Tcomponents" value { list { type: DT_INT64 type: DT_FLOAT } } } }
    node { name: "put_many" op: "QueueEnqueueManyV2" input: "q" input: "i" input: "x"
      attr { key: "Tcomponents" value { list { type: DT_INT64 type: DT_FLOAT } } } }
    node { name: "take" op: "QueueDequeueV2" input: "q"
      attr { key: "component_types" value { list { type: DT_INT64 type: DT_FLOAT } } } }
    node { name: "count" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
      attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { } int_val: 2 } } } }
    node { name: "take_two" op: "QueueDequeueManyV2" input: "q" input: "count"
      attr { key: "component_types" value { list { type: DT_INT64 type: DT_FLOAT } } } }
    node { name: "twice" op: "Add" input: "take:1" input: "take:1" attr { key: "T" value { type: DT_FLOAT } } }
    node { name: "size" op: "QueueSizeV2" input: "q" }
    node { name: "is_closed" op: "QueueIsClosedV2" input: "q" }
    node { name: "close" op: "QueueCloseV2" input: "q" })";
  const Graph graph = graph_of(queue), other = graph_of(queue);
  const Session session(server.target(), graph), second(server.target(), other),
      own(server.target(), graph, {.isolate_session_state = true});
  const auto put = [&](std::int64_t i) {
    session.run(graph.get_operation_by_name("put"),
                {{"i:0", tensor(i)}, {"x:0", tensor(std::vector<float>{float(i), 0.5F})}});
  };
  const auto size = [](const Session& in) { return in.run("size:0").item<std::int32_t>(); };
  put(1), put(2);
  CHECK(size(second) == 2);
  CHECK(size(own) == 0);
  auto element = second.run({"take:0", "twice:0"});
  CHECK(element[0].item<std::int64_t>() == 1);
  check_values(element[1], {2, 1});
  session.run(graph.get_operation_by_name("put_many"),
              {{"i:0", tensor(std::vector<std::int64_t>{3, 4})}, {"x:0", ones({2, 2})}});
  CHECK(size(second) == 3);
  // It is full, until another session takes an element.
  const auto hasty = RunOptions{.timeout_in_ms = 50};
  const Feeds five{{"i:0", tensor(std::int64_t{5})}, {"x:0", ones({2})}};
  CHECK_THROWS_AS(session.run(Fetch("put"), five, hasty, nullptr), DeadlineExceededError);
  std::thread taker([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    CHECK(second.run("take:0").item<std::int64_t>() == 2);
  });
  put(5);
  taker.join();
  check_values(second.run("take_two:0"), {3, 4});
  CHECK(second.run({"take:0", "take:1"})[0].item<std::int64_t>() == 5);
  CHECK_THROWS_AS(second.run(Fetch("take:0"), {}, hasty, nullptr), DeadlineExceededError);

  CHECK_THROWS_WITH_AS(session.run(Fetch("put"), {{"i:0", tensor(std::int64_t{5})}, {"x:0", ones({3})}}),
                       doctest::Contains("Shape mismatch in tuple component 1"), InvalidArgumentError);
  CHECK(size(session) == 0);
  put(6);
  session.run(Fetch("close"));
  CHECK(second.run("take:0").item<std::int64_t>() == 6);
  CHECK_THROWS_AS(put(7), CancelledError);
  std::thread waiting([&] { CHECK_THROWS_AS(second.run("take:0"), OutOfRangeError); });
  CHECK(session.run("is_closed:0").item<bool>());
  waiting.join();
}

}  // namespace sync_replicas_test
