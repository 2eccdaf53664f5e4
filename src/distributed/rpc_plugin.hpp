#pragma once

#include <cstdint>

#include "core/open_plugin.hpp"
#include "graph/remote_session.hpp"
#include "tapestry/distributed/server.hpp"
#include "tapestry/distributed/sync_replicas.hpp"

namespace tapestry {

/// A server that listens.
class Server::Service {
 public:
  virtual ~Service() = default;
  virtual std::string target() const = 0;
  /// Waits until it was stopped.
  virtual void wait() = 0;
  virtual void stop() = 0;
};

namespace detail {

/// Of a synchronous step: how many gradients make it, and how many workers wait for it.
struct SyncCounts {
  int gradients, tokens;
  Where where;
};

/// libtapestry_distributed.so exports this as the C symbol `tapestry_rpc_plugin`. The first members are as in every
/// plugin (see `mismatch`).
struct RpcPlugin {
  std::uint32_t bytes;   ///< of this structure
  std::uint32_t layout;  ///< `rpc_layout` of the plugin
  const char* version;   ///< the version of Tapestry that it belongs to
  const void* library;   ///< `library_mark` of the library that it is linked with
  std::unique_ptr<RemoteSession> (*open_session)(std::string_view target, const Graph& graph,
                                                 const SessionOptions& options);
  void (*reset)(std::string_view target, const std::vector<std::string>& containers, const SessionOptions& options);
  ClusterSpec (*cluster_of_environment)();
  ClusterSpec (*cluster_of_arguments)(int argc, const char* const* argv);
  std::shared_ptr<Server::Service> (*serve)(const ClusterSpec& cluster, const ServerOptions& options);
  train::SyncReplicasOptimizer::Operations (*synchronize)(train::Optimizer& optimizer,
                                                          const train::GradientsAndVariables& gradients,
                                                          const train::ApplyOptions& options, const SyncCounts& counts);
};
inline constexpr const char* rpc_plugin_symbol = "tapestry_rpc_plugin";

/// Differs as soon as one of the structures that the library and the plugin share has another size.
inline constexpr std::uint32_t rpc_layout = [] {
  std::uint32_t sum = 0;
  for (const std::size_t bytes : {sizeof(TensorImpl), sizeof(Request), sizeof(Node), sizeof(GraphState), sizeof(Error),
                                  sizeof(SessionOptions), sizeof(ServerOptions), sizeof(RunMetadata)})
    sum = sum * 31 + static_cast<std::uint32_t>(bytes);
  return sum;
}();

/// The plugin, which is opened at the first call. Throws UnavailableError without it.
const RpcPlugin& rpc_plugin();
/// For programs that contain the plugin's code, such as tests: sets what `rpc_plugin` returns.
void set_rpc_plugin(const RpcPlugin& plugin);

}  // namespace detail
}  // namespace tapestry
