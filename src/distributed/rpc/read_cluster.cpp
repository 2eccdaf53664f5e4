#include "distributed/rpc/read_cluster.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>

#include "core/open_plugin.hpp"
#include "io/rpc/cluster_json.hpp"

namespace tapestry::detail {
namespace {

using Addresses = std::map<int, std::string>;
using io::rpc::ClusterJson;

std::optional<int> number_in(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return {};
  return number;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

/// Calls f, and says in an InvalidArgumentError which setting is wrong.
void reading(std::string_view setting, const std::function<void()>& f) {
  try {
    f();
  } catch (const InvalidArgumentError& error) {
    throw InvalidArgumentError(join(setting, ": ", error.message()));
  }
}

int task_number(const std::string& text) {
  if (const std::optional<int> value = number_in(text)) return *value;
  throw InvalidArgumentError(join("'", text, "' is not the number of a task"));
}

int number_in_environment(const char* variable) {
  int number = 0;
  reading(variable, [&] { number = task_number(environment(variable)); });
  return number;
}

/// The hosts of SLURM's list "n[01-03,7],login": n01, n02, n03, n7, login.
std::vector<std::string> slurm_hosts(std::string_view list) {
  const auto refuse = [&] { throw InvalidArgumentError(join("'", list, "' is no list of hosts")); };
  std::vector<std::string> hosts;
  std::string_view rest = list;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find_first_of("[,"), rest.size());
    const std::string prefix(rest.substr(0, end));
    if (end == rest.size() || rest[end] == ',') {
      if (prefix.empty()) refuse();
      hosts.push_back(prefix);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      continue;
    }
    const std::size_t close = rest.find(']', end);
    if (close == std::string_view::npos) refuse();
    for (const std::string_view range : split(rest.substr(end + 1, close - end - 1), ',')) {
      const std::string_view first = range.substr(0, range.find('-'));
      const std::string_view last = range.find('-') == std::string_view::npos ? first : range.substr(first.size() + 1);
      const std::optional<int> from = number_in(first), to = number_in(last);
      constexpr int most_hosts = 100'000;
      if (!from || !to || *to < *from || *to - *from >= most_hosts) refuse();
      for (int number = *from; number <= *to; ++number) {
        const std::string digits = std::to_string(number);
        hosts.push_back(prefix + std::string(first.size() - std::min(first.size(), digits.size()), '0') + digits);
      }
    }
    rest.remove_prefix(close + 1);
    if (!rest.empty() && rest[0] != ',') refuse();
    if (!rest.empty()) rest.remove_prefix(1);
  }
  return hosts;
}

/// The cluster as it was described; `setting` is blamed if it makes no sense.
ClusterSpec made_of(const ClusterJson& found, std::string_view setting) {
  ClusterSpec cluster;
  reading(setting, [&] { cluster = ClusterSpec(found.jobs, found.job, found.task, {}); });
  return cluster;
}

/// The numbers of SLURM's list "2(x3),1": 2, 2, 2, 1. Throws InvalidArgumentError unless they are `tasks` on `hosts`.
std::vector<int> slurm_counts(std::string_view list, int tasks, std::size_t hosts) {
  std::vector<int> counts;
  std::int64_t sum = 0;
  bool is_good = true;
  for (std::string_view each : split(list, ',')) {
    std::optional<int> times = 1;
    if (const std::size_t open = each.find("(x"); open != std::string_view::npos && each.back() == ')') {
      times = number_in(each.substr(open + 2, each.size() - open - 3));
      each = each.substr(0, open);
    }
    const std::optional<int> count = number_in(each);
    is_good = is_good && count && times && static_cast<std::size_t>(*times) <= hosts - counts.size();
    if (!is_good) break;
    counts.insert(counts.end(), static_cast<std::size_t>(*times), *count);
    sum += std::int64_t{*times} * *count;
  }
  if (!is_good || counts.size() != hosts || sum != tasks)
    throw InvalidArgumentError(join("'", list, "' does not tell how ", tasks, " tasks lie on ", hosts, " hosts"));
  return counts;
}

/// Tasks on the hosts of srun's step, in its order by default: all of a host, then those of the next one.
Addresses slurm_tasks(const std::string& nodes, int tasks, const std::string& counts_of_hosts) {
  std::vector<std::string> hosts;
  reading("SLURM_STEP_NODELIST", [&] { hosts = slurm_hosts(nodes); });
  constexpr int most_tasks = 1'000'000;
  if (tasks > most_tasks) throw InvalidArgumentError(join("SLURM_NTASKS: ", tasks, " tasks are too many"));
  const int count = static_cast<int>(hosts.size());
  std::vector<int> counts;
  counts.reserve(hosts.size());
  for (int host = 0; host < count; ++host) counts.push_back(tasks / count + (host < tasks % count ? 1 : 0));
  if (!counts_of_hosts.empty())
    reading("SLURM_STEP_TASKS_PER_NODE", [&] { counts = slurm_counts(counts_of_hosts, tasks, hosts.size()); });
  Addresses addresses;
  for (std::size_t host = 0; host < hosts.size(); ++host)
    for (int port = 0; port < counts[host]; ++port)
      addresses.emplace(static_cast<int>(addresses.size()), join(hosts[host], ":", 8888 + port));
  return addresses;
}

}  // namespace

ClusterSpec cluster_of_environment() {
  ClusterJson found;
  if (const std::string config = environment("TF_CONFIG"); !config.empty()) {
    reading("TF_CONFIG", [&] { found = io::rpc::read_tf_config(config); });
    // An evaluator is no part of the cluster that it evaluates.
    if (found.job == "evaluator") found.job.clear();
    return made_of(found, "TF_CONFIG");
  }
  if (const std::string definition = environment("TF_CLUSTER_DEF"); !definition.empty()) {
    reading("TF_CLUSTER_DEF", [&] { found = io::rpc::read_cluster_json(definition); });
    found.job = environment("TF_ROLE");
    if (!found.job.empty()) found.task = number_in_environment("TF_INDEX");
    return made_of(found, "TF_CLUSTER_DEF, TF_ROLE, TF_INDEX");
  }
  if (const std::string nodes = environment("SLURM_STEP_NODELIST"); !nodes.empty()) {
    found.task = number_in_environment("SLURM_PROCID");
    found.jobs.emplace(
        "worker", slurm_tasks(nodes, number_in_environment("SLURM_NTASKS"), environment("SLURM_STEP_TASKS_PER_NODE")));
    found.job = "worker";
    return made_of(found, "SLURM_NTASKS, SLURM_PROCID");
  }
  throw NotFoundError(
      "No launcher has described a cluster: none of TF_CONFIG, TF_CLUSTER_DEF and SLURM_STEP_NODELIST is set");
}

ClusterSpec cluster_of_arguments(int argc, const char* const* argv) {
  std::optional<std::string> cluster, job, task;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i], name = argument.substr(0, argument.find('='));
    std::optional<std::string>* value = name == "--cluster" ? &cluster
                                        : name == "--job"   ? &job
                                        : name == "--task"  ? &task
                                                            : nullptr;
    if (!value) continue;
    if (name.size() < argument.size()) {
      *value = argument.substr(name.size() + 1);
    } else if (++i < argc) {
      *value = argv[i];
    } else {
      throw InvalidArgumentError(join(argument, " needs a value"));
    }
  }
  if (!cluster) throw NotFoundError("There is no argument --cluster");
  ClusterJson found;
  reading("--cluster", [&] {
    for (const std::string_view part : split(*cluster, ';')) {
      const std::size_t equals = part.find('=');
      if (equals == std::string_view::npos)
        throw InvalidArgumentError(join("'", part, "' is not of the form job=host:port,host:port"));
      const auto [tasks, is_new] = found.jobs.try_emplace(std::string(part.substr(0, equals)));
      if (!is_new) throw InvalidArgumentError(join("The cluster has two jobs '", tasks->first, "'"));
      for (const std::string_view each : split(part.substr(equals + 1), ','))
        tasks->second.emplace(static_cast<int>(tasks->second.size()), each);
    }
  });
  if (task && !job) throw InvalidArgumentError("--task needs --job, too");
  if (task) reading("--task", [&] { found.task = task_number(*task); });
  found.job = job.value_or("");
  return made_of(found, "--cluster, --job, --task");
}

}  // namespace tapestry::detail
