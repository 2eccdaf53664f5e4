#include "tapestry/distributed/cluster.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <optional>
#include <string_view>

#include "tapestry/detail/locate.hpp"
#include "tapestry/dtype.hpp"

namespace tapestry {
namespace {

using Addresses = std::map<int, std::string>;

std::optional<int> number_in(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return {};
  return number;
}

void check_job(std::string_view job) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto is_part = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '_'; };
  if (job.empty() || !is_letter(job[0]) || !std::all_of(job.begin(), job.end(), is_part))
    throw InvalidArgumentError(detail::join("'", job, "' cannot be the name of a job"));
}

void check_address(const std::string& job, int task, std::string_view address) {
  const std::size_t colon = address.rfind(':');
  const std::optional<int> port = colon == std::string_view::npos ? std::nullopt : number_in(address.substr(colon + 1));
  if (colon == 0 || !port || *port > 65535 || address.find_first_of("/ ,;\t\n") != std::string_view::npos)
    throw InvalidArgumentError(
        detail::join("The address '", address, "' of /job:", job, "/task:", task, " is not of the form host:port"));
}

}  // namespace

ClusterSpec::ClusterSpec(const std::vector<std::pair<std::string, std::vector<std::string>>>& jobs, Where where) {
  detail::locating({}, where, [&] {
    for (const auto& [job, addresses] : jobs) {
      Addresses tasks;
      for (const std::string& each : addresses) tasks.emplace(static_cast<int>(tasks.size()), each);
      add(job, tasks);
    }
  });
}

void ClusterSpec::add(const std::string& job, const Addresses& tasks) {
  check_job(job);
  if (tasks.empty()) throw InvalidArgumentError(detail::join("The job '", job, "' has no tasks"));
  for (const auto& [task, address] : tasks) {
    if (task < 0)
      throw InvalidArgumentError(detail::join("The job '", job, "' has a task ", task, "; their numbers begin at 0"));
    check_address(job, task, address);
  }
  if (!jobs_.emplace(job, tasks).second)
    throw InvalidArgumentError(detail::join("The cluster has two jobs '", job, "'"));
  // What is sent to one of two tasks at one address would reach the other.
  std::map<std::string_view, std::string> known;
  for (const auto& [name, addresses] : jobs_)
    for (const auto& [task, address] : addresses) {
      const std::string text = detail::join("/job:", name, "/task:", task);
      const auto [other, is_new] = known.try_emplace(address, text);
      if (!is_new && !address.ends_with(":0"))
        throw InvalidArgumentError(
            detail::join("The tasks ", other->second, " and ", text, " have the same address, ", address));
    }
}

ClusterSpec::ClusterSpec(const std::map<std::string, std::map<int, std::string>>& jobs, const std::string& job,
                         int task, Where where) {
  detail::locating({}, where, [&] {
    for (const auto& [name, tasks] : jobs) add(name, tasks);
    if (job.empty()) return;
    static_cast<void>(task_address(job, task, {}));  // throws if there is no such task
    job_ = job;
    task_ = task;
  });
}

std::vector<std::string> ClusterSpec::jobs() const {
  std::vector<std::string> names;
  for (const auto& [job, tasks] : jobs_) names.push_back(job);
  return names;
}

int ClusterSpec::num_tasks(std::string_view job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? 0 : static_cast<int>(found->second.size());
}

std::vector<std::string> ClusterSpec::job_tasks(std::string_view job, Where where) const {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) throw InvalidArgumentError(detail::join("The cluster has no job '", job, "'"), where);
  std::vector<std::string> addresses;
  for (const auto& [task, address] : found->second) addresses.push_back(address);
  return addresses;
}

std::string ClusterSpec::task_address(std::string_view job, int task, Where where) const {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) throw InvalidArgumentError(detail::join("The cluster has no job '", job, "'"), where);
  const auto address = found->second.find(task);
  if (address == found->second.end())
    throw InvalidArgumentError(detail::join("The job '", job, "' has no task ", task), where);
  return address->second;
}

namespace train {

DeviceFunction replica_device_setter(const ClusterSpec& cluster, const ReplicaDevices& devices) {
  std::string worker = devices.worker_device;
  if (worker.empty())
    worker = cluster.job() == "worker" ? detail::join("/job:worker/task:", cluster.task()) : "/job:worker";
  struct Load {
    std::vector<std::int64_t> bytes;  ///< of Variables, by task
    std::size_t next = 0;
  };
  const auto load = std::make_shared<Load>(
      Load{std::vector<std::int64_t>(static_cast<std::size_t>(cluster.num_tasks(devices.ps_job)))});
  return [load, worker, ps = devices.ps_job, balance = devices.balance](const NewOperation& operation) {
    if (!operation.variable || load->bytes.empty()) return operation.variable ? std::string() : worker;
    std::size_t task = load->next++ % load->bytes.size();
    if (balance == Balance::by_size) {
      const auto least = std::min_element(load->bytes.begin(), load->bytes.end());
      task = static_cast<std::size_t>(least - load->bytes.begin());
      *least +=
          operation.variable->shape().num_elements() * static_cast<std::int64_t>(size_of(operation.variable->dtype()));
    }
    return detail::join("/job:", ps, "/task:", task);
  };
}

}  // namespace train

}  // namespace tapestry
