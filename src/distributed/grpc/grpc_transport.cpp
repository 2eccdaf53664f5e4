// Messages are bytes here: gRPC's generic interface needs neither protobuf nor generated code.

#include "distributed/grpc/grpc_transport.hpp"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <vector>

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#if __has_include(<grpc/support/log.h>)
#include <grpc/support/log.h>
#endif

#include "distributed/rpc/workers.hpp"
#include "tapestry/error.hpp"

namespace tapestry::detail {
namespace {

/// The pieces as gRPC's own, without a copy. They live as long as gRPC needs them.
grpc::ByteBuffer buffer_of(Pieces pieces) {
  using Owner = std::shared_ptr<const Pieces>;
  const Owner owner = std::make_shared<Pieces>(std::move(pieces));
  std::vector<grpc::Slice> slices;
  for (const Pieces::Piece& each : owner->list()) {
    const std::string_view bytes = each.view();
    slices.emplace_back(
        const_cast<char*>(bytes.data()), bytes.size(), [](void* user) { delete static_cast<Owner*>(user); },
        new Owner(owner));
  }
  return {slices.data(), slices.size()};
}

Reply reply_of(const grpc::ByteBuffer& buffer) {
  const auto slice = std::make_shared<grpc::Slice>();
  if (!buffer.DumpToSingleSlice(slice.get()).ok()) throw DataLossError("A message cannot be read");
  return {{reinterpret_cast<const char*>(slice->begin()), slice->size()}, slice};
}

// ---- Client ---------------------------------------------------------------------------------------------------------

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

// ---- Server ---------------------------------------------------------------------------------------------------------

class Service final : public grpc::CallbackGenericService {
 public:
  explicit Service(RequestHandler handler) : handler_(std::move(handler)) {}

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override {
    return new OneCall(*this, context->method());
  }

  /// Cancels the calls that are running.
  void cancel() { stopping_.request_stop(); }
  /// Waits until their threads have ended.
  void finish() { workers_.finish(); }

 private:
  /// Reads the request, has it handled, and writes the reply. gRPC calls the members, and deletes nothing itself.
  class OneCall final : public grpc::ServerGenericBidiReactor {
   public:
    OneCall(Service& service, std::string method) : service_(service), method_(std::move(method)) {
      StartRead(&request_);
    }

    void OnReadDone(bool ok) override {
      if (!ok) return Finish(grpc::Status::CANCELLED);
      // gRPC's own threads must not wait.
      service_.workers_.start([this] { handle(); });
    }
    void OnCancel() override { stop_.request_stop(); }
    void OnDone() override { delete this; }

   private:
    void handle() {
      grpc::Status status;
      {
        const std::stop_callback end_with_server(service_.stopping_.get_token(), [&] { stop_.request_stop(); });
        try {
          reply_ = buffer_of(service_.handler_(method_, reply_of(request_).bytes, stop_.get_token()));
        } catch (const Error& error) {
          status = {static_cast<grpc::StatusCode>(error.code()), error.message()};
        } catch (const std::exception& error) {
          status = {grpc::StatusCode::INTERNAL, error.what()};
        }
      }
      request_.Clear();
      // After either call, this may be gone.
      if (status.ok()) {
        StartWriteAndFinish(&reply_, {}, grpc::Status::OK);
      } else {
        Finish(status);
      }
    }

    Service& service_;
    std::string method_;
    grpc::ByteBuffer request_, reply_;
    std::stop_source stop_;
  };

  RequestHandler handler_;
  std::stop_source stopping_;
  Workers workers_;
};

class GrpcListener final : public Listener {
 public:
  GrpcListener(const ListenOptions& options, RequestHandler handler) : service_(std::move(handler)) {
    grpc::ServerBuilder builder;
    const int limit = static_cast<int>(std::min<std::int64_t>(options.message_bytes, INT_MAX));
    builder.SetMaxReceiveMessageSize(limit);
    builder.SetMaxSendMessageSize(INT_MAX);
    // Otherwise two servers can have one port, without a word.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    // Clients may ask whether the server is there while a long step runs.
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
    builder.AddListeningPort(join(options.host, ":", options.port), grpc::InsecureServerCredentials(), &port_);
    builder.RegisterCallbackGenericService(&service_);
    server_ = builder.BuildAndStart();
    if (!server_ || port_ == 0)
      throw UnavailableError(join("Cannot listen at ", options.host, ":", options.port, "; is the port in use?"));
  }
  GrpcListener(const GrpcListener&) = delete;
  GrpcListener& operator=(const GrpcListener&) = delete;
  ~GrpcListener() override { stop(); }

  int port() const override { return port_; }

  void stop() override {
    if (!server_) return;
    service_.cancel();
    // Calls that have not ended by then are cancelled.
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
    server_.reset();
    service_.finish();
  }

 private:
  Service service_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

class GrpcTransport final : public Transport {
 public:
  std::shared_ptr<Channel> connect(const std::string& address) override {
    return std::make_shared<GrpcChannel>(address);
  }
  std::unique_ptr<Listener> listen(const ListenOptions& options, RequestHandler handler) override {
    return std::make_unique<GrpcListener>(options, std::move(handler));
  }
};

}  // namespace

Transport& grpc_transport() {
  // The library throws what gRPC would write to the terminal, unless the user asks for gRPC's log.
#if __has_include(<grpc/support/log.h>)
  static const bool is_silent = [] {
    if (!std::getenv("GRPC_VERBOSITY")) gpr_set_log_function([](gpr_log_func_args*) {});
    return true;
  }();
  static_cast<void>(is_silent);
#endif
  static GrpcTransport transport;
  return transport;
}

}  // namespace tapestry::detail
