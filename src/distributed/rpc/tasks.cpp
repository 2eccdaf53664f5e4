#include "distributed/rpc/tasks.hpp"

#include <random>

namespace tapestry::detail {

Tasks::Tasks(Transport& transport, const ClusterSpec& cluster) : transport_(transport) {
  for (const std::string& job : cluster.jobs()) {
    int left = cluster.num_tasks(job);
    for (int task = 0; left > 0; ++task) {
      std::string address;
      try {
        address = cluster.task_address(job, task, {});
      } catch (const InvalidArgumentError&) {
        continue;  // the numbers of tasks may have gaps
      }
      --left;
      names_.push_back(task_name(job, task));
      addresses_.emplace(names_.back(), address);
    }
  }
}

std::shared_ptr<Channel> Tasks::channel(const std::string& task) {
  const auto address = addresses_.find(task);
  if (address == addresses_.end()) throw InvalidArgumentError(join("The cluster has no task ", task));
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Channel>& channel = channels_[task];
  if (!channel) channel = transport_.connect(address->second);
  return channel;
}

void throw_error_of(const std::string& task, const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const UnavailableError& unavailable) {
    if (unavailable.message().find("/job:") != std::string::npos) throw;
    throw UnavailableError(join(task, " cannot be reached: ", unavailable.message()));
  }
}

std::int64_t new_request_id() {
  thread_local std::mt19937_64 numbers{(std::uint64_t{std::random_device{}()} << 32U) | std::random_device{}()};
  return static_cast<std::int64_t>(numbers() | 1U);
}

}  // namespace tapestry::detail
