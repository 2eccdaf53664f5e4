// Sessions on servers and servers themselves are in a plugin, which this opens when a program first asks for one.

#include <atomic>

#include "distributed/rpc_plugin.hpp"
#include "tapestry/detail/handle.hpp"
#include "tapestry/detail/locate.hpp"

namespace tapestry {
namespace detail {
namespace {

std::atomic<const RpcPlugin*> opened_plugin = nullptr;

const RpcPlugin& open_rpc_plugin() {
  const auto [plugin, reason] = find_plugin<RpcPlugin>({.file = "libtapestry_distributed.so",
                                                        .what = "gRPC",
                                                        .variable = "TAPESTRY_DISTRIBUTED_PLUGIN",
                                                        .path = environment("TAPESTRY_DISTRIBUTED_PLUGIN")},
                                                       rpc_plugin_symbol, rpc_layout, TAPESTRY_VERSION);
  if (!plugin) throw UnavailableError("Other processes cannot be reached: " + reason);
  return *plugin;
}

}  // namespace

const RpcPlugin& rpc_plugin() {
  if (const RpcPlugin* plugin = opened_plugin) return *plugin;
  const RpcPlugin& plugin = open_rpc_plugin();
  opened_plugin = &plugin;
  return plugin;
}

void set_rpc_plugin(const RpcPlugin& plugin) { opened_plugin = &plugin; }

std::unique_ptr<RemoteSession> open_remote_session(std::string_view target, const Graph& graph,
                                                   const SessionOptions& options) {
  return rpc_plugin().open_session(target, graph, options);
}

void reset_server(std::string_view target, const std::vector<std::string>& containers, const SessionOptions& options) {
  rpc_plugin().reset(target, containers, options);
}

}  // namespace detail

namespace {

/// An address of IPv6 with the brackets that keep it apart from the port.
std::string in_brackets(const std::string& host) {
  return host.find(':') != std::string::npos && host[0] != '[' ? "[" + host + "]" : host;
}

/// The name by which this machine reaches a server that listens at an address.
std::string own_name_of(const std::string& bind) {
  for (const char* usual : {"", "127.0.0.1", "0.0.0.0", "[::]"})
    if (bind == usual) return "localhost";
  return bind;
}

}  // namespace

ClusterSpec ClusterSpec::from_environment(Where where) {
  return detail::locating({}, where, [] { return detail::rpc_plugin().cluster_of_environment(); });
}

ClusterSpec ClusterSpec::from_arguments(int argc, const char* const* argv, Where where) {
  return detail::locating({}, where, [&] { return detail::rpc_plugin().cluster_of_arguments(argc, argv); });
}

Server::Server(const ClusterSpec& cluster, const ServerOptions& options, Where where) {
  detail::locating({}, where, [&] {
    ServerOptions own = options;
    own.bind = in_brackets(own.bind);
    if (own.job.empty()) own.job = cluster.job();
    if (own.job.empty()) throw InvalidArgumentError("Neither the options of the server nor the cluster tell its job");
    if (own.task < 0) own.task = own.job == cluster.job() ? cluster.task() : 0;
    static_cast<void>(cluster.task_address(own.job, own.task, {}));  // throws if there is no such task
    service_ = detail::rpc_plugin().serve(cluster, own);
    target_ = service_->target();
    job_ = own.job;
    task_ = own.task;
  });
}

Server Server::create_local_server(const ServerOptions& options, Where where) {
  ServerOptions own = options;
  if (own.job.empty()) own.job = "localhost";
  own.task = 0;
  const std::string host = own_name_of(in_brackets(own.bind));
  return Server(ClusterSpec({{own.job, {host + ":0"}}}, where), own, where);
}

Server::~Server() {
  if (service_) service_->stop();
}
Server::Server(Server&&) noexcept = default;
Server& Server::operator=(Server&& other) noexcept {
  if (this != &other && service_) service_->stop();
  service_ = std::move(other.service_);
  target_ = std::move(other.target_);
  job_ = std::move(other.job_);
  task_ = other.task_;
  return *this;
}

const std::string& Server::target() const { return target_; }
const std::string& Server::job() const { return job_; }
int Server::task() const { return task_; }
void Server::join() { detail::owned(service_)->wait(); }
void Server::stop() { detail::owned(service_)->stop(); }

}  // namespace tapestry
