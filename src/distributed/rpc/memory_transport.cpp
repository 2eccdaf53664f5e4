#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>

#include "distributed/rpc/transport.hpp"
#include "distributed/rpc/workers.hpp"
#include "tapestry/error.hpp"

namespace tapestry::detail {
namespace {

/// A call, which the caller leaves at its deadline, and the server when it is done.
struct Call {
  std::mutex mutex{};
  std::condition_variable done{};
  bool has_ended = false, was_cancelled = false;
  std::string reply{};
  std::exception_ptr error{};
  std::stop_source stop{};
};

class MemoryListener;

/// The listeners of this process, by port.
struct Ports {
  std::mutex mutex;
  std::map<int, MemoryListener*> listeners;
  int next = 1;
};
Ports& ports() {
  static Ports& all = *new Ports;  // never destroyed: servers may be static objects
  return all;
}

class MemoryListener final : public Listener {
 public:
  MemoryListener(int port, RequestHandler handler) : port_(port), handler_(std::move(handler)) {}
  MemoryListener(const MemoryListener&) = delete;
  MemoryListener& operator=(const MemoryListener&) = delete;
  ~MemoryListener() override { stop(); }

  int port() const override { return port_; }

  void stop() override {
    {
      const std::lock_guard lock(ports().mutex);
      if (stopped_) return;
      stopped_ = true;
      ports().listeners.erase(port_);
    }
    stopping_.request_stop();
    workers_.finish();
  }

  /// Called with the ports locked.
  void begin(const std::shared_ptr<Call>& call, const std::string& method, std::string request) {
    workers_.start([this, call, method, request = std::move(request)] {
      const std::stop_callback end_with_server(stopping_.get_token(), [&] { call->stop.request_stop(); });
      std::string reply;
      std::exception_ptr error;
      try {
        reply = handler_(method, request, call->stop.get_token()).joined();
      } catch (const Error&) {
        error = std::current_exception();
      }
      // The connection of a server that ends breaks, whatever the server was about to say.
      if (stopping_.stop_requested()) error = std::make_exception_ptr(UnavailableError("Socket closed"));
      const std::lock_guard lock(call->mutex);
      call->has_ended = true;
      call->reply = std::move(reply);
      call->error = error;
      call->done.notify_all();
    });
  }

 private:
  int port_;
  RequestHandler handler_;
  bool stopped_ = false;
  std::stop_source stopping_;
  Workers workers_;
};

class MemoryChannel final : public WaitingChannel {
 public:
  explicit MemoryChannel(int port) : port_(port) {}
  MemoryChannel(const MemoryChannel&) = delete;
  MemoryChannel& operator=(const MemoryChannel&) = delete;
  ~MemoryChannel() override { finish(); }

  Reply call(const std::string& method, Pieces request, const CallOptions& options) override {
    const auto call = std::make_shared<Call>();
    {
      const std::lock_guard lock(ports().mutex);
      const auto found = ports().listeners.find(port_);
      if (found == ports().listeners.end()) throw UnavailableError(join("nobody listens at port ", port_));
      found->second->begin(call, method, request.joined());
    }
    const std::stop_callback leave(options.stop, [&] {
      const std::lock_guard lock(call->mutex);
      call->was_cancelled = true;
      call->done.notify_all();
    });
    std::unique_lock lock(call->mutex);
    const auto is_over = [&] { return call->has_ended || call->was_cancelled; };
    if (options.timeout_in_ms == 0) {
      call->done.wait(lock, is_over);
    } else {
      call->done.wait_for(lock, std::chrono::milliseconds(options.timeout_in_ms), is_over);
    }
    if (!call->has_ended) {
      const bool was_cancelled = call->was_cancelled;
      lock.unlock();
      call->stop.request_stop();
      if (was_cancelled) throw CancelledError("The call was cancelled");
      throw DeadlineExceededError(join("No reply within ", options.timeout_in_ms, " ms"));
    }
    if (call->error) std::rethrow_exception(call->error);
    return {call->reply, call};
  }

 private:
  int port_;
};

class MemoryTransport final : public Transport {
 public:
  std::shared_ptr<Channel> connect(const std::string& address) override {
    return std::make_shared<MemoryChannel>(std::stoi(address.substr(address.rfind(':') + 1)));
  }

  std::unique_ptr<Listener> listen(const ListenOptions& options, RequestHandler handler) override {
    const std::lock_guard lock(ports().mutex);
    int port = options.port;
    while (port == 0 || (options.port == 0 && ports().listeners.contains(port))) port = ports().next++;
    if (ports().listeners.contains(port)) throw UnavailableError(join("port ", port, " is in use"));
    auto listener = std::make_unique<MemoryListener>(port, std::move(handler));
    ports().listeners.emplace(port, listener.get());
    return listener;
  }
};

}  // namespace

void WaitingChannel::begin(const std::string& method, Pieces request, const CallOptions& options, Done done) {
  const auto shared = std::make_shared<Pieces>(std::move(request));
  threads_.start([this, method, shared, options, done = std::move(done)] {
    Reply reply;
    std::exception_ptr error;
    try {
      reply = call(method, std::move(*shared), options);
    } catch (const Error&) {
      error = std::current_exception();
    }
    done(reply, error);
  });
}

Transport& memory_transport() {
  static MemoryTransport& transport = *new MemoryTransport;
  return transport;
}

}  // namespace tapestry::detail
