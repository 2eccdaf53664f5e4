#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>

#include "io/rpc/messages.hpp"
#include "io/rpc/sent_graph.hpp"
#include "tapestry/distributed/server.hpp"
#include "tapestry/session.hpp"

namespace tapestry::detail {

/// The session of a client on a server. Members may be called from several threads. They throw the errors that the
/// client gets, without the name of the task.
class ServedSession {
 public:
  using Clock = std::chrono::steady_clock;

  ServedSession(const io::rpc::CreateSessionRequest& request, std::shared_ptr<io::VariableTable> variables,
                const ServerOptions& options);

  /// Adds nodes to the graph of version `current`, and returns the new version.
  std::int64_t extend(std::string_view graph_def, std::int64_t current);
  io::rpc::RunStepResponse run(const io::rpc::RunStepRequest& request, std::stop_token stop);
  std::string set_up_partial_run(const io::rpc::PartialRunSetupRequest& request);
  std::int64_t make_callable(const io::rpc::CallableOptions& options);
  io::rpc::RunCallableResponse run_callable(const io::rpc::RunCallableRequest& request, std::stop_token stop);
  void release_callable(std::int64_t handle);
  /// Ends the runs.
  void close() { closing_.request_stop(); }

  Clock::time_point last_use() const;

 private:
  struct Step;
  /// The graph as it is now, and its session here.
  std::shared_ptr<const Session> session();
  Session::PartialRun& partial_run(const std::string& handle);

  std::shared_ptr<io::VariableTable> variables_;
  std::stop_source closing_;
  mutable std::mutex mutex_;
  io::rpc::SentGraph graph_;
  std::int64_t version_ = 0;
  std::shared_ptr<const Session> session_;  ///< empty when the graph has grown
  std::map<std::string, std::shared_ptr<Session::PartialRun>, std::less<>> partial_runs_;
  std::map<std::int64_t, io::rpc::CallableOptions> callables_;
  std::int64_t next_handle_ = 0;
  Clock::time_point last_use_ = Clock::now();
};

}  // namespace tapestry::detail
