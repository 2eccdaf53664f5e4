#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "distributed/grpc/grpc_listener.hpp"
#include "serve/request_memory.hpp"
#include "serve/rpc_api.hpp"

namespace tapestry::serve {

struct GrpcOptions {
  std::string host = "127.0.0.1";
  int port = 8500;                                ///< 0: any free one
  std::int64_t calls_at_once = 1024;              ///< further requests are refused
  std::int64_t most_message_bytes = 256LL << 20;  ///< the largest request
  /// Of all requests.
  std::shared_ptr<RequestMemory> memory = std::make_shared<RequestMemory>(std::size_t{2} << 30);
  std::chrono::milliseconds timeout{30'000};  ///< for a request of a client that sets no deadline
  std::string token{};                        ///< which requests must carry; "": none
  detail::TlsKeys tls{};
};

/// Answers gRPC's requests, from the constructor on.
class GrpcServer {
 public:
  /// Takes the port. Throws UnavailableError when it cannot be had, for a wrong certificate, or if the program was
  /// built without gRPC.
  GrpcServer(ModelStore& models, Metrics& metrics, const GrpcOptions& options);
  ~GrpcServer();

  /// The port that was taken.
  int port() const;
  /// Takes no more requests, and waits until those that have begun are answered.
  void stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tapestry::serve
