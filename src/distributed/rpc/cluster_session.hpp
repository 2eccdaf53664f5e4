#pragma once

#include "distributed/rpc/task_worker.hpp"
#include "io/rpc/split_graph.hpp"

namespace tapestry::detail {

/// Whether a session with these device filters may use a task: "/job:ps" allows all of that job.
bool is_allowed(const std::string& task, const std::vector<std::string>& filters);

/// The session of a client on a server that is a task of several. What needs other tasks is split among them, and run
/// by TensorFlow's protocol; what does not runs here as on a single server.
class ClusterSession final : public ServedSession {
 public:
  struct Place {
    std::string task;    ///< of this server
    std::string handle;  ///< of the session
    Tasks& tasks;
    TaskWorker& worker;                       ///< of this task
    std::vector<io::rpc::DeviceDef> devices;  ///< of this task
  };
  ClusterSession(io::GraphDef graph, const io::rpc::SessionConfig& config, std::shared_ptr<io::VariableTable> variables,
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

  std::shared_ptr<const Plan> plan_for(const io::rpc::RunNames& names, const std::stop_token& stop);
  std::shared_ptr<const Plan> make_plan(const io::rpc::RunNames& names, const std::stop_token& stop);
  /// Waits for the task, and makes the session known to it.
  std::vector<io::rpc::DeviceDef> devices_of(const std::string& task, const std::stop_token& stop);
  io::rpc::RunStepResponse run_plan(const Plan& plan, const io::rpc::RunNames& names,
                                    const io::rpc::RunStepRequest& request, const std::stop_token& stop);

  const io::rpc::SessionConfig config_;
  const std::shared_ptr<io::VariableTable> variables_;
  const ServerOptions& options_;
  const Place place_;
  std::vector<std::string> tasks_;  ///< that the session may use
  std::mutex planning_;
  std::map<std::vector<std::string>, std::shared_ptr<const Plan>> plans_;
  std::map<std::string, std::vector<io::rpc::DeviceDef>> known_;  ///< by task that knows the session
  bool ended_ = false;
};

}  // namespace tapestry::detail
