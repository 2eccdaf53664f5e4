#include "distributed/grpc/grpc_transport.hpp"

#include <climits>

#include <grpcpp/generic/generic_stub.h>

#include "distributed/grpc/grpc_listener.hpp"
#include "distributed/grpc/grpc_support.hpp"

namespace tapestry::detail {
namespace {

class GrpcChannel final : public Channel {
 public:
  explicit GrpcChannel(const std::string& address)
      : stub_(grpc::CreateCustomChannel(address, credentials(), options())) {}

  Reply call(const std::string& method, Pieces request, const CallOptions& options) override {
    grpc::ClientContext context;
    if (options.timeout_in_ms > 0)
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(options.timeout_in_ms));
    const std::stop_callback leave(options.stop, [&] { context.TryCancel(); });
    grpc::ByteBuffer reply;
    grpc::Status status;
    grpc::CompletionQueue queue;
    const auto call = stub_.PrepareUnaryCall(&context, method, buffer_of(std::move(request)), &queue);
    call->StartCall();
    call->Finish(&reply, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    if (!status.ok()) throw_status(status.error_code(), status.error_message());
    return reply_of(reply);
  }

 private:
  static std::shared_ptr<grpc::ChannelCredentials> credentials() { return grpc::InsecureChannelCredentials(); }

  static grpc::ChannelArguments options() {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(INT_MAX);
    arguments.SetMaxSendMessageSize(INT_MAX);
    // A host that has vanished is noticed while a call waits for it.
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
    // A server that was started again is found soon.
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
    // No step is made twice, and no proxy reads along.
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    // Sessions do not share a connection: one with large tensors would hold up the others.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return arguments;
  }

  grpc::GenericStub stub_;
};

class GrpcTransport final : public Transport {
 public:
  std::shared_ptr<Channel> connect(const std::string& address) override {
    return std::make_shared<GrpcChannel>(address);
  }
  std::unique_ptr<Listener> listen(const ListenOptions& options, RequestHandler handler) override {
    return listen_by_grpc({.address = options}, [handler = std::move(handler)](const GrpcCall& call) {
      return handler(call.method, call.request, call.stop);
    });
  }
};

}  // namespace

Transport& grpc_transport() {
  silence_grpc();
  static GrpcTransport transport;
  return transport;
}

}  // namespace tapestry::detail
