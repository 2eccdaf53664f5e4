// Parameter servers: two of them have the Variables, and two workers train these together, each on its own part of the
// data and without waiting for the other. Here all four are in one process. On a cluster each is a process of its own:
// `26_parameter_servers --cluster 'ps=one:2222,two:2222;worker=three:2222,four:2222' --job ps --task 0`, and so on.
#include <future>
#include <iostream>
#include <vector>

#include <tapestry/tapestry.hpp>

#include "support/flags.hpp"

namespace {

constexpr int workers = 2, steps = 400;

/// What a worker does, the first of them as the chief.
void work(const tp::ClusterSpec& cluster, const tp::Server& server) {
  tp::Graph graph;
  auto scope = graph.as_default();
  const auto worker = "/job:worker/task:" + std::to_string(server.task());
  auto placed = tp::device(tp::train::replica_device_setter(cluster, {.worker_device = worker}));

  const tp::Variable w(tp::zeros({2, 1}), {.name = "w"}), b(0.0, {.name = "b"});
  auto x = tp::placeholder(tp::float32, {-1, 2}, "x"), y = tp::placeholder(tp::float32, {-1, 1}, "y");
  auto loss = tp::reduce_mean(tp::square(tp::matmul(x, w) + b - y), "loss");
  auto step = tp::train::GradientDescentOptimizer(0.05).minimize(loss, {.global_step = tp::train::global_step()});

  // Data of this worker: y = 3 x0 - 2 x1 + 1.
  tp::random::NumpyLegacy random(static_cast<std::uint32_t>(server.task()));
  tp::train::MonitoredSession training(server.target(), {.is_chief = server.task() == 0, .stop_at_step = steps});
  while (!training.should_stop()) {
    const auto points = random.randn({32, 2});
    std::vector<float> from, to;
    for (const double each : points.to_vector<double>()) from.push_back(static_cast<float>(each));
    for (std::size_t i = 0; i < from.size(); i += 2) to.push_back(3 * from[i] - 2 * from[i + 1] + 1);
    training.run(step, {{"x:0", tp::tensor(from, {32, 2})}, {"y:0", tp::tensor(to, {32, 1})}});
  }
}

/// The Variables that a server of the cluster has now.
void show(const tp::ClusterSpec& cluster, const tp::Server& server) {
  tp::Graph graph;
  auto scope = graph.as_default();
  auto placed = tp::device(tp::train::replica_device_setter(cluster));
  const tp::Variable w(tp::zeros({2, 1}), {.name = "w"}), b(0.0, {.name = "b"});
  const tp::Session session(server.target(), graph);
  std::cout << "w =" << tp::round(tp::reshape(session.run(w), {2})) << ", b = " << tp::round(session.run(b)) << '\n';
}

/// An address of this machine that nobody listens at.
std::string free_address() { return tp::Server::create_local_server().target().substr(std::string("grpc://").size()); }

void all_in_one_process() {
  const tp::ClusterSpec cluster(
      {{"ps", {free_address(), free_address()}}, {"worker", {free_address(), free_address()}}});
  std::vector<tp::Server> servers;
  for (const char* job : {"ps", "worker"})
    for (int task = 0; task < 2; ++task) servers.emplace_back(cluster, tp::ServerOptions{.job = job, .task = task});
  std::vector<std::future<void>> working;
  for (int i = 0; i < workers; ++i)
    working.push_back(std::async(std::launch::async, [&, i] {
      work(cluster, servers[servers.size() - workers + static_cast<std::size_t>(i)]);
    }));
  for (std::future<void>& each : working) each.get();
  show(cluster, servers[0]);
}

}  // namespace

int main(int count, char** arguments) {
  std::string job, cluster;
  int task = 0;
  support::parse_flags(count, arguments, "Trains on parameter servers.",
                       {{"--cluster", "the addresses of all tasks; by default all are in this process", cluster},
                        {"--job", "of this process: ps or worker", job},
                        {"--task", "the number of this process in its job", task}});
  return support::run([&] {
    if (cluster.empty()) {
      if (!job.empty() || task != 0) throw tp::InvalidArgumentError("--job and --task need --cluster");
      return all_in_one_process();
    }
    const auto spec = tp::ClusterSpec::from_arguments(count, arguments);
    tp::Server server(spec);
    if (server.job() == "ps") return server.join();
    std::cerr << "Waiting for the other tasks of the cluster\n";
    work(spec, server);
    if (server.task() == 0) show(spec, server);
  });
}

// Output:
// w =[ 3. -2.], b = 1.0
