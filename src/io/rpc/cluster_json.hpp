#pragma once

#include <map>
#include <string>

namespace tapestry::io::rpc {

/// A cluster as launchers describe it.
struct ClusterJson {
  std::map<std::string, std::map<int, std::string>> jobs{};  ///< by job and task: the address
  std::string job{};                                         ///< of this process; "" if the text does not tell
  int task = 0;
};

/// The value of TF_CONFIG, and a cluster alone: {"ps": ["host:port"], "worker": {"1": "host:port"}}. They throw
/// InvalidArgumentError for other texts.
/// @{
ClusterJson read_tf_config(const std::string& text);
ClusterJson read_cluster_json(const std::string& text);
/// @}

}  // namespace tapestry::io::rpc
