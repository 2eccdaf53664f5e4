#include "serve/http_server.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <string_view>
#include <thread>

#include <netdb.h>
#include <sys/socket.h>

#include "serve/connection_threads.hpp"
#include "serve/http_body.hpp"
#include "serve/json.hpp"
#include "serve/page.hpp"
#include "serve/secrets.hpp"

namespace tapestry::serve {
namespace {

bool equal_but_for_case(std::string_view text, std::string_view lower_case) {
  return text.size() == lower_case.size() &&
         std::equal(text.begin(), text.end(), lower_case.begin(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; });
}

/// Whether another request may follow in the connection.
bool keeps_open(const httplib::Request& request) {
  const auto [first, last] = request.headers.equal_range("Connection");
  if (first == last) return request.version != "HTTP/1.0";
  bool closes = false, keeps = false;
  for (auto header = first; header != last; ++header) {
    std::string_view list = header->second;
    while (!list.empty()) {
      std::string_view option = list.substr(0, list.find(','));
      list.remove_prefix(std::min(option.size() + 1, list.size()));
      option.remove_prefix(std::min(option.find_first_not_of(" \t"), option.size()));
      option = option.substr(0, option.find_first_of(" \t"));
      closes = closes || equal_but_for_case(option, "close");
      keeps = keeps || equal_but_for_case(option, "keep-alive");
    }
  }
  return !closes && (keeps || request.version != "HTTP/1.0");
}

/// httplib's server, but for its connections.
class ConnectionServer final : public httplib::Server {
 public:
  ConnectionServer(HttpTransport transport, std::chrono::seconds timeout, ClientWatch& watch)
      : transport_(std::move(transport)), timeout_(timeout), watch_(watch) {}
  /// httplib's queue of connections that nobody has accepted yet is only 5 long.
  void lengthen_queue() const { ::listen(svr_sock_, 1024); }

 private:
  bool process_and_close_socket(socket_t socket) override {
    std::unique_ptr<HttpConnection> connection;
    {
      const ClientWatch::Watched handshake(watch_, socket, head_end());
      connection = transport_.open(socket, timeout_);
    }
    const auto has_ended = [this] { return svr_sock_ == INVALID_SOCKET; };
    bool goes_on = connection->is_open();
    while (goes_on && connection->wait(has_ended)) {
      bool keeps = true;
      ClientWatch::Watched watched(watch_, socket, head_end());
      connection->set_watched(&watched);
      goes_on = process_one(*this, *connection, [&](httplib::Request& request) {
        keeps = keeps_open(request);
        // TensorFlow Serving neither compresses an answer nor gives a part of it; httplib would.
        request.headers.erase("Accept-Encoding");
        request.headers.erase("Range");
        request.ranges.clear();
        disown_body(request);
      });
      goes_on = goes_on && keeps;
    }
    return true;
  }

  /// What is the same function in httplib's older and newer versions. False: the connection is at its end.
  template <class Self>
  static bool process_one(Self& self, HttpConnection& connection,
                          const std::function<void(httplib::Request&)>& set_up) {
    bool closes = false;  // httplib knows one spelling of "Keep-Alive" only
    if constexpr (requires { self.process_request(connection, false, closes, set_up); }) {
      return self.process_request(connection, false, closes, set_up);
    } else {
      return self.process_request(connection, "", 0, "", 0, false, closes, set_up);
    }
  }

  /// Newer versions of httplib would take what follows a body that they have not read themselves for the body.
  template <class Request>
  static void disown_body(Request& request) {
    if constexpr (requires { request.body_consumed_; }) request.body_consumed_ = true;
  }

  /// When the head of a request that begins now must be there. A client that sends it byte by byte would keep a thread.
  std::chrono::steady_clock::time_point head_end() const { return std::chrono::steady_clock::now() + 2 * timeout_; }

  const HttpTransport transport_;
  const std::chrono::seconds timeout_;
  ClientWatch& watch_;
};

/// How a packed body is packed.
struct Packing {
  bool is_known = true;
  std::optional<io::Wrapping> wrapping{};  ///< nothing: it is not
};

Packing packing_of(std::string_view encoding) {
  if (encoding.empty() || equal_but_for_case(encoding, "identity")) return {};
  if (equal_but_for_case(encoding, "gzip") || equal_but_for_case(encoding, "x-gzip"))
    return {.wrapping = io::Wrapping::gzip};
  if (equal_but_for_case(encoding, "deflate")) return {.wrapping = io::Wrapping::zlib};
  return {.is_known = false};
}

/// Why the system does not let the server listen.
std::string listening_trouble(const std::string& host, int error) {
  addrinfo* found = nullptr;
  const int result = ::getaddrinfo(host.c_str(), nullptr, nullptr, &found);
  if (result != 0) return ::gai_strerror(result);
  ::freeaddrinfo(found);
  return std::error_code(error, std::generic_category()).message();
}

/// What the headers tell of the body. They are looked through once: a look-up in httplib's map, which compares without
/// regard to case, takes as long as parsing a short body.
struct BodyHeaders {
  explicit BodyHeaders(const httplib::Headers& headers) {
    for (const auto& [name, value] : headers) {
      if (equal_but_for_case(name, "content-length")) {
        if (lengths++ == 0) length = value;
      } else if (equal_but_for_case(name, "transfer-encoding")) {
        if (transfers++ == 0) transfer = value;
      } else if (equal_but_for_case(name, "content-encoding")) {
        packing = encodings++ == 0 ? packing_of(value) : Packing{.is_known = false};
      }
    }
  }

  /// Whether they tell where the body ends, so that nobody takes its bytes for another request.
  bool tell_the_end() const {
    if (transfers > 0) return transfers == 1 && lengths == 0 && equal_but_for_case(transfer, "chunked");
    // A size of 18 digits fits 64 bits.
    return lengths == 0 || (lengths == 1 && !length.empty() && length.size() < 19 &&
                            length.find_first_not_of("0123456789") == std::string_view::npos);
  }

  std::string_view length{}, transfer{};          ///< the first one; empty if there is none
  int lengths = 0, transfers = 0, encodings = 0;  ///< how many there are
  Packing packing{};
};

constexpr const char* no_token = "The request has no valid token";

}  // namespace

class HttpServer::Impl {
 public:
  Impl(const ModelStore& models, Metrics& metrics, HttpOptions options)
      : models_(models), metrics_(metrics), options_(std::move(options)), rest_(models, metrics) {
    auto server = std::make_unique<ConnectionServer>(HttpTransport(options_.certificate, options_.key),
                                                     options_.read_timeout, watch_);
    configure(*server);
    errno = 0;
    port_ = options_.port == 0 ? server->bind_to_any_port(options_.host) : options_.port;
    if (port_ < 0 || (options_.port != 0 && !server->bind_to_port(options_.host, port_)))
      throw UnavailableError("Cannot listen on " + address_text(options_.host, options_.port) + ": " +
                             listening_trouble(options_.host, errno));
    server->lengthen_queue();
    server_ = std::move(server);
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
  void configure(httplib::Server& server) {
    server.new_task_queue = [this] { return new ConnectionThreads(options_.threads); };
    server.set_tcp_nodelay(true);
    // httplib would let a second server take the port, and each would get half of the requests.
    server.set_socket_options([](socket_t socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    constexpr const char* all = R"([\s\S]*)";
    const auto without_body = [this](const httplib::Request& request, httplib::Response& response) {
      respond(request, response, false);
    };
    const auto with_body = [this](const httplib::Request& request, httplib::Response& response,
                                  const httplib::ContentReader&) { respond(request, response, true); };
    server.Get(all, without_body).Options(all, without_body).Delete(all, with_body);
    server.Post(all, with_body).Put(all, with_body).Patch(all, with_body);
    // What httplib refuses by itself has no answer yet.
    server.set_error_handler([](const httplib::Request&, httplib::Response& response) {
      if (!response.has_header("Content-Type"))
        send_and_close({.status = 400, .body = error_body("The request is not HTTP, or was cut off")}, response);
    });
    server.set_post_routing_handler(
        [timeout = options_.read_timeout](const httplib::Request& request, httplib::Response& response) {
          const bool closes = response.get_header_value("Connection") == "close" || !keeps_open(request);
          response.headers.erase("Connection");
          response.headers.erase("Keep-Alive");  // httplib's names more requests than clients can count
          if (closes || request.version == "HTTP/1.0")
            response.set_header("Connection", closes ? "close" : "keep-alive");
          if (!closes) response.set_header("Keep-Alive", "timeout=" + std::to_string(timeout.count()));
        });
  }

  void respond(const httplib::Request& request, httplib::Response& response, bool may_have_body) {
    if (options_.cors) {
      response.set_header("Access-Control-Allow-Origin", "*");
      response.set_header("Access-Control-Allow-Methods", "POST, GET");
      response.set_header("Access-Control-Allow-Headers",
                          options_.token.empty() ? "Content-Type" : "Content-Type, Authorization");
    }
    const Deadline deadline = std::chrono::steady_clock::now() + options_.timeout;
    HttpConnection::of_this_thread().watched().read_until(deadline + options_.read_timeout);
    RequestMemory::Hold memory(*options_.memory);
    std::string body;
    // The body of a request that is not allowed gets no memory.
    const bool allowed = is_allowed(request);
    if (const auto refusal = read_body(request, may_have_body, deadline, allowed ? &body : nullptr, memory))
      return send_and_close(*refusal, response);
    Answer sent = body.size() > options_.most_body_bytes
                      ? Answer{.status = 413, .body = error_body("The request is too large")}
                      : answer(request, std::move(body), allowed, deadline);
    response.status = sent.status;
    // `set_content` of older versions of httplib copies the body.
    response.body = std::move(sent.body);
    response.set_header("Content-Type", sent.type);
  }

  /// Reads the body, and keeps little more than the allowed size of it. Returns an answer if the connection must be
  /// closed, because the end of the body is not known.
  std::optional<Answer> read_body(const httplib::Request& request, bool may_have_body, Deadline deadline,
                                  std::string* body, RequestMemory::Hold& memory) const {
    const auto refuse = [](int status, const char* text) { return Answer{.status = status, .body = error_body(text)}; };
    const BodyHeaders headers(request.headers);
    if (!headers.tell_the_end()) return refuse(400, "The request does not tell the length of its body");
    std::optional<std::uint64_t> size;
    if (headers.transfers == 0)
      std::from_chars(headers.length.data(), headers.length.data() + headers.length.size(), size.emplace(0));
    if (size == 0) return std::nullopt;
    if (!may_have_body) return refuse(400, "A request of this method has no body");
    const std::optional<io::Wrapping> wrapping = headers.packing.wrapping;
    if (wrapping && !body) return refuse(401, no_token);
    if (!headers.packing.is_known) return refuse(415, "A body may be packed by gzip or deflate only");
    try {
      HttpBody raw(HttpConnection::of_this_thread(), size, deadline);
      if (!wrapping) return keep_body(raw, false, body, memory);
      UnpackedBody unpacked(raw, *wrapping);
      return keep_body(unpacked, true, body, memory);
    } catch (const DeadlineExceededError&) {
      return refuse(408, "The request took too long to arrive");
    } catch (const DataLossError&) {
      return refuse(400, "The request was cut off, or cannot be unpacked");
    }
  }

  std::optional<Answer> keep_body(io::ByteStream& bytes, bool packed, std::string* body,
                                  RequestMemory::Hold& memory) const {
    std::array<std::byte, 32768> piece;
    while (const std::size_t count = bytes.read(piece)) {
      if (!body) continue;
      // A client that sends too large a body is refused after it has sent all of it, but a packed body at once: a few
      // bytes may unpack to any size.
      if (body->size() <= options_.most_body_bytes) {
        if (!memory.grow(count)) return Answer{.status = 503, .body = error_body(RequestMemory::used_up)};
        body->append(reinterpret_cast<const char*>(piece.data()), count);
      } else if (packed) {
        return Answer{.status = 413, .body = error_body("The request is too large")};
      }
    }
    return std::nullopt;
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
      return rest_.answer({.method = request.method,
                           .path = path,
                           .body = std::move(body),
                           .deadline = {deadline, HttpConnection::of_this_thread().watched().answer()}});
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
  ClientWatch watch_;
  std::unique_ptr<httplib::Server> server_;
  std::atomic<bool> has_ended_ = false;
  int port_ = -1;
};

std::string address_text(const std::string& host, int port) {
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + std::to_string(port);
}

HttpServer::HttpServer(const ModelStore& models, Metrics& metrics, HttpOptions options)
    : impl_(std::make_unique<Impl>(models, metrics, std::move(options))) {}
HttpServer::~HttpServer() = default;

int HttpServer::port() const { return impl_->port(); }
void HttpServer::run() { impl_->run(); }
void HttpServer::stop() { impl_->stop(); }

}  // namespace tapestry::serve
