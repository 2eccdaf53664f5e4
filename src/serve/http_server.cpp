#include "serve/http_server.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string_view>
#include <thread>

#include <sys/socket.h>

#include "serve/connection_threads.hpp"
#include "serve/json.hpp"
#include "serve/page.hpp"
#include "serve/secrets.hpp"

namespace tapestry::serve {
namespace {

/// httplib's server, whose queue of connections that nobody has accepted yet is only 5 long.
template <class Base>
class Listening final : public Base {
 public:
  using Base::Base;
  void lengthen_queue() const { ::listen(Base::svr_sock_, 1024); }
};

/// What the headers tell of the body. They are looked through once: a look-up in httplib's map, which compares without
/// regard to case, takes as long as parsing a short body.
struct BodyHeaders {
  explicit BodyHeaders(const httplib::Headers& headers) {
    for (const auto& [name, value] : headers) {
      if (is(name, "content-length")) {
        if (lengths++ == 0) length = value;
      } else if (is(name, "transfer-encoding")) {
        chunked = true;
      } else if (is(name, "content-encoding")) {
        packed = true;
      }
    }
  }

  std::string_view length{};  ///< the first one; empty if there is none
  int lengths = 0;            ///< how many there are
  bool chunked = false, packed = false;

 private:
  static bool is(std::string_view name, std::string_view lower_case) {
    return name.size() == lower_case.size() &&
           std::equal(name.begin(), name.end(), lower_case.begin(),
                      [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; });
  }
};

constexpr const char* no_token = "The request has no valid token";

}  // namespace

class HttpServer::Impl {
 public:
  Impl(const ModelStore& models, Metrics& metrics, HttpOptions options)
      : models_(models), metrics_(metrics), options_(std::move(options)), rest_(models, metrics) {
    if (options_.certificate.empty()) {
      start(std::make_unique<Listening<httplib::Server>>());
    } else {
#ifdef CPPHTTPLIB_OPENSSL_SUPPORT
      start(std::make_unique<Listening<httplib::SSLServer>>(options_.certificate.c_str(), options_.key.c_str()));
#else
      throw UnavailableError("This program was built without TLS");
#endif
    }
  }

  int port() const { return port_; }
  void run() {
    server_->listen_after_bind();
    has_ended_ = true;
  }
  void stop() {
    // httplib forgets a stop that comes before it listens.
    while (!server_->is_running() && !has_ended_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    server_->stop();
  }

 private:
  template <class Server>
  void start(std::unique_ptr<Server> server) {
    if (!server->is_valid())
      throw InvalidArgumentError("Cannot use the certificate " + options_.certificate + " with the key " +
                                 options_.key);
    configure(*server);
    port_ = options_.port == 0 ? server->bind_to_any_port(options_.host) : options_.port;
    if (port_ < 0 || (options_.port != 0 && !server->bind_to_port(options_.host, port_)))
      throw UnavailableError(detail::join("Cannot listen on ", options_.host, ":", options_.port));
    server->lengthen_queue();
    server_ = std::move(server);
  }

  void configure(httplib::Server& server) {
    server.new_task_queue = [this] { return new ConnectionThreads(options_.threads); };
    server.set_tcp_nodelay(true);
    server.set_keep_alive_max_count(std::numeric_limits<std::size_t>::max());
    server.set_keep_alive_timeout(options_.read_timeout.count());
    server.set_read_timeout(options_.read_timeout);
    server.set_write_timeout(options_.read_timeout);
    constexpr const char* all = R"([\s\S]*)";
    const auto without_body = [this](const httplib::Request& request, httplib::Response& response) {
      respond(request, response, nullptr);
    };
    const auto with_body = [this](const httplib::Request& request, httplib::Response& response,
                                  const httplib::ContentReader& read) { respond(request, response, &read); };
    server.Get(all, without_body).Options(all, without_body).Delete(all, with_body);
    server.Post(all, with_body).Put(all, with_body).Patch(all, with_body);
    // What httplib refuses by itself has no answer yet.
    server.set_error_handler([](const httplib::Request&, httplib::Response& response) {
      if (!response.has_header("Content-Type"))
        send_and_close({.status = 400, .body = error_body("The request is not HTTP, or was cut off")}, response);
    });
  }

  /// `read` reads the body; nullptr for methods that have none.
  void respond(const httplib::Request& request, httplib::Response& response, const httplib::ContentReader* read) {
    // TensorFlow Serving compresses no answer, httplib would; the request is not const where it comes from.
    const_cast<httplib::Headers&>(request.headers).erase("Accept-Encoding");
    if (options_.cors) {
      response.set_header("Access-Control-Allow-Origin", "*");
      response.set_header("Access-Control-Allow-Methods", "POST, GET");
      response.set_header("Access-Control-Allow-Headers",
                          options_.token.empty() ? "Content-Type" : "Content-Type, Authorization");
    }
    const Deadline deadline = std::chrono::steady_clock::now() + options_.timeout;
    RequestMemory::Hold memory(*options_.memory);
    std::string body;
    // The body of a request that is not allowed gets no memory.
    const bool allowed = is_allowed(request);
    if (const auto refusal = read_body(request, read, deadline, allowed ? &body : nullptr, memory))
      return send_and_close(*refusal, response);
    Answer sent = body.size() > options_.most_body_bytes
                      ? Answer{.status = 413, .body = error_body("The request is too large")}
                      : answer(request, std::move(body), allowed, deadline);
    response.status = sent.status;
    response.set_content(std::move(sent.body), sent.type);
  }

  /// Reads the body, and keeps little more than the allowed size of it. Returns an answer if the connection must be
  /// closed, because the end of the body is not known.
  std::optional<Answer> read_body(const httplib::Request& request, const httplib::ContentReader* read,
                                  Deadline deadline, std::string* body, RequestMemory::Hold& memory) const {
    const auto refuse = [](int status, const char* text) { return Answer{.status = status, .body = error_body(text)}; };
    const BodyHeaders headers(request.headers);
    const std::string_view length = headers.length;
    const bool is_number = length.find_first_not_of("0123456789") == std::string::npos && length.size() < 19;
    if (!is_number || headers.lengths > 1 || (headers.chunked && !length.empty()))
      return refuse(400, "The request does not tell the length of its body");
    const bool empty = !headers.chunked && (length.empty() || length == "0");
    if (!read && !empty) return refuse(400, "A request of this method has no body");
    if (!read || empty) return std::nullopt;
    const bool packed = headers.packed;
    if (packed && !body) return refuse(401, no_token);
    const char* trouble = "The request was cut off, or cannot be unpacked";
    int status = 400;
    const bool done = (*read)([&](const char* bytes, std::size_t count) {
      if (std::chrono::steady_clock::now() > deadline) {
        status = 408;
        trouble = "The request took too long to arrive";
        return false;
      }
      if (!body) return true;
      // A client that sends too large a body is refused after it has sent all of it, but a packed body at once: a few
      // bytes may unpack to any size.
      if (body->size() <= options_.most_body_bytes) {
        if (!memory.grow(count)) {
          status = 503;
          trouble = RequestMemory::used_up;
          return false;
        }
        body->append(bytes, count);
      } else if (packed) {
        status = 413;
        trouble = "The request is too large";
        return false;
      }
      return true;
    });
    if (done) return std::nullopt;
    return refuse(status, trouble);
  }

  /// A handler of httplib's ends the connection by a provider that fails after its last byte.
  static void send_and_close(const Answer& answer, httplib::Response& response) {
    response.status = answer.status;
    response.set_header("Connection", "close");
    response.set_content_provider(answer.body.size(), answer.type,
                                  [body = answer.body](std::size_t begin, std::size_t count, httplib::DataSink& sink) {
                                    sink.write(body.data() + begin, count);
                                    return false;
                                  });
  }

  Answer answer(const httplib::Request& request, std::string body, bool allowed, Deadline deadline) const {
    const std::string path = request.target.substr(0, request.target.find_first_of("?#"));
    // A browser asks by OPTIONS before it sends a token to another site.
    if (!allowed && path != "/" && path != "/healthz" && request.method != "OPTIONS")
      return {.status = 401, .body = error_body(no_token)};
    if (path.starts_with("/v1/") || path.starts_with("/V1/")) {
      if (request.method == "OPTIONS") {
        const std::string origin = request.get_header_value("Origin");
        const bool known = origin.find("http://") != std::string::npos || origin.find("https://") != std::string::npos;
        return {.status = known ? 200 : 400};
      }
      return rest_.answer({.method = request.method, .path = path, .body = std::move(body), .deadline = deadline});
    }
    if (request.method == "GET" || request.method == "HEAD") {
      if (path == "/healthz") {
        const bool ready = models_.is_ready();
        return {.status = ready ? 200 : 503,
                .body = ready ? "ok\n" : "not every model has a version\n",
                .type = "text/plain"};
      }
      if (path == "/") return {.body = std::string(page()), .type = "text/html; charset=utf-8"};
      if (path.starts_with("/page/")) return page_answer(std::string_view(path).substr(6), models_, metrics_);
      if (!options_.metrics_path.empty() && path == options_.metrics_path)
        return {.body = metrics_.prometheus(), .type = "text/plain; version=0.0.4"};
    }
    return {.status = 404, .body = "Not found\n", .type = "text/plain"};
  }

  bool is_allowed(const httplib::Request& request) const {
    return options_.token.empty() ||
           equal_secrets(request.get_header_value("Authorization"), "Bearer " + options_.token);
  }

  const ModelStore& models_;
  Metrics& metrics_;
  const HttpOptions options_;
  const RestApi rest_;
  std::unique_ptr<httplib::Server> server_;
  std::atomic<bool> has_ended_ = false;
  int port_ = -1;
};

HttpServer::HttpServer(const ModelStore& models, Metrics& metrics, HttpOptions options)
    : impl_(std::make_unique<Impl>(models, metrics, std::move(options))) {}
HttpServer::~HttpServer() = default;

int HttpServer::port() const { return impl_->port(); }
void HttpServer::run() { impl_->run(); }
void HttpServer::stop() { impl_->stop(); }

}  // namespace tapestry::serve
