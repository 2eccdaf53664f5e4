#include "serve/grpc_server.hpp"

#include "serve/secrets.hpp"

namespace tapestry::serve {

class GrpcServer::Impl {
 public:
  Impl(ModelStore& models, Metrics& metrics, const GrpcOptions& options) : api_(models, metrics), options_(options) {
    detail::GrpcListenOptions listening{
        .address = {.host = options.host, .port = options.port, .message_bytes = options.most_message_bytes},
        .tls = options.tls,
        .calls_at_once = options.calls_at_once,
        .grace = options.timeout};
    if (!options.token.empty())
      listening.is_allowed = [expected = "Bearer " + options.token](std::string_view method,
                                                                    std::string_view authorization) {
        // Kubernetes asks for the health without a token.
        return method == "/grpc.health.v1.Health/Check" || equal_secrets(authorization, expected);
      };
    listener_ = detail::listen_by_grpc(listening, [this](const detail::GrpcCall& call) { return answer(call); });
  }

  int port() const { return listener_->port(); }
  void stop() { listener_->stop(); }

 private:
  detail::Pieces answer(const detail::GrpcCall& call) const {
    // Also a deadline that lies farther away than any clock tells is no longer than the server's own.
    const auto left = std::min<std::chrono::system_clock::duration>(
        call.deadline - std::min(std::chrono::system_clock::now(), call.deadline), options_.timeout);
    RequestMemory::Hold memory(*options_.memory);
    if (!memory.grow(call.request.size())) throw ResourceExhaustedError(RequestMemory::used_up);
    detail::Pieces reply;
    reply.add(api_.answer(call.method, call.request, {std::chrono::steady_clock::now() + left, call.stop}));
    return reply;
  }

  const RpcApi api_;
  const GrpcOptions options_;
  std::unique_ptr<detail::Listener> listener_;  ///< its threads use all of the above
};

GrpcServer::GrpcServer(ModelStore& models, Metrics& metrics, const GrpcOptions& options)
    : impl_(std::make_unique<Impl>(models, metrics, options)) {}
GrpcServer::~GrpcServer() = default;

int GrpcServer::port() const { return impl_->port(); }
void GrpcServer::stop() { impl_->stop(); }

}  // namespace tapestry::serve
