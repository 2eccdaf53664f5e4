// Graphs that are split among the tasks of a cluster, over memory.

#include <atomic>
#include <chrono>
#include <functional>
#include <iostream>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include <doctest/doctest.h>

#include "distributed/rpc/served_session.hpp"
#include "expect.hpp"
#include "io/rpc/islands.hpp"
#include "io/rpc/messages.hpp"
#include "io/rpc/split_graph.hpp"
#include "io/tensorflow/op_rules.hpp"
#include "memory_cluster.hpp"
#include "refused.hpp"
#include "same_bits.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"
#include "toy_backend.hpp"

namespace cluster_run_test {

using namespace tapestry;
using namespace tapestry::test;
namespace rpc = tapestry::io::rpc;

namespace {

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

/// An optimizer of one's own, whose step is composed of ops.
class Decaying final : public train::Optimizer {
 public:
  Decaying() : Optimizer("Decaying", 0.1, {{"sum"}}) {}

 private:
  Tensors updated(const Tensor& value, const Tensor& gradient, const Tensors& slots, const Step& step) const override {
    const Tensor sum = slots[0] * 0.5 + gradient;
    return {value - step.learning_rate * sum, sum};
  }
};

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

TEST_CASE("the documents' example of a split graph: five tensors cross tasks and one crosses devices, each once") {
  // f, c and a are at the parameter server, b at a device of a worker, d and e at another one, g and h at the other
  // worker. e is needed twice there and sent once, and b is needed twice by the second device.
  for (const bool by_tasks : {false, true}) {
    INFO("each of the worker's devices is a task: ", by_tasks);
    Cluster cluster(5015, {}, 0, by_tasks ? 3 : 2);
    Graph graph;
    const auto scope = graph.as_default();
    const auto at = [](const std::string& place, const std::function<Tensor()>& make) {
      const auto on = device(place);
      return make();
    };
    const std::string ps = "/job:ps/task:0",
                      first = "/job:worker/task:1" + std::string(by_tasks ? "" : "/device:TOY:0"),
                      second = by_tasks ? "/job:worker/task:2" : "/job:worker/task:1/device:TOY:1",
                      last = "/job:worker/task:0";
    static_cast<void>(toy_device());
    const Variable v = [&] {
      const auto on = device(ps);
      return Variable(ones({3}), {.name = "v"});
    }();
    const Tensor f = at(ps, [&] { return multiply(v, 1.0, "f"); }), c = at(ps, [&] { return multiply(v, 4.0, "c"); }),
                 a = at(ps, [&] { return multiply(v, 7.0, "a"); });
    const Tensor b = at(first, [&] { return square(a, "b"); });
    const Tensor d = at(second, [&] { return add(b, c, "d"); }), e = at(second, [&] { return multiply(b, f, "e"); });
    const Tensor g = at(last, [&] { return add(d, e, "g"); }), h = at(last, [&] { return square(e, "h"); });
    const Session session(cluster.target("worker0"), graph);
    session.run(global_variables_initializer());
    const auto check = [&] {
      const auto results = session.run({g, h});
      check_values(results[0], {102, 102, 102});
      check_values(results[1], {2401, 2401, 2401});
    };
    check();
    const int received = cluster.transport.calls("RecvTensor"), runs = cluster.transport.calls("RunGraph");
    check();
    CHECK(cluster.transport.calls("RecvTensor") - received == (by_tasks ? 6 : 5));
    CHECK(cluster.transport.calls("RunGraph") - runs == (by_tasks ? 3 : 2));
  }
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

TEST_CASE("slots are at the task of their Variable, also those of a row-sparse gradient") {
  std::vector<std::pair<const char*, std::function<std::unique_ptr<train::Optimizer>()>>> optimizers;
  optimizers.emplace_back("adam", [] { return std::make_unique<train::AdamOptimizer>(0.01); });
  optimizers.emplace_back("adamw", [] { return std::make_unique<train::AdamWOptimizer>(0.01); });
  optimizers.emplace_back("momentum", [] { return std::make_unique<train::MomentumOptimizer>(0.01, 0.9); });
  optimizers.emplace_back("composed", [] { return std::make_unique<Decaying>(); });
  int port = 5120;
  for (const auto& [optimizer, make] : optimizers) {
    const char* name = optimizer;  // clang 14 takes no structured binding into doctest's function
    INFO(name);
    const Cluster cluster(std::exchange(port, port + 10));
    std::optional<train::MonitoredSession> sessions[2];
    for (const int worker : {0, 1}) {
      Graph graph;
      const auto scope = graph.as_default();
      const auto placed = device(
          train::replica_device_setter(cluster.spec, {.worker_device = "/job:worker/task:" + std::to_string(worker)}));
      const Variable table(ones({10, 2}), {.name = "table"}), w(ones({2, 1}), {.name = "w"});
      const Tensor ids = placeholder(int64, {-1}, "ids");
      const auto own = make();
      const Operation step = own->minimize(reduce_mean(square(matmul(embedding_lookup(table, ids), w))));
      sessions[worker].emplace(cluster.target("worker" + std::to_string(worker)), graph,
                               train::MonitoredSessionOptions{.is_chief = worker == 0, .max_wait_secs = 5});
      sessions[worker]->run(step, {{ids, {1, 2, 1}}});
    }
  }
}

TEST_CASE("several nodes that stand for one op stay together where a graph is split, and run as this op") {
  std::vector<std::pair<const char*, std::function<std::unique_ptr<train::Optimizer>()>>> optimizers;
  optimizers.emplace_back("momentum", [] { return std::make_unique<train::MomentumOptimizer>(0.1, 0.9); });
  optimizers.emplace_back("Adagrad", [] { return std::make_unique<train::AdagradOptimizer>(0.1); });
  const std::string own = "/job:worker/replica:0/task:0", other = "/job:ps/replica:0/task:0";
  for (const auto& optimizer : optimizers) {
    INFO(std::string(optimizer.first));
    const Graph graph;
    const auto scope = graph.as_default();
    const auto placed = device(train::replica_device_setter(ClusterSpec({{"ps", {"a:1"}}, {"worker", {"b:2"}}})));
    const Variable table(ones({10, 2}), {.name = "table"}), b(ones({2}), {.name = "b"});
    const Tensor ids = placeholder(int64, {-1}, "ids"), y = placeholder(float32, {-1, 2}, "y");
    const Operation step =
        optimizer.second()->minimize(reduce_sum(square(sigmoid(embedding_lookup(table, ids) + b) - y)));

    const io::GraphDef file = io::decode(graph.as_graph_def());
    std::set<std::string> whole, found;
    detail::ServedSession types(file, std::make_shared<io::VariableTable>("", 1 << 20), ServerOptions());
    const rpc::RunNames names{.feeds = {"ids:0", "y:0"}, .targets = {step.name()}};
    const rpc::PlacedGraph needed = rpc::place_on_tasks(file, names, own, {other, own});
    for (const io::NodeDef& each : needed.nodes)
      if (each.attrs.contains(io::hint_op)) whole.insert(each.name);
    const auto parts =
        rpc::cut(needed, names,
                 {.own = own,
                  .devices_of =
                      [](const std::string& task) {
                        return std::vector<rpc::DeviceDef>{{.name = task + "/device:CPU:0", .device_type = "CPU"}};
                      },
                  .spec_of = [&](const std::string& t) { return types.spec_of(t); }});
    CHECK(parts.size() == 2);
    for (const rpc::TaskPart& part : parts) {
      std::vector<std::unique_ptr<detail::ServedSession>> islands;
      rpc::find_islands(
          part.graph,
          {.most_bytes = 1 << 20,
           .make =
               [&](std::size_t, const io::GraphDef& island) {
                 for (const io::NodeDef& each : island.nodes)
                   if (each.attrs.contains(io::hint_op)) found.insert(each.name);
                 const auto variables = std::make_shared<io::VariableTable>("", 1 << 20);
                 islands.push_back(std::make_unique<detail::ServedSession>(island, variables, ServerOptions()));
               },
           .spec_of = [&](std::size_t island, const std::string& t) { return islands.at(island)->spec_of(t); }});
    }
    CHECK(whole.size() > 4);
    CHECK(found == whole);
  }
}

TEST_CASE("the rows of a table are trained on a parameter server as in this process, also where some are equal") {
  Cluster cluster(5180);
  for (const bool adaptive : {false, true}) {
    const auto train = [&](const std::string& target, const char* task) {
      Graph graph;
      const auto scope = graph.as_default();
      const auto on = device(task);
      const Variable table(ones({10, 2}), {.name = "table"});
      const auto elsewhere = device(*task == '\0' ? "" : "/job:worker/task:0");
      const Tensor ids = placeholder(int64, {-1}, "ids"), y = placeholder(float32, {-1, 2}, "y");
      std::unique_ptr<train::Optimizer> own = std::make_unique<train::AdagradOptimizer>(0.1);
      if (!adaptive) own = std::make_unique<train::MomentumOptimizer>(0.1, 0.9);
      const Operation step = own->minimize(reduce_sum(square(sigmoid(embedding_lookup(table, ids)) - y)));
      const Session session = target.empty() ? Session(graph) : Session(target, graph);
      session.run(global_variables_initializer());
      for (const Tensor& batch : {tensor({1, 2, 3, 4}), tensor({1, 2, 1, 1}), tensor({7, 7, 7, 7})})
        session.run(step, {{ids, batch.cast(int64)}, {y, reshape(batch.cast(float32), {4, 1}) * tensor({0.1F, 0.2F})}});
      return session.run(table);
    };
    check_same_bits({train(cluster.target(), "/job:ps/task:1")}, {train("", "")});
    Session::reset(cluster.target());
  }
}

TEST_CASE("the end of a run is told by its parts, without a transfer") {
  Cluster cluster(5200);
  const Graph graph;
  const auto scope = graph.as_default();
  std::vector<Variable> variables;
  for (const char* task : {"/job:ps/task:0", "/job:ps/task:1"}) {
    const auto on = device(task);
    variables.emplace_back(1.0F, VariableOptions{.name = "v"});
  }
  std::vector<Operation> changes;
  for (const Variable& each : variables) changes.push_back(each.assign_add(1.0).op());
  const Operation all = group(changes, "all");
  Tensor after;
  {
    const auto behind = control_dependencies({all});
    after = variables[0] * 2.0;
  }
  const Session session(cluster.target(), graph);
  session.run(global_variables_initializer());
  const int before = cluster.transport.calls("RecvTensor");
  session.run(all);
  CHECK(cluster.transport.calls("RecvTensor") == before);
  check_values(session.run(variables[0]), {2});
  // What waits for the end still gets it from both.
  const int again = cluster.transport.calls("RecvTensor");
  check_values(std::get<1>(session.run(std::tuple{all, after})), {6});
  CHECK(cluster.transport.calls("RecvTensor") > again);
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
  const Session narrow(cluster.target(), graph, {.device_filters = {"/job:worker/task:0", "/job:ps"}});
  CHECK_THROWS_WITH_AS(narrow.run(good, {{x, seven}}), doctest::Contains("/job:worker/task:1"), InvalidArgumentError);
  CHECK(narrow.list_devices().size() * 4 == session.list_devices().size() * 3);
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
  for (const char* text :
       {"node { name: 'a' op: '_Send' }", "node { name: 'a' op: 'Add' input: 'b' }",
        "node { name: 'a' op: 'NoOp' input: '^a' }", "node { name: 'a' op: '_Recv' } node { name: 'a' op: '_Recv' }",
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

}  // namespace cluster_run_test
