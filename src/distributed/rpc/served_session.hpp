#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

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

  ServedSession(io::GraphDef graph, std::shared_ptr<io::VariableTable> variables, const ServerOptions& options);
  ServedSession(const ServedSession&) = delete;
  ServedSession& operator=(const ServedSession&) = delete;
  virtual ~ServedSession() = default;

  /// Adds nodes to the graph of version `current`, and returns the new version.
  std::int64_t extend(std::string_view graph_def, std::int64_t current);
  virtual io::rpc::RunStepResponse run(const io::rpc::RunStepRequest& request, std::stop_token stop) {
    return run_here(request, text_of_names(request), std::move(stop));
  }
  virtual std::string set_up_partial_run(const io::rpc::PartialRunSetupRequest& request);
  std::int64_t make_callable(const io::rpc::CallableOptions& options);
  io::rpc::RunCallableResponse run_callable(const io::rpc::RunCallableRequest& request, std::stop_token stop);
  void release_callable(std::int64_t handle);
  /// Ends the runs.
  virtual void close() { closing_.request_stop(); }
  /// The devices of other tasks that the session can use.
  virtual std::vector<io::rpc::DeviceDef> remote_devices(const std::stop_token& /*stop*/) { return {}; }

  /// What is known of a tensor of the graph, "n:0", before the run.
  Spec spec_of(const std::string& tensor);

  Clock::time_point last_use() const;

 protected:
  /// The names of what a run feeds, fetches and runs, in their order.
  static std::string text_of_names(const io::rpc::RunStepRequest& request);
  /// Runs what is wanted in this process.
  io::rpc::RunStepResponse run_here(const io::rpc::RunStepRequest& request, const std::string& names,
                                    std::stop_token stop);
  /// The graph as it is now. Its nodes stay where they are until `extend`.
  io::GraphDef graph_def() const;
  std::stop_token closing() const { return closing_.get_token(); }
  void note_use();

 private:
  struct KnownRun;

  /// The graph as it is now, and its session here.
  std::shared_ptr<const Session> session();
  std::shared_ptr<KnownRun> known_run(const Session& session, const io::rpc::RunStepRequest& request,
                                      const std::string& names);
  Session::PartialRun& partial_run(const std::string& handle);

  std::shared_ptr<io::VariableTable> variables_;
  std::stop_source closing_;
  mutable std::mutex mutex_;
  io::rpc::SentGraph graph_;
  std::int64_t version_ = 0;
  std::shared_ptr<const Session> session_;                                 ///< empty when the graph has grown
  std::unordered_map<std::string, std::shared_ptr<KnownRun>> known_runs_;  ///< of `session_`, by names
  std::map<std::string, std::shared_ptr<Session::PartialRun>, std::less<>> partial_runs_;
  std::map<std::int64_t, io::rpc::CallableOptions> callables_;
  std::int64_t next_handle_ = 0;
  Clock::time_point last_use_ = Clock::now();
};

}  // namespace tapestry::detail
