#include "distributed/grpc/grpc_listener.hpp"

#include <algorithm>
#include <atomic>
#include <climits>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <grpcpp/generic/async_generic_service.h>

#include "distributed/grpc/grpc_support.hpp"
#include "distributed/rpc/relief.hpp"
#include "distributed/rpc/workers.hpp"

namespace tapestry::detail {
namespace {

/// The value of a header of the request; "" if there is none.
std::string_view header(const grpc::ServerContextBase& context, const char* name) {
  const auto found = context.client_metadata().find(name);
  if (found == context.client_metadata().end()) return "";
  return {found->second.data(), found->second.size()};
}

/// How long the last calls took, on average.
class UsualTime {
 public:
  using Clock = std::chrono::steady_clock;

  void add(Clock::duration time) {
    constexpr double most = 200, weight = .125;  // one that was held up does not count for many
    const double microseconds = std::chrono::duration<double, std::micro>(time).count();
    usual_ = usual_ + weight * (std::min(microseconds, most) - usual_);
  }
  /// Whether a call is probably over before another thread would be ready for the next one: waking that takes as much
  /// of the processors' time.
  bool is_short() const {
    constexpr double most = 50;
    return usual_ < most;
  }

 private:
  std::atomic<double> usual_ = 0;  ///< in microseconds; what threads add at the same time may be lost
};

/// Threads take turns to wait for the events of calls. The one that finds a request handles it itself, since waking
/// another thread takes as long as a short step. It has another one wait in the meantime where calls have taken long
/// lately; where one takes longer than expected, it is relieved. So a handler may wait, too.
class Service final {
 public:
  Service(const GrpcListenOptions& options, GrpcHandler handler) : options_(options), handler_(std::move(handler)) {}

  void add_to(grpc::ServerBuilder& builder) {
    builder.RegisterAsyncGenericService(&generic_);
    queue_ = builder.AddCompletionQueue();
  }
  /// After the server has been started.
  void start() {
    request_call();
    relief_.start();
    // The waiting threads also read from the connections. For a few processors, one reads fast enough.
    const unsigned waiting = std::clamp(std::thread::hardware_concurrency() / 4, 1U, 8U);
    for (unsigned i = 0; i < waiting; ++i) have_another_wait();
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
  /// Waits until the threads have ended. The server has been shut down, or has not started.
  void finish() {
    {
      std::unique_lock lock(mutex_);
      calls_changed_.wait(lock, [this] { return objects_ == 0; });
    }
    queue_->Shutdown();  // no call begins anything on it from now on
    relief_.stop();
    workers_.finish();
    work();  // where no thread has done so, takes out that it was shut down
  }

 private:
  /// Waits for a call, reads the request, has it handled, and writes the reply.
  class OneCall final {
   public:
    explicit OneCall(Service& service) : service_(service) {
      context_.AsyncNotifyWhenDone(&ended_);
      service.generic_.RequestCall(&context_, &stream_, service.queue_.get(), service.queue_.get(), &begun_);
    }
    OneCall(const OneCall&) = delete;
    OneCall& operator=(const OneCall&) = delete;
    ~OneCall() { service_.forget_call(is_counted_); }

    /// What the queue gives back when something has happened. The member is told whether it has succeeded, and returns
    /// whether the request is to be handled.
    struct Event {
      OneCall* call;
      bool (OneCall::*happen)(bool ok);
    };

    /// Answers the request. After it, this may be gone.
    void handle() {
      grpc::Status status;
      try {
        const Reply request = std::exchange(request_, {});
        message_ = buffer_of(service_.handler_({.method = context_.method(),
                                                .request = request.bytes,
                                                .deadline = context_.deadline(),
                                                .stop = stop_.get_token()}));
      } catch (const Error& error) {
        status = status_of(error);
      } catch (const std::exception& error) {
        status = {grpc::StatusCode::INTERNAL, error.what()};
      }
      finish(status);
    }

   private:
    struct RequestStop {
      std::stop_source stop;
      void operator()() { stop.request_stop(); }
    };

    static grpc::Status status_of(const Error& error) {
      return {static_cast<grpc::StatusCode>(error.code()), error.message()};
    }

    bool begin(bool ok) {
      if (!ok) {  // the server ends
        delete this;
        return false;
      }
      service_.request_call();
      const auto& is_allowed = service_.options_.is_allowed;
      if (is_allowed && !is_allowed(context_.method(), header(context_, "authorization")))
        return refuse({grpc::StatusCode::UNAUTHENTICATED, "The request has no valid token"});
      stream_.Read(&message_, &read_);
      return false;
    }
    bool handle_read(bool ok) {
      if (!ok) return refuse(grpc::Status::CANCELLED);
      if (const grpc::Status refusal = service_.count_call(); !refusal.ok()) return refuse(refusal);
      is_counted_ = true;
      try {
        request_ = reply_of(message_);
      } catch (const Error& error) {
        return refuse(status_of(error));
      }
      message_.Clear();  // `request_` keeps the bytes
      end_with_server_.emplace(service_.stopping_.get_token(), RequestStop{stop_});
      return !begin_answer();
    }
    bool refuse(const grpc::Status& status) {
      stream_.Finish(status, &written_);
      return false;
    }
    bool end(bool /*ok*/) {
      if (context_.IsCancelled()) stop_.request_stop();
      return leave(true);
    }
    /// After the last two events, which come in any order, nothing more happens to the call.
    bool leave(bool /*ok*/) {
      if (--left_ == 0) delete this;
      return false;
    }

    /// For a request whose reply waits for others; false for any other one. After it, this may be gone.
    bool begin_answer() {
      const auto& begin = service_.options_.address.begin;
      if (!begin) return false;
      return begin(context_.method(), request_.bytes, stop_.get_token(),
                   [this](Pieces reply, const std::exception_ptr& error) {
                     grpc::Status status;
                     try {
                       if (error) std::rethrow_exception(error);
                       message_ = buffer_of(std::move(reply));
                     } catch (const Error& failure) {
                       status = status_of(failure);
                     }
                     finish(status);
                   });
    }
    /// After it, this may be gone.
    void finish(const grpc::Status& status) {
      if (status.ok()) {
        stream_.WriteAndFinish(message_, {}, status, &written_);
      } else {
        stream_.Finish(status, &written_);
      }
    }

    Service& service_;
    grpc::GenericServerContext context_;
    grpc::GenericServerAsyncReaderWriter stream_{&context_};
    grpc::ByteBuffer message_;  ///< the request, later the reply
    Reply request_;
    std::stop_source stop_;
    std::optional<std::stop_callback<RequestStop>> end_with_server_;
    bool is_counted_ = false;
    std::atomic<int> left_ = 2;
    Event begun_{this, &OneCall::begin}, read_{this, &OneCall::handle_read}, written_{this, &OneCall::leave},
        ended_{this, &OneCall::end};
  };

  void work() {
    Relief::Turn turn(relief_);
    void* tag = nullptr;
    bool ok = false;
    while (queue_->Next(&tag, &ok)) {
      const auto [call, happen] = *static_cast<OneCall::Event*>(tag);
      if ((call->*happen)(ok) && !handle(*call, turn)) return;
    }
  }
  /// Whether this thread still has to wait for events.
  bool handle(OneCall& call, Relief::Turn& turn) {
    const bool is_short = usual_.is_short();
    if (is_short) {
      turn.begin();
    } else {
      have_another_wait();
    }
    const auto begin = UsualTime::Clock::now();
    call.handle();
    usual_.add(UsualTime::Clock::now() - begin);
    return is_short && turn.end();
  }
  void have_another_wait() {
    workers_.start([this] { work(); });
  }

  /// Waits for the next call.
  void request_call() {
    {
      const std::lock_guard lock(mutex_);
      ++objects_;
    }
    new OneCall(*this);  // which deletes itself
  }
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
  void forget_call(bool is_counted) {
    {
      const std::lock_guard lock(mutex_);
      --objects_;
      if (is_counted) --calls_;
    }
    calls_changed_.notify_all();
  }

  const GrpcListenOptions options_;
  const GrpcHandler handler_;
  grpc::AsyncGenericService generic_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::mutex mutex_;
  std::condition_variable calls_changed_;
  std::int64_t objects_ = 0;  ///< calls, and those that are waited for
  std::int64_t calls_ = 0;    ///< those that are handled, or have been and are not over
  bool is_ending_ = false;
  std::stop_source stopping_;
  UsualTime usual_;
  Relief relief_{[this] { have_another_wait(); }};
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
    // Nobody asks for gRPC's records of each call.
    builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 0);
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
    service_.add_to(builder);
    server_ = builder.BuildAndStart();
    if (!server_ || port_ == 0) {
      if (server_) server_->Shutdown();
      service_.finish();
      throw UnavailableError(join("Cannot listen at ", address.host, ":", address.port, "; is the port in use",
                                  options.tls ? ", or are the certificate and its key wrong?" : "?"));
    }
    service_.start();
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
    service_.finish();
    server_.reset();
  }

 private:
  Service service_;
  const std::chrono::milliseconds grace_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

}  // namespace

std::unique_ptr<Listener> listen_by_grpc(const GrpcListenOptions& options, GrpcHandler handler) {
  prepare_grpc();
  return std::make_unique<GrpcListener>(options, std::move(handler));
}

}  // namespace tapestry::detail
