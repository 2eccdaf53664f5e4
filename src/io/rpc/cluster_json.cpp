#include "io/rpc/cluster_json.hpp"

#include <charconv>
#include <string_view>

#include <nlohmann/json.hpp>

#include "tapestry/error.hpp"

namespace tapestry::io::rpc {
namespace {

using nlohmann::json;

json parsed(std::string_view text) {
  try {
    json value = json::parse(text);
    if (value.is_object()) return value;
  } catch (const json::exception&) {  // NOLINT(bugprone-empty-catch)
  }
  throw InvalidArgumentError("the text is no JSON object");
}

/// The number of a task: 1 or "1".
int task_number(const json& value) {
  int number = -1;
  if (value.is_number_unsigned() && value.get<std::uint64_t>() < (1U << 30U)) number = value.get<int>();
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) number = -1;
  }
  if (number < 0)
    throw InvalidArgumentError(detail::join(value.dump(), " is not the number of a task, a whole one from 0 on"));
  return number;
}

std::string address_of(const json& value) {
  if (!value.is_string()) throw InvalidArgumentError("an address is not a string");
  return value.get<std::string>();
}

void read_jobs(const json& cluster, ClusterJson& to) {
  for (const auto& [job, tasks] : cluster.items()) {
    if (!tasks.is_array() && !tasks.is_object())
      throw InvalidArgumentError(detail::join("the job '", job, "' is no list of addresses"));
    std::map<int, std::string>& addresses = to.jobs[job];
    int next = 0;
    for (const auto& [key, value] : tasks.items())
      addresses.emplace(tasks.is_array() ? next++ : task_number(json(key)), address_of(value));
  }
}

}  // namespace

ClusterJson read_tf_config(const std::string& text) {
  const json value = parsed(text);
  ClusterJson result;
  const auto cluster = value.find("cluster");
  if (cluster == value.end()) throw InvalidArgumentError("there is no \"cluster\"");
  if (!cluster->is_object()) throw InvalidArgumentError("\"cluster\" is no JSON object");
  read_jobs(*cluster, result);
  if (const auto task = value.find("task"); task != value.end()) {
    if (!task->is_object() || !task->contains("type") || !task->at("type").is_string())
      throw InvalidArgumentError("\"task\" has no \"type\"");
    result.job = task->at("type").get<std::string>();
    if (task->contains("index")) result.task = task_number(task->at("index"));
  }
  return result;
}

ClusterJson read_cluster_json(const std::string& text) {
  ClusterJson result;
  read_jobs(parsed(text), result);
  return result;
}

}  // namespace tapestry::io::rpc
