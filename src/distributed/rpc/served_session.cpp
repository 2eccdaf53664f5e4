#include "distributed/rpc/served_session.hpp"

#include <algorithm>

#include "distributed/rpc/any_stop.hpp"
#include "io/events/run_metadata.hpp"

namespace tapestry::detail {
namespace {

namespace rpc = io::rpc;
using io::TensorDef;

/// A client can keep so many callables and partial runs at a time.
constexpr std::size_t most_handles = 10'000;

void require_room(std::size_t handles, std::string_view what) {
  if (handles >= most_handles)
    throw ResourceExhaustedError(join("The session has ", handles, " ", what, ", which is the most that it may have"));
}

/// What TensorFlow says of a fetch or a target that the graph lacks.
void require_node(const Graph& graph, const std::string& name, std::string_view list) {
  if (!graph.has_operation(name.substr(0, name.find(':'))))
    throw NotFoundError(join(list, " node ", name, ": not found"));
}

/// The names of a run as fetches: those of tensors first. A name without an output is that of output 0.
std::vector<Fetch> fetches_of(const Graph& graph, const std::vector<std::string>& tensors,
                              const std::vector<std::string>& operations) {
  std::vector<Fetch> list;
  for (const std::string& each : tensors) {
    require_node(graph, each, "FetchOutputs");
    list.emplace_back(each.find(':') == std::string::npos ? each + ":0" : each);
  }
  for (const std::string& each : operations) {
    require_node(graph, each, "TargetNodes");
    list.emplace_back(each.substr(0, each.find(':')));
  }
  return list;
}

Tensor fed_tensor(const Graph& graph, const std::string& name) {
  require_node(graph, name, "FeedInputs");
  return graph.get_tensor_by_name(name.find(':') == std::string::npos ? name + ":0" : name, {});
}

/// The value of a feed. What repeats one element gets memory for all of them.
Tensor value_of(const std::string& name, const TensorDef& tensor) {
  if (!tensor.value)
    throw UnimplementedError(
        join("Tensor ", name, " is fed with the type ", io::type_name(tensor.type), ", which Tapestry lacks"));
  return tensor.value.contiguous();
}

TensorDef definition_of(const Tensor& value) { return {io::code_of(value.dtype()), value}; }

}  // namespace

ServedSession::ServedSession(io::GraphDef graph, std::shared_ptr<io::VariableTable> variables,
                             const ServerOptions& options)
    : variables_(std::move(variables)), graph_(options.graph) {
  graph_.extend(std::move(graph));
}

Spec ServedSession::spec_of(const std::string& tensor) { return fed_tensor(session()->graph(), tensor).spec(); }

io::GraphDef ServedSession::graph_def() const {
  const std::lock_guard lock(mutex_);
  return graph_.file();
}

ServedSession::Clock::time_point ServedSession::last_use() const {
  const std::lock_guard lock(mutex_);
  return last_use_;
}

void ServedSession::note_use() {
  const std::lock_guard lock(mutex_);
  last_use_ = Clock::now();
}

std::int64_t ServedSession::extend(std::string_view graph_def, std::int64_t current) {
  const std::lock_guard lock(mutex_);
  last_use_ = Clock::now();
  if (current != version_)
    throw AbortedError(join("Current version is ", version_, " but caller expected ", current, "."));
  graph_.extend(graph_def);
  session_.reset();
  known_runs_.clear();
  return ++version_;
}

std::shared_ptr<const Session> ServedSession::session() {
  const std::lock_guard lock(mutex_);
  last_use_ = Clock::now();
  // The functions of a graph name tasks, too, which this process cannot tell apart.
  if (!session_)
    session_ = std::make_shared<const Session>(graph_.read(variables_), SessionOptions{.allow_soft_placement = true});
  return session_;
}

// ---- Runs -----------------------------------------------------------------------------------------------------------

std::string ServedSession::text_of_names(const rpc::RunStepRequest& request) {
  std::string text;
  const auto add_number = [&](std::size_t number) {
    text.append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  // With their lengths, because names may have any characters.
  const auto add = [&](const std::string& name) {
    add_number(name.size());
    text += name;
  };
  add_number(request.feed.size());
  for (const rpc::NamedTensor& each : request.feed) add(each.name);
  add_number(request.fetch.size());
  for (const std::string& each : request.fetch) add(each);
  for (const std::string& each : request.target) add(each);
  return text;
}

/// A run of names that were resolved before.
struct ServedSession::KnownRun {
  explicit KnownRun(Session::Callable of) : callable(std::move(of)) {}

  const Session::Callable callable;
  std::mutex mutex{};  ///< of who calls it
};

std::shared_ptr<ServedSession::KnownRun> ServedSession::known_run(const Session& session,
                                                                  const rpc::RunStepRequest& request,
                                                                  const std::string& names) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = known_runs_.find(names);
    if (found != known_runs_.end() && session_.get() == &session) return found->second;
  }
  const Graph graph = session.graph();
  std::vector<Tensor> feeds;
  for (const rpc::NamedTensor& each : request.feed) {
    const Tensor feed = fed_tensor(graph, each.name);
    if (std::any_of(feeds.begin(), feeds.end(), [&](const Tensor& other) { return other.is(feed); }))
      throw InvalidArgumentError(join("Endpoint \"", feed.name(), "\" fed more than once."));
    feeds.push_back(feed);
  }
  auto made =
      std::make_shared<KnownRun>(session.make_callable(fetches_of(graph, request.fetch, request.target), feeds));
  constexpr std::size_t most = 1000;
  const std::lock_guard lock(mutex_);
  if (session_.get() != &session) return made;
  if (known_runs_.size() >= most) known_runs_.clear();
  return known_runs_.try_emplace(names, std::move(made)).first->second;
}

rpc::RunStepResponse ServedSession::run_here(const rpc::RunStepRequest& request, const std::string& names,
                                             std::stop_token stop) {
  const AnyStop any(closing_.get_token(), std::move(stop));
  rpc::RunStepResponse response;
  std::vector<Tensor> values;
  const std::shared_ptr<const Session> session = this->session();
  const auto feeds = [&] {
    Feeds list;
    for (const rpc::NamedTensor& each : request.feed)
      list.add(fed_tensor(session->graph(), each.name), value_of(each.name, each.tensor));
    return list;
  };
  const auto fetches = [&] { return fetches_of(session->graph(), request.fetch, request.target); };
  const RunOptions options{
      .trace_level = request.options.trace_level == rpc::full_trace ? TraceLevel::full : TraceLevel::none,
      .timeout_in_ms = request.options.timeout_in_ms,
      .stop = any.token()};
  if (!request.partial_run_handle.empty()) {
    values = partial_run(request.partial_run_handle).run_all(fetches(), feeds(), {});
  } else if (options.trace_level == TraceLevel::full) {
    RunMetadata metadata;
    values = session->run_all(fetches(), feeds(), options, &metadata, {});
    response.metadata = io::encode(metadata);
  } else {
    const std::shared_ptr<KnownRun> known = known_run(*session, request, names);
    std::vector<Value> fed;
    for (const rpc::NamedTensor& each : request.feed) fed.push_back(value_of(each.name, each.tensor));
    // Another call of the same names may run for long, and this one may have a time.
    if (const std::unique_lock turn(known->mutex, std::try_to_lock); turn) {
      const Tensors list = known->callable.call(fed, options, {});
      values.assign(list.begin(), list.end());
    } else {
      values = session->run_all(fetches(), feeds(), options, nullptr, {});
    }
  }
  for (std::size_t i = 0; i < request.fetch.size(); ++i)
    response.tensor.push_back({request.fetch[i], definition_of(values[i])});
  return response;
}

std::string ServedSession::set_up_partial_run(const rpc::PartialRunSetupRequest& request) {
  const std::shared_ptr<const Session> session = this->session();
  std::vector<Tensor> feeds;
  for (const std::string& each : request.feed) feeds.push_back(fed_tensor(session->graph(), each));
  auto run = std::make_shared<Session::PartialRun>(
      session->partial_run_setup(fetches_of(session->graph(), request.fetch, request.target), feeds, {}));
  const std::lock_guard lock(mutex_);
  require_room(partial_runs_.size(), "partial runs");
  return partial_runs_.emplace(std::to_string(next_handle_++), std::move(run)).first->first;
}

Session::PartialRun& ServedSession::partial_run(const std::string& handle) {
  const std::lock_guard lock(mutex_);
  const auto found = partial_runs_.find(handle);
  if (found == partial_runs_.end()) throw InvalidArgumentError("Must run 'setup' before performing partial runs!");
  return *found->second;
}

std::int64_t ServedSession::make_callable(const rpc::CallableOptions& options) {
  const Graph graph = session()->graph();
  for (const std::string& each : options.feed) static_cast<void>(fed_tensor(graph, each));
  static_cast<void>(fetches_of(graph, options.fetch, options.target));
  const std::lock_guard lock(mutex_);
  require_room(callables_.size(), "callables");
  callables_.emplace(next_handle_, options);
  return next_handle_++;
}

rpc::RunCallableResponse ServedSession::run_callable(const rpc::RunCallableRequest& request, std::stop_token stop) {
  rpc::RunStepRequest step;
  {
    const std::lock_guard lock(mutex_);
    const auto found = callables_.find(request.handle);
    if (found == callables_.end()) throw InvalidArgumentError(join("No such callable handle: ", request.handle));
    const rpc::CallableOptions& options = found->second;
    if (request.feed.size() != options.feed.size())
      throw InvalidArgumentError(
          join("Expected ", options.feed.size(), " feed tensors, but got ", request.feed.size()));
    for (std::size_t i = 0; i < options.feed.size(); ++i) step.feed.push_back({options.feed[i], request.feed[i]});
    step.fetch = options.fetch;
    step.target = options.target;
    step.options = options.run_options;
  }
  rpc::RunStepResponse results = run(step, std::move(stop));
  rpc::RunCallableResponse response{.metadata = std::move(results.metadata)};
  for (rpc::NamedTensor& each : results.tensor) response.fetch.push_back(std::move(each.tensor));
  return response;
}

void ServedSession::release_callable(std::int64_t handle) {
  const std::lock_guard lock(mutex_);
  if (callables_.erase(handle) == 0) throw InvalidArgumentError(join("No such callable handle: ", handle));
}

}  // namespace tapestry::detail
