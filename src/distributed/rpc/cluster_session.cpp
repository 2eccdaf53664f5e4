#include "distributed/rpc/cluster_session.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <set>

#include "distributed/rpc/any_stop.hpp"

namespace tapestry::detail {
namespace {

namespace rpc = io::rpc;

bool has_loops(const io::GraphDef& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const io::NodeDef& each) { return each.op == "Enter" || each.op == "Switch"; });
}

/// Of the handles of partial runs over several tasks; those of others are numbers.
constexpr std::string_view partial_prefix = "step ";

std::string full_name(const std::string& tensor) { return rpc::edge_of(tensor).tensor(); }

}  // namespace

bool is_allowed(const std::string& task, const std::vector<std::string>& filters) {
  if (filters.empty()) return true;
  return std::any_of(filters.begin(), filters.end(), [&](std::string filter) {
    if (const std::size_t replica = filter.find("/replica:0"); replica != std::string::npos) filter.erase(replica, 10);
    std::string own = task;
    own.erase(own.find("/replica:0"), 10);
    return own == filter || own.starts_with(filter + "/");
  });
}

ClusterSession::ClusterSession(io::GraphDef graph, const rpc::SessionConfig& config, std::shared_ptr<TaskState> state,
                               const ServerOptions& options, Place place)
    : ServedSession(std::move(graph), state, options),
      config_(config),
      state_(std::move(state)),
      options_(options),
      place_(std::move(place)) {
  for (const std::string& each : place_.tasks.names())
    if (each == place_.task || is_allowed(each, config_.device_filters)) tasks_.push_back(each);
}

ClusterSession::~ClusterSession() { ClusterSession::close(); }

void ClusterSession::close() {
  ServedSession::close();
  std::map<std::string, std::shared_ptr<PartialRun>> open;
  {
    const std::lock_guard lock(planning_);
    if (std::exchange(ended_, true)) return;
    open.swap(partial_runs_);
  }
  for (const auto& [handle, partial] : open) {
    try {
      end_partially(*partial, std::make_exception_ptr(CancelledError("The session was closed")));
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the error says only that the session was closed
    }
  }
  const std::lock_guard lock(planning_);
  for (const auto& [task, devices] : known_) {
    const rpc::DeleteWorkerSessionRequest request{.session_handle = place_.handle};
    if (task == place_.task) {
      place_.worker.delete_session(request);
      continue;
    }
    // A task that does not hear of it ends the session by itself, later.
    constexpr std::int64_t most_milliseconds = 1000;
    begin_call<rpc::Empty>(place_.tasks, task, "DeleteWorkerSession", request, {.timeout_in_ms = most_milliseconds},
                           [](const rpc::Empty&, const std::exception_ptr&) {});
  }
}

// ---- Plans ----------------------------------------------------------------------------------------------------------

const std::vector<rpc::DeviceDef>& ClusterSession::devices_of(const std::string& task, const std::stop_token& stop) {
  if (const auto found = known_.find(task); found != known_.end()) return found->second;
  if (task == place_.task) {
    place_.worker.create_session(place_.handle, state_);
    return known_.emplace(task, place_.devices).first->second;
  }
  std::mutex waiting;
  std::condition_variable_any stopped;
  while (true) {
    try {
      auto status = call_worker<rpc::GetStatusResponse>(place_.tasks, task, "GetStatus", rpc::Empty{}, {.stop = stop});
      const std::size_t at = task.find("/replica");
      const std::string job = task.substr(5, at - 5);
      call_worker<rpc::Empty>(
          place_.tasks, task, "CreateWorkerSession",
          rpc::CreateWorkerSessionRequest{.session_handle = place_.handle,
                                          .server_def = {.job_name = job,
                                                         .task_index = std::stoi(task.substr(task.rfind(':') + 1)),
                                                         .protocol = "grpc"},
                                          .isolate_session_state = config_.isolate_session_state},
          {.stop = stop});
      return known_.emplace(task, std::move(status.device_attributes)).first->second;
    } catch (const UnavailableError&) {
      // The tasks of a cluster start in any order. As in TensorFlow, the client's deadline ends the waiting.
      constexpr auto pause = std::chrono::milliseconds(100);
      std::unique_lock lock(waiting);
      stopped.wait_for(lock, stop, pause, [] { return false; });
      if (stop.stop_requested()) throw;
    }
  }
}

std::vector<rpc::DeviceDef> ClusterSession::remote_devices(const std::stop_token& stop) {
  const AnyStop any(closing(), stop);
  const std::lock_guard lock(planning_);
  if (ended_) throw CancelledError("The session was closed");
  std::vector<rpc::DeviceDef> devices;
  for (const std::string& task : tasks_) {
    if (task == place_.task) continue;
    const std::vector<rpc::DeviceDef>& of_task = devices_of(task, any.token());
    devices.insert(devices.end(), of_task.begin(), of_task.end());
  }
  return devices;
}

std::shared_ptr<const ClusterSession::Plan> ClusterSession::plan_for(const rpc::RunNames& names,
                                                                     const std::stop_token& stop) {
  std::vector<std::string> key;
  for (const auto* part : {&names.feeds, &names.fetches, &names.targets}) {
    std::vector<std::string> sorted = *part;
    std::sort(sorted.begin(), sorted.end());
    key.insert(key.end(), sorted.begin(), sorted.end());
    key.emplace_back();
  }
  const std::lock_guard lock(planning_);
  if (ended_) throw CancelledError("The session was closed");
  if (const auto found = plans_.find(key); found != plans_.end()) return found->second;
  auto plan = make_plan(names, stop);
  plans_.emplace(std::move(key), plan);
  return plan;
}

std::shared_ptr<const ClusterSession::Plan> ClusterSession::plan_for(const std::string& text,
                                                                     const rpc::RunStepRequest& request,
                                                                     const std::stop_token& stop) {
  {
    const std::lock_guard lock(planning_);
    if (ended_) throw CancelledError("The session was closed");
    if (const auto found = known_plans_.find(text); found != known_plans_.end()) return found->second;
  }
  const AnyStop any(closing(), stop);
  auto plan = plan_for(names_of(request), any.token());
  constexpr std::size_t most = 1000;
  const std::lock_guard lock(planning_);
  if (known_plans_.size() >= most) known_plans_.clear();
  known_plans_.emplace(text, plan);
  return plan;
}

std::shared_ptr<const ClusterSession::Plan> ClusterSession::make_plan(const rpc::RunNames& names,
                                                                      const std::stop_token& stop) {
  auto plan = std::make_shared<Plan>();
  const io::GraphDef graph = graph_def();
  const rpc::PlacedGraph placed = rpc::place_on_tasks(graph, names, place_.task, tasks_);
  if (placed.is_all_at(place_.task) && !placed.uses_resources()) {
    if (!config_.allow_soft_placement) rpc::require_devices(placed, place_.devices);
    return plan;
  }
  // Reads the graph for its types and shapes only: most of its Variables are elsewhere.
  ServedSession types(graph, std::make_shared<io::VariableTable>("", std::numeric_limits<std::int64_t>::max()),
                      options_);
  const std::vector<rpc::TaskPart> parts =
      rpc::cut(placed, names,
               {.own = place_.task,
                .devices_of = [&](const std::string& task) { return devices_of(task, stop); },
                .spec_of = [&](const std::string& tensor) { return types.spec_of(tensor); },
                .allow_soft_placement = config_.allow_soft_placement});
  for (const rpc::TaskPart& each : parts) {
    const rpc::RegisterGraphRequest request{.session_handle = place_.handle,
                                            .graph_def = io::encode(each.graph),
                                            .has_control_flow = has_loops(each.graph),
                                            .create_worker_session_called = true};
    const auto response = each.task == place_.task
                              ? place_.worker.register_graph(request)
                              : call_worker<rpc::RegisterGraphResponse>(place_.tasks, each.task, "RegisterGraph",
                                                                        request, {.stop = stop});
    plan->parts.push_back({each.task, response.graph_handle});
  }
  return plan;
}

// ---- Runs -----------------------------------------------------------------------------------------------------------

/// A run, until the last of its parts has ended.
struct ClusterSession::Step {
  Step(std::shared_ptr<const Plan> of, bool is_traced, std::stop_token a, std::stop_token b)
      : plan(std::move(of)), trace(is_traced), given(std::move(a), std::move(b)) {}

  const std::shared_ptr<const Plan> plan;
  const bool trace;
  const std::int64_t id = new_request_id() & ((std::int64_t{1} << 56) - 1);
  std::mutex mutex{};
  std::condition_variable changed{};
  std::size_t running = 0;
  std::exception_ptr error{};
  rpc::StepStats stats{};
  std::stop_source failed{};
  const AnyStop given, any{failed.get_token(), given.token()};

  void begin() {
    const std::lock_guard lock(mutex);
    ++running;
  }
  void end(rpc::RunGraphResponse response) {
    const std::lock_guard lock(mutex);
    for (rpc::DeviceStats& each : response.step_stats.dev_stats) stats.dev_stats.push_back(std::move(each));
    --running;
    changed.notify_all();
  }
  /// The first error is the reason of the others.
  void fail(const std::exception_ptr& reason) {
    {
      const std::lock_guard lock(mutex);
      if (!error) error = reason;
      --running;
      changed.notify_all();
    }
    failed.request_stop();
  }
};

rpc::RunStepResponse ClusterSession::run(const rpc::RunStepRequest& request, std::stop_token stop) {
  if (request.partial_run_handle.starts_with(partial_prefix)) {
    note_use();
    return run_partially(*find_partial_run(request.partial_run_handle), request, stop);
  }
  if (!request.partial_run_handle.empty()) return ServedSession::run_here(request, "", std::move(stop));
  const std::string text = text_of_names(request);
  const std::shared_ptr<const Plan> plan = plan_for(text, request, stop);
  if (plan->parts.empty()) return ServedSession::run_here(request, text, std::move(stop));
  const rpc::RunNames names = names_of(request);
  note_use();
  const auto step =
      std::make_shared<Step>(plan, request.options.trace_level == rpc::full_trace, closing(), std::move(stop));
  begin_elsewhere(step);
  std::map<std::string, io::TensorDef> values = run_here(step, names, request);
  end_step(*step);
  rpc::RunStepResponse results;
  for (std::size_t i = 0; i < names.feeds.size(); ++i) values.try_emplace(names.feeds[i], request.feed[i].tensor);
  for (std::size_t i = 0; i < request.fetch.size(); ++i)
    results.tensor.push_back({request.fetch[i], values.at(names.fetches[i])});
  if (step->trace) results.metadata = rpc::encode(rpc::StepMetadata{.step_stats = std::move(step->stats)}).joined();
  return results;
}

rpc::RunNames ClusterSession::names_of(const rpc::RunStepRequest& request) {
  rpc::RunNames names{.targets = request.target};
  for (const rpc::NamedTensor& each : request.feed) names.feeds.push_back(full_name(each.name));
  for (const std::string& each : request.fetch) names.fetches.push_back(full_name(each));
  return names;
}

rpc::RunGraphRequest ClusterSession::request_for(const Step& step, const Part& part) const {
  return {.graph_handle = part.handle,
          .step_id = step.id,
          .exec_opts = {.record_timeline = step.trace},
          .session_handle = place_.handle,
          .store_errors_in_response_body = true,
          .create_worker_session_called = true,
          .request_id = new_request_id()};
}

const ClusterSession::Part* ClusterSession::own_part(const Step& step) const {
  const std::vector<Part>& parts = step.plan->parts;
  const auto own = std::find_if(parts.begin(), parts.end(), [&](const Part& each) { return each.task == place_.task; });
  return own == parts.end() ? nullptr : &*own;
}

void ClusterSession::begin_elsewhere(const std::shared_ptr<Step>& step) {
  for (const Part& part : step->plan->parts) {
    if (part.task == place_.task) continue;
    step->begin();
    begin_call<rpc::RunGraphResponse>(place_.tasks, part.task, "RunGraph", request_for(*step, part),
                                      {.stop = step->any.token()},
                                      [step](rpc::RunGraphResponse response, std::exception_ptr error) {
                                        try {
                                          if (error) std::rethrow_exception(error);
                                          if (response.status_code != 0)
                                            throw_status(response.status_code, response.status_error_message);
                                        } catch (const Error&) {
                                          return step->fail(std::current_exception());
                                        }
                                        step->end(std::move(response));
                                      });
  }
}

std::map<std::string, io::TensorDef> ClusterSession::run_here(const std::shared_ptr<Step>& step,
                                                              const rpc::RunNames& names,
                                                              const rpc::RunStepRequest& request) {
  std::map<std::string, io::TensorDef> fetched;
  const Part* own = own_part(*step);
  if (!own) return fetched;
  step->begin();
  try {
    rpc::RunGraphRequest local = request_for(*step, *own);
    for (std::size_t i = 0; i < names.feeds.size(); ++i) local.send.push_back({names.feeds[i], request.feed[i].tensor});
    for (const std::string& each : names.fetches)
      if (std::find(names.feeds.begin(), names.feeds.end(), each) == names.feeds.end()) local.recv_key.push_back(each);
    rpc::RunGraphResponse response = place_.worker.run_graph(local, step->any.token());
    for (rpc::NamedTensor& each : response.recv) fetched.insert_or_assign(each.name, std::move(each.tensor));
    step->end(std::move(response));
  } catch (const Error&) {
    step->fail(std::current_exception());
  }
  return fetched;
}

void ClusterSession::end_step(Step& step) {
  {
    std::unique_lock lock(step.mutex);
    step.changed.wait(lock, [&] { return step.running == 0; });
  }
  if (step.error) place_.worker.abort(step.id, step.error);
  for (const Part& part : step.plan->parts) {
    const rpc::CleanupGraphRequest cleanup{.step_id = step.id};
    if (part.task == place_.task) {
      place_.worker.cleanup_graph(cleanup);
      continue;
    }
    constexpr std::int64_t most_milliseconds = 1000;  // the task forgets old steps by itself
    begin_call<rpc::Empty>(place_.tasks, part.task, "CleanupGraph", cleanup, {.timeout_in_ms = most_milliseconds},
                           [](const rpc::Empty&, const std::exception_ptr&) {});
  }
  if (step.error) std::rethrow_exception(step.error);
}

// ---- Runs in several parts ------------------------------------------------------------------------------------------

/// A step that stays open: the parts at other tasks run as in any other step, and wait for what this one sends.
struct ClusterSession::PartialRun {
  std::string handle{};
  rpc::RunNames promised{};
  std::shared_ptr<Step> step{};
  std::mutex mutex{};  ///< one part at a time
  std::map<std::string, io::TensorDef> fed{};
  std::set<std::string> fetched{}, run{};

  bool is_complete() const {
    const auto all_in = [](const std::vector<std::string>& names, const auto& set) {
      return std::all_of(names.begin(), names.end(), [&](const std::string& each) { return set.contains(each); });
    };
    return all_in(promised.feeds, fed) && all_in(promised.fetches, fetched) && all_in(promised.targets, run);
  }
};

std::string ClusterSession::set_up_partial_run(const rpc::PartialRunSetupRequest& request) {
  rpc::RunNames names{.targets = request.target};
  for (const std::string& each : request.feed) names.feeds.push_back(full_name(each));
  for (const std::string& each : request.fetch) names.fetches.push_back(full_name(each));
  const std::shared_ptr<const Plan> plan = plan_for(names, closing());
  if (plan->parts.empty()) return ServedSession::set_up_partial_run(request);
  const auto partial = std::make_shared<PartialRun>();
  partial->handle = join(partial_prefix, new_request_id());
  partial->promised = std::move(names);
  partial->step = std::make_shared<Step>(plan, false, closing(), std::stop_token());
  const std::lock_guard one_part(partial->mutex);
  {
    const std::lock_guard lock(planning_);
    if (ended_) throw CancelledError("The session was closed");
    partial_runs_.emplace(partial->handle, partial);
  }
  try {
    place_.open_runs.add(partial->handle, [session = weak_from_this(), handle = partial->handle] {
      const std::shared_ptr<ClusterSession> owner = session.lock();
      return !owner || owner->give_up(handle);
    });
  } catch (const Error&) {
    const std::lock_guard lock(planning_);
    partial_runs_.erase(partial->handle);
    throw;
  }
  begin_elsewhere(partial->step);
  try {
    exchange(*partial, {}, {});
  } catch (const Error&) {
    end_partially(*partial, std::current_exception());
  }
  return partial->handle;
}

std::shared_ptr<ClusterSession::PartialRun> ClusterSession::find_partial_run(const std::string& handle) {
  const std::lock_guard lock(planning_);
  const auto found = partial_runs_.find(handle);
  if (found == partial_runs_.end())
    throw InvalidArgumentError(
        "Must run 'setup' before performing partial runs! This one has ended: by its last part, an error, or because "
        "it was the one that was not used for longest when the server had too many open.");
  return found->second;
}

rpc::RunGraphResponse ClusterSession::exchange(PartialRun& partial, rpc::RunGraphRequest tensors,
                                               const std::stop_token& stop) {
  const Part* own = own_part(*partial.step);
  if (!own) return {};
  rpc::RunGraphRequest request = request_for(*partial.step, *own);
  request.is_partial = true;
  request.is_last_partial_run = tensors.is_last_partial_run;
  request.send = std::move(tensors.send);
  request.recv_key = std::move(tensors.recv_key);
  const AnyStop any(partial.step->any.token(), stop);
  return place_.worker.run_graph(request, any.token());
}

void ClusterSession::end_partially(PartialRun& partial, const std::exception_ptr& error) {
  {
    const std::lock_guard lock(planning_);
    partial_runs_.erase(partial.handle);
  }
  place_.open_runs.remove(partial.handle);
  if (error) {
    partial.step->begin();
    partial.step->fail(error);
  }
  end_step(*partial.step);
}

bool ClusterSession::give_up(const std::string& handle) {
  try {
    const std::shared_ptr<PartialRun> partial = find_partial_run(handle);
    const std::unique_lock one_part(partial->mutex, std::try_to_lock);
    if (!one_part) return false;
    end_partially(*partial, std::make_exception_ptr(CancelledError("The server has too many open partial runs")));
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the error says only that the run has ended
  }
  return true;
}

void ClusterSession::check_part(const PartialRun& partial, const rpc::RunNames& part) const {
  const auto require_promised = [](std::string_view what, const std::string& name,
                                   const std::vector<std::string>& promised, bool is_over) {
    if (std::find(promised.begin(), promised.end(), name) == promised.end())
      throw InvalidArgumentError(join("The ", what, " ", name, " was not specified in partial_run_setup."));
    if (is_over) throw InvalidArgumentError(join("The ", what, " ", name, " had already been ", what, "ed."));
  };
  std::set<std::string> open(partial.promised.feeds.begin(), partial.promised.feeds.end());
  for (const auto& [name, value] : partial.fed) open.erase(name);
  for (const std::string& each : part.feeds) {
    require_promised("feed", each, partial.promised.feeds, partial.fed.contains(each));
    open.erase(each);
  }
  const io::GraphDef graph = graph_def();
  std::map<std::string_view, const io::NodeDef*> nodes;
  for (const io::NodeDef& each : graph.nodes) nodes.emplace(each.name, &each);
  for (const std::string& each : part.fetches) {
    require_promised("fetch", each, partial.promised.fetches, partial.fetched.contains(each));
    // What waits for a feed that is missing would wait for ever.
    std::set<std::string> seen;
    std::vector<std::string> pending{each};
    while (!pending.empty()) {
      const rpc::Edge edge = rpc::edge_of(pending.back());
      pending.pop_back();
      if (!edge.is_control && open.contains(edge.tensor()))
        throw InvalidArgumentError(join("Placeholder '", edge.node,
                                        "' is needed for what is fetched, and has not been "
                                        "fed so far."));
      const bool is_fed = std::find(part.feeds.begin(), part.feeds.end(), edge.tensor()) != part.feeds.end() ||
                          partial.fed.contains(edge.tensor());
      const auto node = nodes.find(edge.node);
      if (is_fed || node == nodes.end() || !seen.insert(edge.node).second) continue;
      pending.insert(pending.end(), node->second->inputs.begin(), node->second->inputs.end());
    }
  }
}

rpc::RunStepResponse ClusterSession::run_partially(PartialRun& partial, const rpc::RunStepRequest& request,
                                                   const std::stop_token& stop) {
  const std::lock_guard one_part(partial.mutex);
  find_partial_run(partial.handle);  // its steps must not begin anew where it has ended meanwhile
  place_.open_runs.note_use(partial.handle);
  const rpc::RunNames names = names_of(request);
  check_part(partial, names);
  for (std::size_t i = 0; i < names.feeds.size(); ++i) partial.fed.emplace(names.feeds[i], request.feed[i].tensor);
  partial.fetched.insert(names.fetches.begin(), names.fetches.end());
  partial.run.insert(names.targets.begin(), names.targets.end());
  rpc::RunGraphRequest tensors{.is_last_partial_run = partial.is_complete()};
  for (std::size_t i = 0; i < names.feeds.size(); ++i) tensors.send.push_back({names.feeds[i], request.feed[i].tensor});
  for (const std::string& each : names.fetches)
    if (!partial.fed.contains(each)) tensors.recv_key.push_back(each);
  rpc::RunGraphResponse response;
  std::exception_ptr error;
  try {
    response = exchange(partial, tensors, stop);
  } catch (const Error&) {
    error = std::current_exception();
  }
  if (error || tensors.is_last_partial_run) end_partially(partial, error);
  std::map<std::string, io::TensorDef> values = partial.fed;
  for (rpc::NamedTensor& each : response.recv) values.insert_or_assign(each.name, std::move(each.tensor));
  rpc::RunStepResponse results;
  for (std::size_t i = 0; i < request.fetch.size(); ++i)
    results.tensor.push_back({request.fetch[i], values.at(names.fetches[i])});
  return results;
}

}  // namespace tapestry::detail
