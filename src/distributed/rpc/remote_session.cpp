#include "distributed/rpc/remote_session.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <stop_token>
#include <unordered_map>

#include "core/make_tensor.hpp"
#include "distributed/rpc/any_stop.hpp"
#include "distributed/rpc/tasks.hpp"
#include "graph/graph_state.hpp"
#include "io/rpc/messages.hpp"
#include "io/tensorflow/graph_export.hpp"

namespace tapestry::detail {
namespace {

namespace rpc = io::rpc;
using io::TensorDef;

/// What ends one run, which may need several calls: its timeout, its own token, and the end of its session.
class Limits {
 public:
  Limits(std::int64_t timeout_in_ms, const std::stop_source& session, const std::stop_token& run = {})
      : timeout_(timeout_in_ms), begin_(Clock::now()), stop_(session.get_token(), run) {}

  /// For the next call.
  CallOptions options() const {
    if (timeout_ <= 0) return {.timeout_in_ms = 0, .stop = stop_.token()};
    const auto gone = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin_).count();
    return {.timeout_in_ms = std::max<std::int64_t>(1, timeout_ - gone), .stop = stop_.token()};
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::int64_t timeout_;
  Clock::time_point begin_;
  AnyStop stop_;
};

/// The calls of a session to its server.
class Calls {
 public:
  Calls(std::shared_ptr<Channel> channel, std::string_view target) : channel_(std::move(channel)), target_(target) {}

  template <class Response, class Request>
  Response call(std::string_view method, const Request& request, const CallOptions& options) {
    Pieces message = rpc::encode(request);
    // protobuf's limit, beyond which no server of TensorFlow reads.
    constexpr std::size_t most_bytes = (std::size_t{1} << 31) - 1;
    if (message.size() > most_bytes)
      throw InvalidArgumentError(join("A message to ", target_, " may have 2 GiB; this one has ", message.size(),
                                      " bytes of the graph or its feeds"));
    Reply reply;
    try {
      reply = channel_->call(join("/tensorflow.MasterService/", method), std::move(message), options);
    } catch (const UnavailableError& error) {
      throw UnavailableError(join(target_, " cannot be reached: ", error.message()));
    }
    try {
      return rpc::decode<Response>(reply.bytes);
    } catch (const DataLossError&) {
      throw DataLossError(join("The reply of ", target_, " to ", method, " is damaged"));
    }
  }

  const std::string& target() const { return target_; }

 private:
  std::shared_ptr<Channel> channel_;
  std::string target_;
};

/// The operation that an error of the server names as "{{node n}}", or the one in whose scope the server's node is: an
/// operation may be written as several nodes. An empty handle for none.
Operation operation_named_in(const std::string& message, const Graph& graph) {
  constexpr std::string_view before = "{{node ", after = "}}";
  for (std::size_t at = message.find(before); at != std::string::npos; at = message.find(before, at + 1)) {
    const std::size_t begin = at + before.size(), end = message.find(after, begin);
    if (end == std::string::npos) break;
    std::string_view name = std::string_view(message).substr(begin, end - begin);
    while (true) {
      if (graph.has_operation(name)) return graph.get_operation_by_name(name);
      const std::size_t slash = name.rfind('/');
      if (slash == std::string_view::npos) break;
      name = name.substr(0, slash);
    }
  }
  return {};
}

/// The text of an error without the log of the server, which TensorFlow adds.
std::string own_text(const std::string& message) {
  return message.substr(0, message.find("\nRecent warning and error logs:"));
}

class WireSession final : public RemoteSession {
 public:
  WireSession(std::shared_ptr<Channel> channel, std::string_view target, const Graph& graph,
              const SessionOptions& options)
      : calls_(std::move(channel), target), graph_(graph), options_(options) {}
  WireSession(const WireSession&) = delete;
  WireSession& operator=(const WireSession&) = delete;
  ~WireSession() override { close(); }

  Tensors run(const Request& request, const Tensors& values, const RunOptions& options,
              RunMetadata* metadata) override {
    const Limits limits(timeout_of(options), closing_, options.stop);
    rpc::RunStepRequest step = step_of(request, values);
    step.session_handle = updated(limits);
    for (const std::string& each : initializers_for(request)) step.target.push_back(each);
    step.options.trace_level = options.trace_level == TraceLevel::full ? rpc::full_trace : 0;
    step.options.timeout_in_ms = timeout_of(options);
    return run_step(step, request, limits, metadata);
  }

  std::shared_ptr<Prepared> make_callable(const Request& request) override;
  std::shared_ptr<Prepared> partial_run(const Request& request) override;

  std::vector<DeviceAttributes> list_devices() override {
    const Limits limits = limits_of_call();
    const auto response = call<rpc::ListDevicesResponse>(
        "ListDevices", rpc::ListDevicesRequest{.session_handle = updated(limits)}, limits);
    std::vector<DeviceAttributes> list;
    for (const auto* part : {&response.local_device, &response.remote_device})
      for (const rpc::DeviceDef& each : *part)
        list.push_back({each.name, each.device_type, each.memory_limit, each.incarnation.value});
    return list;
  }

  void close() override {
    closing_.request_stop();
    const std::lock_guard lock(mutex_);
    if (const std::string handle = std::exchange(handle_, ""); !handle.empty()) end_session(handle);
  }

  // ---- For callables and partial runs ----

  /// Calls f. An error that names a node gets the node's call site.
  template <class F>
  decltype(auto) locating_node(F f) {
    try {
      return f();
    } catch (Error& error) {
      if (const Operation failed = operation_named_in(error.message(), graph_))
        error.locate(failed.type(), failed.name(), failed.where());
      throw;
    }
  }

  /// Sends what the graph has got since the last call. The handle of the session on the server.
  std::string updated(const Limits& limits);

  /// The names of what is run, and the values that are fed.
  static rpc::RunStepRequest step_of(const Request& request, const Tensors& values) {
    rpc::RunStepRequest step{.store_errors_in_response_body = true, .request_id = new_request_id()};
    for (std::size_t i = 0; i < values.size(); ++i)
      step.feed.push_back({request.feeds[i].name(), {io::code_of(values[i].dtype()), values[i]}});
    step.fetch = names_of(request.fetches);
    for (const Node* each : request.operations) step.target.push_back(each->name());
    return step;
  }

  static std::vector<std::string> names_of(const Tensors& tensors) {
    std::vector<std::string> names;
    for (const Tensor& each : tensors) names.push_back(each.name());
    return names;
  }

  Tensors run_step(const rpc::RunStepRequest& step, const Request& request, const Limits& limits,
                   RunMetadata* metadata = nullptr) {
    auto response = call<rpc::RunStepResponse>("RunStep", step, limits);
    if (response.status_code != 0)
      locating_node([&] { throw_status(response.status_code, own_text(response.status_error_message)); });
    if (metadata) *metadata = metadata_of(response.metadata);
    Tensors results;
    for (const Tensor& fetch : request.fetches) {
      const std::string name = fetch.name();
      const auto found = std::find_if(response.tensor.begin(), response.tensor.end(),
                                      [&](const rpc::NamedTensor& each) { return each.name == name; });
      if (found == response.tensor.end())
        throw DataLossError(join("The reply of ", calls_.target(), " lacks the fetch ", name));
      results.push_back(result_of(fetch, found->tensor));
    }
    return results;
  }

  /// The tensor that the server has computed for a fetch.
  Tensor result_of(const Tensor& fetch, const TensorDef& result) const {
    if (!result.value)
      throw UnimplementedError(
          join("The fetch ", fetch.name(), " is of the type ", io::type_name(result.type), ", which Tapestry lacks"),
          fetch.op().where());
    if ((fetch.dtype() != DType::unknown && fetch.dtype() != result.value.dtype()) ||
        !can_be(fetch.shape(), result.value.shape()))
      throw DataLossError(join("For the fetch ", fetch.name(), " of dtype ", to_string(fetch.dtype()), " and shape ",
                               fetch.shape(), ", ", calls_.target(), " replies dtype ", to_string(result.value.dtype()),
                               " and shape ", result.value.shape()));
    return result.value;
  }

  /// The initializers of Variables from outside the graph, which `global_variables_initializer` runs on a server.
  std::vector<std::string> initializers_for(const Request& request) const {
    const auto& all = graph_.state()->initializes_all;
    const bool runs_all = std::any_of(request.operations.begin(), request.operations.end(),
                                      [&](const Node* each) { return all.contains(each); });
    const std::lock_guard lock(mutex_);
    return runs_all ? initializers_ : std::vector<std::string>();
  }

  template <class Response, class Message>
  Response call(std::string_view method, const Message& message, const Limits& limits) {
    return locating_node([&] { return calls_.call<Response>(method, message, limits.options()); });
  }

  /// Ends something on the server that is no longer used. If that fails, the server will notice by itself.
  template <class Message>
  void release(std::string_view method, const Message& message) noexcept {
    constexpr std::int64_t most_milliseconds = 1000;
    try {
      calls_.call<rpc::Empty>(method, message, {.timeout_in_ms = most_milliseconds});
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
    }
  }

  const SessionOptions& options() const { return options_; }
  Limits limits_of_call() const { return Limits(options_.operation_timeout_in_ms, closing_); }

 private:
  std::int64_t timeout_of(const RunOptions& options) const {
    return options.timeout_in_ms > 0 ? options.timeout_in_ms : options_.operation_timeout_in_ms;
  }

  void end_session(const std::string& handle) noexcept {
    release("CloseSession", rpc::CloseSessionRequest{.session_handle = handle});
  }

  RunMetadata metadata_of(const std::string& bytes) const;

  rpc::SessionConfig config() const {
    return {.device_filters = options_.device_filters,
            .allow_soft_placement = options_.allow_soft_placement,
            .operation_timeout_in_ms = options_.operation_timeout_in_ms,
            .isolate_session_state = options_.isolate_session_state};
  }

  Calls calls_;
  Graph graph_;
  SessionOptions options_;
  std::stop_source closing_;
  mutable std::mutex mutex_;
  std::string handle_;                                 ///< "" before the first call
  std::int64_t server_version_ = 0;                    ///< of the graph on the server
  std::int64_t sent_version_ = -1;                     ///< of our graph, when it was sent
  std::vector<std::string> initializers_;              ///< of Variables from outside the graph
  std::unordered_map<std::string, std::size_t> sent_;  ///< by name: a hash of the node as it was sent
};

std::string WireSession::updated(const Limits& limits) {
  const std::lock_guard lock(mutex_);
  if (closing_.stop_requested()) throw CancelledError("The session was closed");
  const std::int64_t version = graph_.version();
  if (!handle_.empty() && version == sent_version_) return handle_;
  io::ServedGraph served = io::export_for_server(*graph_.state());

  std::unordered_map<std::string, std::size_t> now;
  io::GraphDef added{.nodes = {}, .library = served.file.library, .producer = served.file.producer};
  bool has_changed = false;
  for (const io::NodeDef& each : served.file.nodes) {
    const std::size_t hash = std::hash<std::string>()(io::encode_node(each));
    now.emplace(each.name, hash);
    const auto before = sent_.find(each.name);
    if (before == sent_.end()) added.nodes.push_back(each);
    // The server keeps the first initial value of a Variable from outside the graph.
    has_changed |= before != sent_.end() && before->second != hash && !served.added_values.contains(each.name);
  }
  if (!handle_.empty() && has_changed) {
    // A server cannot change nodes. A new session there has the same Variables.
    end_session(std::exchange(handle_, ""));
    added.nodes = served.file.nodes;
  }
  if (handle_.empty()) {
    const auto response = call<rpc::CreateSessionResponse>(
        "CreateSession",
        rpc::CreateSessionRequest{.graph_def = io::encode(added), .config = config(), .target = calls_.target()},
        limits);
    if (response.session_handle.empty())
      throw DataLossError(join("The reply of ", calls_.target(), " to CreateSession has no handle"));
    handle_ = response.session_handle;
    server_version_ = response.graph_version;
  } else if (!added.nodes.empty()) {
    const auto response = call<rpc::ExtendSessionResponse>(
        "ExtendSession",
        rpc::ExtendSessionRequest{
            .session_handle = handle_, .graph_def = io::encode(added), .current_graph_version = server_version_},
        limits);
    server_version_ = response.new_graph_version;
  }
  sent_ = std::move(now);
  sent_version_ = version;
  initializers_ = std::move(served.added_initializers);
  return handle_;
}

RunMetadata WireSession::metadata_of(const std::string& bytes) const {
  const rpc::StepStats stats = rpc::decode<rpc::StepMetadata>(bytes).step_stats;
  struct Timed {
    ExecutionPlan::Step step;
    RunMetadata::Time time;
  };
  constexpr std::int64_t nanos = 1000;
  std::vector<Timed> all;
  for (const rpc::DeviceStats& device : stats.dev_stats) {
    const std::size_t end = device.device.find("/device:");
    if (end == std::string::npos) continue;  // such as a stream of a GPU, whose steps the GPU itself has, too
    Device place;
    try {
      place = Device(device.device.substr(end));
    } catch (const InvalidArgumentError&) {
      continue;  // a kind of device that this process does not know
    }
    for (const rpc::NodeStats& each : device.node_stats) {
      const std::int64_t begin = each.all_start_nanos > 0 ? each.all_start_nanos + each.op_start_rel_nanos
                                                          : (each.all_start_micros + each.op_start_rel_micros) * nanos;
      const std::int64_t duration = each.op_end_rel_nanos > 0
                                        ? each.op_end_rel_nanos - each.op_start_rel_nanos
                                        : (each.op_end_rel_micros - each.op_start_rel_micros) * nanos;
      // "hidden/MatMul = MatMul(x, w)"
      std::string type = each.timeline_label;
      if (const std::size_t equals = type.find(" = "); equals != std::string::npos) type.erase(0, equals + 3);
      all.push_back({.step = {.name = each.node_name,
                              .type = type.substr(0, type.find('(')),
                              .device = place,
                              .task = device.device.substr(0, end)},
                     .time = {.start = begin,
                              .duration = std::max<std::int64_t>(0, duration),
                              .thread = static_cast<int>(each.thread_id)}});
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Timed& a, const Timed& b) { return a.time.start < b.time.start; });
  RunMetadata metadata{.graph = graph_, .plan = {}, .times = {}, .functions = {}, .start = 0};
  const std::int64_t first = all.empty() ? 0 : all.front().time.start;
  metadata.start = first / nanos;
  for (Timed& each : all) {
    each.time.start -= first;
    metadata.plan.steps.push_back(std::move(each.step));
    metadata.times.push_back(each.time);
  }
  return metadata;
}

/// A function of the server, which is made anew after a change of the graph that needed another session.
class WireCallable final : public RemoteSession::Prepared {
 public:
  explicit WireCallable(WireSession& session) : session_(session) {}
  WireCallable(const WireCallable&) = delete;
  WireCallable& operator=(const WireCallable&) = delete;
  ~WireCallable() override {
    if (!session_handle_.empty())
      session_.release("ReleaseCallable",
                       rpc::ReleaseCallableRequest{.session_handle = session_handle_, .handle = handle_});
  }

  Tensors run(const Request& request, const Tensors& values) override {
    const Limits limits = session_.limits_of_call();
    const std::string session = session_.updated(limits);
    if (session != session_handle_) make(session, request, limits);
    rpc::RunCallableRequest call{.session_handle = session, .handle = handle_, .request_id = new_request_id()};
    for (const Tensor& each : values) call.feed.push_back({io::code_of(each.dtype()), each});
    const auto response = session_.call<rpc::RunCallableResponse>("RunCallable", call, limits);
    if (response.fetch.size() != request.fetches.size())
      throw DataLossError(
          join("The server replies ", response.fetch.size(), " tensors for ", request.fetches.size(), " fetches"));
    Tensors results;
    for (std::size_t i = 0; i < response.fetch.size(); ++i)
      results.push_back(session_.result_of(request.fetches[i], response.fetch[i]));
    return results;
  }

 private:
  void make(const std::string& session, const Request& request, const Limits& limits) {
    rpc::MakeCallableRequest call{.session_handle = session, .request_id = new_request_id()};
    call.options.feed = WireSession::names_of(request.feeds);
    call.options.fetch = WireSession::names_of(request.fetches);
    for (const Node* each : request.operations) call.options.target.push_back(each->name());
    for (const std::string& each : session_.initializers_for(request)) call.options.target.push_back(each);
    call.options.run_options.timeout_in_ms = session_.options().operation_timeout_in_ms;
    handle_ = session_.call<rpc::MakeCallableResponse>("MakeCallable", call, limits).handle;
    session_handle_ = session;
  }

  WireSession& session_;
  std::string session_handle_;  ///< of the session that has made it; "" before the first call
  std::int64_t handle_ = 0;
};

class WirePartialRun final : public RemoteSession::Prepared {
 public:
  WirePartialRun(WireSession& session, const Request& promised) : session_(session) {
    const Limits limits = session_.limits_of_call();
    session_handle_ = session_.updated(limits);
    rpc::PartialRunSetupRequest call{.session_handle = session_handle_, .request_id = new_request_id()};
    call.feed = WireSession::names_of(promised.feeds);
    call.fetch = WireSession::names_of(promised.fetches);
    for (const Node* each : promised.operations) call.target.push_back(each->name());
    handle_ = session_.call<rpc::PartialRunSetupResponse>("PartialRunSetup", call, limits).partial_run_handle;
  }

  Tensors run(const Request& request, const Tensors& values) override {
    const Limits limits = session_.limits_of_call();
    rpc::RunStepRequest step = WireSession::step_of(request, values);
    step.session_handle = session_handle_;
    step.partial_run_handle = handle_;
    return session_.run_step(step, request, limits);
  }

 private:
  WireSession& session_;
  std::string session_handle_, handle_;
};

std::shared_ptr<RemoteSession::Prepared> WireSession::make_callable(const Request& /*request*/) {
  return std::make_shared<WireCallable>(*this);
}

std::shared_ptr<RemoteSession::Prepared> WireSession::partial_run(const Request& request) {
  return std::make_shared<WirePartialRun>(*this, request);
}

}  // namespace

std::unique_ptr<RemoteSession> make_remote_session(std::shared_ptr<Channel> channel, std::string_view target,
                                                   const Graph& graph, const SessionOptions& options) {
  return std::make_unique<WireSession>(std::move(channel), target, graph, options);
}

void reset_containers(Channel& channel, std::string_view target, const std::vector<std::string>& containers,
                      const SessionOptions& options) {
  // The caller owns the channel.
  Calls calls({std::shared_ptr<void>(), &channel}, target);
  calls.call<rpc::Empty>("Reset", rpc::ResetRequest{.container = containers, .device_filters = options.device_filters},
                         {.timeout_in_ms = options.operation_timeout_in_ms});
}

}  // namespace tapestry::detail
