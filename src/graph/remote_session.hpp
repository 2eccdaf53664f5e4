#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "graph/specialize.hpp"
#include "tapestry/session.hpp"

namespace tapestry::detail {

/// The session of a graph on a server. Requests name tensors and operations of the graph, as for a run in this process.
class RemoteSession {
 public:
  virtual ~RemoteSession() = default;

  virtual Tensors run(const Request& request, const Tensors& values, const RunOptions& options,
                      RunMetadata* metadata) = 0;

  /// Requests that are made known once and then run many times, or in parts.
  class Prepared {
   public:
    virtual ~Prepared() = default;
    virtual Tensors run(const Request& request, const Tensors& values) = 0;
  };
  /// For runs of this request only.
  virtual std::shared_ptr<Prepared> make_callable(const Request& request) = 0;
  /// For parts of this request.
  virtual std::shared_ptr<Prepared> partial_run(const Request& request) = 0;

  virtual std::vector<DeviceAttributes> list_devices() = 0;
  /// Ends the runs of other threads with CancelledError.
  virtual void close() = 0;
};

// A plugin does both; src/distributed/rpc_loader.cpp opens it. They throw UnavailableError without it, and
// InvalidArgumentError for a target that names no server.

std::unique_ptr<RemoteSession> open_remote_session(std::string_view target, const Graph& graph,
                                                   const SessionOptions& options);
void reset_server(std::string_view target, const std::vector<std::string>& containers, const SessionOptions& options);

}  // namespace tapestry::detail
