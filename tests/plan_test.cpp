// What a session tells of its plans: the stages, the memory, and the times of a run.

#include <fstream>
#include <set>
#include <sstream>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "graph/passes/passes.hpp"
#include "op_cases/op_cases.hpp"
#include "tapestry/execution_plan.hpp"
#include "tapestry/tapestry.hpp"
#include "temporary_folder.hpp"
#include "toy_backend.hpp"

namespace tapestry::test::plan_test {
namespace {

/// Two layers with their gradients.
struct Network {
  explicit Network(const SessionOptions& options = {}) : session(graph, options) {
    const auto scope = graph.as_default();
    w = Variable(numbers({4, 3}, -1, 1, 1).cast(float32), {.name = "w"});
    const Tensor h = tanh(matmul(x = placeholder(float32, {-1, 4}, "x"), w.value()) * 1.0 + 0.5, "h");
    y = reduce_sum(square(h), Axes(), {}, "y");
    gradient = gradients(y, {w})[0];
  }
  Feeds feeds(std::int64_t rows = 6) const { return {{x, numbers({rows, 4}, -2, 2, 2).cast(float32)}}; }
  std::vector<Tensor> fetches() const { return {y, gradient}; }

  Graph graph;
  Session session;
  Variable w{0.0};
  Tensor x, y, gradient;
};

std::vector<std::string> names_of(const Explanation& explanation) {
  std::vector<std::string> names;
  for (const Explanation::Stage& stage : explanation.stages) names.push_back(stage.name);
  return names;
}

std::set<std::string> types_of(const Graph& graph) {
  std::set<std::string> types;
  for (const Operation& each : graph.operations()) types.insert(each.type());
  return types;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("explain: the graph after each stage") {
  Network network;
  const Explanation explanation = network.session.explain(network.fetches(), network.feeds());
  std::vector<std::string> expected{"requested", "specialized", "place"};
  for (const detail::Pass& pass : detail::passes()) expected.emplace_back(pass.name);
  CHECK(names_of(explanation) == expected);

  const auto& stages = explanation.stages;
  CHECK(stages[0].graph.get_tensor_by_name("x:0").shape() == Shape{-1, 4});
  CHECK(stages[1].graph.get_tensor_by_name("x:0").shape() == Shape{6, 4});
  CHECK(types_of(stages[1].graph).contains("Mul"));
  CHECK(types_of(stages.back().graph).contains("_Fused"));
  CHECK(!types_of(stages.back().graph).contains("Tanh"));

  const std::string text = printed(explanation);
  for (const char* part : {"requested: ", "x = Placeholder() -> float32[?,4]\n", "x = Placeholder() -> float32[6,4]\n",
                           "fold: ", "fuse: ", "memory: ", "without reuse"}) {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
}

TEST_CASE("explain: a pass that is disabled is missing, and without optimisation all are") {
  Network network({.disabled_passes = {"fuse", "epilogue"}});
  const Explanation explanation = network.session.explain(network.y, network.feeds());
  CHECK(explanation.stages.back().name == "parallel");
  CHECK(types_of(explanation.stages.back().graph).contains("Tanh"));
  CHECK(printed(explanation).find("fuse") == std::string::npos);
  Network plain({.optimize = false});
  CHECK(names_of(plain.session.explain(plain.y, plain.feeds())) ==
        std::vector<std::string>{"requested", "specialized", "place"});
}

TEST_CASE("explain: what waits for the feeds, and what is refused") {
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor x = placeholder(), y = add(matmul(constant({{1.0, 2.0}}), x), 1, "y");
  Session session;
  const Explanation explanation = session.explain(y, {{x, {1.0, 1.0}}});
  CHECK(explanation.stages[0].graph.get_tensor_by_name("y:0").dtype() == DType::unknown);
  CHECK(explanation.stages[1].graph.get_tensor_by_name("y:0").shape() == Shape{1});
  check_values(session.run(y, {{x, {1.0, 1.0}}}), {4});
  check_values(session.run(y, {{x, {0.25, 0.5}}}), {2.25});
  CHECK_THROWS_WITH_AS(session.explain(y), doctest::Contains("You must feed a value for placeholder"),
                       InvalidArgumentError);
  CHECK_THROWS_AS(session.explain(std::vector<Tensor>{}), InvalidArgumentError);
}

namespace {

/// Checks that no two tensors share bytes while both live; returns how many lie in the arena.
std::size_t check_buffers(const ExecutionPlan& plan) {
  REQUIRE(plan.arenas.size() == 1);
  CHECK(plan.arenas[0].bytes < plan.arenas[0].bytes_without_reuse);
  std::size_t in_arena = 0;
  for (const auto& a : plan.buffers) {
    CHECK(a.first_step <= a.last_step);
    CHECK(a.last_step < plan.steps.size());
    if (a.memory != ExecutionPlan::Memory::arena) continue;
    ++in_arena;
    CHECK(a.offset % 64 == 0);
    CHECK(a.offset + a.bytes <= plan.arenas[0].bytes);
    for (const auto& b : plan.buffers) {
      if (&a == &b || b.memory != ExecutionPlan::Memory::arena) continue;
      CAPTURE(a.tensor);
      CAPTURE(b.tensor);
      const bool both_live = a.first_step <= b.last_step && b.first_step <= a.last_step;
      const bool overlap = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
      CHECK((!both_live || !overlap));
    }
  }
  return in_arena;
}

}  // namespace

TEST_CASE("making a plan is seen by no tape and no open graph, and sees no scope") {
  Graph graph;
  Tensor x, gradient;
  {
    const auto scope = graph.as_default();
    x = placeholder(DType::unknown, Shape::unknown_rank(), "x");
    const Tensor y = reduce_sum(square(x) * tensor({1.0, 2.0}) + exp(zeros({2})));
    gradient = gradients(y, {x})[0];  // a node that is replaced by gradients when the plan is made
  }
  const std::size_t size = graph.operations().size();
  const Tensor value = tensor({3.0, 4.0});
  Graph other;
  const auto scope = other.as_default();
  const Tensor before = placeholder(float32, {}, "before");
  const auto names = name_scope("elsewhere");
  const auto after = control_dependencies({before.op()});
  const auto place = device("/job:nowhere/device:GPU:77");
  GradientTape tape;
  tape.watch(value);
  RunMetadata metadata;
  check_values(Session(graph).run(gradient, {{x, value}}, {}, &metadata), {6, 16});
  CHECK(graph.operations().size() == size);
  CHECK(other.operations().size() == 1);
  CHECK(tape.size() == 0);
  for (const Operation& each : metadata.graph.operations()) {
    CHECK(!each.name().starts_with("elsewhere"));
    CHECK(each.device() == "/job:localhost/replica:0/task:0/device:CPU:0");
    CHECK(each.control_inputs().empty());
  }
}

TEST_CASE("the memory plan: no two tensors share bytes while both live") {
  Network network({.disabled_passes = {"fuse"}});
  CHECK(check_buffers(network.session.explain(network.fetches(), network.feeds(50)).plan) > 3);
}

TEST_CASE("the memory plan: what runs side by side lives at the same time") {
  const Tensor value = eye(60, {.dtype = float64});
  Graph graph;
  const auto scope = graph.as_default();
  const auto x = placeholder(float64, {60, 60}, "x");
  const auto branch = [&](double scale) { return reduce_sum(inverse(tanh(inverse(x * scale)))); };
  const auto sum = branch(1) + branch(2) + branch(3);
  Session session(graph);
  const ExecutionPlan plan = session.explain(sum, {{x, value}}).plan;
  CHECK(check_buffers(plan) > 6);
  std::vector<std::size_t> together;
  for (const ExecutionPlan::Step& step : plan.steps) together.push_back(step.together);
  CHECK(std::count(together.begin(), together.end(), 3) == 2);
  for (const auto& buffer : plan.buffers)
    if (plan.steps[buffer.first_step].together == 3 && buffer.memory == ExecutionPlan::Memory::arena)
      CHECK(buffer.last_step >= buffer.first_step + 2);
}

TEST_CASE("one picture for each stage, and one of the memory") {
  Network network;
  const Explanation explanation = network.session.explain(network.fetches(), network.feeds());
  const TemporaryFolder folder;
  explanation.write_svg((folder / "plan").string());
  for (std::size_t i = 0; i <= explanation.stages.size(); ++i) {
    const bool last = i == explanation.stages.size();
    const std::string name = last ? "memory" : explanation.stages[i].name;
    const std::string svg = content_of(folder / ("plan/" + std::to_string(i) + "-" + name + ".svg"));
    CAPTURE(name);
    CHECK(svg.starts_with("<svg "));
    CHECK(svg.ends_with("</svg>\n"));
    if (!last) CHECK(svg.find("<title>x (Placeholder)</title>") != std::string::npos);
  }
  CHECK_THROWS_AS(explanation.write_svg("/dev/null/plan"), FailedPreconditionError);
  // An empty name is that of the current folder, as for a FileWriter.
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  explanation.write_svg("");
  std::filesystem::current_path(before);
  CHECK(content_of(folder / ("0-" + explanation.stages[0].name + ".svg")).starts_with("<svg "));
}

TEST_CASE("a run tells its plan, and its times if asked") {
  Network network;
  RunMetadata metadata;
  const auto feeds = network.feeds();
  const auto expected = network.session.run(network.fetches(), feeds);
  auto results = network.session.run(network.fetches(), feeds, {}, &metadata);
  CHECK(same_bits(results[1], expected[1]));
  CHECK(metadata.times.empty());
  CHECK(!metadata.plan.steps.empty());

  results = network.session.run(network.fetches(), feeds, {.trace_level = TraceLevel::full}, &metadata);
  CHECK(same_bits(results[1], expected[1]));
  REQUIRE(metadata.times.size() == metadata.plan.steps.size());
  CHECK(metadata.start > 1'600'000'000'000'000);
  std::int64_t end = 0;
  for (const RunMetadata::Time& time : metadata.times) {
    CHECK(time.start >= end);
    CHECK(time.duration >= 0);
    end = time.start + time.duration;
  }
  CHECK(types_of(metadata.graph).contains("_Fused"));
  for (const ExecutionPlan::Step& step : metadata.plan.steps)
    CHECK_NOTHROW(metadata.graph.get_operation_by_name(step.name));
}

TEST_CASE("a graph on two devices: a stage and a thread for each part") {
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor x = placeholder(float32, {100}, "x");
  const Tensor there = [&] {
    const auto place = device(toy_device());
    return square(x, "there");
  }();
  const Tensor y = reduce_sum(there, Axes(), {}, "y");
  Session session;
  const Feeds feeds{{x, ones({100}).eval()}};
  const Explanation explanation = session.explain(y, feeds);
  const std::vector<std::string> names = names_of(explanation);
  REQUIRE(names.size() > 2);
  CHECK(names[names.size() - 2] == "partition-0");
  CHECK(names.back() == "partition-1");
  CHECK(types_of(explanation.stages.back().graph).contains("_Recv"));
  RunMetadata metadata;
  CHECK(session.run(y, feeds, {.trace_level = TraceLevel::full}, &metadata).item<float>() == 100);
  REQUIRE(metadata.times.size() == metadata.plan.steps.size());
  std::set<int> threads;
  for (std::size_t i = 0; i < metadata.times.size(); ++i) {
    const bool on_host = metadata.plan.steps[i].device == cpu();
    CHECK(metadata.times[i].thread == (on_host ? 0 : 1));
    threads.insert(metadata.times[i].thread);
  }
  CHECK(threads.size() == 2);
  const TemporaryFolder folder;
  CHECK_NOTHROW(metadata.write_chrome_trace((folder / "trace.json").string()));
}

TEST_CASE("a callable that failed takes the values of the next call") {
  Network network;
  const auto run = network.session.make_callable({network.y}, {network.x});
  const Tensor good = numbers({6, 4}, -2, 2, 2).cast(float32), expected = run(good)[0];
  CHECK_THROWS_AS(run(zeros({6, 5})), InvalidArgumentError);
  CHECK(same_bits(run(good)[0], expected));
}

TEST_CASE("a run that computes nothing tells nothing") {
  Network network;
  RunMetadata metadata;
  network.session.run(network.y, network.feeds(), {}, &metadata);
  network.session.run(network.x, network.feeds(), {}, &metadata);
  CHECK(metadata.plan.steps.empty());
}

TEST_CASE("a Chrome trace has an event for each step") {
  Network network;
  RunMetadata metadata;
  const TemporaryFolder folder;
  const std::string path = (folder / "trace.json").string();
  network.session.run(network.y, network.feeds(), {}, &metadata);
  CHECK_THROWS_WITH_AS(metadata.write_chrome_trace(path), doctest::Contains("There are no times"),
                       FailedPreconditionError);
  network.session.run(network.y, network.feeds(), {.trace_level = TraceLevel::full}, &metadata);
  metadata.plan.steps[0].type = "\"quoted\\\" \n\xff";
  metadata.write_chrome_trace(path);
  const std::string text = content_of(path);
  CHECK(text.starts_with("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n{"));
  CHECK(text.ends_with("}\n]}\n"));
  CHECK(text.find("\"name\":\"\\\"quoted\\\\\\\" \\u000a\\u00ff\"") != std::string::npos);
  std::size_t events = 0;
  for (std::size_t at = 0; (at = text.find("\"ph\":\"X\"", at)) != std::string::npos; ++at) ++events;
  CHECK(events == metadata.plan.steps.size());
}

}  // namespace tapestry::test::plan_test
