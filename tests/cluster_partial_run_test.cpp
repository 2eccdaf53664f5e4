// Runs in several parts over the tasks of a cluster, over memory.

#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "io/rpc/messages.hpp"
#include "io/tensorflow/graph_def.hpp"
#include "memory_cluster.hpp"
#include "refused.hpp"
#include "tapestry/tapestry.hpp"

namespace cluster_partial_run_test {

using namespace tapestry;
using namespace tapestry::test;
namespace rpc = tapestry::io::rpc;

TEST_CASE("a run in several parts over tasks gives what one in this process gives") {
  const Cluster cluster(5045);
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor a = placeholder(float32, {-1}, "a"), b = placeholder(float32, {-1}, "b"),
               c = placeholder(float32, {-1}, "c");
  std::optional<Variable> count;
  Tensor sum, product, counted;
  {
    const auto on = device("/job:ps/task:1");
    count = Variable(0.0F, {.name = "count"});
    counted = count->assign_add(1.0);
    const auto after = control_dependencies({counted.op()});
    sum = add(a, b, "sum");
  }
  {
    const auto on = device("/job:worker/task:1");
    product = multiply(sum, c, "product");
  }
  const Operation last = [&] {
    const auto after = control_dependencies({product.op()});
    return no_op("last");
  }();
  const Session session(cluster.target(), graph);
  session.run(global_variables_initializer());
  for (int i = 1; i <= 3; ++i) {
    auto run = session.partial_run_setup({sum, product, counted, c, last}, {a, b, c});
    TAPESTRY_REFUSED(InvalidArgumentError, "has not been fed so far", run.run(sum, {{a, {1}}}));
    check_values(run.run(sum, {{a, {1, 2}}, {b, {3, 4}}}), {4, 6});
    TAPESTRY_REFUSED(InvalidArgumentError, "had already been fed", run.run(product, {{a, {1}}, {c, {1}}}));
    const auto [three, given] = run.run(std::pair{product, c}, {{c, {2, 3}}});
    check_values(three, {8, 18});
    check_values(given, {2, 3});
    const auto [number, nothing] = run.run(std::pair{counted, last});
    CHECK(number.item<float>() == static_cast<float>(i));
    TAPESTRY_REFUSED(InvalidArgumentError, "had already been fetched", run.run(sum));
  }
  // One that is left open, and one that fails.
  auto open = session.partial_run_setup({sum, product}, {a, b, c});
  auto failing = session.partial_run_setup({sum, product}, {a, b, c});
  CHECK_THROWS_AS(failing.run(sum, {{a, {1, 2}}, {b, {1, 2, 3}}}), InvalidArgumentError);
  check_values(open.run(sum, {{a, {1}}, {b, {1}}}), {2});
  check_values(session.run(product, {{a, {1}}, {b, {1}}, {c, {5}}}), {10});
}

TEST_CASE("partial runs that clients leave open over tasks do not keep others from running") {
  ServerOptions options;
  options.steps_at_once = 16;  // of which each of the four tasks opens four at most
  Cluster cluster(5055, options);
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor a = placeholder(float32, {}, "a"), b = placeholder(float32, {}, "b");
  std::optional<Variable> count;
  Tensor counted, sum;
  {
    const auto on = device("/job:ps/task:1");
    count = Variable(0.0F, {.name = "count"});
    sum = add(a, b, "sum");
    const auto after = control_dependencies({sum.op()});
    counted = count->assign_add(1.0);
  }
  const Tensor product = multiply(sum, b, "product");
  const Session other(cluster.target("ps0"), graph);
  other.run(global_variables_initializer());
  {
    const Session first(cluster.target("worker0"), graph), second(cluster.target("worker1"), graph);
    std::vector<Session::PartialRun> open;
    for (int i = 0; i < 40; ++i)
      open.push_back((i % 2 == 0 ? first : second).partial_run_setup({sum, product, counted}, {a, b}));
    // Another client, at once.
    CHECK(other.run(counted, {{a, 1}, {b, 1}}).item<float>() == 1);
    CHECK(other.run(product, {{a, 1}, {b, 2}}).item<float>() == 6);
    // The newest are open still. The others have ended, and do not begin anew.
    for (std::size_t i = 0; i < 32; i += 5)
      TAPESTRY_REFUSED(InvalidArgumentError, "This one has ended", open[i].run(sum, {{a, 1}, {b, 1}}));
    CHECK(open[32].run(sum, {{a, 2}, {b, 3}}).item<float>() == 5);
    // It has been used since, so the next one is ended.
    auto more = first.partial_run_setup({sum, product, counted}, {a, b});
    TAPESTRY_REFUSED(InvalidArgumentError, "This one has ended", open[34].run(sum, {{a, 1}, {b, 1}}));
    const auto [number, last] = open[32].run(std::pair{counted, product});
    CHECK(number.item<float>() == 2);
    CHECK(last.item<float>() == 15);
    CHECK(more.run(counted, {{a, 1}, {b, 1}}).item<float>() == 3);
  }
  // Those that were open ended with their sessions, also at the other tasks: there is room for as many as before.
  for (int i = 0; i < 5; ++i) {
    const Session next(cluster.target("worker0"), graph);
    std::vector<Session::PartialRun> open;
    for (int j = 0; j < 4; ++j) open.push_back(next.partial_run_setup({sum, counted}, {a, b}));
    for (auto& each : open) CHECK(each.run(sum, {{a, i}, {b, 1}}).item<float>() == static_cast<float>(i + 1));
  }
  CHECK(other.run(product, {{a, 1}, {b, 2}}).item<float>() == 6);
}

TEST_CASE("parts of runs at a task end with the sessions of their master, also where it has vanished") {
  constexpr int most = 256;  // parts that a task keeps open
  ServerOptions options;
  options.session_gc_seconds = 1;
  const Cluster cluster(5065, options);
  const auto task = detail::memory_transport().connect("localhost:5065");
  const auto call = [&](const std::string& method, const auto& request) {
    return task->call("/tensorflow.WorkerService/" + method, rpc::encode(request), {.timeout_in_ms = 10'000}).bytes;
  };
  const std::string graph = io::from_text(R"(
      node { name: 'fed' op: '_Recv' attr { key: 'tensor_type' value { type: DT_FLOAT } }
             attr { key: 'tensor_name' value { s: 'fed' } } attr { key: 'client_terminated' value { b: true } }
             attr { key: 'send_device' value { s: '/job:ps/replica:0/task:0/device:CPU:0' } }
             attr { key: 'recv_device' value { s: '/job:ps/replica:0/task:0/device:CPU:0' } }
             attr { key: 'send_device_incarnation' value { i: 1 } } }
      node { name: 'relu' op: 'Relu' input: 'fed' attr { key: 'T' value { type: DT_FLOAT } } })");
  std::int64_t step = 1000;
  // A session of a master that opens parts, which wait for what is fed, until the task takes no more.
  const auto open_parts = [&](const std::string& session) {
    call("CreateWorkerSession", rpc::CreateWorkerSessionRequest{.session_handle = session});
    const auto registered = rpc::decode<rpc::RegisterGraphResponse>(call(
        "RegisterGraph", rpc::RegisterGraphRequest{
                             .session_handle = session, .graph_def = graph, .create_worker_session_called = true}));
    const auto open = [&] {
      call("RunGraph", rpc::RunGraphRequest{.graph_handle = registered.graph_handle,
                                            .step_id = ++step,
                                            .is_partial = true,
                                            .session_handle = session,
                                            .create_worker_session_called = true});
    };
    for (int i = 0; i < most; ++i) open();
    CHECK_THROWS_AS(open(), ResourceExhaustedError);
  };
  open_parts("first");
  call("DeleteWorkerSession", rpc::DeleteWorkerSessionRequest{.session_handle = "first"});
  open_parts("second");
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  open_parts("third");
}

}  // namespace cluster_partial_run_test
