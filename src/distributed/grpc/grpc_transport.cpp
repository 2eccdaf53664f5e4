#include "distributed/grpc/grpc_transport.hpp"

#include <algorithm>
#include <climits>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include <grpcpp/generic/generic_stub.h>

#include "distributed/grpc/grpc_listener.hpp"
#include "distributed/grpc/grpc_support.hpp"

namespace tapestry::detail {
namespace {

/// A call that nobody waits for.
struct BegunCall {
  grpc::ClientContext context{};
  grpc::ByteBuffer reply{};
  grpc::Status status{};
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader{};
  std::optional<std::stop_callback<std::function<void()>>> leave{};
  std::function<void(BegunCall&)> end{};
};

/// The replies of begun calls. A few threads take them, as many as read for a server.
grpc::CompletionQueue& replies() {
  // Channels may live as long as the process: never destroyed.
  static grpc::CompletionQueue& queue = *[] {
    auto* made = new grpc::CompletionQueue;
    const unsigned threads = std::clamp(std::thread::hardware_concurrency() / 4, 1U, 8U);
    for (unsigned i = 0; i < threads; ++i)
      std::thread([made] {
        void* tag = nullptr;
        bool ok = false;
        while (made->Next(&tag, &ok)) {
          const std::unique_ptr<BegunCall> call(static_cast<BegunCall*>(tag));
          call->leave.reset();
          call->end(*call);
        }
      }).detach();
    return made;
  }();
  return queue;
}

/// Queues for calls that are waited for, one for each at a time; to make one takes longer than to use it.
class Queues {
 public:
  std::unique_ptr<grpc::CompletionQueue> take() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        auto queue = std::move(idle_.back());
        idle_.pop_back();
        return queue;
      }
    }
    return std::make_unique<grpc::CompletionQueue>();
  }
  void give_back(std::unique_ptr<grpc::CompletionQueue> queue) {
    constexpr std::size_t most = 64;
    const std::lock_guard lock(mutex_);
    if (idle_.size() < most) idle_.push_back(std::move(queue));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<grpc::CompletionQueue>> idle_;
};

class GrpcChannel final : public Channel {
 public:
  GrpcChannel(const std::string& address, const TlsKeys& keys)
      : is_encrypted_(keys), stub_(grpc::CreateCustomChannel(address, credentials(keys), options())) {}

  Reply call(const std::string& method, Pieces request, const CallOptions& options) override {
    grpc::ClientContext context;
    if (options.timeout_in_ms > 0)
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(options.timeout_in_ms));
    const std::stop_callback leave(options.stop, [&] { context.TryCancel(); });
    grpc::ByteBuffer reply;
    grpc::Status status;
    auto queue = queues_.take();
    const auto call = stub_.PrepareUnaryCall(&context, method, buffer_of(std::move(request)), queue.get());
    call->StartCall();
    call->Finish(&reply, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue->Next(&tag, &ok);
    queues_.give_back(std::move(queue));
    if (!status.ok()) fail(status, is_encrypted_);
    return reply_of(reply);
  }

  void begin(const std::string& method, Pieces request, const CallOptions& options, Done done) override {
    auto call = std::make_unique<BegunCall>();
    if (options.timeout_in_ms > 0)
      call->context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(options.timeout_in_ms));
    call->end = [is_encrypted = is_encrypted_, done = std::move(done)](BegunCall& ended) {
      Reply reply;
      std::exception_ptr error;
      try {
        if (!ended.status.ok()) fail(ended.status, is_encrypted);
        reply = reply_of(ended.reply);
      } catch (const Error&) {
        error = std::current_exception();
      }
      done(reply, error);
    };
    call->reader = stub_.PrepareUnaryCall(&call->context, method, buffer_of(std::move(request)), &replies());
    call->reader->StartCall();
    if (options.stop.stop_possible())
      call->leave.emplace(options.stop, [context = &call->context] { context->TryCancel(); });
    BegunCall& begun = *call.release();  // the thread may have ended it when this returns
    begun.reader->Finish(&begun.reply, &begun.status, &begun);
  }

 private:
  static std::shared_ptr<grpc::ChannelCredentials> credentials(const TlsKeys& keys) {
    if (!keys) return grpc::InsecureChannelCredentials();
    return grpc::SslCredentials({keys.authority, keys.key, keys.certificate});
  }

  static grpc::ChannelArguments options() {
    grpc::ChannelArguments arguments;
    // Of gRPC's filters, deadlines alone are needed. The others limit the size of messages, compress, and keep records.
    arguments.SetInt(GRPC_ARG_MINIMAL_STACK, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_DEADLINE_CHECKS, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_CHANNELZ, 0);
    // A host that has vanished is noticed while a call waits for it.
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, keepalive_ms());
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, keepalive_ms() / 2);
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    // A server that was started again is found soon.
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
    // This is how long gRPC waits for a connection: one that is far away, or busy, takes a while.
    constexpr int least_wait = 1'000;
    arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, std::max(least_wait, keepalive_ms() / 2));
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
    // No step is made twice, and no proxy reads along.
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    // Sessions do not share a connection: one with large tensors would hold up the others.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return arguments;
  }

  [[noreturn]] static void fail(const grpc::Status& status, bool is_encrypted) {
    // What gRPC tells where it can make no connection of the keys; a later call would fare no better.
    if (is_encrypted && status.error_message().starts_with("empty address list"))
      throw InvalidArgumentError("gRPC cannot use this side's certificate.pem, key.pem and authority.pem together");
    throw_status(status.error_code(), status.error_message());
  }

  const bool is_encrypted_;
  Queues queues_;
  grpc::GenericStub stub_;
};

class GrpcTransport final : public Transport {
 public:
  explicit GrpcTransport(TlsKeys keys) : keys_(std::move(keys)) {}

  std::shared_ptr<Channel> connect(const std::string& address) override {
    return std::make_shared<GrpcChannel>(address, keys_);
  }
  std::unique_ptr<Listener> listen(const ListenOptions& options, RequestHandler handler) override {
    return listen_by_grpc({.address = options, .tls = keys_}, [handler = std::move(handler)](const GrpcCall& call) {
      return handler(call.method, call.request, call.stop);
    });
  }

 private:
  const TlsKeys keys_;
};

std::string read_pem(const std::string& path, std::string_view kind, const char* what) {
  if (path.empty()) throw InvalidArgumentError(join("TLS needs a file for ", what));
  std::ifstream file(path, std::ios::binary);
  std::string text;
  try {
    text.assign(std::istreambuf_iterator<char>(file), {});
  } catch (const std::ios_base::failure&) {  // a folder can be opened, but not read
    file.setstate(std::ios::failbit);
  }
  if (!file) throw NotFoundError(join("Cannot read ", path, ", which has ", what));
  require_pem(text, kind, path);
  return text;
}

}  // namespace

TlsKeys read_keys(const Tls& files) {
  return {.certificate = read_pem(files.certificate, "CERTIFICATE", "the certificate"),
          .key = read_pem(files.key, "PRIVATE KEY", "the certificate's key"),
          .authority = read_pem(files.authority, "CERTIFICATE", "the authority of other certificates")};
}

Transport& grpc_transport(const TlsKeys& keys) {
  prepare_grpc();
  // Servers and sessions, which may be static objects, keep references: never destroyed.
  static std::mutex& mutex = *new std::mutex;
  static auto& transports = *new std::map<TlsKeys, GrpcTransport>;
  const std::lock_guard lock(mutex);
  return transports.try_emplace(keys, keys).first->second;
}

}  // namespace tapestry::detail
