#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "distributed/rpc/workers.hpp"
#include "io/rpc/pieces.hpp"

namespace tapestry::detail {

using io::rpc::Pieces;

/// The bytes of a reply, which lie together.
struct Reply {
  std::string_view bytes{};
  std::shared_ptr<const void> owner{};  ///< of the bytes
};

struct CallOptions {
  std::int64_t timeout_in_ms = 0;  ///< 0: none
  std::stop_token stop = {};       ///< ends the call with CancelledError
};

/// The connection to a server. Any number of threads may call at the same time.
class Channel {
 public:
  virtual ~Channel() = default;
  /// Calls a method, "/tensorflow.MasterService/RunStep", and waits for the reply. Throws the error that the server
  /// answers; UnavailableError, at once, if there is no server or the connection breaks; DeadlineExceededError;
  /// CancelledError.
  virtual Reply call(const std::string& method, Pieces request, const CallOptions& options) = 0;
  /// Gets the reply, or the error that `call` would throw.
  using Done = std::function<void(const Reply&, const std::exception_ptr&)>;
  /// Begins a call, and does not wait for the reply. Calls `done` once, on any thread; it must not wait.
  virtual void begin(const std::string& method, Pieces request, const CallOptions& options, Done done) = 0;
};

/// A channel that waits for each reply on a thread.
class WaitingChannel : public Channel {
 public:
  void begin(const std::string& method, Pieces request, const CallOptions& options, Done done) override;

 protected:
  /// Waits for the calls that have begun; for the destructors of derived classes.
  void finish() { threads_.finish(); }

 private:
  Workers threads_;
};

/// What a server does with a request: returns the reply, or throws the error that the client gets. A stop is
/// requested when the client's deadline has passed, or when the client or the server ends.
using RequestHandler = std::function<Pieces(std::string_view method, std::string_view request, std::stop_token stop)>;

/// Gives the client its reply, or an error; called once, on any thread.
using Respond = std::function<void(Pieces, const std::exception_ptr&)>;

struct ListenOptions {
  std::string host;  ///< of the interface that is listened at
  int port = 0;      ///< 0: a free one
  std::int64_t message_bytes = 0;
  /// Takes a request whose reply has to wait for other requests, without waiting itself; false for one that is not of
  /// this kind, which the RequestHandler gets. A transport whose threads may wait need not ask.
  std::function<bool(std::string_view method, std::string_view request, std::stop_token stop, const Respond&)> begin{};
};

/// Calls a handler with each request that arrives, on threads of its own.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual int port() const = 0;
  /// Accepts no further requests, cancels those that are running, and waits for their end.
  virtual void stop() = 0;
};

/// How messages travel.
class Transport {
 public:
  virtual ~Transport() = default;
  /// `address`: "host:port". Does not wait for the connection.
  virtual std::shared_ptr<Channel> connect(const std::string& address) = 0;
  /// Throws UnavailableError if the port is in use.
  virtual std::unique_ptr<Listener> listen(const ListenOptions& options, RequestHandler handler) = 0;
};

/// Within this process, for tests.
Transport& memory_transport();

/// Throws the error of a status, with the class of its code.
[[noreturn]] void throw_status(std::int64_t code, const std::string& message);

}  // namespace tapestry::detail
