#pragma once

#include "distributed/rpc/open_runs.hpp"
#include "distributed/rpc/task_worker.hpp"
#include "io/rpc/split_graph.hpp"

namespace tapestry::detail {

/// Whether a session with these device filters may use a task: "/job:ps" allows all of that job.
bool is_allowed(const std::string& task, const std::vector<std::string>& filters);

/// The session of a client on a server that is a task of several. What needs other tasks is split among them, and run
/// by TensorFlow's protocol; what does not runs here as on a single server.
class ClusterSession final : public ServedSession, public std::enable_shared_from_this<ClusterSession> {
 public:
  struct Place {
    std::string task;    ///< of this server
    std::string handle;  ///< of the session
    Tasks& tasks;
    TaskWorker& worker;                       ///< of this task
    std::vector<io::rpc::DeviceDef> devices;  ///< of this task
    OpenRuns& open_runs;                      ///< of all sessions of the server
  };
  ClusterSession(io::GraphDef graph, const io::rpc::SessionConfig& config, std::shared_ptr<TaskState> state,
                 const ServerOptions& options, Place place);
  ~ClusterSession() override;

  io::rpc::RunStepResponse run(const io::rpc::RunStepRequest& request, std::stop_token stop) override;
  std::string set_up_partial_run(const io::rpc::PartialRunSetupRequest& request) override;
  void close() override;
  std::vector<io::rpc::DeviceDef> remote_devices(const std::stop_token& stop) override;

 private:
  struct Part {
    std::string task, handle;  ///< of the registered graph
  };
  /// A run by its feeds, fetches and targets.
  struct Plan {
    std::vector<Part> parts;  ///< none if all is here
  };
  struct Step;
  struct PartialRun;

  std::shared_ptr<const Plan> plan_for(const io::rpc::RunNames& names, const std::stop_token& stop);
  /// The same by the names as they are in the request, in one text; quicker where they have come before.
  std::shared_ptr<const Plan> plan_for(const std::string& text, const io::rpc::RunStepRequest& request,
                                       const std::stop_token& stop);
  std::shared_ptr<const Plan> make_plan(const io::rpc::RunNames& names, const std::stop_token& stop);
  /// Waits for the task, and makes the session known to it, the first time; `planning_` is held.
  const std::vector<io::rpc::DeviceDef>& devices_of(const std::string& task, const std::stop_token& stop);

  static io::rpc::RunNames names_of(const io::rpc::RunStepRequest& request);
  io::rpc::RunGraphRequest request_for(const Step& step, const Part& part) const;
  /// The part of this task; nullptr if there is none.
  const Part* own_part(const Step& step) const;
  /// Runs the parts of other tasks, on threads of their own.
  void begin_elsewhere(const std::shared_ptr<Step>& step);
  /// Runs the part of this task; returns what is fetched, by name.
  std::map<std::string, io::TensorDef> run_here(const std::shared_ptr<Step>& step, const io::rpc::RunNames& names,
                                                const io::rpc::RunStepRequest& request);
  /// Waits for all parts, and throws the error of the step.
  void end_step(Step& step);

  std::shared_ptr<PartialRun> find_partial_run(const std::string& handle);
  /// Throws InvalidArgumentError for a part that was not promised, or cannot be computed with what has been fed.
  void check_part(const PartialRun& partial, const io::rpc::RunNames& part) const;
  io::rpc::RunStepResponse run_partially(PartialRun& partial, const io::rpc::RunStepRequest& request,
                                         const std::stop_token& stop);
  /// Sends tensors to the part of this task, and fetches tensors from it.
  io::rpc::RunGraphResponse exchange(PartialRun& partial, io::rpc::RunGraphRequest tensors,
                                     const std::stop_token& stop);
  void end_partially(PartialRun& partial, const std::exception_ptr& error);
  /// Ends a run to make room for another, and returns whether it has ended: not where a part of it is being made.
  bool give_up(const std::string& handle);

  const io::rpc::SessionConfig config_;
  const std::shared_ptr<TaskState> state_;
  const ServerOptions& options_;
  const Place place_;
  std::vector<std::string> tasks_;  ///< that the session may use
  std::mutex planning_;
  std::map<std::vector<std::string>, std::shared_ptr<const Plan>> plans_;
  std::unordered_map<std::string, std::shared_ptr<const Plan>> known_plans_;  ///< the same, by the text of requests
  std::map<std::string, std::vector<io::rpc::DeviceDef>> known_;              ///< by task that knows the session
  std::map<std::string, std::shared_ptr<PartialRun>> partial_runs_;           ///< by handle
  bool ended_ = false;
};

}  // namespace tapestry::detail
