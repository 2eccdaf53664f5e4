#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>

#include "distributed/rpc/graph_part.hpp"
#include "distributed/rpc/shared_resources.hpp"
#include "distributed/rpc/step_table.hpp"
#include "distributed/rpc/tasks.hpp"
#include "distributed/rpc/workers.hpp"

namespace tapestry::detail {

/// TensorFlow's worker service: runs the parts of graphs that masters give to this task. Members may be called from
/// several threads, and throw the errors that the caller gets.
class TaskWorker {
 public:
  /// `state`: what lives at the task. `make_state`: makes that of an isolated session.
  TaskWorker(Tasks& tasks, std::string name, const ServerOptions& options, std::shared_ptr<TaskState> state,
             std::function<std::shared_ptr<TaskState>()> make_state);
  TaskWorker(const TaskWorker&) = delete;
  TaskWorker& operator=(const TaskWorker&) = delete;
  ~TaskWorker();

  void create_session(const std::string& handle, std::shared_ptr<TaskState> state);
  io::rpc::Empty create_session(const io::rpc::CreateWorkerSessionRequest& request);
  io::rpc::Empty delete_session(const io::rpc::DeleteWorkerSessionRequest& request);
  io::rpc::RegisterGraphResponse register_graph(const io::rpc::RegisterGraphRequest& request);
  io::rpc::Empty deregister_graph(const io::rpc::DeregisterGraphRequest& request);
  /// An error ends the step at this task: who waits for its tensors gets it, too. Of a run in several parts, the first
  /// call begins the graph, each one sends and fetches tensors, and the last one waits for its end.
  io::rpc::RunGraphResponse run_graph(const io::rpc::RunGraphRequest& request, const std::stop_token& stop);
  using Sent = std::function<void(const io::rpc::RecvTensorResponse&, const std::exception_ptr&)>;
  /// Calls `sent` when the tensor is there or has failed.
  void recv_tensor(const io::rpc::RecvTensorRequest& request, const std::stop_token& stop, Sent sent);
  /// The same, but waits.
  io::rpc::RecvTensorResponse recv_tensor(const io::rpc::RecvTensorRequest& request, const std::stop_token& stop);
  io::rpc::Empty cleanup_graph(const io::rpc::CleanupGraphRequest& request);
  io::rpc::Empty cleanup_all(const io::rpc::CleanupAllRequest& request);

  /// Ends a step with an error.
  void abort(std::int64_t step, const std::exception_ptr& error) { steps_.abort(step, error); }
  /// Threads for what waits for other tasks.
  Workers& threads() { return threads_; }

 private:
  struct WorkerSession {
    std::shared_ptr<TaskState> state;
    std::map<std::string, std::shared_ptr<const GraphPart>, std::less<>> parts{};
    ServedSession::Clock::time_point last_use = ServedSession::Clock::now();
  };
  /// A run in several parts, from its first call to its last.
  struct PartialRun {
    std::string session;  ///< its key in `sessions_`
    std::stop_source stop{};
    bool has_ended = false;
    std::exception_ptr error{};
  };
  /// A registered graph, and what lives at the task for it.
  struct Registered {
    std::shared_ptr<const GraphPart> part;
    std::shared_ptr<TaskState> state;
  };
  /// Called with the lock held.
  WorkerSession& session(const std::string& handle, bool was_created);
  /// Ends the partial runs of sessions that have ended, which their masters will not end. Called with the lock held.
  void end_orphans();
  Registered registered(const io::rpc::RunGraphRequest& request);
  io::rpc::RunGraphResponse run_partially(const io::rpc::RunGraphRequest& request, const std::stop_token& stop);
  std::shared_ptr<PartialRun> partial_run(const io::rpc::RunGraphRequest& request);
  /// The exchange of a step's tensors with the other tasks, but for the client's.
  GraphPart::Exchange exchange(std::int64_t step, std::shared_ptr<TaskState> state, const std::stop_token& stop);
  void receive(std::int64_t step, const Transfer& transfer, const std::stop_token& stop, GraphPart::Arrival arrival);
  void use(const std::shared_ptr<TaskState>& state, const io::rpc::Islands::ResourceUse& use, Tensors inputs,
           const std::stop_token& stop, GraphPart::Outputs done);

  Tasks& tasks_;
  const std::string name_;
  const ServerOptions& options_;
  const std::shared_ptr<TaskState> state_;
  const std::function<std::shared_ptr<TaskState>()> make_state_;
  std::mutex mutex_;
  std::map<std::string, WorkerSession, std::less<>> sessions_;  ///< "": of masters that create none
  std::uint64_t last_graph_ = 0;
  std::map<std::int64_t, std::shared_ptr<PartialRun>> partial_runs_;  ///< by step
  std::condition_variable_any partial_run_ended_;
  StepTable steps_;
  Workers threads_;  ///< the last member: they use the others
};

}  // namespace tapestry::detail
