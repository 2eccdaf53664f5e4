#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tapestry/graph.hpp"

namespace tapestry {

/// @addtogroup distributed
/// @{

/// The tasks of a cluster: by the name of a job, such as "ps" or "worker", the addresses of its tasks, "host:port". It
/// also knows which task this process is, if it was told.
///
///     tp::ClusterSpec cluster({{"ps", {"localhost:2222"}}, {"worker", {"localhost:2223", "localhost:2224"}}});
class TAPESTRY_API ClusterSpec {
 public:
  /// A cluster without tasks.
  ClusterSpec() = default;
  /// From the names of jobs and the addresses of their tasks, in order. Throws InvalidArgumentError for a job that is
  /// named twice or has no tasks, for the name of a job that no device could have, and for an address that is no
  /// "host:port".
  /// @{
  explicit ClusterSpec(const std::vector<std::pair<std::string, std::vector<std::string>>>& jobs,
                       Where where = Where::here());
  ClusterSpec(std::initializer_list<std::pair<std::string, std::vector<std::string>>> jobs, Where where = Where::here())
      : ClusterSpec(std::vector<std::pair<std::string, std::vector<std::string>>>(jobs), where) {}
  /// @}
  /// From jobs with numbered tasks, and the job and the number of this process' task; "" if it is none.
  explicit ClusterSpec(const std::map<std::string, std::map<int, std::string>>& jobs, const std::string& job = {},
                       int task = 0, Where where = Where::here());

  /// What a launcher tells in the environment, by the first of these that is set:
  ///  - TF_CONFIG, of Kubeflow's TFJob and of TensorFlow: {"cluster": {"ps": [...], "worker": [...]}, "task": {"type":
  ///    "worker", "index": 0}};
  ///  - TF_CLUSTER_DEF, TF_ROLE and TF_INDEX, of Hbox;
  ///  - SLURM_STEP_NODELIST, SLURM_NTASKS and SLURM_PROCID, of srun: the tasks of one job "worker", on ports from 8888.
  ///    How many of them are on each host tells SLURM_STEP_TASKS_PER_NODE; without it, they are divided evenly.
  ///
  /// Throws NotFoundError when none is set, InvalidArgumentError, with the name of the variable, for one that makes no
  /// sense, and UnavailableError in a build without gRPC.
  static ClusterSpec from_environment(Where where = Where::here());
  /// The arguments of a program: `--cluster 'ps=host:port;worker=host:port,host:port' --job worker --task 0`, each also
  /// as `--job=worker`. Others are ignored. Throws InvalidArgumentError for ones that make no sense, NotFoundError if
  /// no cluster is among them, and UnavailableError in a build without gRPC.
  static ClusterSpec from_arguments(int argc, const char* const* argv, Where where = Where::here());

  /// The names of the jobs, in alphabetical order.
  std::vector<std::string> jobs() const;
  /// The number of tasks of a job; 0 if there is no such job.
  int num_tasks(std::string_view job) const;
  /// The addresses of a job's tasks, in the order of their numbers. Throws InvalidArgumentError if there is no such
  /// job.
  std::vector<std::string> job_tasks(std::string_view job, Where where = Where::here()) const;
  /// The address of a task. Throws InvalidArgumentError if there is no such task.
  std::string task_address(std::string_view job, int task, Where where = Where::here()) const;
  /// Whether the cluster has no tasks.
  bool empty() const { return jobs_.empty(); }

  /// The job and the number of this process' task, as the environment or the arguments tell; "" and 0 otherwise.
  /// @{
  const std::string& job() const { return job_; }
  int task() const { return task_; }
  /// @}

  /// Whether both have the same tasks.
  friend bool operator==(const ClusterSpec& a, const ClusterSpec& b) { return a.jobs_ == b.jobs_; }

 private:
  void add(const std::string& job, const std::map<int, std::string>& tasks);

  std::map<std::string, std::map<int, std::string>, std::less<>> jobs_;
  std::string job_;
  int task_ = 0;
};

namespace train {

/// How Variables are distributed among parameter servers.
enum class Balance : std::uint8_t {
  round_robin,  ///< to one after the other
  by_size,      ///< to the one that has the fewest bytes of Variables so far
};

/// Where `replica_device_setter` places operations.
struct ReplicaDevices {
  /// How Variables are distributed among the tasks of the job "ps".
  Balance balance = Balance::round_robin;
  /// The device of the other operations; by default that of this process' task if the cluster knows it as one of
  /// "worker", otherwise "/job:worker".
  std::string worker_device = {};
  /// The job of the parameter servers. If the cluster has no such job, Variables get no device.
  std::string ps_job = "ps";
};

/// A function for `device`, with which a graph has its Variables on the parameter servers of a cluster and everything
/// else on this worker:
///
///     auto placed = tp::device(tp::train::replica_device_setter(cluster));
///
/// All workers that build the same graph place its Variables in the same way. The slots of optimizers stay with their
/// Variables.
TAPESTRY_API DeviceFunction replica_device_setter(const ClusterSpec& cluster, const ReplicaDevices& devices = {});

}  // namespace train

/// @}

}  // namespace tapestry
