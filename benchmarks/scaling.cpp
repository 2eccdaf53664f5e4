// scaling WORKLOAD SIZE: runs one workload of one size, and prints its time in seconds and the peak of the process's
// memory in bytes as one line of JSON. scaling.py runs it over all sizes and draws both. The time is that of the
// processor, which other programs do not change, but where threads are counted.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <string>

#include <tapestry/tapestry.hpp>

namespace {

double now(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double seconds(const std::function<void()>& run, clockid_t clock = CLOCK_PROCESS_CPUTIME_ID) {
  const double start = now(clock);
  run();
  return now(clock) - start;
}

/// The least of several times, behind one that prepares plans and memory.
double best_of(int times, const std::function<void()>& run, clockid_t clock = CLOCK_PROCESS_CPUTIME_ID) {
  run();
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < times; ++i) best = std::min(best, seconds(run, clock));
  return best;
}

/// tanh(ax+b) * sigmoid(x) + exp(-x*x)
tp::Tensor chain(const tp::Tensor& x) { return tp::tanh(x * 1.5 + 0.5) * tp::sigmoid(x) + tp::exp(-x * x); }

/// Records additions of numbers, and walks back.
double operations(std::int64_t count) {
  const tp::Tensor x = tp::tensor(1.0), step = tp::tensor(1e-3);
  return seconds([&] {
    tp::GradientTape tape;
    tape.watch(x);
    tp::Tensor y = x;
    for (std::int64_t i = 0; i < count; ++i) y = y + step;
    static_cast<void>(tape.gradient(y, x));
  });
}

/// Runs a traced chain and its gradient on a tensor.
double elements(std::int64_t count) {
  const tp::Tensor x = tp::random::normal({count});
  const auto step = tp::function([](tp::Tensor input) {
    tp::GradientTape tape;
    tape.watch(input);
    const tp::Tensor y = tp::reduce_sum(chain(input));
    return tape.gradient(y, input);
  });
  return best_of(3, [&] { step(x); });
}

/// A traced step of Adam, which trains three layers of this many weights and 32 rows.
double parameters(std::int64_t count) {
  const auto width = static_cast<std::int64_t>(std::max(1.0, std::sqrt(static_cast<double>(count) / 3)));
  tp::nn::Sequential net{tp::nn::Dense(width, width), tp::nn::ReLU(), tp::nn::Dense(width, width), tp::nn::ReLU(),
                         tp::nn::Dense(width, width)};
  tp::train::AdamOptimizer adam(1e-3);
  const tp::Tensor x = tp::random::normal({32, width});
  const auto step = tp::function(
      [&](tp::Tensor input) { return adam.minimize([&] { return tp::reduce_mean(tp::square(net(input))); }); });
  return best_of(3, [&] { step(x); });
}

/// The chain on 2^22 elements, and a product of two matrices, on so many threads.
double threads(std::int64_t count) {
  tp::set_num_threads(static_cast<int>(count));
  const tp::Tensor x = tp::random::normal({1 << 22}), a = tp::random::normal({1024, 1024});
  const auto run_chain = tp::function(chain);
  const auto both = [&] {
    run_chain(x);
    tp::matmul(a, a);
  };
  return best_of(5, both, CLOCK_MONOTONIC);
}

/// Plans and runs a graph of so many nodes: sums, products and elementwise functions of eight numbers.
double nodes(std::int64_t count) {
  const tp::Tensor ones = tp::ones({8});
  tp::Graph graph;
  const auto scope = graph.as_default();
  const tp::Tensor x = tp::placeholder(tp::float32, {8});
  tp::Tensor y = x;
  for (std::int64_t i = 0; i < count; i += 7) {
    const tp::Tensor row = tp::reshape(tp::tanh(y), {1, 8});
    y = x * tp::reshape(tp::matmul(row, tp::reshape(y, {8, 1})), {1}) + tp::reduce_sum(row);
  }
  tp::Session session(graph);
  return seconds([&] { session.run(y, {{x, ones}}); });
}

/// The most memory that the process has had. getrusage() counts that of the program that started it, too.
long long peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    long long kilobytes = 0;
    if (word == "VmHWM:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, double (*)(std::int64_t)> workloads = {{"operations", operations},
                                                                     {"elements", elements},
                                                                     {"parameters", parameters},
                                                                     {"threads", threads},
                                                                     {"nodes", nodes}};
  const auto found = argc == 3 ? workloads.find(argv[1]) : workloads.end();
  if (found == workloads.end()) {
    std::fputs("usage: scaling operations|elements|parameters|threads|nodes SIZE\n", stderr);
    return 2;
  }
  if (found->first != "threads") tp::set_num_threads(1);
  const double time = found->second(std::atoll(argv[2]));
  std::printf("{\"seconds\": %.9f, \"bytes\": %lld}\n", time, peak_bytes());
}
