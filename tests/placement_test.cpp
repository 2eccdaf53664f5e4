// Graphs on several devices: which node runs where, what is sent, and that the numbers stay the same.

#include <iostream>
#include <map>
#include <sstream>
#include <thread>

#include <doctest/doctest.h>

#include "expect.hpp"
#include "graph/passes/passes.hpp"
#include "graph/specialize.hpp"
#include "graph/state_ops.hpp"
#include "op_cases/op_cases.hpp"
#include "tapestry/tapestry.hpp"
#include "toy_backend.hpp"

namespace tapestry::test::placement_test {
namespace {

using Names = std::vector<std::string>;

std::string toy(int index = 0) { return tensorflow_name(toy_device(index)); }

/// What the fetches need, without any optimisation; what is fed has the shape that it was declared with.
detail::PlanGraph placed(const Graph& graph, const std::vector<Tensor>& fetches,
                         const std::vector<Tensor>& feeds = {}) {
  detail::Request request;
  for (const Tensor& fetch : fetches) request.fetches.push_back(fetch);
  for (const Tensor& feed : feeds) {
    request.feeds.push_back(feed);
    request.fed.push_back(feed.spec());
  }
  return detail::place(detail::specialize(*graph.state(), request), {});
}

Device device_of(const detail::PlanGraph& plan, std::string_view name) {
  return plan.device_of(*plan.graph->find(name));
}

/// What the parts send: the name of the tensor, from where, to where.
std::multimap<std::string, std::pair<Device, Device>> transfers(const std::vector<detail::Partition>& parts,
                                                                const Op& op) {
  std::multimap<std::string, std::pair<Device, Device>> found;
  for (const detail::Partition& part : parts)
    for (std::size_t i = 0; i < part.plan.graph->size(); ++i) {
      const detail::Node& node = part.plan.graph->node(i);
      CHECK(part.plan.device_of(node) == part.device);
      if (&node.op() == &op)
        found.emplace(node.attr<std::string>("tensor_name"),
                      std::pair(node.attr<Device>("send_device"), node.attr<Device>("recv_device")));
    }
  return found;
}

Names keys(const auto& map) {
  Names names;
  for (const auto& [name, value] : map) names.push_back(name);
  return names;
}

Tensor on(Device place, const std::function<Tensor()>& make) {
  const auto scope = device(place);
  return make();
}

}  // namespace

// The example of the documents' "Split Graph": f, c and a on three devices, b on a fourth, d and e on a fifth, g and h
// on a sixth. e is needed twice on the sixth and sent once, and so is b.
TEST_CASE("six nodes that are needed elsewhere are sent six times") {
  Graph graph;
  const auto scope = graph.as_default();
  const auto leaf = [](const char* name) { return placeholder(float32, {3}, name); };
  const Tensor f = on(toy_device(0), [&] { return leaf("f"); });
  const Tensor c = on(toy_device(1), [&] { return leaf("c"); });
  const Tensor a = on(toy_device(2), [&] { return leaf("a"); });
  const Tensor b = on(toy_device(3), [&] { return square(a, "b"); });
  const Tensor d = on(toy_device(4), [&] { return add(b, c, "d"); });
  const Tensor e = on(toy_device(4), [&] { return multiply(b, f, "e"); });
  const Tensor g = on(cpu(), [&] { return add(d, e, "g"); });
  const Tensor h = on(cpu(), [&] { return square(e, "h"); });

  const auto parts = detail::partition(placed(graph, {g, h}, {f, c, a}));
  CHECK(parts.size() == 6);
  const auto sent = transfers(parts, send_op), received = transfers(parts, recv_op);
  CHECK(keys(sent) == Names{"a:0", "b:0", "c:0", "d:0", "e:0", "f:0"});
  CHECK(sent == received);
  CHECK(sent.find("e:0")->second == std::pair(toy_device(4), cpu()));

  Session session;
  const auto [sum, squares, inner] = session.run(std::tuple{g, h, e}, {{f, {1, 2, 3}}, {c, {4, 5, 6}}, {a, {7, 8, 9}}});
  check_values(sum, {102, 197, 330});
  check_values(squares, {49 * 49, 128 * 128, 243 * 243});
  CHECK(inner.device() == toy_device(4));
}

TEST_CASE("to wait for a node of another device is to receive an empty constant") {
  Variable w(1.0F, {.name = "w"});
  Graph graph;
  std::optional<Graph::Scope> scope(graph);
  const Operation source = w.assign_add(2.0F).op().control_inputs()[0];
  const auto x = placeholder(float32, {}, "x");
  Tensor y;
  {
    const auto after = control_dependencies({source});
    y = on(toy_device(), [&] { return square(x, "dst"); });
  }
  const auto parts = detail::partition(placed(graph, {y}, {x}));
  REQUIRE(parts.size() == 2);
  CHECK(keys(transfers(parts, send_op)) == Names{"^w/AssignAdd", "x:0"});
  const detail::Node* send = parts[0].plan.graph->find("w/AssignAdd/send");
  REQUIRE(send);
  const detail::Node& empty = *detail::endpoint_of(send->input(0)).node;
  CHECK(empty.type() == "Const");
  CHECK(empty.output().shape() == Shape{0});
  REQUIRE(empty.control_inputs.size() == 1);
  CHECK(empty.control_inputs[0]->name() == "w/AssignAdd");
  const detail::Node& dst = *parts[1].plan.graph->find("dst");
  REQUIRE(dst.control_inputs.size() == 1);
  CHECK(dst.control_inputs[0]->type() == "Identity");
  CHECK(detail::endpoint_of(dst.control_inputs[0]->input(0)).node->type() == "_Recv");

  Session session;
  CHECK(session.run(y, {{x, 3.0F}}).item<float>() == 9);
  scope.reset();
  CHECK(w.value().item<float>() == 3);
}

TEST_CASE("an op runs where it was asked for, else with its Variable, else with its inputs, else on the host") {
  Graph graph;
  const auto scope = graph.as_default();
  const auto x = placeholder(float32, {2}, "x");
  const Tensor host = constant({1, 2});
  const Tensor asked = on(toy_device(1), [&] { return add(x, host, "asked"); });
  const Tensor follows = multiply(x, asked, "follows");
  const Tensor back = on(cpu(), [&] { return square(follows, "back"); });
  const Variable there = [] {
    const auto place = device(toy_device(2));
    return Variable({3, 4}, {.name = "there"});
  }();
  Tensor y = multiply(back, there, "with_variable");
  y = add(y, y.to(toy_device(3)), "with_copy");
  const Tensor unused = on(toy_device(), [&] { return zeros_like(x, "unused"); });
  y = add(y, on(cpu(), [&] { return zeros_like(unused); }), "last");

  const std::map<std::string, Device> expected = {{"x", cpu()},
                                                  {"asked", toy_device(1)},
                                                  {"follows", toy_device(1)},
                                                  {"back", cpu()},
                                                  {"there", toy_device(2)},
                                                  {"there/read", toy_device(2)},
                                                  {"last", toy_device(2)},
                                                  {"with_variable", toy_device(2)},
                                                  {"with_copy", toy_device(2)}};
  const detail::PlanGraph plan = placed(graph, {y}, {x});
  for (const auto& each : expected) {
    CAPTURE(each.first);
    const detail::Node* node = plan.graph->find(each.first);
    REQUIRE(node);
    CHECK(plan.device_of(*node) == each.second);
    CHECK(node->device == "/job:localhost/replica:0/task:0" + tensorflow_name(each.second));
  }
  CHECK(there.device() == toy_device(2));
  for (const bool optimize : {true, false})
    check_values(Session(graph, {.optimize = optimize}).run(y, {{x, {1, 2}}}), {24, 512});
}

TEST_CASE("every pass says of every node where it runs") {
  Graph graph;
  const auto scope = graph.as_default();
  const auto x = placeholder(float32, {2, 2}, "x");
  const Tensor h = exp(x, "h");
  const Variable counter(1.0, {.name = "counter"});
  const Tensor there = on(toy_device(1), [&] {
    const auto after = control_dependencies({counter.assign_add(1.0).op()});
    // The edge to h lends a shape only, and is cut behind a node on the other device.
    const Tensor product = matmul(square(x), tensor({{1.0, 2.0}, {3.0, 4.0}}));
    return tanh(product + 1.0) * zeros_like(h);
  });
  const Tensor y = h + there.to(cpu());
  detail::PlanGraph plan = placed(graph, {y}, {x});
  for (const detail::Pass& pass : detail::passes()) {
    CAPTURE(pass.name);
    plan = pass.run(plan);
    REQUIRE(plan.devices.size() == plan.graph->size());
    for (std::size_t i = 0; i < plan.graph->size(); ++i) {
      const detail::Node& node = plan.graph->node(i);
      CAPTURE(node.name());
      CHECK(node.device == "/job:localhost/replica:0/task:0" + tensorflow_name(plan.device_of(node)));
      for (const Tensor& output : node.outputs()) CHECK(output.device() == plan.device_of(node));
      if (node.type() == "Const" || node.type() == "Placeholder") CHECK(node.control_inputs.empty());
    }
  }
  check_values(Session(graph).run(reduce_sum(y - exp(x)), {{x, {{1, 2}, {3, 4}}}}), {0});
}

TEST_CASE("operations that are to run where another one runs") {
  Graph graph;
  const auto scope = graph.as_default();
  const auto x = placeholder(float32, {2}, "x");
  const Tensor there = on(toy_device(1), [&] { return square(x, "there"); });
  const Tensor follows = [&] {
    const auto outer = device(cpu());
    const auto beside = colocate_with(there);
    return negative(x, "follows");
  }();
  const Tensor chain = [&] {
    const auto beside = colocate_with(follows.op());
    return exp(x, "chain");
  }();
  const Tensor free = abs(x, "free");
  const std::map<std::string, Device> expected = {
      {"there", toy_device(1)}, {"follows", toy_device(1)}, {"chain", toy_device(1)}, {"free", cpu()}};
  const detail::PlanGraph plan = placed(graph, {there, follows, chain, free}, {x});
  for (const auto& each : expected) {
    CAPTURE(each.first);
    CHECK(device_of(plan, each.first) == each.second);
  }
  // Without the operation, its device is what counts.
  CHECK(device_of(placed(graph, {chain}, {x}), "chain") == toy_device(1));

  const std::string file = graph.as_graph_def();
  CHECK(file.find("loc:@there") != std::string::npos);
  const Graph loaded = Graph::from_graph_def(file);
  CHECK(loaded.as_graph_def() == file);
  const detail::PlanGraph again =
      placed(loaded, {loaded.get_tensor_by_name("there:0"), loaded.get_tensor_by_name("chain:0")},
             {loaded.get_tensor_by_name("x:0")});
  CHECK(device_of(again, "chain") == toy_device(1));
}

TEST_CASE("a device that is not there") {
  toy_device();
  Graph graph;
  const auto scope = graph.as_default();
  const auto x = placeholder(float32, {}, "x");
  const Tensor far = [&] {
    const auto place = device("/job:ps/task:3/cpu:0");
    return square(x, "far");
  }();
  const Where line = Where::here();
  const Tensor y = [&] {
    const auto place = device("/gpu:7");
    return square(x, "y");
  }();
  const Error error = caught<InvalidArgumentError>([&] { Session().run(y, {{x, 2.0F}}); });
  CHECK(error.message().starts_with(
      "Cannot assign a device for operation 'y': Could not satisfy explicit device specification '/device:GPU:7' "
      "because "
      "no devices matching that specification are registered in this process; available devices: "
      "/job:localhost/replica:0/task:0/device:CPU:0"));
  CHECK(place(error) == to_string(Where{line.file, line.line + 3}));
  CHECK(message_of([&] {
          Session().run(far, {{x, 2.0F}});
        }).find("'/job:ps/task:3/device:CPU:0'") != std::string::npos);

  Session running(graph, {.allow_soft_placement = true, .log_device_placement = true});
  std::ostringstream log;
  std::streambuf* const usual = std::clog.rdbuf(log.rdbuf());
  const Tensor four = running.run(y, {{x, 2.0F}});
  std::clog.rdbuf(usual);
  CHECK(four.item<float>() == 4);
  CHECK(log.str() ==
        "x: (Placeholder): /job:localhost/replica:0/task:0/device:CPU:0\n"
        "y: (Square): /job:localhost/replica:0/task:0/device:CPU:0\n");
}

TEST_CASE("names of jobs and wildcards ask for what is here") {
  Graph graph;
  const auto scope = graph.as_default();
  const auto x = placeholder(float32, {}, "x");
  for (const std::string& name : {std::string("/job:localhost/task:0"), "/job:localhost/replica:0/task:0" + toy(2),
                                  std::string("/device:TOY:*")}) {
    const Tensor y = [&] {
      const auto place = device(name);
      return square(x);
    }();
    const Device expected = name.find("TOY:2") != std::string::npos ? toy_device(2)
                            : name.ends_with("*")                   ? toy_device(0)
                                                                    : cpu();
    CHECK(Session().run(y, {{x, 2.0F}}).device() == expected);
  }
}

TEST_CASE("every op computes on another device what it computes on the host, in one graph with it") {
  for (const OpCase& row : op_cases()) {
    CAPTURE(row.name);
    random::seed(5);
    const std::vector<Tensor> expected = value_and_gradients(row, row.inputs);
    std::vector<TensorSpec> specs;
    for (const Tensor& input : row.inputs) specs.push_back(spec(input.dtype(), input.shape()));
    const auto traced = trace(
        [&](const std::vector<Tensor>& inputs) {
          const auto there = device(toy_device(1));
          return value_and_gradients(row, inputs);
        },
        specs);
    Session session(traced.graph());
    Feeds feeds;
    for (std::size_t i = 0; i < row.inputs.size(); ++i) feeds.add(traced.input(i), row.inputs[i]);
    for (int run = 0; run < 2; ++run) {
      random::seed(5);
      const std::vector<Tensor> found = session.run(traced.outputs(), feeds);
      REQUIRE(found.size() == expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) CHECK(same_bits(found[i], expected[i]));
    }
  }
}

TEST_CASE("a network whose layers are on two devices learns what it learns on one") {
  const Tensor points = random::normal({8, 3}), labels = random::normal({8, 2});
  const auto train = [&](const std::function<Device(int)>& place) {
    random::seed(11);
    Graph graph;
    std::optional<Graph::Scope> scope(graph);
    const auto x = placeholder(float32, {-1, 3}, "x"), c = placeholder(float32, {-1, 2}, "c");
    std::vector<Variable> variables;
    const auto layer = [&](int i, const Tensor& input, std::int64_t from, std::int64_t to) {
      const auto there = device(place(i));
      variables.emplace_back(random::normal({from, to}));
      variables.emplace_back(zeros({to}));
      return matmul(input, variables[variables.size() - 2]) + variables.back();
    };
    const Tensor loss = reduce_mean(square(layer(1, tanh(layer(0, x, 3, 4)), 4, 2) - c));
    const Operation step = train::AdamOptimizer(0.1).minimize(loss);
    Session session;
    session.run(global_variables_initializer());
    std::vector<Tensor> losses;
    for (int i = 0; i < 5; ++i)
      losses.push_back(std::get<0>(session.run(std::tuple{loss, step}, {{x, points}, {c, labels}})).to(cpu()));
    scope.reset();
    for (std::size_t i = 0; i < variables.size(); ++i) {
      CHECK(variables[i].device() == place(static_cast<int>(i / 2)));
      losses.push_back(variables[i].value().to(cpu()));
    }
    return losses;
  };
  const auto expected = train([](int) { return cpu(); });
  const auto found = train([](int i) { return i == 0 ? cpu() : toy_device(1); });
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(same_bits(found[i], expected[i]));
}

TEST_CASE("an error of one part is the run's error, and the next run is whole") {
  Graph graph;
  const auto scope = graph.as_default();
  const auto x = placeholder(int32, {2}, "x");
  const Where line = Where::here();
  const Tensor y = on(toy_device(), [&] { return floor_divide(constant({6, 6}), x, "y"); });
  const Tensor z = on(cpu(), [&] { return y + x; });
  Session session;
  for (int run = 0; run < 3; ++run) {
    const Error error = caught([&] { session.run(z, {{x, {1, 0}}}); });
    CHECK(place(error) == to_string(Where{line.file, line.line + 1}));
    check_values(session.run(z, {{x, {1, 2}}}), {7, 5});
  }
}

TEST_CASE("several threads run one graph on two devices") {
  Graph graph;
  const auto scope = graph.as_default();
  const auto x = placeholder(float32, {4}, "x");
  const Tensor there = on(toy_device(), [&] { return exp(x * x); });
  const Tensor y = on(cpu(), [&] { return there + x; });
  Session session;
  std::vector<std::thread> threads;
  std::vector<int> right(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      const Tensor value = full({4}, t);
      const Tensor expected = exp(value * value) + value;
      for (int i = 0; i < 20; ++i)
        right[static_cast<std::size_t>(t)] += same_bits(session.run(y, {{x, value}}), expected) ? 1 : 0;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(right == std::vector<int>(4, 20));
}

}  // namespace tapestry::test::placement_test
