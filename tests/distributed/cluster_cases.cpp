// A cluster of processes, each a tapestry-server, whose path TAPESTRY_SERVER has.

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <thread>

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tapestry/tapestry.hpp"

using namespace tapestry;

namespace {

using Clock = std::chrono::steady_clock;

std::string free_address() { return Server::create_local_server().target().substr(std::string("grpc://").size()); }

/// A server that is a process.
class Task {
 public:
  Task(const std::string& cluster, const std::string& job, int task) {
    const char* program = std::getenv("TAPESTRY_SERVER");
    REQUIRE(program != nullptr);
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const std::string number = std::to_string(task);
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::close(ends[0]);
      ::execl(program, program, "--cluster", cluster.c_str(), "--job", job.c_str(), "--task", number.c_str(), nullptr);
      ::_exit(1);
    }
    ::close(ends[1]);
    char letter = 0;
    while (::read(ends[0], &letter, 1) == 1 && letter != '\n') target += letter;
    ::close(ends[0]);
    REQUIRE(target.starts_with("grpc://"));
  }
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  ~Task() { end(SIGTERM); }

  void end(int signal) {
    if (process_ <= 0) return;
    ::kill(process_, signal);
    ::waitpid(process_, nullptr, 0);
    process_ = 0;
  }

  std::string target;

 private:
  ::pid_t process_ = 0;
};

/// A parameter server and two workers.
class Cluster {
 public:
  Cluster() {
    const std::string ps = free_address(), first = free_address(), second = free_address();
    spec = ClusterSpec({{"ps", {ps}}, {"worker", {first, second}}});
    text_ = "ps=" + ps + ";worker=" + first + "," + second;
    start("ps", 0), start("worker", 0), start("worker", 1);
  }
  void start(const std::string& job, int task) {
    tasks_[job + std::to_string(task)] = std::make_unique<Task>(text_, job, task);
  }
  Task& operator[](const std::string& name) { return *tasks_.at(name); }

  ClusterSpec spec;

 private:
  std::string text_;
  std::map<std::string, std::unique_ptr<Task>> tasks_;
};

struct Training {
  Graph graph{};
  Tensor x, loss;
  Operation step, init;
};

Training make_training(const ClusterSpec& cluster) {
  Training model;
  const auto scope = model.graph.as_default();
  const auto placed = device(train::replica_device_setter(cluster, {.worker_device = "/job:worker/task:1"}));
  const Variable w(full({3, 8}, 0.25F), {.name = "w"}), v(full({8, 1}, 0.5F), {.name = "v"});
  model.x = placeholder(float32, {-1, 3}, "x");
  model.loss = reduce_mean(square(matmul(tanh(matmul(model.x, w)), v) - 1.0));
  model.step = train::MomentumOptimizer(0.1, 0.9).minimize(model.loss, {.global_step = train::global_step()});
  model.init = global_variables_initializer();
  return model;
}

Tensor batch(int i) { return reshape(cos(arange(12.0) * (i + 1.0)), {4, 3}).cast(float32); }

}  // namespace

TEST_CASE("a training on three processes has the bits of one, also after kill -9 of each") {
  Cluster cluster;
  const Training there = make_training(cluster.spec), here = make_training(ClusterSpec());
  const auto folder = std::filesystem::temp_directory_path() / ("tapestry-cluster-" + std::to_string(::getpid()));
  train::MonitoredSession training(cluster["worker0"].target, there.graph,
                                   {.checkpoint_dir = folder.string(), .save_checkpoint_steps = 1});
  const Session local(here.graph, {.allow_soft_placement = true});
  local.run(here.init);
  for (int i = 0; i < 12; ++i) {
    const char* lost[] = {"ps", "worker", "worker"};
    const int number[] = {0, 1, 0};
    if (const auto k = static_cast<std::size_t>(i / 3 - 1); i % 3 == 0 && i > 0) {
      cluster[lost[k] + std::to_string(number[k])].end(SIGKILL);
      cluster.start(lost[k], number[k]);
    }
    INFO("step ", i);
    const Tensor loss = std::get<0>(training.run(std::tuple{there.loss, there.step}, {{there.x, batch(i)}}));
    CHECK(loss.item<float>() ==
          std::get<0>(local.run(std::tuple{here.loss, here.step}, {{here.x, batch(i)}})).item<float>());
  }
  training.close();
  std::filesystem::remove_all(folder);
}

TEST_CASE("a task that is killed in the middle of a step ends it at once") {
  for (const std::string lost : {"ps0", "worker0"}) {
    INFO(lost);
    Cluster cluster;
    Graph graph;
    const auto scope = graph.as_default();
    Tensor never;
    {
      const auto on = device("/job:ps/task:0");
      never = std::get<0>(while_loop([](const Tensor& i) { return less(i, 1 << 30); },
                                     [](const Tensor& i) { return std::tuple{tp::mod(i + 1, 1 << 20)}; },
                                     std::tuple{constant(0)}));
    }
    Clock::time_point killed;
    std::thread killer([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      killed = Clock::now();
      cluster[lost].end(SIGKILL);
    });
    const Session session(cluster["worker0"].target, graph);
    CHECK_THROWS_AS(session.run(never), UnavailableError);
    killer.join();
    const std::chrono::duration<double> after = Clock::now() - killed;
    MESSAGE("after ", after.count(), " s");
    CHECK(after.count() < 10);  // without the broken connection, half a minute
  }
}
