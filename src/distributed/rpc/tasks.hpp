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

/// Throws an error of a call to a task; UnavailableError names the task.
[[noreturn]] void throw_error_of(const std::string& task, const std::exception_ptr& error);

/// Calls a method of a task's worker service. An error has the class that it has there; UnavailableError names the
/// task.
template <class Response, class Request>
Response call_worker(Tasks& tasks, const std::string& task, std::string_view method, const Request& request,
                     const CallOptions& options) {
  try {
    const Reply reply =
        tasks.channel(task)->call(join("/tensorflow.WorkerService/", method), io::rpc::encode(request), options);
    return io::rpc::decode<Response>(reply.bytes);
  } catch (const UnavailableError&) {
    throw_error_of(task, std::current_exception());
  }
}

/// The same, without waiting: calls `done` once, on any thread, with the response or the error. It must not wait.
template <class Response, class Request>
void begin_call(Tasks& tasks, const std::string& task, std::string_view method, const Request& request,
                const CallOptions& options, std::function<void(Response, const std::exception_ptr&)> done) {
  std::shared_ptr<Channel> channel;
  try {
    channel = tasks.channel(task);
  } catch (const Error&) {
    return done({}, std::current_exception());
  }
  channel->begin(join("/tensorflow.WorkerService/", method), io::rpc::encode(request), options,
                 [task, done = std::move(done)](const Reply& reply, const std::exception_ptr& error) {
                   Response response;
                   std::exception_ptr failure;
                   try {
                     if (error) throw_error_of(task, error);
                     response = io::rpc::decode<Response>(reply.bytes);
                   } catch (const Error&) {
                     failure = std::current_exception();
                   }
                   done(std::move(response), failure);
                 });
}

/// A number that no two calls have: a task refuses a step that it gets twice.
std::int64_t new_request_id();

}  // namespace tapestry::detail
