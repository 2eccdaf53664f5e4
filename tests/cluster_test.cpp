#include <doctest/doctest.h>

#include "environment.hpp"
#include "memory_plugin.hpp"
#include "refused.hpp"
#include "tapestry/distributed.hpp"
#include "tapestry/graph.hpp"
#include "tapestry/ops.hpp"
#include "tapestry/train.hpp"

namespace cluster_test {

using namespace tapestry;
using namespace tapestry::test;

namespace {

const ClusterSpec three({{"ps", {"a:1"}}, {"worker", {"b:2", "c:3"}}});

ClusterSpec from_arguments(std::vector<const char*> arguments, Where where = Where::here()) {
  arguments.insert(arguments.begin(), "program");
  return ClusterSpec::from_arguments(static_cast<int>(arguments.size()), arguments.data(), where);
}

/// No launcher but the test tells anything.
struct Launcher {
  Setting config{"TF_CONFIG", ""}, definition{"TF_CLUSTER_DEF", ""}, role{"TF_ROLE", ""}, index{"TF_INDEX", ""},
      nodes{"SLURM_STEP_NODELIST", ""}, per_node{"SLURM_STEP_TASKS_PER_NODE", ""}, tasks{"SLURM_NTASKS", ""},
      process{"SLURM_PROCID", ""};
};

}  // namespace

TEST_CASE("a cluster knows its jobs and addresses") {
  CHECK(three.jobs() == std::vector<std::string>{"ps", "worker"});
  CHECK(three.num_tasks("worker") == 2);
  CHECK(three.num_tasks("chief") == 0);
  CHECK(three.job_tasks("worker") == std::vector<std::string>{"b:2", "c:3"});
  CHECK(three.task_address("worker", 1) == "c:3");
  CHECK(three.job().empty());
  CHECK(!three.empty());
  const ClusterSpec sparse(std::map<std::string, std::map<int, std::string>>{{"worker", {{1, "b:2"}, {5, "c:3"}}}},
                           "worker", 5);
  CHECK(sparse.task_address("worker", 5) == "c:3");
  CHECK(sparse.task() == 5);
  CHECK(sparse.num_tasks("worker") == 2);
  CHECK(ClusterSpec().empty());
  CHECK(three == ClusterSpec({{"worker", {"b:2", "c:3"}}, {"ps", {"a:1"}}}));
  TAPESTRY_REFUSED(InvalidArgumentError, "no job 'chief'", three.job_tasks("chief"));
  TAPESTRY_REFUSED(InvalidArgumentError, "has no task 2", three.task_address("worker", 2));
  TAPESTRY_REFUSED(InvalidArgumentError, "no tasks", ClusterSpec({{"ps", {}}}));
  TAPESTRY_REFUSED(InvalidArgumentError, "name of a job", ClusterSpec({{"p s", {"a:1"}}}));
  TAPESTRY_REFUSED(InvalidArgumentError, "two jobs 'ps'", ClusterSpec({{"ps", {"a:1"}}, {"ps", {"a:2"}}}));
  TAPESTRY_REFUSED(InvalidArgumentError, "The tasks /job:ps/task:0 and /job:ps/task:1 have the same address, a:1",
                   ClusterSpec({{"ps", {"a:1", "a:1"}}}));
  TAPESTRY_REFUSED(InvalidArgumentError, "The tasks /job:ps/task:0 and /job:worker/task:1 have the same address, a:1",
                   ClusterSpec({{"worker", {"b:1", "a:1"}}, {"ps", {"a:1", "a:2"}}}));
  TAPESTRY_REFUSED(InvalidArgumentError, "The job 'ps' has a task -3",
                   ClusterSpec(std::map<std::string, std::map<int, std::string>>{{"ps", {{-3, "a:1"}}}}, "ps", -3));
  for (const char* address : {"a", "a:", ":1", "a:b", "a:70000", "a:-1", "http://a:1", "a:1 "})
    TAPESTRY_REFUSED(InvalidArgumentError, "host:port", ClusterSpec({{"ps", {address}}}));
}

TEST_CASE("a cluster from arguments") {
  for (const std::vector<const char*>& each :
       {std::vector<const char*>{"--cluster", "ps=a:1;worker=b:2,c:3", "--job", "worker", "--task", "1"},
        std::vector<const char*>{"--x", "--task=1", "--job=worker", "--cluster=ps=a:1;worker=b:2,c:3", "y"}}) {
    const ClusterSpec cluster = from_arguments(each);
    CHECK(cluster == three);
    CHECK(cluster.job() == "worker");
    CHECK(cluster.task() == 1);
  }
  CHECK(from_arguments({"--cluster", "ps=a:1"}).job().empty());
  TAPESTRY_REFUSED(InvalidArgumentError, "two jobs 'ps'", from_arguments({"--cluster", "ps=a:1;ps=b:1"}));
  TAPESTRY_REFUSED(NotFoundError, "--cluster", from_arguments({}));
  TAPESTRY_REFUSED(InvalidArgumentError, "needs a value", from_arguments({"--cluster"}));
  TAPESTRY_REFUSED(InvalidArgumentError, "--cluster: 'ps' is not", from_arguments({"--cluster", "ps"}));
  TAPESTRY_REFUSED(InvalidArgumentError, "--task needs --job", from_arguments({"--cluster", "ps=a:1", "--task", "0"}));
  TAPESTRY_REFUSED(InvalidArgumentError, "'x' is not the number",
                   from_arguments({"--cluster", "ps=a:1", "--job", "ps", "--task", "x"}));
  TAPESTRY_REFUSED(InvalidArgumentError, "no job 'chief'", from_arguments({"--cluster", "ps=a:1", "--job", "chief"}));
}

TEST_CASE("a cluster from the environment of launchers") {
  const Launcher no_launcher;
  TAPESTRY_REFUSED(NotFoundError, "TF_CONFIG", ClusterSpec::from_environment());
  {
    const Setting slurm("SLURM_STEP_NODELIST", "n[09-10],login"), tasks("SLURM_NTASKS", "5"), own("SLURM_PROCID", "3");
    const ClusterSpec cluster = ClusterSpec::from_environment();
    CHECK(cluster.job_tasks("worker") ==
          std::vector<std::string>{"n09:8888", "n09:8889", "n10:8888", "n10:8889", "login:8888"});
    CHECK(cluster.task() == 3);
    const auto tasks_on = [](const char* hosts, const char* number, const char* counts, Where where = Where::here()) {
      const Setting list("SLURM_STEP_NODELIST", hosts), count("SLURM_NTASKS", number), first("SLURM_PROCID", "0"),
          each("SLURM_STEP_TASKS_PER_NODE", counts);
      return ClusterSpec::from_environment(where).job_tasks("worker");
    };
    const std::vector<std::string> spread{"a1:8888", "a1:8889", "a2:8888", "a3:8888"};
    CHECK(tasks_on("a[1-3]", "4", "") == spread);
    CHECK(tasks_on("a[1-3]", "4", "2,1(x2)") == spread);
    CHECK(tasks_on("a[1-3]", "4", "1(x2),2") == std::vector<std::string>{"a1:8888", "a2:8888", "a3:8888", "a3:8889"});
    CHECK(tasks_on("a[1-2]", "2", "0,2") == std::vector<std::string>{"a2:8888", "a2:8889"});
    for (const char* counts :
         {"2,1", "2(x3)", "4(x", "2(x99999999999)", "2,2(x-1)", "x", ",", "3000000000,1,1", "1(x2)2"})
      TAPESTRY_REFUSED(InvalidArgumentError, "SLURM_STEP_TASKS_PER_NODE: ", tasks_on("a[1-3]", "4", counts));
    const Setting broken("SLURM_STEP_NODELIST", "n[1-");
    TAPESTRY_REFUSED(InvalidArgumentError, "SLURM_STEP_NODELIST: ", ClusterSpec::from_environment());
    const Setting good("SLURM_STEP_NODELIST", "n"), many("SLURM_NTASKS", "1000000000");
    TAPESTRY_REFUSED(InvalidArgumentError, "SLURM_NTASKS: 1000000000 tasks", ClusterSpec::from_environment());
    const Setting zero("SLURM_NTASKS", "x");
    TAPESTRY_REFUSED(InvalidArgumentError, "SLURM_NTASKS: ", ClusterSpec::from_environment());
  }
  {
    const Setting definition("TF_CLUSTER_DEF", R"({"ps": ["a:1"], "worker": {"0": "b:2", "1": "c:3"}})");
    CHECK(ClusterSpec::from_environment() == three);
    const Setting role("TF_ROLE", "worker"), index("TF_INDEX", "1");
    CHECK(ClusterSpec::from_environment().job() == "worker");
    CHECK(ClusterSpec::from_environment().task() == 1);
    const Setting bad("TF_INDEX", "x");
    TAPESTRY_REFUSED(InvalidArgumentError, "TF_INDEX: ", ClusterSpec::from_environment());
  }
  const auto with_config = [](const std::string& text) {
    const Setting config("TF_CONFIG", text);
    return ClusterSpec::from_environment();
  };
  const std::string jobs = R"("cluster": {"ps": ["a:1"], "worker": ["b:2", "c:3"]})";
  CHECK(with_config("{" + jobs + "}") == three);
  CHECK(with_config("{" + jobs + R"(, "task": {"type": "worker", "index": 1}})").task() == 1);
  CHECK(with_config("{" + jobs + R"(, "task": {"type": "ps", "index": "0"}, "rpc_layer": "grpc"})").job() == "ps");
  CHECK(with_config("{" + jobs + R"(, "task": {"type": "evaluator", "index": 0}})").job().empty());
  for (const char* bad :
       {"", "{", "[]", R"({"cluster": 1})", R"({"cluster": {"ps": 1}})", R"({"cluster": {"ps": [1]}})",
        R"({"cluster": {"ps": {"x": "a:1"}}})", "{}", R"({"a": ["b:1"]})", R"({"task": {}})",
        R"({"task": {"type": "ps"}})", R"({"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": -1}})"}) {
    INFO(bad);
    if (*bad == '\0') {
      CHECK_THROWS_AS(with_config(bad), NotFoundError);
    } else {
      CHECK(caught<InvalidArgumentError>([&] { with_config(bad); }).message().starts_with("TF_CONFIG: "));
    }
  }
}

TEST_CASE("replica_device_setter: Variables round the parameter servers, everything else to the worker") {
  const ClusterSpec cluster({{"ps", {"a:1", "b:1"}}, {"worker", {"c:1"}}});
  const auto devices = [&](const train::ReplicaDevices& options, bool eager) {
    Graph graph;
    const auto make = [] {
      return std::array{Variable(zeros({100}), {.name = "large"}), Variable(zeros({2}), {.name = "a"}),
                        Variable(zeros({3}), {.name = "b"})};
    };
    std::optional<std::array<Variable, 3>> variables;
    if (eager) variables = make();
    const auto scope = graph.as_default();
    const auto placed = device(train::replica_device_setter(cluster, options));
    if (!eager) variables = make();
    Tensor loss = constant(0.0F);
    for (const Variable& each : *variables) loss = loss + reduce_sum(each);
    train::MomentumOptimizer(0.1, 0.9).minimize(loss);
    std::string text;
    for (const char* name : {"large", "a", "b"}) text += graph.get_operation_by_name(name).device() + " ";
    CHECK(loss.op().device() == options.worker_device);
    for (const char* name : {"large", "a", "b"})  // a slot stays with its Variable
      CHECK(graph.get_operation_by_name(std::string(name) + "/Momentum").device() ==
            graph.get_operation_by_name(name).device());
    return text;
  };
  for (const bool eager : {false, true}) {
    INFO(eager);
    CHECK(devices({.worker_device = "/job:worker/task:0"}, eager) == "/job:ps/task:0 /job:ps/task:1 /job:ps/task:0 ");
    CHECK(devices({.balance = train::Balance::by_size, .worker_device = "/job:worker/task:0"}, eager) ==
          "/job:ps/task:0 /job:ps/task:1 /job:ps/task:1 ");
    CHECK(devices({.worker_device = "/job:worker/task:0", .ps_job = "none"}, eager) == "   ");
  }
  Graph graph;
  const auto scope = graph.as_default();
  const auto outer = device("/job:worker/task:7");
  const auto placed = device(train::replica_device_setter(cluster));
  CHECK(constant(1.0).op().device() == "/job:worker/task:7");
  {
    const auto inner = device("/cpu:0");
    CHECK(constant(1.0).op().device() == "/job:worker/task:7/device:CPU:0");
    CHECK(graph.get_operation_by_name(Variable(zeros({2}), {.name = "v"}).name()).device() ==
          "/job:ps/task:0/device:CPU:0");
  }
  CHECK(constant(1.0).op().device() == "/job:worker/task:7");
}

}  // namespace cluster_test
