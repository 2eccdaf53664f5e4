#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "serve/request_memory.hpp"
#include "serve/rest.hpp"

namespace tapestry::serve {

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 8501;                            ///< 0: any free one
  std::size_t threads = 1024;                 ///< each connection has one while it is open
  std::chrono::milliseconds timeout{30'000};  ///< for a request to be answered
  std::chrono::seconds read_timeout{5};       ///< for the next bytes of a request, or the next request
  std::size_t most_body_bytes = 256U << 20;   ///< after decompression
  /// Of all requests.
  std::shared_ptr<RequestMemory> memory = std::make_shared<RequestMemory>(std::size_t{2} << 30);
  bool cors = false;                                            ///< whether pages of other sites may ask
  std::string token{};                                          ///< which requests must carry; "": none
  std::string certificate{}, key{};                             ///< files in PEM, for TLS; "": none
  std::string metrics_path = "/monitoring/prometheus/metrics";  ///< "": none
};

/// "127.0.0.1:8501", "[::1]:8501".
std::string address_text(const std::string& host, int port);

/// Answers HTTP requests: those of the REST interface, the page that shows the models, metrics, and whether the server
/// is well.
class HttpServer {
 public:
  /// Takes the port. Throws UnavailableError when it cannot be had, InvalidArgumentError for a wrong certificate.
  HttpServer(const ModelStore& models, Metrics& metrics, HttpOptions options);
  ~HttpServer();

  /// The port that was taken.
  int port() const;
  /// Answers until `stop` is called, and then until what has begun is answered.
  void run();
  /// May be called from any thread, also before `run`, which another thread must call.
  void stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tapestry::serve
