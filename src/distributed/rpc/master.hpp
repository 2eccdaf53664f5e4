#pragma once

#include "distributed/rpc/transport.hpp"
#include "distributed/rpc_plugin.hpp"

namespace tapestry::detail {

/// A server for a task of a cluster, which listens by a transport: TensorFlow's master service. `scheme`: of its
/// target, "grpc".
std::shared_ptr<Server::Service> make_master(Transport& transport, const std::string& scheme,
                                             const ClusterSpec& cluster, const ServerOptions& options);

}  // namespace tapestry::detail
