// A cluster of processes, each a tapestry-server, whose path TAPESTRY_SERVER has.

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tapestry/tapestry.hpp"

using namespace tapestry;

namespace {

using Clock = std::chrono::steady_clock;

std::string free_address() { return Server::create_local_server().target().substr(std::string("grpc://").size()); }

bool succeeds(const std::string& command) { return std::system((command + " > /dev/null 2>&1").c_str()) == 0; }

/// A server that is a process.
class Task {
 public:
  /// `address`: of a network namespace of its own, whose other end is the link `address` here; "" for loopback.
  Task(const std::string& cluster, const std::string& job, int task, const std::string& address = "") {
    const char* program = std::getenv("TAPESTRY_SERVER");
    REQUIRE(program != nullptr);
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    const std::string number = std::to_string(task);
    process_ = ::fork();
    if (process_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(ends[1], STDOUT_FILENO);
      ::close(ends[0]);
      std::vector<const char*> words{program,     "--cluster", cluster.c_str(), "--job",
                                     job.c_str(), "--task",    number.c_str()};
      if (!address.empty()) {
        words.insert(words.end(), {"--bind", address.c_str(), "--insecure"});
        if (::unshare(CLONE_NEWNET) != 0 ||
            !succeeds("ip link add eth0 type veth peer name " + address + " netns " + std::to_string(::getppid()) +
                      " && ip addr add " + address + "/24 dev eth0 && ip link set eth0 up && ip link set lo up"))
          ::_exit(1);
      }
      words.push_back(nullptr);
      ::execv(program, const_cast<char* const*>(words.data()));
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

  void send(int signal) const {
    ::kill(process_, signal);
    // Until all of its threads have stopped, it may still answer.
    if (signal == SIGSTOP) ::waitpid(process_, nullptr, WUNTRACED);
  }
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
  /// `addresses`: of the tasks "ps0", ..., if they are not all on loopback.
  explicit Cluster(std::map<std::string, std::string> addresses = {}) : addresses_(std::move(addresses)) {
    const auto address = [&](const std::string& name) {
      return addresses_.empty() ? free_address() : addresses_.at(name) + ":7100";
    };
    const std::string ps = address("ps0"), first = address("worker0"), second = address("worker1");
    spec = ClusterSpec({{"ps", {ps}}, {"worker", {first, second}}});
    text_ = "ps=" + ps + ";worker=" + first + "," + second;
    start("ps", 0), start("worker", 0), start("worker", 1);
  }
  void start(const std::string& job, int task) {
    const std::string name = job + std::to_string(task);
    tasks_[name] = std::make_unique<Task>(text_, job, task, addresses_.empty() ? "" : addresses_.at(name));
  }
  Task& operator[](const std::string& name) { return *tasks_.at(name); }

  ClusterSpec spec;

 private:
  std::map<std::string, std::string> addresses_;
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

namespace {

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Trains while something happens to a task before the fourth step and is undone after it has been noticed: the losses
/// are those of an unbroken training.
void check_resumed(Cluster& cluster, const std::function<void()>& disturb, const std::function<void()>& undo) {
  const Training there = make_training(cluster.spec), here = make_training(ClusterSpec());
  const auto folder = std::filesystem::temp_directory_path() / ("tapestry-resumed-" + std::to_string(::getpid()));
  train::MonitoredSession training(cluster["worker0"].target, there.graph,
                                   {.checkpoint_dir = folder.string(), .save_checkpoint_steps = 1});
  const Session local(here.graph, {.allow_soft_placement = true}), other(cluster["worker0"].target, there.graph);
  local.run(here.init);
  for (int i = 0; i < 6; ++i) {
    std::thread repair;
    if (i == 2) other.run(there.loss, {{there.x, batch(i)}});  // a first run would wait for the tasks
    if (i == 3) {
      disturb();
      const auto begin = Clock::now();
      CHECK_THROWS_AS(other.run(there.loss, {{there.x, batch(i)}}), UnavailableError);
      MESSAGE("noticed after ", seconds_since(begin), " s");
      repair = std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        undo();
      });
    }
    INFO("step ", i);
    const Tensor loss = std::get<0>(training.run(std::tuple{there.loss, there.step}, {{there.x, batch(i)}}));
    if (repair.joinable()) repair.join();
    CHECK(loss.item<float>() ==
          std::get<0>(local.run(std::tuple{here.loss, here.step}, {{here.x, batch(i)}})).item<float>());
  }
  training.close();
  std::filesystem::remove_all(folder);
}

}  // namespace

TEST_CASE("a task that is stopped ends a step, and the training goes on when it is continued") {
  for (const char* task : {"ps0", "worker1"}) {
    INFO(std::string(task));
    Cluster cluster;
    check_resumed(
        cluster, [&] { cluster[task].send(SIGSTOP); }, [&] { cluster[task].send(SIGCONT); });
  }
}

// In a network namespace of this process, which links.sh makes.
TEST_CASE("a task whose link is down ends a step, and the training goes on when it is up" * doctest::skip()) {
  REQUIRE(succeeds("ip link add bridge type bridge && ip addr add 10.71.0.1/24 dev bridge && ip link set bridge up"));
  int number = 2;  // links of tasks that have ended are there for a while
  for (const char* task : {"ps0", "worker1"}) {
    INFO(std::string(task));
    std::map<std::string, std::string> addresses;
    for (const char* name : {"ps0", "worker0", "worker1"}) addresses[name] = "10.71.0." + std::to_string(number++);
    Cluster cluster(addresses);
    for (const auto& [name, address] : addresses) REQUIRE(succeeds("ip link set " + address + " master bridge up"));
    const std::string set_link = "ip link set " + addresses.at(task);
    check_resumed(
        cluster, [&] { REQUIRE(succeeds(set_link + " down")); }, [&] { REQUIRE(succeeds(set_link + " up")); });
  }
}
