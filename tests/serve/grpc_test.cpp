#include <thread>

#include <doctest/doctest.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client_messages.hpp"
#include "models.hpp"
#include "serve/flags.hpp"

// The server as gRPC's clients see it, over loopback.

namespace tapestry::serve::grpc_test {
namespace {

/// A server of the model "m", which gives back what it gets, on a port of its own.
class Running {
 public:
  explicit Running(GrpcOptions options = {}, const std::optional<BatchingOptions>& batching = {}, bool counts = false)
      : store_({.models = {.batching = batching, .most_runs = counts ? std::size_t{1} : 0}}), rest_(store_, metrics_) {
    if (counts)
      write_counter(folder_ / "m" / "1");
    else
      write_identity(folder_ / "m" / "1", float32, Shape::unknown_rank());
    store_.configure({{.name = "m", .base_path = folder_ / "m"}});
    store_.look();
    options.port = 0;
    server_.emplace(store_, metrics_, options);
  }

  int port() const { return server_->port(); }
  std::string address() const { return "127.0.0.1:" + std::to_string(port()); }
  void end() { server_->stop(); }
  Answer post(const std::string& body) const {
    return rest_.answer({.method = "POST", .path = "/v1/models/m:predict", .body = body, .deadline = soon()});
  }

 private:
  TemporaryFolder folder_;
  ModelStore store_;
  Metrics metrics_;
  RestApi rest_;
  std::optional<GrpcServer> server_;
};

struct Reply {
  grpc::StatusCode code;
  std::string text;  ///< the reply, or what is wrong
};

struct Call {
  std::string token{};
  std::chrono::milliseconds timeout{30'000};
};

class Client {
 public:
  explicit Client(const std::string& address,
                  const std::shared_ptr<grpc::ChannelCredentials>& credentials = grpc::InsecureChannelCredentials())
      : stub_(grpc::CreateChannel(address, credentials)) {}

  Reply call(const std::string& method, const std::string& request, const Call& options = {}) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + options.timeout);
    if (!options.token.empty()) context.AddMetadata("authorization", "Bearer " + options.token);
    const grpc::Slice slice(request);
    const grpc::ByteBuffer sent(&slice, 1);
    grpc::ByteBuffer got;
    grpc::Status status;
    grpc::CompletionQueue queue;
    const auto call = stub_.PrepareUnaryCall(&context, method, sent, &queue);
    call->StartCall();
    call->Finish(&got, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    if (!status.ok()) return {status.error_code(), status.error_message()};
    grpc::Slice reply;
    REQUIRE(got.DumpToSingleSlice(&reply).ok());
    return {grpc::StatusCode::OK, std::string(reinterpret_cast<const char*>(reply.begin()), reply.size())};
  }

  Reply predict(const std::vector<std::int64_t>& sizes, const std::vector<float>& elements, const Call& options = {}) {
    return call("/tensorflow.serving.PredictionService/Predict",
                predict_request(model_spec("m"), {{"x", floats(sizes, elements)}}), options);
  }

 private:
  grpc::GenericStub stub_;
};

std::string answer(const std::vector<std::int64_t>& sizes, const std::vector<float>& elements) {
  return message([&](auto& response) {
    response.add_message(1, message([&](auto& entry) {
                           entry.add_string(1, "y");
                           entry.add_message(2, floats(sizes, elements));
                         }));
    response.add_message(2, model_spec("m", 1, "serving_default"));
  });
}

constexpr const char* health = "/grpc.health.v1.Health/Check";

TEST_CASE("requests over gRPC") {
  const Running server;
  Client client(server.address());
  for (int i = 0; i < 10; ++i) {
    const Reply reply = client.predict({1, 2}, {1.0F * static_cast<float>(i), 2});
    CHECK(reply.code == grpc::StatusCode::OK);
    CHECK(reply.text == answer({1, 2}, {1.0F * static_cast<float>(i), 2}));
  }
  const std::vector<float> many(3'000'000, 0.5F);                                         // 12 MB
  CHECK(client.predict({3'000'000}, many).code == grpc::StatusCode::RESOURCE_EXHAUSTED);  // of the client: 4 MiB
  CHECK(client.call(health, "").text == "\x08\x01");
  CHECK(client.call("/tensorflow.serving.PredictionService/Predict", "nonsense").code ==
        grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(client.call("/a.Service/Method", "").code == grpc::StatusCode::UNIMPLEMENTED);
  CHECK_THROWS_AS(Running({.host = "192.0.2.1"}), UnavailableError);
}

TEST_CASE("a token, and requests that are too large") {
  const Running server({.most_message_bytes = 10'000, .token = "secret"});
  Client client(server.address());
  for (const char* wrong : {"", "Secret", "secret2", "secre"}) {
    const Reply reply = client.predict({1}, {1}, {.token = wrong});
    CHECK(reply.code == grpc::StatusCode::UNAUTHENTICATED);
    CHECK(reply.text == "The request has no valid token");
  }
  CHECK(client.call(health, "").text == "\x08\x01");
  CHECK(client.predict({1}, {1}, {.token = "secret"}).text == answer({1}, {1}));
  CHECK(client.predict({4000}, std::vector<float>(4000), {.token = "secret"}).code ==
        grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_CASE("TLS, with and without certificates of clients") {
  const std::filesystem::path folder = CERTIFICATES;
  const auto keys = [&](const char* who) {
    return detail::TlsKeys{.certificate = read_file(folder / who / "certificate.pem"),
                           .key = read_file(folder / who / "key.pem"),
                           .authority = read_file(folder / who / "authority.pem")};
  };
  const auto ask = [](const Running& server, const grpc::SslCredentialsOptions& options) {
    return Client(server.address(), grpc::SslCredentials(options)).predict({1}, {1}).code;
  };
  const detail::TlsKeys member = keys("member"), stranger = keys("stranger");
  const grpc::SslCredentialsOptions as_member{member.authority, member.key, member.certificate},
      as_stranger{stranger.authority, stranger.key, stranger.certificate}, as_nobody{member.authority, "", ""};
  const Running mutual({.tls = member});
  CHECK(ask(mutual, as_member) == grpc::StatusCode::OK);
  CHECK(ask(mutual, as_stranger) == grpc::StatusCode::UNAVAILABLE);
  CHECK(ask(mutual, as_nobody) == grpc::StatusCode::UNAVAILABLE);
  CHECK(Client(mutual.address()).predict({1}, {1}).code == grpc::StatusCode::UNAVAILABLE);
  const Running server({.token = "secret", .tls = {.certificate = member.certificate, .key = member.key}});
  CHECK(ask(server, as_nobody) == grpc::StatusCode::UNAUTHENTICATED);
  Client client(server.address(), grpc::SslCredentials(as_nobody));
  CHECK(client.predict({1}, {1}, {.token = "secret"}).code == grpc::StatusCode::OK);
  // A server that the authority does not know.
  const Running other({.tls = {.certificate = stranger.certificate, .key = stranger.key}});
  CHECK(ask(other, as_nobody) == grpc::StatusCode::UNAVAILABLE);
  CHECK_THROWS_AS(Running({.tls = {.certificate = stranger.certificate, .key = member.key}}), UnavailableError);
}

TEST_CASE("requests of both protocols run together; full queues and passed deadlines") {
  constexpr std::int64_t ten_seconds = 10'000'000;
  const Running server(
      {.calls_at_once = 3},
      BatchingOptions{.max_batch_size = 2, .batch_timeout_micros = ten_seconds, .max_enqueued_batches = 1});
  Client client(server.address());
  const auto start = std::chrono::steady_clock::now();
  {
    Reply reply{};
    std::thread other([&] { reply = client.predict({1, 1}, {1}); });
    // It joins the first one or is its first; either fills the batch of two.
    CHECK(server.post(R"({"inputs": [[2.0]]})").status == 200);
    other.join();
    CHECK(reply.text == answer({1, 1}, {1}));
  }
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(9));
  // One waits alone; one of another shape finds the queue full.
  Reply alone{}, full{};
  std::thread waiting([&] {
    do {
      alone = client.predict({1}, {1});
    } while (alone.code == grpc::StatusCode::RESOURCE_EXHAUSTED);
  });
  do {
    full = client.predict({1, 2}, {1, 2}, {.timeout = std::chrono::milliseconds(100)});
  } while (full.code == grpc::StatusCode::DEADLINE_EXCEEDED);
  CHECK(full.code == grpc::StatusCode::RESOURCE_EXHAUSTED);
  CHECK(full.text == "The batch scheduling queue to which this task was submitted is full");
  CHECK(client.predict({1}, {3}).text == answer({1}, {3}));
  waiting.join();
  CHECK(alone.text == answer({1}, {1}));
  // One whose time is over leaves the queue, which has place for another one.
  CHECK(client.predict({1}, {1}, {.timeout = std::chrono::milliseconds(200)}).code ==
        grpc::StatusCode::DEADLINE_EXCEEDED);
  Reply other{};
  do {
    other = client.predict({2, 1}, {1, 2});
  } while (other.code == grpc::StatusCode::RESOURCE_EXHAUSTED);
  CHECK(other.text == answer({2, 1}, {1, 2}));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(9));
}

TEST_CASE("calls beyond the limit are refused, and the end answers what has begun") {
  Running server({.calls_at_once = 1}, BatchingOptions{.max_batch_size = 4, .batch_timeout_micros = 1'500'000});
  Client client(server.address());
  Reply first{}, second{};
  std::thread waiting([&] { first = client.predict({1}, {1}); });
  do {
    second = client.predict({1, 1}, {2}, {.timeout = std::chrono::milliseconds(100)});
  } while (second.code == grpc::StatusCode::DEADLINE_EXCEEDED);
  CHECK((second.code == grpc::StatusCode::RESOURCE_EXHAUSTED || first.code == grpc::StatusCode::RESOURCE_EXHAUSTED));
  server.end();
  waiting.join();
  CHECK((first.text == answer({1}, {1}) || first.text == "The server has 1 calls at a time"));
  CHECK(client.predict({1}, {1}, {.timeout = std::chrono::milliseconds(500)}).code != grpc::StatusCode::OK);
}

TEST_CASE("a run ends when its client no longer waits for it") {
  const Running server({.timeout = std::chrono::minutes(5)}, {}, true);
  Client client(server.address());
  for (int i = 0; i < 2; ++i)
    CHECK(client.predict({1}, {1e15F}, {.timeout = std::chrono::milliseconds(100)}).code ==
          grpc::StatusCode::DEADLINE_EXCEEDED);
  // It waits for the only run of the model, which would take years.
  CHECK(client.predict({1}, {3}).text == answer({1}, {3}));
}

TEST_CASE("what is no HTTP/2 does no harm") {
  const Running server;
  for (const std::string& bytes : {std::string(100'000, 'x'), std::string("GET / HTTP/1.1\r\n\r\n"),
                                   "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string(5000, '\xff')}) {
    const int client = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(server.port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    static_cast<void>(::send(client, bytes.data(), bytes.size(), MSG_NOSIGNAL));
    ::close(client);
  }
  CHECK(Client(server.address()).predict({1}, {1}).text == answer({1}, {1}));
}

}  // namespace
}  // namespace tapestry::serve::grpc_test
