#pragma once

#include <string>
#include <string_view>

#include "distributed/rpc/master.hpp"
#include "distributed/rpc/read_cluster.hpp"
#include "distributed/rpc/remote_session.hpp"
#include "distributed/rpc/sync_replicas.hpp"
#include "distributed/rpc_plugin.hpp"

namespace tapestry::test {

inline std::string port_of(std::string_view target) { return std::string(target.substr(target.find("://") + 3)); }

/// The plugin's functions, with memory in the place of gRPC.
inline const detail::RpcPlugin memory_plugin{
    .bytes = sizeof(detail::RpcPlugin),
    .layout = detail::rpc_layout,
    .version = "",
    .library = &library_mark,
    .open_session =
        [](std::string_view target, const Graph& graph, const SessionOptions& options) {
          return detail::make_remote_session(detail::memory_transport().connect(port_of(target)), target, graph,
                                             options);
        },
    .reset =
        [](std::string_view target, const std::vector<std::string>& containers, const SessionOptions& options) {
          detail::reset_containers(*detail::memory_transport().connect(port_of(target)), target, containers, options);
        },
    .cluster_of_environment = detail::cluster_of_environment,
    .cluster_of_arguments = detail::cluster_of_arguments,
    .serve =
        [](const ClusterSpec& cluster, const ServerOptions& options) {
          return detail::make_master(detail::memory_transport(), "memory", cluster, options);
        },
    .synchronize = detail::synchronize,
};
[[maybe_unused]] inline const bool is_set = (detail::set_rpc_plugin(memory_plugin), true);

}  // namespace tapestry::test
