// How long the calls of a session on a server take: one line for each, with the shortest and the median time in
// microseconds. compare_cluster.py runs it on servers of Tapestry's and TensorFlow's in turn.
//
//     bench_cluster grpc://localhost:2222          a server alone
//     bench_cluster grpc://localhost:2222 ps       the worker of a cluster, with Variables on /job:ps/task:0
#include <algorithm>
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include <tapestry/tapestry.hpp>

namespace {

template <class F>
void measure(const char* what, int times, F f) {
  using Clock = std::chrono::steady_clock;
  for (int i = 0; i < times / 10 + 1; ++i) f();
  std::vector<double> microseconds;
  for (int i = 0; i < times; ++i) {
    const auto begin = Clock::now();
    f();
    microseconds.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  std::sort(microseconds.begin(), microseconds.end());
  std::cout << what << ' ' << microseconds.front() << ' ' << microseconds[microseconds.size() / 2] << std::endl;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) return 2;
  const bool split = count > 2;
  const std::string variables = split ? "/job:ps/task:0" : "", others = split ? "/job:worker/task:0" : "";
  const auto two = tp::tensor({1.0F, 2.0F}), much = tp::ones({10'000'000});
  const tp::Graph graph;
  const auto scope = graph.as_default();
  const auto w = [&] {
    const auto on = tp::device(variables);
    return tp::Variable(tp::ones({2}), {.name = "w"});
  }();
  const auto large = [&] {
    const auto on = tp::device(variables);
    return tp::Variable(tp::ones({10'000'000}), {.name = "large"});
  }();
  const auto on = tp::device(others);
  const auto x = tp::placeholder(tp::float32, {-1}, "x");
  const auto y = tp::add(tp::multiply(x, w), 1.0), same = tp::identity(x, "same"), sum = tp::reduce_sum(large.value());
  const tp::Session session(arguments[1], graph, {.operation_timeout_in_ms = 120'000});
  session.run(tp::global_variables_initializer());

  constexpr int many = 1000, few = 10;
  measure("list_devices", many, [&] { session.list_devices(); });
  measure("run_step", many, [&] { session.run(y, {{x, two}}); });
  if (split) {
    measure("recv_40_mb", few, [&] { session.run(sum); });
  } else {
    measure("feed_fetch_40_mb", few, [&] { session.run(same, {{x, much}}); });
  }
}
