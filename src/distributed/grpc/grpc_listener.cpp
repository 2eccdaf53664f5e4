#include "distributed/grpc/grpc_listener.hpp"

#include <algorithm>
#include <climits>
#include <condition_variable>
#include <mutex>
#include <system_error>

#include <grpcpp/generic/async_generic_service.h>

#include "distributed/grpc/grpc_support.hpp"
#include "distributed/rpc/workers.hpp"

namespace tapestry::detail {
namespace {

/// The value of a header of the request; "" if there is none.
std::string_view header(const grpc::ServerContextBase& context, const char* name) {
  const auto found = context.client_metadata().find(name);
  if (found == context.client_metadata().end()) return "";
  return {found->second.data(), found->second.size()};
}

class Service final : public grpc::CallbackGenericService {
 public:
  Service(const GrpcListenOptions& options, GrpcHandler handler) : options_(options), handler_(std::move(handler)) {}

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override {
    return new OneCall(*this, *context);
  }

  /// Refuses further calls, and waits until those that are running have ended, but no longer than this. Then cancels
  /// them.
  void end_calls(std::chrono::milliseconds grace) {
    std::unique_lock lock(mutex_);
    is_ending_ = true;
    calls_changed_.wait_for(lock, grace, [this] { return calls_ == 0; });
    lock.unlock();
    stopping_.request_stop();
  }
  /// Waits until their threads have ended.
  void finish() { workers_.finish(); }

 private:
  /// Reads the request, has it handled, and writes the reply. gRPC calls the members, and deletes nothing itself.
  class OneCall final : public grpc::ServerGenericBidiReactor {
   public:
    OneCall(Service& service, grpc::GenericCallbackServerContext& context)
        : service_(service), method_(context.method()), deadline_(context.deadline()) {
      const auto& is_allowed = service.options_.is_allowed;
      if (is_allowed && !is_allowed(header(context, "authorization"))) {
        Finish({grpc::StatusCode::UNAUTHENTICATED, "The request has no valid token"});
      } else {
        StartRead(&request_);
      }
    }

    void OnReadDone(bool ok) override {
      if (!ok) return Finish(grpc::Status::CANCELLED);
      if (const grpc::Status refusal = service_.count_call(); !refusal.ok()) return Finish(refusal);
      is_counted_ = true;
      try {
        // gRPC's own threads must not wait.
        service_.workers_.start([this] { handle(); });
      } catch (const std::system_error&) {
        Finish({grpc::StatusCode::RESOURCE_EXHAUSTED, "The server has no thread for the call"});
      }
    }
    void OnCancel() override { stop_.request_stop(); }
    void OnDone() override {
      if (is_counted_) service_.forget_call();
      delete this;
    }

   private:
    void handle() {
      grpc::Status status;
      {
        const std::stop_callback end_with_server(service_.stopping_.get_token(), [&] { stop_.request_stop(); });
        try {
          const Reply request = reply_of(request_);
          reply_ = buffer_of(service_.handler_(
              {.method = method_, .request = request.bytes, .deadline = deadline_, .stop = stop_.get_token()}));
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
    const std::string method_;
    const std::chrono::system_clock::time_point deadline_;
    grpc::ByteBuffer request_, reply_;
    std::stop_source stop_;
    bool is_counted_ = false;
  };

  /// Counts a call, or tells why it is refused.
  grpc::Status count_call() {
    const std::lock_guard lock(mutex_);
    const std::int64_t most = options_.calls_at_once;
    if (is_ending_) return {grpc::StatusCode::UNAVAILABLE, "The server is ending"};
    if (most > 0 && calls_ >= most)
      return {grpc::StatusCode::RESOURCE_EXHAUSTED, join("The server has ", most, " calls at a time")};
    ++calls_;
    return grpc::Status::OK;
  }
  void forget_call() {
    {
      const std::lock_guard lock(mutex_);
      --calls_;
    }
    calls_changed_.notify_all();
  }

  const GrpcListenOptions options_;
  const GrpcHandler handler_;
  std::mutex mutex_;
  std::condition_variable calls_changed_;
  std::int64_t calls_ = 0;
  bool is_ending_ = false;
  std::stop_source stopping_;
  Workers workers_;
};

std::shared_ptr<grpc::ServerCredentials> credentials(const TlsKeys& keys) {
  if (!keys) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(keys.authority.empty()
                                                ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                                : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = keys.authority;
  options.pem_key_cert_pairs = {{keys.key, keys.certificate}};
  return grpc::SslServerCredentials(options);
}

class GrpcListener final : public Listener {
 public:
  GrpcListener(const GrpcListenOptions& options, GrpcHandler handler)
      : service_(options, std::move(handler)), grace_(options.grace) {
    const ListenOptions& address = options.address;
    grpc::ServerBuilder builder;
    const int limit = static_cast<int>(std::min<std::int64_t>(address.message_bytes, INT_MAX));
    builder.SetMaxReceiveMessageSize(limit);
    builder.SetMaxSendMessageSize(INT_MAX);
    // Otherwise two servers can have one port, without a word.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    // Clients may ask whether the server is there while a long step runs.
    constexpr int least_interval = 5'000;
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                               std::min(least_interval, keepalive_ms() / 4));
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, keepalive_ms());
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, keepalive_ms() / 2);
    // A client that begins ever more calls and ends none has to wait.
    constexpr std::int64_t least_streams = 100;
    if (options.calls_at_once > 0)
      builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, static_cast<int>(std::clamp<std::int64_t>(
                                                                      options.calls_at_once, least_streams, INT_MAX)));
    builder.AddListeningPort(join(address.host, ":", address.port), credentials(options.tls), &port_);
    builder.RegisterCallbackGenericService(&service_);
    server_ = builder.BuildAndStart();
    if (!server_ || port_ == 0)
      throw UnavailableError(join("Cannot listen at ", address.host, ":", address.port, "; is the port in use",
                                  options.tls ? ", or are the certificate and its key wrong?" : "?"));
  }
  GrpcListener(const GrpcListener&) = delete;
  GrpcListener& operator=(const GrpcListener&) = delete;
  ~GrpcListener() override { stop(); }

  int port() const override { return port_; }

  void stop() override {
    if (!server_) return;
    // By itself, gRPC would also wait for connections without calls whose clients do not answer.
    service_.end_calls(grace_);
    // Calls that have not ended by then are cancelled.
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(200));
    server_.reset();
    service_.finish();
  }

 private:
  Service service_;
  const std::chrono::milliseconds grace_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

}  // namespace

std::unique_ptr<Listener> listen_by_grpc(const GrpcListenOptions& options, GrpcHandler handler) {
  silence_grpc();
  return std::make_unique<GrpcListener>(options, std::move(handler));
}

}  // namespace tapestry::detail
