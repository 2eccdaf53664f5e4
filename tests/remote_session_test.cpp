// Sessions on servers, over memory: both sides as they are over gRPC, which tests/distributed adds.

#include "distributed/rpc/remote_session.hpp"

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include <doctest/doctest.h>

#include "distributed/rpc/master.hpp"
#include "expect.hpp"
#include "io/rpc/messages.hpp"
#include "io/tensorflow/variable_table.hpp"
#include "memory_plugin.hpp"
#include "refused.hpp"
#include "tapestry/tapestry.hpp"

namespace remote_session_test {

using namespace tapestry;
using namespace tapestry::test;
namespace rpc = tapestry::io::rpc;

namespace {

struct Training {
  Graph graph{};
  Tensor x, y, loss;
  Operation step, init;
  Variable w;
};

Variable weights(const Shape& shape, const char* name) {
  const Tensor all = sin(arange(static_cast<double>(shape.size()))).cast(float32);
  return Variable(reshape(all, shape) * 0.3, {.name = name});
}

/// `eager`: Variables are made outside the graph.
template <class Optimizer>
Training mlp(Optimizer optimizer, bool eager) {
  Graph graph;
  std::optional<Variable> w, v, b;
  const auto make = [&] { w = weights({4, 8}, "w"), v = weights({8, 1}, "v"), b = weights({8}, "b"); };
  if (eager) make();
  const auto scope = graph.as_default();
  if (!eager) {
    w = Variable(zeros({4, 8}) + 0.25, {.name = "w"});  // its initializer computes it
    v = Variable(full({8, 1}, 0.5F), {.name = "v"}), b = Variable(full({8}, 0.125F), {.name = "b"});
  }
  const Tensor x = placeholder(float32, {-1, 4}, "x"), y = placeholder(float32, {-1, 1}, "y");
  const Tensor loss = reduce_mean(square(matmul(tanh(matmul(x, *w) + *b), *v) - y));
  const Operation step = optimizer.minimize(loss);
  return {graph, x, y, loss, step, global_variables_initializer(), *w};
}

Tensor batch(int i, const Shape& shape) {
  return reshape(cos(arange(static_cast<double>(shape.size())) * (i + 1.0)), shape).cast(float32);
}

/// The losses of some steps, and the weights after them.
std::vector<Tensor> trained(const Session& session, const Training& model) {
  std::vector<Tensor> results;
  for (int i = 0; i < 5; ++i) {
    const auto [loss, done] =
        session.run(std::tuple{model.loss, model.step}, {{model.x, batch(i, {6, 4})}, {model.y, batch(i, {6, 1})}});
    results.push_back(loss);
  }
  results.push_back(session.run(model.w));
  return results;
}

/// Answers each method with bytes.
using Answers = std::map<std::string, std::function<std::string()>>;
std::unique_ptr<detail::Listener> liar(Answers answers) {
  return detail::memory_transport().listen(
      {.host = "", .port = 0, .message_bytes = 1 << 20},
      [answers = std::move(answers)](std::string_view method, std::string_view, const std::stop_token&) {
        detail::Pieces reply;
        reply.add(answers.at(std::string(method.substr(method.rfind('/') + 1)))());
        return reply;
      });
}

template <class Message>
std::function<std::string()> answer(const Message& message) {
  return [bytes = rpc::encode(message).joined()] { return bytes; };
}

const auto good_session = answer(rpc::CreateSessionResponse{.session_handle = "s"});
const auto nothing = answer(rpc::Empty{});

/// A run on the server that takes for ever.
Tensor endless() {
  return std::get<0>(while_loop([](const Tensor& i) { return less(i, 1 << 30); },
                                [](const Tensor& i) { return std::tuple{tp::mod(i + 1, 1 << 20)}; },
                                std::tuple{constant(0)}));
}

}  // namespace

TEST_CASE("a graph trains on a server as in this process, to the bit") {
  Server moved = Server::create_local_server();
  const Server server = std::move(moved);
  CHECK_THROWS_AS(moved.join(), FailedPreconditionError);  // NOLINT(bugprone-use-after-move)
  CHECK_THROWS_AS(moved.stop(), FailedPreconditionError);
  const auto check = [&](auto make, bool eager, double tolerance = 0) {
    const Training here = mlp(make(), eager), there = mlp(make(), eager);
    const Session local(here.graph), remote(server.target(), there.graph);
    local.run(here.init);
    remote.run(there.init);
    const std::vector<Tensor> found = trained(remote, there), expected = trained(local, here);
    for (std::size_t i = 0; i < found.size(); ++i) check_same(found[i], expected[i], tolerance);
    if (tolerance == 0) check_same_bits(found, expected);
    Session::reset(server.target());
  };
  for (const bool eager : {false, true}) {
    INFO("Variables from outside the graph: ", eager);
    check([] { return train::GradientDescentOptimizer(0.1); }, eager);
    check([] { return train::MomentumOptimizer(0.1, 0.9); }, eager);
    check([] { return train::AdamOptimizer(0.01); }, eager);
    // A schedule is computed by ops there, and by C++ here; and Adam's update is TensorFlow's there.
    constexpr double last_digit = 1e-5;
    check([] { return train::MomentumOptimizer(train::ExponentialDecay(0.1, 2, 0.5), 0.9); }, eager, last_digit);
    check([] { return train::AdamWOptimizer(train::LinearWarmup(train::CosineDecay(0.1, 4), 2)); }, eager, last_digit);
  }
}

TEST_CASE("runs, callables and partial runs give what a session in this process gives") {
  const Server server = Server::create_local_server();
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor a = placeholder(float32, {-1}, "a"), b = placeholder(float32, {-1}, "b");
  const Tensor sum = add(a, b, "sum"), product = multiply(sum, a, "product");
  const auto [top, place] = top_k(product, 1);
  const Tensor branch = cond(
      // NOLINTNEXTLINE(performance-no-automatic-move): what is captured stays
      less(reduce_sum(a), 1.0), [&] { return product * 2.0; }, [&] { return product; });
  const auto [i, s] = while_loop([](const Tensor& n, const Tensor&) { return less(n, 4); },
                                 [&](const Tensor& n, const Tensor& each) {
                                   return std::tuple{n + 1, each * b};
                                 },
                                 std::tuple{constant(0), a});
  const Session local(graph), remote(server.target(), graph);
  const Feeds feeds{{a, {1.0, 2.0}}, {"b:0", {3.0, -1.0}}};
  const std::vector<Tensor> fetches{product, sum, top, place, branch, i, s, a};
  check_same_bits(remote.run(fetches, feeds), local.run(fetches, feeds));
  check_same(remote.run("product:0", feeds), local.run(product, feeds));
  check_values(remote.run(product, {{sum, {2.0}}, {a, {5.0}}}), {10});  // what is computed can be fed

  const auto f = remote.make_callable({product, sum}, {a, b});
  for (const double each : {1.0, 2.0}) {
    check_values(f(tensor({each}), tensor({2.0}))[0], {(each + 2) * each});
    check_values(f(tensor({each, each}), tensor({2.0, 2.0}))[1], {each + 2, each + 2});
  }

  auto parts = remote.partial_run_setup({sum, product}, {a, b});
  check_values(parts.run(sum, {{a, {1.0}}, {b, {2.0}}}), {3});
  check_values(parts.run(product), {3});
  TAPESTRY_REFUSED(InvalidArgumentError, "had already been fetched", parts.run(sum));

  // The graph grows: what is new is sent, callables stay.
  const Tensor more = product + 100.0;
  check_values(remote.run(more, feeds), {104, 102});
  check_values(f(tensor({1.0}), tensor({1.0}))[0], {2});
}

TEST_CASE("Variables live on the server, where sessions share them by name") {
  const Server server = Server::create_local_server();
  Graph graph;
  const auto scope = graph.as_default();
  const Variable v({1.0, 2.0}, {.name = "v"});
  const Tensor more = v.assign_add({1.0, 1.0});
  const Session session(server.target(), graph);
  const auto is_empty = [&](const Session& each) {
    return message_of<FailedPreconditionError>([&] { each.run(v); }).find("uninitialized value v") != std::string::npos;
  };
  CHECK(is_empty(session));
  session.run(global_variables_initializer());
  check_values(session.run(more), {2, 3});
  const Session other(server.target(), graph), own(server.target(), graph, {.isolate_session_state = true});
  check_values(other.run(more), {3, 4});
  check_values(session.run(v), {3, 4});
  CHECK(session.run("v:0").size() == 2);
  CHECK(is_empty(own));
  check_values(Session(graph).run(v), {1, 2});  // in this process
  Session::reset(server.target());
  TAPESTRY_REFUSED(AbortedError, "is not found", session.run(v));
  const Session anew(server.target(), graph);
  CHECK(is_empty(anew));
}

TEST_CASE("errors of a server have the class, the node and the line of this program") {
  const Server server = Server::create_local_server();
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor x = placeholder(float32, {-1}, "x");
  const Tensor seven = reshape(x, {7}, "seven");
  const std::string line = line_before();
  const Session session(server.target(), graph);
  const auto error = caught<InvalidArgumentError>([&] { session.run(seven, {{x, {1.0, 2.0}}}); });
  CHECK(error.node() == "seven");
  CHECK(error.op() == "Reshape");
  CHECK(place(error) == line);
  CHECK(error.message().starts_with("From /job:localhost/replica:0/task:0:\n"));
  CHECK(caught<InvalidArgumentError>([&] { session.run(seven); })
            .message()
            .find("You must feed a value for placeholder "
                  "tensor 'x'") != std::string::npos);
  // What is wrong on this side is not sent.
  TAPESTRY_REFUSED(InvalidArgumentError, "Cannot feed value of shape (1, 1)", session.run(seven, {{x, {{1.0}}}}));
  TAPESTRY_REFUSED(LookupError, "nothing", session.run("nothing:0"));
  TAPESTRY_REFUSED(UnimplementedError, "no plan", session.explain(seven));
}

TEST_CASE("a server that is alone has no other jobs, tasks and devices") {
  const Server server = Server::create_local_server();
  const auto run_at = [&](const std::string& where, bool soft) {
    Graph graph;
    const auto scope = graph.as_default();
    const auto there = device(where);
    const Tensor y = add(placeholder(float32, {}, "x"), 1.0, "y");
    const Session session(server.target(), graph, {.allow_soft_placement = soft});
    auto parts = session.partial_run_setup({y}, {graph.get_tensor_by_name("x:0")});
    check_values(parts.run(y, {{"x:0", 2.0}}), {3});
    return session.run(y, {{"x:0", 1.0}});
  };
  for (const char* good : {"", "/job:localhost", "/job:localhost/replica:0/task:0", "/task:0/cpu:0", "/device:CPU:0"})
    check_values(run_at(good, false), {2});
  check_values(run_at("/gpu:0", true), {2});
  const auto refuse = [&](const std::string& where, bool soft, const std::string& there) {
    const std::string text = caught<InvalidArgumentError>([&] { run_at(where, soft); }).message();
    CHECK_MESSAGE(text.starts_with(detail::join("Cannot assign a device for operation y: {{node y}} was explicitly "
                                                "assigned to ",
                                                where, " but available devices are [ ", there)),
                  text);
  };
  for (const bool soft : {false, true})
    for (const char* wrong :
         {"/job:nope", "/job:worker/task:3", "/job:localhost/task:1", "/job:nope/task:0/device:CPU:0"})
      refuse(wrong, soft, "/job:localhost/replica:0/task:0/device:* ]. Make sure");
  refuse("/device:GPU:0", false, "/job:localhost/replica:0/task:0/device:CPU:0");
}

TEST_CASE("a target that names no server") {
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor one = constant(1.0);
  check_values(Session("", graph).run(one), {1});
  const Session gone("memory://localhost:999999", graph);
  TAPESTRY_REFUSED(UnavailableError, "memory://localhost:999999 cannot be reached", gone.run(one));
}

TEST_CASE("a run ends at its deadline, when it is stopped, and when its session or its server ends") {
  Server server = Server::create_local_server();
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor never = endless(), one = constant(1.0);
  const Session hasty(server.target(), graph, {.operation_timeout_in_ms = 30});
  CHECK_THROWS_AS(hasty.run(never), DeadlineExceededError);
  check_values(hasty.run(one, {}, {.timeout_in_ms = 60'000}, nullptr), {1});
  Session session(server.target(), graph);
  CHECK_THROWS_AS(session.run(never, {}, {.timeout_in_ms = 30}, nullptr), DeadlineExceededError);
  const std::vector<Fetch> both{Fetch(never), Fetch(one)};
  const Session here(graph);
  for (const Session* each : std::initializer_list<const Session*>{&session, &here}) {
    const Session::Callable callable = each->make_callable(both), quick = each->make_callable({Fetch(one)});
    std::stop_source stop;
    stop.request_stop();
    CHECK_THROWS_AS(callable.call({}, {.timeout_in_ms = 30}), DeadlineExceededError);
    CHECK_THROWS_AS(callable.call({}, {.stop = stop.get_token()}), CancelledError);
    check_values(quick.call({}, {.timeout_in_ms = 60'000})[0], {1});
  }

  const auto ends = [&](const Session& each, const RunOptions& options, const std::function<void()>& end) {
    std::atomic<int> code = 0;
    std::thread runner([&] {
      try {
        each.run(never, {}, options, nullptr);
      } catch (const Error& error) {
        code = static_cast<int>(error.code());
      }
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    end();
    runner.join();
    return code.load();
  };
  const int cancelled = static_cast<int>(Code::cancelled);
  for (const std::string& target : {std::string(), server.target()}) {
    std::stop_source source;
    CHECK(ends(Session(target, graph), {.stop = source.get_token()}, [&] { source.request_stop(); }) == cancelled);
    CHECK(caught<CancelledError>([&] {
            Session(target, graph).run(one, {}, {.stop = source.get_token()}, nullptr);
          }).code() == Code::cancelled);
  }
  CHECK(ends(session, {}, [&] { session.close(); }) == cancelled);
  TAPESTRY_REFUSED(FailedPreconditionError, "closed Session", session.run(one));
  // Another session's runs are ended by the server, as by a connection that breaks.
  CHECK(ends(Session(server.target(), graph), {}, [&] { server.stop(); }) == static_cast<int>(Code::unavailable));
  TAPESTRY_REFUSED(UnavailableError, "cannot be reached", Session(server.target(), graph).run(one));
  server.join();
}

TEST_CASE("a server refuses what exceeds its limits, and goes on serving") {
  const Server server = Server::create_local_server(
      {.sessions = 2, .steps_at_once = 1, .variable_bytes = 1000, .graph = {.elements = 1 << 16, .nodes = 200}});
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor one = constant(1.0), never = endless();
  const Session first(server.target(), graph);
  check_values(first.run(one), {1});
  {
    const Session second(server.target(), graph);
    second.run(one);
    const Session third(server.target(), graph);
    TAPESTRY_REFUSED(ResourceExhaustedError, "2 sessions", third.run(one));
  }
  check_values(Session(server.target(), graph).run(one), {1});
  {
    std::stop_source source;
    std::thread busy([&] {
      const auto runs = [&] {
        try {
          first.run(never, {}, {.stop = source.get_token()}, nullptr);
        } catch (const ResourceExhaustedError&) {
          return false;  // by a run of the loop below
        }
        return true;
      };
      CHECK_THROWS_AS(while (!runs()) std::this_thread::yield(), CancelledError);
    });
    while (true) {
      try {
        Session(server.target(), graph).run(one);
      } catch (const ResourceExhaustedError& error) {
        CHECK(error.message().find("1 runs") != std::string::npos);
        break;
      }
    }
    source.request_stop();
    busy.join();
    // The client has left; the server ends the run at its next operation.
    for (bool is_free = false; !is_free;) {
      try {
        first.run(one);
        is_free = true;
      } catch (const ResourceExhaustedError&) {
        std::this_thread::yield();
      }
    }
  }
  const Tensor large = add(broadcast_to(one, {1 << 9, 1 << 9}), 1.0, "large");
  Graph variables;
  {
    const auto inside = variables.as_default();
    const Variable a(zeros({200}), {.name = "a"}), b(zeros({200}), {.name = "b"});
    const Session session(server.target(), variables);
    TAPESTRY_REFUSED(ResourceExhaustedError, "ServerOptions::variable_bytes",
                     session.run(global_variables_initializer()));
  }
  // Of which the sum of the bytes would be 0 again. No graph of this size is made here.
  io::VariableTable table("localhost", 1000);
  for (int i = 0; i < 4; ++i)
    CHECK_THROWS_AS(table.cell("", join("beyond", i), {float64, {std::int64_t{1} << 61}}), ResourceExhaustedError);
  CHECK(message_of<ResourceExhaustedError>([&] { first.run(large); }).find("GraphLimits::elements") !=
        std::string::npos);
  for (int i = 0; i < 200; ++i) constant(i);
  TAPESTRY_REFUSED(ResourceExhaustedError, "GraphLimits::nodes", Session(server.target(), graph).run(one));
}

TEST_CASE("sessions that nobody uses end") {
  const Server server = Server::create_local_server({.session_gc_seconds = 1});
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor one = constant(1.0);
  const Session session(server.target(), graph);
  session.run(one);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  Session(server.target(), graph).run(one);
  TAPESTRY_REFUSED(AbortedError, "is not found", session.run(one));
}

TEST_CASE("options of a server that contradict each other") {
  const ClusterSpec cluster({{"ps", {"localhost:0"}}});
  TAPESTRY_REFUSED(InvalidArgumentError, "job", Server(cluster));
  TAPESTRY_REFUSED(InvalidArgumentError, "has no task 1", Server(cluster, {.job = "ps", .task = 1}));
  for (const char* bind : {"0.0.0.0", "127.0.0.1.example.com", "[::]", "::"})
    TAPESTRY_REFUSED(InvalidArgumentError, "insecure", Server(cluster, {.job = "ps", .bind = bind}));
  TAPESTRY_REFUSED(InvalidArgumentError, "`bind` of the server is empty", Server(cluster, {.job = "ps", .bind = ""}));
  TAPESTRY_REFUSED(InvalidArgumentError, "at least 1", Server(cluster, {.job = "ps", .sessions = 0}));
  const Server server(cluster, {.job = "ps"});
  CHECK(server.job() == "ps");
  CHECK(server.task() == 0);
  Graph graph;
  const auto devices = Session(server.target(), graph).list_devices();
  REQUIRE(!devices.empty());
  CHECK(devices[0].name == "/job:ps/replica:0/task:0/device:CPU:0");
  CHECK(devices[0].device_type == "CPU");
  CHECK(devices[0].incarnation != 0);
  CHECK(Session(graph).list_devices()[0].name == "/job:localhost/replica:0/task:0/device:CPU:0");
}

TEST_CASE("a step that is sent twice is made once") {
  const Server server = Server::create_local_server();
  const auto channel = detail::memory_transport().connect(port_of(server.target()));
  const auto call = [&](const char* method, const auto& message) {
    return channel->call(std::string("/tensorflow.MasterService/") + method, rpc::encode(message), {});
  };
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor one = constant(1.0, "one");
  const auto created = rpc::decode<rpc::CreateSessionResponse>(
      call("CreateSession", rpc::CreateSessionRequest{.graph_def = graph.as_graph_def()}).bytes);
  const rpc::RunStepRequest step{.session_handle = created.session_handle, .fetch = {"one:0"}, .request_id = 77};
  CHECK(rpc::decode<rpc::RunStepResponse>(call("RunStep", step).bytes).tensor.size() == 1);
  CHECK(message_of<AbortedError>([&] { call("RunStep", step); }).find("received twice") != std::string::npos);
  rpc::RunStepRequest kept = step;
  kept.store_errors_in_response_body = true;
  CHECK(rpc::decode<rpc::RunStepResponse>(call("RunStep", kept).bytes).status_code == 10);

  const rpc::ExtendSessionRequest twice{.session_handle = created.session_handle, .graph_def = graph.as_graph_def()};
  CHECK(message_of<InvalidArgumentError>([&] { call("ExtendSession", twice); }) ==
        "GraphDef argument to Extend includes node 'one', which was created by a previous call to Create or Extend in "
        "this session.");
  rpc::ExtendSessionRequest other{.session_handle = created.session_handle, .current_graph_version = 77};
  CHECK(message_of<AbortedError>([&] { call("ExtendSession", other); }) ==
        "Current version is 0 but caller expected 77.");
  rpc::RunStepRequest unknown{.session_handle = created.session_handle, .fetch = {"nothing:0"}};
  CHECK(message_of<NotFoundError>([&] { call("RunStep", unknown); }) == "FetchOutputs node nothing:0: not found");
  CHECK_THROWS_AS(call("Nothing", rpc::Empty{}), UnimplementedError);
  CHECK_THROWS_AS(channel->call("Nothing", {}, {}), UnimplementedError);
}

TEST_CASE("garbage is refused, and the server goes on") {
  const Server server = Server::create_local_server();
  const auto channel = detail::memory_transport().connect(port_of(server.target()));
  for (const char* method : {"CreateSession", "ExtendSession", "RunStep", "PartialRunSetup", "CloseSession",
                             "ListDevices", "Reset", "MakeCallable", "RunCallable", "ReleaseCallable"})
    for (const std::string& bytes : {std::string("\xff\xff\xff"), std::string(100, '\x0a'), std::string("\x0a\x02x")}) {
      detail::Pieces request;
      request.add(bytes);
      try {
        channel->call(std::string("/tensorflow.MasterService/") + method, request, {});
      } catch (const Error& error) {
        CHECK(error.code() != Code::internal);
      }
    }
  Graph graph;
  const auto scope = graph.as_default();
  check_values(Session(server.target(), graph).run(constant(1.0)), {1});
}

TEST_CASE("replies that lie are errors") {
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor x = placeholder(float32, {2}, "x");
  const Feeds feeds{{x, {1.0, 2.0}}};
  const Tensor y = square(x, "y");
  const auto step = [](const rpc::RunStepResponse& response) {
    return Answers{{"CreateSession", good_session}, {"RunStep", answer(response)}, {"CloseSession", nothing}};
  };
  const auto refusal = [&](const Answers& answers) {
    const auto listener = liar(answers);
    const Session session("memory://localhost:" + std::to_string(listener->port()), graph);
    return caught<Error>([&] { session.run(y, feeds); });
  };
  const auto named = [](const Tensor& value, const char* name = "y:0") {
    return rpc::RunStepResponse{.tensor = {{name, {io::code_of(value.dtype()), value}}}};
  };
  const Tensor right = Session(graph).run(y, feeds);
  CHECK(refusal({{"CreateSession", [] { return std::string("\xff"); }}}).code() == Code::data_loss);
  CHECK(refusal({{"CreateSession", nothing}}).code() == Code::data_loss);
  CHECK(refusal(step({})).message().find("lacks the fetch y:0") != std::string::npos);
  CHECK(refusal(step(named(right, "z:0"))).code() == Code::data_loss);
  CHECK(refusal(step(named(right.cast(float64)))).code() == Code::data_loss);
  CHECK(refusal(step(named(Session(graph).run(y, feeds)(range(0, 1))))).code() == Code::data_loss);
  CHECK(
      refusal(step({.status_code = 3, .status_error_message = "bad [[{{node y}}]]\nRecent warning and error logs: w"}))
          .message() == "bad [[{{node y}}]]");
  CHECK(refusal(step({.status_code = 77, .status_error_message = "?"})).code() == Code::internal);
  rpc::RunStepResponse strings;
  strings.tensor.push_back({"y:0", {io::TypeCode{7}}});
  CHECK(refusal(step(strings)).code() == Code::unimplemented);
  const std::string whole = rpc::encode(named(right)).joined();
  for (std::size_t length = 1; length < whole.size(); ++length) {
    const Answers cut{{"CreateSession", good_session},
                      {"RunStep", [&] { return whole.substr(0, length); }},
                      {"CloseSession", nothing}};
    CHECK(refusal(cut).code() == Code::data_loss);
  }
}

}  // namespace remote_session_test
