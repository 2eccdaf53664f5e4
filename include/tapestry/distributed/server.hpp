#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tapestry/distributed/cluster.hpp"
#include "tapestry/distributed/tls.hpp"

namespace tapestry {

/// @addtogroup distributed
/// @{

/// Which task of a cluster a Server is, and what it lets its clients do. A request beyond a limit is refused with
/// ResourceExhaustedError.
struct ServerOptions {
  std::string job = {};  ///< the job of the task; by default the one that the cluster knows
  int task = -1;         ///< the number of the task; by default the one that the cluster knows
  /// The addresses from which the server accepts connections, "127.0.0.1" or, for all, "0.0.0.0". Any but a loopback
  /// address needs `tls` or `insecure`.
  std::string bind = "127.0.0.1";
  /// Allows connections from other machines. They are neither encrypted nor authenticated: who can reach the port can
  /// run any graph in this process.
  bool insecure = false;
  std::int64_t message_bytes = std::int64_t{1} << 31;   ///< the size of a message, at most 2 GiB
  std::int64_t sessions = 256;                          ///< the number of open sessions
  std::int64_t steps_at_once = 64;                      ///< the number of runs at the same time
  std::int64_t variable_bytes = std::int64_t{8} << 30;  ///< the size of all Variables together
  GraphLimits graph = {};                               ///< of the graph of each session, and of its runs
  /// A session that has not been used for so many seconds ends; 0: never.
  std::int64_t session_gc_seconds = 3600;
  /// Encrypts connections, and lets only those in who have a certificate of the authority. The target is then
  /// "grpcs://HOST:PORT".
  Tls tls = {};
};

/// A server that runs the graphs of other processes: of Tapestry's `Session(target, graph)`, and of TensorFlow's
/// `tf.compat.v1.Session(target)`. As a task of a cluster of several it splits graphs among the tasks, and runs the
/// parts that other servers, Tapestry's or TensorFlow's, give it. It listens from the constructor to `stop` or the
/// destructor.
///
///     tp::Server server(cluster, {.job = "worker", .task = 0});
///     server.join();
class TAPESTRY_API Server {
 public:
  /// A server for a task of a cluster, at the task's port; at port 0 it listens at a free one. Throws
  /// InvalidArgumentError if the cluster has no such task or if the options contradict each other, and UnavailableError
  /// if the port is in use or this build cannot serve.
  explicit Server(const ClusterSpec& cluster, const ServerOptions& options = {}, Where where = Where::here());
  /// A server for this process alone, at a free port.
  static Server create_local_server(const ServerOptions& options = {}, Where where = Where::here());
  ~Server();
  /// A server can be moved, but not copied.
  /// @{
  Server(Server&&) noexcept;
  Server& operator=(Server&&) noexcept;
  /// @}

  /// What a Session takes: "grpc://localhost:2223".
  const std::string& target() const;
  /// The job and the number of the task.
  /// @{
  const std::string& job() const;
  int task() const;
  /// @}
  /// Waits until the server has been stopped.
  void join();
  /// Ends all runs with CancelledError, and all sessions. May be called from any thread, and several times.
  void stop();

  /// For the library: what serves.
  class Service;

 private:
  std::shared_ptr<Service> service_;
  std::string target_, job_;
  int task_ = 0;
};

/// @}

}  // namespace tapestry
