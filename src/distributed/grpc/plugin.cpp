// libtapestry_distributed.so: sessions on servers, and servers.

#include <charconv>

#include "core/open_plugin.hpp"
#include "distributed/grpc/grpc_transport.hpp"
#include "distributed/rpc/master.hpp"
#include "distributed/rpc/read_cluster.hpp"
#include "distributed/rpc/remote_session.hpp"
#include "distributed/rpc/sync_replicas.hpp"
#include "distributed/rpc_plugin.hpp"

namespace tapestry::detail {
namespace {

/// Whether an address ends with a port; gRPC would take 65537 for 1, and none for 443.
bool has_port(std::string_view address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  int port = 0;
  const char* last = address.data() + address.size();
  const auto [end, error] = std::from_chars(address.data() + colon + 1, last, port);
  return error == std::errc() && end == last && port >= 1 && port <= 65535;
}

/// The connection to "grpc://host:port", or, encrypted, to "grpcs://host:port".
std::shared_ptr<Channel> connect(std::string_view target) {
  const std::size_t end = target.find("://");
  const std::string_view scheme = target.substr(0, end),
                         address = end == std::string_view::npos ? "" : target.substr(end + 3);
  if ((scheme != "grpc" && scheme != "grpcs") || !has_port(address) || address.find('/') != std::string_view::npos)
    throw InvalidArgumentError(join(
        "The target of a session is \"\" or of the form grpc://host:port or grpcs://host:port, not \"", target, "\""));
  if (scheme == "grpc") return grpc_transport().connect(std::string(address));
  const std::string folder = environment("TAPESTRY_TLS");
  if (folder.empty())
    throw InvalidArgumentError(
        join("The environment variable TAPESTRY_TLS does not tell the folder of the certificates "
             "for ",
             target));
  return grpc_transport(read_keys(Tls::files(folder))).connect(std::string(address));
}

std::unique_ptr<RemoteSession> open_session(std::string_view target, const Graph& graph,
                                            const SessionOptions& options) {
  return make_remote_session(connect(target), target, graph, options);
}

void reset(std::string_view target, const std::vector<std::string>& containers, const SessionOptions& options) {
  reset_containers(*connect(target), target, containers, options);
}

std::shared_ptr<Server::Service> serve(const ClusterSpec& cluster, const ServerOptions& options) {
  if (!options.tls) return make_master(grpc_transport(), "grpc", cluster, options);
  return make_master(grpc_transport(read_keys(options.tls)), "grpcs", cluster, options);
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
    .synchronize = tapestry::detail::synchronize,
};
}
