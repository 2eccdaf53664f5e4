// Sessions on servers over gRPC. REMOTE_TARGET names a server that runs already, such as TensorFlow's; with
// REMOTE_CLUSTER it is the worker 0 of a cluster with one task "ps". By default the program starts a server of its own.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../environment.hpp"
#include "../temporary_folder.hpp"
#include "tapestry/tapestry.hpp"

using namespace tapestry;

namespace {

/// A server without Variables.
class Target {
 public:
  Target() {
    if (const char* given = std::getenv("REMOTE_TARGET")) {
      name_ = given;
      Session::reset(name_);
    } else {
      name_ = own_.emplace(Server::create_local_server()).target();
    }
  }
  const std::string& name() const { return name_; }

 private:
  std::optional<Server> own_;
  std::string name_;
};

std::vector<double> values(const Tensor& tensor) { return tensor.to_vector<double>(); }

template <class E, class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another error: ") + error.what();
  }
  return "no error";
}

bool says(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}

/// Whether operations can ask for the tasks "ps" and "worker" of the target.
bool has_tasks(const std::string& target) { return !target.empty() && std::getenv("REMOTE_CLUSTER"); }

constexpr int steps = 30;

/// The losses of training, which fall.
template <class Optimizer>
std::vector<double> descent(const std::string& target, Optimizer optimizer, const std::vector<Tensor>& batches) {
  const Tensor first = full({4, 8}, 0.1), second = full({8, 1}, 0.2);
  Graph graph;
  const auto scope = graph.as_default();
  std::optional<DeviceScope> placed;
  if (has_tasks(target))
    placed.emplace(train::replica_device_setter(ClusterSpec({{"ps", {"a:1"}}, {"worker", {"b:1"}}})));
  const Tensor x = placeholder(float32, {-1, 4}, "x");
  const Variable w(first, {.name = "w"}), v(second * 0.5, {.name = "v"});
  const Tensor y = reduce_sum(x(all, range(0, 2)), 1, {.keep_dims = true});
  const Tensor loss = reduce_mean(square(matmul(tanh(matmul(x, w)), v) - y));
  const Operation step = optimizer.minimize(loss);
  const Session session(target, graph, {.operation_timeout_in_ms = 60'000});
  session.run(global_variables_initializer());
  std::vector<double> result;
  for (const Tensor& batch : batches)
    result.push_back(std::get<0>(session.run(std::tuple{loss, step}, {{x, batch}})).template item<float>());
  return result;
}

void check_close(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-4));
}

/// The port of a server, which answers no connection before some time has passed.
class SlowPort {
 public:
  SlowPort(int port, std::chrono::milliseconds delay) : listening_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    REQUIRE(::bind(listening_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    REQUIRE(::listen(listening_, 1) == 0);
    ::getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, port, delay] {
      const int client = ::accept(listening_, nullptr, nullptr), server = ::socket(AF_INET, SOCK_STREAM, 0);
      std::this_thread::sleep_for(delay);
      const sockaddr_in to = loopback(port);
      if (::connect(server, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) exchange(client, server);
      ::close(client);
      ::close(server);
    });
  }
  SlowPort(const SlowPort&) = delete;
  SlowPort& operator=(const SlowPort&) = delete;
  ~SlowPort() {
    ::shutdown(listening_, SHUT_RDWR);
    thread_.join();
    ::close(listening_);
  }
  int port() const { return port_; }

 private:
  static sockaddr_in loopback(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  /// Hands on what either side sends, until one has ended.
  static void exchange(int a, int b) {
    std::array<pollfd, 2> sides{pollfd{a, POLLIN, 0}, pollfd{b, POLLIN, 0}};
    std::array<char, 4096> bytes{};
    while (::poll(sides.data(), sides.size(), -1) > 0)
      for (std::size_t i = 0; i < 2; ++i) {
        if (sides[i].revents == 0) continue;
        const ssize_t size = ::read(sides[i].fd, bytes.data(), bytes.size());
        if (size <= 0 || ::write(sides[1 - i].fd, bytes.data(), static_cast<std::size_t>(size)) != size) return;
      }
  }

  int listening_, port_ = 0;
  std::thread thread_;
};

}  // namespace

TEST_CASE("a server that takes a while to answer a connection is waited for") {
  const Server server = Server::create_local_server();
  const std::string target = server.target();
  const SlowPort slow(std::stoi(target.substr(target.rfind(':') + 1)), std::chrono::milliseconds(400));
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor x = placeholder(float32, {}, "x"), one = x + 1.0;
  Session session("grpc://127.0.0.1:" + std::to_string(slow.port()), graph, {.operation_timeout_in_ms = 60'000});
  CHECK(session.run(one, {{x, 0.0}}).item<float>() == 1.0F);
  session.close();
}

TEST_CASE("training on a server is training here, but for rounding") {
  std::vector<Tensor> batches;
  for (int i = 0; i < steps; ++i) batches.push_back(cos(reshape(arange(32.0) * (i + 1.0), {8, 4})).cast(float32));
  const auto check = [&](const auto& make) {
    const Target target;
    const auto there = descent(target.name(), make(), batches);
    check_close(there, descent("", make(), batches));
    CHECK(there.back() < there.front());
  };
  check([] { return train::GradientDescentOptimizer(0.05); });
  check([] { return train::MomentumOptimizer(0.02, 0.9); });
  check([] { return train::AdamOptimizer(0.01); });
}

TEST_CASE("feeds, fetches, callables, partial runs, a growing graph") {
  const Target target;
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor a = placeholder(float32, {-1}, "a"), b = placeholder(float32, {-1}, "b");
  const Tensor sum = add(a, b, "sum"), product = multiply(sum, a, "product");
  const Session session(target.name(), graph, {.operation_timeout_in_ms = 60'000});
  const Feeds feeds{{a, {1.0, 2.0}}, {b, {3.0, 4.0}}};
  CHECK(values(session.run(product, feeds)) == std::vector<double>{4, 12});
  const auto f = session.make_callable({product, sum}, {a, b});
  CHECK(values(f(tensor({2.0}), tensor({1.0}))[0]) == std::vector<double>{6});
  auto parts = session.partial_run_setup({sum, product}, {a, b});
  CHECK(values(parts.run(sum, {{a, {1.0}}, {b, {2.0}}})) == std::vector<double>{3});
  CHECK(values(parts.run(product)) == std::vector<double>{3});
  CHECK(values(session.run(product + 1.0, feeds)) == std::vector<double>{5, 13});
  const Tensor branch = cond(
      less(reduce_sum(a), 10.0), [&] { return product * 2.0; }, [&] { return product; });
  const auto [n, power] = while_loop([](const Tensor& i, const Tensor&) { return less(i, 3); },
                                     [&](const Tensor& i, const Tensor& x) {
                                       return std::tuple{i + 1, x * b};
                                     },
                                     std::tuple{constant(0), a});
  CHECK(values(session.run(branch, feeds)) == std::vector<double>{8, 24});
  CHECK(values(session.run(power, feeds)) == std::vector<double>{27, 128});
  CHECK(!session.list_devices().empty());
  RunMetadata metadata;
  session.run(product, feeds, {.trace_level = TraceLevel::full}, &metadata);
  CHECK(metadata.times.size() == metadata.plan.steps.size());
  const auto is_product = [](const ExecutionPlan::Step& step) { return step.name == "product"; };
  CHECK(std::any_of(metadata.plan.steps.begin(), metadata.plan.steps.end(), is_product));
}

TEST_CASE("errors name the line of this program") {
  const Target target;
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor x = placeholder(float32, {-1}, "x");
  const Tensor seven = reshape(x, {7}, "seven");
  const std::string line = to_string(Where{__FILE__, __LINE__ - 1});
  const Session session(target.name(), graph, {.operation_timeout_in_ms = 60'000});
  says(message_of<InvalidArgumentError>([&] { session.run(seven, {{x, {1.0, 2.0}}}); }), line);
  says(message_of<InvalidArgumentError>([&] { session.run(seven); }),
       "You must feed a value for placeholder tensor 'x'");
  const Variable v({1.0}, {.name = "v"});
  says(message_of<FailedPreconditionError>([&] { session.run(v); }), "v");
}

TEST_CASE("large tensors, and many threads") {
  const Target target;
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor x = placeholder(float32, {-1}, "x");
  const Tensor y = x + 1.0;
  const Session session(target.name(), graph, {.operation_timeout_in_ms = 60'000});
  const Tensor large = Session(graph).run(y, {{x, std::vector<float>(5'000'000, 1.0F)}});
  const Tensor more = session.run(y, {{x, large}});
  CHECK(more.size() == 5'000'000);
  CHECK(more.data<float>()[4'999'999] == 3.0F);
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      for (int k = 0; k < 50; ++k)
        if (session.run(y, {{x, {1.0F * static_cast<float>(i)}}}).item<float>() == static_cast<float>(i) + 1.0F)
          ++right;
    });
  for (std::thread& each : threads) each.join();
  CHECK(right == 200);
}

// A server keeps what it has found for the names of a run.
TEST_CASE("runs of the same names with other shapes, orders and threads, and behind a growing graph") {
  const Target target;
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor a = placeholder(float32, {-1}, "a"), b = placeholder(float32, {-1}, "b");
  const Tensor difference = subtract(a, b, "difference"), sum = add(a, b, "sum");
  const Session session(target.name(), graph, {.operation_timeout_in_ms = 60'000});
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      for (int k = 0; k < 25; ++k) {
        const std::vector<float> five(static_cast<std::size_t>(1 + (i + k) % 3), 5.0F),
            i_s(five.size(), 1.0F * static_cast<float>(i));
        const Feeds feeds = k % 2 == 0 ? Feeds{{a, five}, {b, i_s}} : Feeds{{b, i_s}, {a, five}};
        const Tensors results =
            k % 4 < 2 ? session.run({difference, sum}, feeds) : session.run({sum, difference}, feeds);
        const float first = k % 4 < 2 ? 5.0F - static_cast<float>(i) : 5.0F + static_cast<float>(i);
        if (results[0].size() == static_cast<std::int64_t>(five.size()) &&
            results[0].to_vector<float>().back() == first && results[1].to_vector<float>()[0] == 10.0F - first)
          ++right;
      }
    });
  for (std::thread& each : threads) each.join();
  CHECK(right == 100);
  for (int i = 0; i < 3; ++i) {
    CHECK(message_of<InvalidArgumentError>([&] { session.run(sum, {{a, {1.0}}}); }).find("'b'") != std::string::npos);
    CHECK(session.run(sum, {{a, {1.0}}, {b, {2.0}}}).to_vector<float>()[0] == 3.0F);
    const Tensor later = multiply(sum, 2.0 + i, "later_" + std::to_string(i));
    CHECK(session.run(later, {{a, {1.0}}, {b, {2.0}}}).to_vector<float>()[0] == 3.0F * (2.0F + static_cast<float>(i)));
  }
}

TEST_CASE("the time after which a task is asked is a number") {
  for (const char* text : {"20s", "foo", "-1", "0", "1e3", " 20"}) {
    const test::Setting setting("TAPESTRY_KEEPALIVE_MS", text);
    CHECK_THROWS_AS(Server::create_local_server(), InvalidArgumentError);
  }
  for (const char* text : {"", "1", "20000"}) {
    const test::Setting setting("TAPESTRY_KEEPALIVE_MS", text);
    CHECK_NOTHROW(Server::create_local_server());
  }
}

TEST_CASE("a run ends at its deadline and when it is stopped") {
  const Target target;
  Graph graph;
  const auto scope = graph.as_default();
  // Work that TensorFlow gives to its threads: an endless chain of small operations overflows its stack.
  const Tensor x = placeholder(float32, {200, 200}, "x");
  const Tensor never =
      std::get<0>(while_loop([](const Tensor& each) { return less(reduce_sum(each), 1e9); },
                             [](const Tensor& each) { return std::tuple{tanh(matmul(each, each))}; }, std::tuple{x}));
  const Feeds feeds{{x, std::vector<std::vector<float>>(200, std::vector<float>(200, 0.1F))}};
  const Session session(target.name(), graph);
  CHECK_THROWS_AS(session.run(never, feeds, {.timeout_in_ms = 200}, nullptr), DeadlineExceededError);
  std::stop_source source;
  std::thread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    source.request_stop();
  });
  CHECK_THROWS_AS(session.run(never, feeds, {.stop = source.get_token()}, nullptr), CancelledError);
  stopper.join();
}

// Threads of a server that answer short calls by themselves must not be missing while one of these takes long.
TEST_CASE("a server answers and is told to stop while runs that seemed short go on") {
  const Server server = Server::create_local_server();
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor x = placeholder(float32, {}, "x"), limit = placeholder(float32, {}, "limit"), two = x + 1.0;
  const auto loop = [&](double from) {
    const Tensor start = full({200, 200}, from).cast(float32) + x * 0.0;
    return reduce_sum(std::get<0>(while_loop([&](const Tensor& each) { return less(reduce_sum(each), limit); },
                                             [](const Tensor& each) { return std::tuple{tanh(matmul(each, each))}; },
                                             std::tuple{start})));
  };
  const std::vector<Tensor> loops{loop(0.1), loop(0.01), loop(0.001)};
  const Session session(server.target(), graph, {.operation_timeout_in_ms = 100'000});
  const auto answers = [&] {
    for (int i = 0; i < 300; ++i) CHECK(session.run(two, {{x, 1.0}}).item<float>() == 2.0F);
  };
  for (const Tensor& each : loops) session.run(each, {{x, 0.0}, {limit, -1.0}});  // a short run of the same plan
  for (int round = 0; round < 2; ++round) {
    answers();
    std::stop_source source;
    std::atomic<int> cancelled = 0;
    std::vector<std::thread> threads;
    for (const Tensor& each : loops)
      threads.emplace_back([&session, &source, &cancelled, &x, &limit, each] {
        try {
          session.run(each, {{x, 0.0}, {limit, 1e9}}, {.stop = source.get_token()}, nullptr);
        } catch (const CancelledError&) {
          ++cancelled;
        }
      });
    answers();
    source.request_stop();  // also where runs have not begun
    for (std::thread& each : threads) each.join();
    CHECK(cancelled == 3);
  }
}

TEST_CASE("certificates that are right, wrong and absent") {
  const std::string folder = CERTIFICATES;
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor one = constant(1.0);
  const Server server = Server::create_local_server({.bind = "0.0.0.0", .tls = Tls::files(folder + "/member")});
  REQUIRE(server.target().starts_with("grpcs://localhost:"));
  const std::string address = server.target().substr(std::string("grpcs://").size());
  const auto run_at = [&](const std::string& target) {
    return Session(target, graph, {.operation_timeout_in_ms = 20'000}).run(one).item<float>();
  };
  {
    const test::Setting no_tls("TAPESTRY_TLS", "");
    says(message_of<InvalidArgumentError>([&] { run_at(server.target()); }), "TAPESTRY_TLS");
    says(message_of<UnavailableError>([&] { run_at("grpc://" + address); }), "cannot be reached");
  }
  {
    const test::Setting member("TAPESTRY_TLS", folder + "/member");
    CHECK(run_at(server.target()) == 1);
    // The certificate is for another name.
    says(message_of<UnavailableError>([&] { run_at("grpcs://127.0.0.2" + address.substr(address.find(':'))); }),
         "cannot be reached");
    const Server plain = Server::create_local_server();
    says(message_of<UnavailableError>([&] { run_at("grpcs" + plain.target().substr(4)); }), "cannot be reached");
  }
  {
    const test::Setting stranger("TAPESTRY_TLS", folder + "/stranger");
    says(message_of<UnavailableError>([&] { run_at(server.target()); }), "cannot be reached");
  }
  {
    const test::Setting nowhere("TAPESTRY_TLS", folder + "/nowhere");
    says(message_of<NotFoundError>([&] { run_at(server.target()); }), "nowhere/certificate.pem");
  }
  const auto serve = [](const ServerOptions& options) { Server::create_local_server(options); };
  says(message_of<InvalidArgumentError>([&] { serve({.bind = "0.0.0.0"}); }), "Tls::files");
  serve({.bind = "0.0.0.0", .insecure = true});
  Tls mixed = Tls::files(folder + "/member");
  mixed.key = folder + "/stranger/key.pem";
  says(message_of<UnavailableError>([&] { serve({.tls = mixed}); }), "are the certificate and its key wrong?");
  says(message_of<InvalidArgumentError>([&] { serve({.tls = {.key = mixed.key}}); }), "TLS needs a file");
  says(message_of<NotFoundError>([&] { serve({.tls = Tls::files(folder)}); }), "certificate.pem");
}

TEST_CASE("files without certificates never turn mutual TLS off") {
  const std::string member = std::string(CERTIFICATES) + "/member";
  const TemporaryFolder folder;
  const auto copy = [&](const std::string& name) {
    std::filesystem::copy_file(member + "/" + name, folder / name, std::filesystem::copy_options::overwrite_existing);
  };
  const auto serve = [&] {
    Server::create_local_server({.bind = "0.0.0.0", .tls = Tls::files(folder.path().string())});
  };
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor one = constant(1.0);
  const test::Setting setting("TAPESTRY_TLS", folder.path().string());
  const Server server = Server::create_local_server({.tls = Tls::files(member)});
  const auto run = [&] { Session(server.target(), graph, {.operation_timeout_in_ms = 20'000}).run(one); };
  const std::vector<std::string> names{"certificate.pem", "key.pem", "authority.pem"};
  for (const std::string& name : names) {
    INFO(name);
    std::for_each(names.begin(), names.end(), copy);
    for (const char* text : {"", " \n", "# to come\n", "-----BEGIN CERTIFI"}) {
      std::ofstream(folder / name) << text;
      says(message_of<InvalidArgumentError>(serve), name + " has no ");
      says(message_of<InvalidArgumentError>(run), name + " has no ");
    }
    std::filesystem::remove(folder / name);
    says(message_of<NotFoundError>(serve), name);
    std::filesystem::create_directory(folder / name);
    says(message_of<NotFoundError>(serve), name);
    says(message_of<NotFoundError>(run), name);
    std::filesystem::remove(folder / name);
  }
  std::for_each(names.begin(), names.end(), copy);
  CHECK_NOTHROW(run());
  // A certificate with another's key is refused, too; the client does not take the server for gone.
  std::filesystem::copy_file(std::string(CERTIFICATES) + "/stranger/key.pem", folder / "key.pem",
                             std::filesystem::copy_options::overwrite_existing);
  says(message_of<InvalidArgumentError>(run), "cannot use this side's certificate.pem, key.pem and authority.pem");
}

TEST_CASE("tasks of a cluster over mutual TLS") {
  const std::string member = std::string(CERTIFICATES) + "/member";
  const test::Setting client("TAPESTRY_TLS", member);
  const auto free_address = [] { return Server::create_local_server().target().substr(std::string("grpc://").size()); };
  const ClusterSpec cluster({{"ps", {free_address()}}, {"worker", {free_address()}}});
  const Server ps(cluster, {.job = "ps", .tls = Tls::files(member)});
  const Server worker(cluster, {.job = "worker", .tls = Tls::files(member)});
  Graph graph;
  const auto scope = graph.as_default();
  const auto placed = device(train::replica_device_setter(cluster));
  const Variable w(2.0, {.name = "w"});
  const auto step = train::GradientDescentOptimizer(0.1).minimize(square(w - 1.0));
  const Session session(worker.target(), graph, {.operation_timeout_in_ms = 20'000});
  session.run(global_variables_initializer());
  session.run(step);
  CHECK(session.run(w).item<float>() == 2.0F - 0.1F * 2.0F);
}

TEST_CASE("loopback addresses") {
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor one = constant(1.0);
  const std::vector<std::pair<const char*, const char*>> targets{{"127.0.0.1", "grpc://localhost:"},
                                                                 {"localhost", "grpc://localhost:"},
                                                                 {"127.0.0.2", "grpc://127.0.0.2:"},
                                                                 {"::1", "grpc://[::1]:"},
                                                                 {"[::1]", "grpc://[::1]:"}};
  for (const auto& [address, target] : targets) {
    const char* bind = address;  // clang 14 takes no structured binding into doctest's function
    INFO(bind);
    try {
      const Server server = Server::create_local_server({.bind = bind});
      CHECK(server.target().starts_with(target));
      CHECK(Session(server.target(), graph).run(one).item<float>() == 1);
    } catch (const UnavailableError& error) {
      says(error.message(), "Cannot listen at [::1]:0");  // a machine without IPv6
    }
  }
}

TEST_CASE("a server that is gone, a port in use, a target that is none") {
  Graph graph;
  const auto scope = graph.as_default();
  const Tensor one = constant(1.0);
  std::optional<Server> server = Server::create_local_server();
  const std::string target = server->target(), address = target.substr(std::string("grpc://").size());
  const Session session(target, graph);
  CHECK(session.run(one).item<float>() == 1);
  CHECK_THROWS_AS(Server(ClusterSpec({{"ps", {address}}}), {.job = "ps"}), UnavailableError);
  server.reset();
  says(message_of<UnavailableError>([&] { session.run(one); }), target + " cannot be reached");
  // Another one at the same place does not know the session.
  const Server again(ClusterSpec({{"ps", {address}}}), {.job = "ps"});
  std::string message;
  do {
    message = message_of<AbortedError>([&] { session.run(one); });
  } while (message.find("cannot be reached") != std::string::npos);  // until gRPC connects anew
  says(message, "is not found");
  CHECK(Session(again.target(), graph).run(one).item<float>() == 1);
  for (const char* wrong :
       {"localhost:1", "http://localhost:1", "grpc://", "grpc://localhost", "grpc://a:1/b",
        "grpc://localhost:", "grpc://localhost:99999", "grpc://localhost:0", "grpc://localhost:x", "grpc://:1"})
    says(message_of<InvalidArgumentError>([&] { Session(wrong, graph); }), "grpc://host:port or grpcs://host:port");
}
