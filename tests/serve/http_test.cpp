#include <thread>

#include <doctest/doctest.h>
#include <httplib.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <zlib.h>

#include "models.hpp"
#include "serve/http_server.hpp"
#include "serve/json.hpp"

// The server as HTTP clients see it, over loopback.

namespace tapestry::serve::http_test {
namespace {

/// A server of one model, y = x + 1, on a port of its own.
class Running {
 public:
  explicit Running(HttpOptions options = {}, const ServableOptions& models = {}) : store_({.models = models}) {
    write_line(folder_ / "m" / "1", 1, 1);
    store_.configure({{.name = "m", .base_path = folder_ / "m"}});
    store_.look();
    options.port = 0;
    server_.emplace(store_, metrics_, std::move(options));
    thread_ = std::thread([this] { server_->run(); });
  }
  ~Running() {
    end();
    if (thread_.joinable()) thread_.join();
  }

  int port() const { return server_->port(); }
  httplib::Client client() const {
    httplib::Client client("127.0.0.1", port());
    client.set_keep_alive(true);
    client.set_tcp_nodelay(true);
    client.set_read_timeout(30);
    return client;
  }
  void end() { server_->stop(); }
  ModelStore& store() { return store_; }
  std::string metrics() const { return metrics_.prometheus(); }
  std::filesystem::path folder() const { return folder_ / "m"; }

 private:
  TemporaryFolder folder_;
  ModelStore store_;
  Metrics metrics_;
  std::optional<HttpServer> server_;
  std::thread thread_;
};

/// A connection that sends any bytes.
class RawConnection {
 public:
  explicit RawConnection(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  }
  RawConnection(const RawConnection&) = delete;
  RawConnection& operator=(const RawConnection&) = delete;
  ~RawConnection() { ::close(socket_); }

  void send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;  // the server has closed the connection
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  void end_sending() const { ::shutdown(socket_, SHUT_WR); }
  /// Everything up to the end of the connection.
  std::string receive() const {
    std::string all;
    std::array<char, 4096> bytes;
    for (ssize_t count; (count = ::recv(socket_, bytes.data(), bytes.size(), 0)) > 0;)
      all.append(bytes.data(), static_cast<std::size_t>(count));
    return all;
  }
  /// Up to some text.
  std::string receive_until(std::string_view text) const {
    std::string all;
    char byte = 0;
    while (all.find(text) == std::string::npos && ::recv(socket_, &byte, 1, 0) == 1) all += byte;
    return all;
  }

 private:
  int socket_;
};

std::string zipped(const std::string& text) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string bytes(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  bytes.resize(stream.total_out);
  deflateEnd(&stream);
  return bytes;
}

const std::string predict = "/v1/models/m:predict", body = R"({"instances": [1.0, 2.0]})",
                  predictions = "{\n    \"predictions\": [2.0, 3.0\n    ]\n}";

TEST_CASE("requests over HTTP") {
  const Running server;
  httplib::Client client = server.client();
  for (int i = 0; i < 10; ++i) {
    const auto answer = client.Post(predict, body, "text/plain");
    REQUIRE(answer);
    CHECK(answer->status == 200);
    CHECK(answer->body == predictions);
    CHECK(answer->get_header_value("Content-Type") == "application/json");
  }
  const auto malformed = client.Put("/v1/models/m:predict", body, "text/plain");
  CHECK(malformed->status == 400);
  CHECK(malformed->body == error_body("Malformed request: PUT /v1/models/m:predict"));
  CHECK(client.Get("/v1/models/m?verbose=1")->status == 200);
  CHECK(client.Get("/v1/models/%6D")->status == 200);
  CHECK(client.Get("/v1/models/%2F")->body == error_body("Could not find any versions of model /"));
  CHECK(client.Get("/v2/models/m")->status == 404);
  CHECK(client.Post("/", body, "text/plain")->status == 404);
  CHECK(client.Get("/healthz")->status == 200);
  const auto metrics = client.Get("/monitoring/prometheus/metrics");
  CHECK(metrics->body.find(R"(request_count{model_name="m",status="OK"} 10)") != std::string::npos);
  CHECK(metrics->body.find(R"(request_latency_count{model_name="m",API="Predict",entrypoint="REST"} 10)") !=
        std::string::npos);
  CHECK(client.Options("/v1/models/m", {{"Origin", "https://example.com"}})->status == 200);
  CHECK(client.Options("/v1/models/m", {{"Origin", "example.com"}})->status == 400);
  CHECK(!client.Options("/v1/models/m")->has_header("Access-Control-Allow-Origin"));
}

TEST_CASE("the page, and what it asks for") {
  const Running server;
  httplib::Client client = server.client();
  const auto page = client.Get("/");
  CHECK(page->status == 200);
  CHECK(page->get_header_value("Content-Type") == "text/html; charset=utf-8");
  CHECK(page->body.starts_with("<!doctype html>"));
  CHECK(page->body.ends_with("</html>\n"));
  CHECK(client.Get("/page/models")->body ==
        R"({"models": [{"name": "m", "versions": [{"version": "1", "state": "AVAILABLE", "error": ""}]}]})");
  const auto graph = client.Get("/page/graph/m/1/serving_default");
  CHECK(graph->get_header_value("Content-Type") == "image/svg+xml");
  CHECK(graph->body.starts_with("<svg"));
  CHECK(client.Get("/page/metrics")->status == 200);
  CHECK(client.Get("/page/graph/m/1/other")->body ==
        error_body("Serving signature name: \"other\" not found in signature def"));
  CHECK(client.Get("/page/graph/m/2/serving_default")->status == 404);
  CHECK(client.Get("/page/graph/m/x/serving_default")->status == 400);
  for (const char* path : {"/page/", "/page/graph", "/page/graph/m/1/serving_default/more", "/page/other"})
    CHECK(client.Get(path)->status >= 400);
}

TEST_CASE("compressed requests, whole and damaged") {
  const Running server({.most_body_bytes = 1U << 20});
  httplib::Client client = server.client();
  const httplib::Headers gzip{{"Content-Encoding", "gzip"}};
  const std::string bytes = zipped(body);
  CHECK(client.Post(predict, gzip, bytes, "application/json")->body == predictions);
  // Its answer is not compressed, though the client would take that.
  const auto plain = client.Post(predict, {{"Accept-Encoding", "gzip"}}, body, "application/json");
  CHECK(plain->body == predictions);
  CHECK(!plain->has_header("Content-Encoding"));
  std::map<int, int> counts;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    const auto answer = client.Post(predict, gzip, damaged, "application/json");
    REQUIRE(answer);
    // Bytes that gzip does not look at may be damaged.
    CHECK((answer->status == 400 || answer->body == predictions));
    ++counts[answer->status];
    CHECK(client.Post(predict, gzip, bytes.substr(0, i), "application/json")->status == 400);
  }
  CHECK(counts[400] > static_cast<int>(bytes.size()) - 10);
  CHECK(client.Post(predict, gzip, bytes + "more", "application/json")->status == 400);
  CHECK(client.Post(predict, gzip, zipped(body.substr(0, 9)) + zipped(body.substr(9)), "text/plain")->body ==
        predictions);
  const std::map<std::string, int> encodings{{"GZIP", 200}, {"x-gzip", 200}, {"zstd", 415}, {"gzip, gzip", 415}};
  for (const auto& [encoding, status] : encodings)
    CHECK(client.Post(predict, {{"Content-Encoding", encoding}}, bytes, "text/plain")->status == status);
  CHECK(client.Post(predict, {{"Content-Encoding", "identity"}}, body, "text/plain")->body == predictions);
  // A small body that becomes a large one.
  const auto bomb = client.Post(predict, gzip, zipped(std::string(100U << 20, ' ')), "application/json");
  REQUIRE(bomb);
  CHECK(bomb->status == 413);
  CHECK(server.client().Post(predict, body, "application/json")->body == predictions);
}

TEST_CASE("the bodies of all requests together take no more memory than they may") {
  const Running server({.memory = std::make_shared<RequestMemory>(1000)});
  const std::string large = body + std::string(600, ' ');
  const auto status_becomes = [&](int wanted, int tries) {
    for (int i = 0; i < tries; ++i) {
      const auto answer = server.client().Post(predict, large, "application/json");
      REQUIRE(answer);
      if (answer->status == wanted) return true;
      CHECK((answer->status == 200 || answer->status == 503));
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return false;
  };
  CHECK(status_becomes(200, 1000));
  // A request that has arrived in part. It is refused itself while the memory of the last one is still held, which may
  // be longer than its answer takes.
  for (int i = 0;; ++i) {
    REQUIRE(i < 100);
    const RawConnection slow(server.port());
    slow.send("POST " + predict + " HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n" + std::string(800, ' '));
    if (!status_becomes(503, 50)) continue;
    CHECK(server.client().Post(predict, body, "application/json")->body == predictions);
    break;
  }
  CHECK(status_becomes(200, 1000));
}

TEST_CASE("bodies that are too large, cut off or no HTTP") {
  const Running server({.read_timeout = std::chrono::seconds(1), .most_body_bytes = 1000});
  const std::string head = "POST " + predict + " HTTP/1.1\r\nHost: x\r\n";
  const auto answer_to = [&](const std::string& bytes) {
    const RawConnection connection(server.port());
    connection.send(bytes);
    return connection.receive();
  };
  const std::string inner = head + "Content-Length: 2\r\n\r\n{}", spaces(1'000'000, ' ');
  const auto length = [](const std::string& text) { return "Content-Length: " + text + "\r\n"; };
  struct Bad {
    std::string bytes, status;
  };
  // What follows a body that was not understood must not be taken for a request.
  for (const Bad& bad : {
           Bad{head + length("1000000") + "\r\n" + spaces, "413"},
           Bad{head + "Transfer-Encoding: chunked\r\n\r\nf4240\r\n" + spaces + "\r\n0\r\n\r\n", "413"},
           Bad{head + length("2147483648") + "\r\n{}" + inner, "400"},
           Bad{head + length("99999999999999999999999") + "\r\n{}" + inner, "400"},
           Bad{head + length("-2") + "\r\n{}" + inner, "400"},
           Bad{head + length("2x") + "\r\n{}" + inner, "400"},
           Bad{head + length("2") + length("3") + "\r\n{}" + inner, "400"},
           Bad{head + length("2") + "Transfer-Encoding: chunked\r\n\r\n{}" + inner, "400"},
           Bad{head + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n" + inner, "400"},
           Bad{head + length("100") + "\r\n{\"instances\"", "400"},
           Bad{"GET /v1/models/m HTTP/1.1\r\n" + length(std::to_string(inner.size())) + "\r\n" + inner, "400"},
           Bad{"FETCH / HTTP/1.1\r\n\r\n", "400"},
           Bad{"\x16\x03\x01 hello\r\n\r\n", "400"},
           Bad{"GET /" + std::string(10'000, 'x') + " HTTP/1.1\r\n\r\n", "400"},
           Bad{"GET / HTTP/1.1\r\nX: " + std::string(10'000, 'x') + "\r\n\r\n", "400"},
       }) {
    INFO(bad.bytes.substr(0, 120));
    const std::string answer = answer_to(bad.bytes);
    INFO(answer);
    CHECK(answer.starts_with("HTTP/1.1 " + bad.status + " "));
    CHECK(answer.find("{\n    \"error\": ") != std::string::npos);
    CHECK(answer.find("HTTP/1.1", 1) == std::string::npos);
  }
  // One that stops in the middle is let go of, and does not keep others waiting.
  const RawConnection slow(server.port());
  slow.send(head + "Content-Length: 100\r\n\r\n{");
  CHECK(server.client().Post(predict, body, "application/json")->body == predictions);
  CHECK(slow.receive().starts_with("HTTP/1.1 400 "));
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++found;
  return found;
}

/// A request with a body.
std::string post(const std::string& content, const std::string& headers = "", const std::string& version = "1.1") {
  return "POST " + predict + " HTTP/" + version + "\r\nHost: x\r\nContent-Length: " + std::to_string(content.size()) +
         "\r\n" + headers + "\r\n" + content;
}

TEST_CASE("requests that follow each other at once are all answered, in their order") {
  const Running server;
  const RawConnection connection(server.port());
  std::string requests;
  constexpr int many = 500;
  for (int i = 0; i < many; ++i)
    requests += post(R"({"instances": [)" + std::to_string(i) + "]}", i == many - 1 ? "Connection: close\r\n" : "");
  connection.send(requests);
  const std::string answers = connection.receive();
  std::size_t at = 0;
  for (int i = 0; i < many; ++i) {
    at = answers.find("\"predictions\": [" + std::to_string(i + 1) + ".0", at);
    REQUIRE(at != std::string::npos);
  }
  CHECK(count(answers, "HTTP/1.1 200 OK") == many);
}

TEST_CASE("a body is never taken for a request, wherever it lies") {
  const Running server;
  const std::string inner = "GET /v1/models/smuggled HTTP/1.1\r\nHost: x\r\n\r\n", first = post(body);
  for (const int piece : {2048, 4096, 8192, 16384, 32768}) {
    const std::size_t head = first.size() + post("").size() + 4;
    const RawConnection connection(server.port());
    connection.send(first + post(std::string(static_cast<std::size_t>(piece) - head, ' ') + inner) +
                    post(body, "Connection: close\r\n"));
    const std::string answers = connection.receive();
    CHECK(count(answers, "HTTP/1.1 ") == 3);
    CHECK(answers.find("smuggled") == std::string::npos);
    CHECK(answers.ends_with(predictions));
  }
}

TEST_CASE("what HTTP allows, and TensorFlow Serving overlooks") {
  const Running server;
  const auto answer_to = [&](const std::string& bytes) {
    const RawConnection connection(server.port());
    connection.send(bytes);
    connection.end_sending();
    return connection.receive();
  };
  const std::string chunks = "POST " + predict + " HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n";
  for (const std::string& each :
       {post(body, "Range: bytes=0-3\r\n"), post(body, "Content-Type: multipart/form-data; boundary=x\r\n"),
        post(body, "Accept-Encoding: gzip\r\n"),
        chunks + "3;a=b\r\n" + body.substr(0, 3) + "\r\n16\r\n" + body.substr(3) + "\r\n0\r\nX-Sum: 1\r\n\r\n"}) {
    INFO(each);
    const std::string answer = answer_to(each);
    CHECK(answer.starts_with("HTTP/1.1 200 OK\r\n"));
    CHECK(answer.ends_with(predictions));
    CHECK(answer.find("Keep-Alive: timeout=5\r\n") != std::string::npos);
  }
  for (const std::string& end : {"16\r\n" + body.substr(3) + "\r\n", "16\r\n" + body.substr(3) + "0\r\n\r\n",
                                 "16\n" + body.substr(3) + "\r\n0\r\n\r\n", std::string("\r\n"),
                                 "0\r\n" + std::string(100'000, 'x'), std::string("fffffffffffffffff\r\n{")})
    CHECK(answer_to(chunks + "3\r\n" + body.substr(0, 3) + "\r\n" + end).starts_with("HTTP/1.1 400 "));
  // HTTP/1.0 closes the connection unless it is asked not to.
  CHECK(answer_to(post(body, "", "1.0")).find("Connection: close\r\n") != std::string::npos);
  const std::string kept = answer_to(post(body, "Connection: keep-alive\r\n", "1.0") + post(body, "", "1.0"));
  CHECK(kept.find("Connection: keep-alive\r\n") != std::string::npos);
  CHECK(count(kept, predictions) == 2);
  CHECK(count(answer_to(post(body, "Connection: Keep-Alive, Close\r\n") + post(body)), predictions) == 1);
}

TEST_CASE("a port belongs to one server") {
  const Running first;
  ModelStore store;
  Metrics metrics;
  const auto listen = [&](const std::string& host, int port) {
    HttpServer(store, metrics, {.host = host, .port = port});
  };
  CHECK_THROWS_WITH_AS(listen("127.0.0.1", first.port()),
                       doctest::Contains((std::to_string(first.port()) + ": Address already in use").c_str()),
                       UnavailableError);
  CHECK_THROWS_WITH_AS(listen("192.0.2.1", 20'001),
                       doctest::Contains("Cannot listen on 192.0.2.1:20001: Cannot assign requested address"),
                       UnavailableError);
  CHECK_THROWS_WITH_AS(listen("nohost.invalid", 20'001), doctest::Contains("Cannot listen on nohost.invalid:20001: "),
                       UnavailableError);
  CHECK(address_text("::1", 8501) == "[::1]:8501");
}

TEST_CASE("a run ends when its client has gone, and is answered when the client only has nothing more to say") {
  Running server({.timeout = std::chrono::minutes(5)}, {.most_runs = 1});
  write_counter(server.folder() / "2");
  server.store().look();
  const auto count_to = [&](const std::string& number) {
    const std::string text = R"({"instances": [)" + number + "]}";
    return "POST " + predict +
           " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: " + std::to_string(text.size()) + "\r\n\r\n" +
           text;
  };
  std::optional<RawConnection> runs(server.port()), waits(server.port());
  runs->send(count_to("1e15"));
  waits->send(count_to("2e15"));
  const RawConnection patient(server.port());
  runs.reset();
  waits.reset();
  // It waits for the only run of the model, which would take years.
  patient.send(count_to("3"));
  CHECK(patient.receive().ends_with("[3.0\n    ]\n}"));
  const RawConnection silent(server.port());
  silent.send(count_to("4"));
  silent.end_sending();
  CHECK(silent.receive().ends_with("[4.0\n    ]\n}"));
  // The last of both may still be about to end.
  const std::string cancelled = R"(status="CANCELLED"} 2)";
  while (server.metrics().find(cancelled) == std::string::npos) std::this_thread::yield();
}

TEST_CASE("a request whose head comes byte by byte does not keep its thread") {
  const Running server({.threads = 1, .read_timeout = std::chrono::seconds(1)});
  const RawConnection slow(server.port()), waiting(server.port());
  std::atomic<bool> is_answered = false;
  std::thread drips([&] {
    slow.send("GET /healthz HTTP/1.1\r\nX: ");
    while (!is_answered) {
      slow.send("x");
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
  waiting.send("GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n");
  CHECK(waiting.receive().starts_with("HTTP/1.1 200 OK\r\n"));
  is_answered = true;
  drips.join();
}

TEST_CASE("connections beyond the threads wait for one that ends") {
  const Running server({.threads = 2, .read_timeout = std::chrono::seconds(1)});
  std::vector<std::thread> clients;
  std::atomic<int> right = 0;
  for (int i = 0; i < 8; ++i)
    clients.emplace_back([&] {
      httplib::Client client("127.0.0.1", server.port());
      client.set_read_timeout(30);
      const auto answer = client.Post(predict, body, "application/json");
      if (answer && answer->body == predictions) ++right;
    });
  for (std::thread& each : clients) each.join();
  CHECK(right == 8);
}

TEST_CASE("a token, and pages of other sites") {
  const Running server({.cors = true, .token = "secret"});
  httplib::Client client = server.client();
  for (const char* wrong : {"", "secret", "Bearer", "Bearer secre", "Bearer secret2", "Bearer Secret"}) {
    const auto answer = client.Post(predict, {{"Authorization", wrong}}, body, "application/json");
    REQUIRE(answer);
    CHECK(answer->status == 401);
    CHECK(answer->body == error_body("The request has no valid token"));
  }
  CHECK(client.Get("/v1/models/m")->status == 401);
  CHECK(client.Get("/monitoring/prometheus/metrics")->status == 401);
  CHECK(client.Get("/healthz")->status == 200);
  // Who may not ask has nothing unpacked.
  const httplib::Headers gzip{{"Content-Encoding", "gzip"}};
  CHECK(server.client().Post(predict, gzip, zipped(body), "application/json")->status == 401);
  CHECK(client.Options("/v1/models/m", {{"Origin", "https://example.com"}})->status == 200);
  const auto answer = client.Post(predict, {{"Authorization", "Bearer secret"}}, body, "application/json");
  CHECK(answer->body == predictions);
  CHECK(answer->get_header_value("Access-Control-Allow-Headers") == "Content-Type, Authorization");
  CHECK(answer->get_header_value("Access-Control-Allow-Origin") == "*");
}

TEST_CASE("the end: what has begun is answered") {
  Running server;
  const RawConnection begun(server.port());
  begun.send("POST " + predict +
             " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: " +
             std::to_string(body.size()) + "\r\n\r\n");
  begun.receive_until("100 Continue\r\n\r\n");  // now the server is reading the body
  server.end();
  begun.send(body);
  CHECK(begun.receive().ends_with(predictions));
}

TEST_CASE("no request is lost or answered wrongly while versions come and go and connections are cut") {
  Running server;
  server.store().keep_looking(std::chrono::milliseconds(2));
  constexpr int versions = 20, clients = 4;
  std::atomic<bool> done = false;
  std::atomic<int> answers = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < clients; ++i)
    threads.emplace_back([&] {
      httplib::Client client = server.client();
      int before = 0;
      while (!done) {
        const auto answer = client.Post(predict, R"({"instances": [0, 100]})", "application/json");
        REQUIRE(answer);
        REQUIRE(answer->status == 200);
        const ParsedObject json(answer->body);
        const Json& list = *member(json.json(), "predictions");
        const int version = static_cast<int>(list[0].GetDouble());
        // Both values are of one version, which is never older than one that has answered before.
        REQUIRE(list[1].GetDouble() == 100 + version);
        REQUIRE(version >= before);
        before = version;
        ++answers;
      }
    });
  threads.emplace_back([&] {
    while (!done) {
      const RawConnection cut(server.port());
      cut.send("POST " + predict + " HTTP/1.1\r\nContent-Length: 1000\r\n\r\n{\"instances\": [");
    }
  });
  for (int version = 2; version <= versions; ++version) {
    write_line(server.folder() / std::to_string(version), 1, version);
    while (server.store().find("m")->version() != version) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::filesystem::remove_all(server.folder() / std::to_string(version - 1));
    const int seen = answers;
    while (answers < seen + 2 * clients) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  done = true;
  for (std::thread& each : threads) each.join();
  CHECK(answers >= 2 * clients * versions - 2 * clients);
}

}  // namespace
}  // namespace tapestry::serve::http_test
