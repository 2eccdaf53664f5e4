// libtapestry_distributed.so: sessions on servers, and servers.

#include "distributed/grpc/grpc_transport.hpp"
#include "distributed/rpc/master.hpp"
#include "distributed/rpc/read_cluster.hpp"
#include "distributed/rpc/remote_session.hpp"
#include "distributed/rpc_plugin.hpp"

namespace tapestry::detail {
namespace {

/// "host:port" of "grpc://host:port".
std::string address_of(std::string_view target) {
  constexpr std::string_view scheme = "grpc://";
  const std::string_view address = target.starts_with(scheme) ? target.substr(scheme.size()) : "";
  if (address.empty() || address.find(':') == std::string_view::npos || address.find('/') != std::string_view::npos)
    throw InvalidArgumentError(
        join("The target of a session is \"\" or of the form grpc://host:port, not \"", target, "\""));
  return std::string(address);
}

std::unique_ptr<RemoteSession> open_session(std::string_view target, const Graph& graph,
                                            const SessionOptions& options) {
  return make_remote_session(grpc_transport().connect(address_of(target)), target, graph, options);
}

void reset(std::string_view target, const std::vector<std::string>& containers, const SessionOptions& options) {
  reset_containers(*grpc_transport().connect(address_of(target)), target, containers, options);
}

std::shared_ptr<Server::Service> serve(const ClusterSpec& cluster, const ServerOptions& options) {
  return make_master(grpc_transport(), "grpc", cluster, options);
}

}  // namespace
}  // namespace tapestry::detail

extern "C" {
TAPESTRY_API extern const tapestry::detail::RpcPlugin tapestry_rpc_plugin;
const tapestry::detail::RpcPlugin tapestry_rpc_plugin{
    .bytes = sizeof(tapestry::detail::RpcPlugin),
    .layout = tapestry::detail::rpc_layout,
    .version = TAPESTRY_VERSION,
    .library = &tapestry::library_mark,
    .open_session = tapestry::detail::open_session,
    .reset = tapestry::detail::reset,
    .cluster_of_environment = tapestry::detail::cluster_of_environment,
    .cluster_of_arguments = tapestry::detail::cluster_of_arguments,
    .serve = tapestry::detail::serve,
};
}
