#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "distributed/rpc/transport.hpp"
#include "io/rpc/messages.hpp"
#include "tapestry/distributed/cluster.hpp"

namespace tapestry::detail {

/// The tasks of a cluster by their names, "/job:ps/replica:0/task:0", and the connections to them.
class Tasks {
 public:
  Tasks(Transport& transport, const ClusterSpec& cluster);

  /// In the order of jobs and numbers.
  const std::vector<std::string>& names() const { return names_; }
  /// Throws InvalidArgumentError for a task that the cluster lacks.
  std::shared_ptr<Channel> channel(const std::string& task);

 private:
  Transport& transport_;
  std::vector<std::string> names_;
  std::map<std::string, std::string> addresses_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Channel>> channels_;
};

inline std::string task_name(const std::string& job, int task) { return join("/job:", job, "/replica:0/task:", task); }

/// Calls a method of a task's worker service. An error has the class that it has there; UnavailableError names the
/// task.
template <class Response, class Request>
Response call_worker(Tasks& tasks, const std::string& task, std::string_view method, const Request& request,
                     const CallOptions& options) {
  try {
    const Reply reply =
        tasks.channel(task)->call(join("/tensorflow.WorkerService/", method), io::rpc::encode(request), options);
    return io::rpc::decode<Response>(reply.bytes);
  } catch (const UnavailableError& error) {
    if (error.message().find("/job:") != std::string::npos) throw;
    throw UnavailableError(join(task, " cannot be reached: ", error.message()));
  }
}

/// A number that no two calls have: a task refuses a step that it gets twice.
std::int64_t new_request_id();

}  // namespace tapestry::detail
