#pragma once

#include "distributed/rpc/transport.hpp"
#include "graph/remote_session.hpp"

namespace tapestry::detail {

/// A session on the server behind a channel, in the protocol of TensorFlow's master service. `target`: its name for
/// messages, "grpc://host:port".
std::unique_ptr<RemoteSession> make_remote_session(std::shared_ptr<Channel> channel, std::string_view target,
                                                   const Graph& graph, const SessionOptions& options);
/// Removes the Variables of containers from the server.
void reset_containers(Channel& channel, std::string_view target, const std::vector<std::string>& containers,
                      const SessionOptions& options);

}  // namespace tapestry::detail
