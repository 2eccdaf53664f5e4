#include "serve/http_server.hpp"

#include <sys/socket.h>

#include "serve/connection_threads.hpp"
#include "serve/json.hpp"
#include "serve/page.hpp"

namespace tapestry::serve {
namespace {

/// httplib's server, whose queue of connections that nobody has accepted yet is only 5 long.
template <class Base>
class Listening final : public Base {
 public:
  using Base::Base;
  void lengthen_queue() const { ::listen(Base::svr_sock_, 1024); }
};

/// Compares in a time that does not tell how much is equal.
bool equal_secrets(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^
                  static_cast<unsigned>(static_cast<unsigned char>(b[i % std::max<std::size_t>(b.size(), 1)]));
  return difference == 0;
}

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
  void run() { server_->listen_after_bind(); }
  void stop() { server_->stop(); }

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
    server.set_payload_max_length(options_.most_body_bytes);
    constexpr const char* all = R"([\s\S]*)";
    const auto without_body = [this](const httplib::Request& request, httplib::Response& response) {
      send(answer(request, {}), response);
    };
    const auto with_body = [this](const httplib::Request& request, httplib::Response& response,
                                  const httplib::ContentReader& read) { send(answer(request, &read), response); };
    server.Get(all, without_body).Options(all, without_body).Delete(all, with_body);
    server.Post(all, with_body).Put(all, with_body).Patch(all, with_body);
    // What httplib refuses by itself, because it is not HTTP or is too large, has no body yet.
    server.set_error_handler([](const httplib::Request&, httplib::Response& response) {
      if (!response.body.empty() || response.content_length_ != 0) return;
      const char* text =
          response.status == 413 ? "The request is too large" : "The request is not HTTP, or was cut off";
      response.set_content(error_body(text), "application/json");
    });
  }

  Answer answer(const httplib::Request& request, const httplib::ContentReader* read) {
    // TensorFlow Serving compresses no answer, httplib would; the request is not const where it comes from.
    const_cast<httplib::Headers&>(request.headers).erase("Accept-Encoding");
    std::string body;
    bool too_large = false;
    const bool allowed = is_allowed(request);
    const auto take = [&](const char* bytes, std::size_t count) {
      too_large = body.size() + count > options_.most_body_bytes;
      if (too_large) return false;
      if (allowed) body.append(bytes, count);
      return true;
    };
    const Deadline deadline = std::chrono::steady_clock::now() + options_.timeout;
    if (read && !(*read)(take)) {
      return {.status = too_large ? 413 : 400,
              .body = error_body(too_large ? "The request is too large"
                                           : "The request was cut off, or cannot be unpacked")};
    }
    const std::string path = request.target.substr(0, request.target.find_first_of("?#"));
    if (!allowed && path != "/" && path != "/healthz")
      return {.status = 401, .body = error_body("The request has no valid token")};
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
      if (!options_.metrics_path.empty() && path == options_.metrics_path)
        return {.body = metrics_.prometheus(), .type = "text/plain; version=0.0.4"};
    }
    return {.status = 404, .body = "Not found\n", .type = "text/plain"};
  }

  bool is_allowed(const httplib::Request& request) const {
    return options_.token.empty() ||
           equal_secrets(request.get_header_value("Authorization"), "Bearer " + options_.token);
  }

  void send(Answer answer, httplib::Response& response) const {
    response.status = answer.status;
    if (options_.cors) {
      response.set_header("Access-Control-Allow-Origin", "*");
      response.set_header("Access-Control-Allow-Methods", "POST, GET");
      response.set_header("Access-Control-Allow-Headers", "Content-Type");
    }
    response.set_content(std::move(answer.body), answer.type);
  }

  const ModelStore& models_;
  Metrics& metrics_;
  const HttpOptions options_;
  const RestApi rest_;
  std::unique_ptr<httplib::Server> server_;
  int port_ = -1;
};

HttpServer::HttpServer(const ModelStore& models, Metrics& metrics, HttpOptions options)
    : impl_(std::make_unique<Impl>(models, metrics, std::move(options))) {}
HttpServer::~HttpServer() = default;

int HttpServer::port() const { return impl_->port(); }
void HttpServer::run() { impl_->run(); }
void HttpServer::stop() { impl_->stop(); }

}  // namespace tapestry::serve
