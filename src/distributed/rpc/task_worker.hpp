#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "distributed/rpc/graph_part.hpp"
#include "distributed/rpc/step_table.hpp"
#include "distributed/rpc/tasks.hpp"
#include "distributed/rpc/workers.hpp"

namespace tapestry::detail {

/// TensorFlow's worker service: runs the parts of graphs that masters give to this task. Members may be called from
/// several threads, and throw the errors that the caller gets.
class TaskWorker {
 public:
  /// `make_table`: makes the Variables of an isolated session.
  TaskWorker(Tasks& tasks, std::string name, const ServerOptions& options, std::shared_ptr<io::VariableTable> variables,
             std::function<std::shared_ptr<io::VariableTable>()> make_table);
  TaskWorker(const TaskWorker&) = delete;
  TaskWorker& operator=(const TaskWorker&) = delete;
  ~TaskWorker();

  void create_session(const std::string& handle, std::shared_ptr<io::VariableTable> variables);
  io::rpc::Empty create_session(const io::rpc::CreateWorkerSessionRequest& request);
  io::rpc::Empty delete_session(const io::rpc::DeleteWorkerSessionRequest& request);
  io::rpc::RegisterGraphResponse register_graph(const io::rpc::RegisterGraphRequest& request);
  io::rpc::Empty deregister_graph(const io::rpc::DeregisterGraphRequest& request);
  /// An error ends the step at this task: who waits for its tensors gets it, too.
  io::rpc::RunGraphResponse run_graph(const io::rpc::RunGraphRequest& request, const std::stop_token& stop);
  io::rpc::RecvTensorResponse recv_tensor(const io::rpc::RecvTensorRequest& request, const std::stop_token& stop);
  io::rpc::Empty cleanup_graph(const io::rpc::CleanupGraphRequest& request);
  io::rpc::Empty cleanup_all(const io::rpc::CleanupAllRequest& request);

  /// Ends a step with an error.
  void abort(std::int64_t step, const std::exception_ptr& error) { steps_.abort(step, error); }
  /// Threads for what waits for other tasks.
  Workers& threads() { return threads_; }

 private:
  struct WorkerSession {
    std::shared_ptr<io::VariableTable> variables;
    std::map<std::string, std::shared_ptr<const GraphPart>, std::less<>> parts{};
    ServedSession::Clock::time_point last_use = ServedSession::Clock::now();
  };
  /// Called with the lock held.
  WorkerSession& session(const std::string& handle, bool was_created);
  void receive(std::int64_t step, const Transfer& transfer, const std::stop_token& stop, GraphPart::Arrival arrival);

  Tasks& tasks_;
  const std::string name_;
  const ServerOptions& options_;
  const std::shared_ptr<io::VariableTable> variables_;
  const std::function<std::shared_ptr<io::VariableTable>()> make_table_;
  std::mutex mutex_;
  std::map<std::string, WorkerSession, std::less<>> sessions_;  ///< "": of masters that create none
  std::uint64_t last_graph_ = 0;
  StepTable steps_;
  Workers threads_;  ///< the last member: they use the others
};

}  // namespace tapestry::detail
