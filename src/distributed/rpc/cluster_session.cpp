#include "distributed/rpc/cluster_session.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>

#include "distributed/rpc/any_stop.hpp"

namespace tapestry::detail {
namespace {

namespace rpc = io::rpc;

bool has_loops(const io::GraphDef& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const io::NodeDef& each) { return each.op == "Enter" || each.op == "Switch"; });
}

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

ClusterSession::ClusterSession(io::GraphDef graph, const rpc::SessionConfig& config,
                               std::shared_ptr<io::VariableTable> variables, const ServerOptions& options, Place place)
    : ServedSession(std::move(graph), variables, options),
      config_(config),
      variables_(std::move(variables)),
      options_(options),
      place_(std::move(place)) {
  for (const std::string& each : place_.tasks.names())
    if (each == place_.task || is_allowed(each, config_.device_filters)) tasks_.push_back(each);
}

ClusterSession::~ClusterSession() { ClusterSession::close(); }

void ClusterSession::close() {
  ServedSession::close();
  const std::lock_guard lock(planning_);
  if (std::exchange(ended_, true)) return;
  for (const auto& [task, devices] : known_) {
    const rpc::DeleteWorkerSessionRequest request{.session_handle = place_.handle};
    if (task == place_.task) {
      place_.worker.delete_session(request);
      continue;
    }
    // A task that does not hear of it ends the session by itself, later.
    place_.worker.threads().start([request, task = task, &tasks = place_.tasks] {
      constexpr std::int64_t most_milliseconds = 1000;
      try {
        call_worker<rpc::Empty>(tasks, task, "DeleteWorkerSession", request, {.timeout_in_ms = most_milliseconds});
      } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
      }
    });
  }
}

// ---- Plans ----------------------------------------------------------------------------------------------------------

std::vector<rpc::DeviceDef> ClusterSession::devices_of(const std::string& task, const std::stop_token& stop) {
  if (const auto found = known_.find(task); found != known_.end()) return found->second;
  if (task == place_.task) {
    place_.worker.create_session(place_.handle, variables_);
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
  std::vector<rpc::DeviceDef> devices;
  for (const std::string& task : tasks_) {
    if (task == place_.task) continue;
    auto status =
        call_worker<rpc::GetStatusResponse>(place_.tasks, task, "GetStatus", rpc::Empty{}, {.stop = any.token()});
    for (rpc::DeviceDef& each : status.device_attributes) devices.push_back(std::move(each));
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

std::shared_ptr<const ClusterSession::Plan> ClusterSession::make_plan(const rpc::RunNames& names,
                                                                      const std::stop_token& stop) {
  auto plan = std::make_shared<Plan>();
  const io::GraphDef graph = graph_def();
  const rpc::PlacedGraph placed = rpc::place_on_tasks(graph, names, place_.task, tasks_);
  if (placed.is_all_at(place_.task)) return plan;
  // Reads the graph for its types only: most of its Variables are elsewhere.
  ServedSession types(graph, std::make_shared<io::VariableTable>("", std::numeric_limits<std::int64_t>::max()),
                      options_);
  const std::vector<rpc::TaskPart> parts =
      rpc::cut(placed, names,
               {.own = place_.task,
                .devices_of = [&](const std::string& task) { return devices_of(task, stop); },
                .type_of = [&](const std::string& tensor) { return types.type_of(tensor); },
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
  std::mutex mutex{};
  std::condition_variable changed{};
  std::size_t running = 0;
  std::exception_ptr error{};
  rpc::StepStats stats{};
  std::stop_source failed{};

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
  if (!request.partial_run_handle.empty()) return ServedSession::run(request, std::move(stop));
  rpc::RunNames names{.targets = request.target};
  for (const rpc::NamedTensor& each : request.feed) names.feeds.push_back(full_name(each.name));
  for (const std::string& each : request.fetch) names.fetches.push_back(full_name(each));
  const AnyStop any(closing(), stop);
  const std::shared_ptr<const Plan> plan = plan_for(names, any.token());
  if (plan->parts.empty()) return ServedSession::run(request, std::move(stop));
  note_use();
  return run_plan(*plan, names, request, any.token());
}

std::string ClusterSession::set_up_partial_run(const rpc::PartialRunSetupRequest& request) {
  const rpc::RunNames names{.feeds = request.feed, .fetches = request.fetch, .targets = request.target};
  if (!rpc::place_on_tasks(graph_def(), names, place_.task, tasks_).is_all_at(place_.task))
    throw UnimplementedError("A run in several parts must stay within the task of the session's server");
  return ServedSession::set_up_partial_run(request);
}

rpc::RunStepResponse ClusterSession::run_plan(const Plan& plan, const rpc::RunNames& names,
                                              const rpc::RunStepRequest& request, const std::stop_token& stop) {
  const bool trace = request.options.trace_level == rpc::full_trace;
  const auto step = std::make_shared<Step>();
  const AnyStop any(step->failed.get_token(), stop);
  step->running = plan.parts.size();
  constexpr std::int64_t step_bits = (std::int64_t{1} << 56) - 1;
  const std::int64_t id = new_request_id() & step_bits;
  const auto request_for = [&](const Part& part) {
    return rpc::RunGraphRequest{.graph_handle = part.handle,
                                .step_id = id,
                                .exec_opts = {.record_timeline = trace},
                                .session_handle = place_.handle,
                                .store_errors_in_response_body = true,
                                .create_worker_session_called = true,
                                .request_id = new_request_id()};
  };
  // The parts of other tasks on threads of their own, that of this task here.
  const Part* own = nullptr;
  for (const Part& part : plan.parts) {
    if (part.task == place_.task) {
      own = &part;
      continue;
    }
    place_.worker.threads().start(
        [step, request = request_for(part), task = part.task, token = any.token(), &tasks = place_.tasks] {
          try {
            auto response = call_worker<rpc::RunGraphResponse>(tasks, task, "RunGraph", request, {.stop = token});
            if (response.status_code != 0) throw_status(response.status_code, response.status_error_message);
            step->end(std::move(response));
          } catch (const Error&) {
            step->fail(std::current_exception());
          }
        });
  }
  rpc::RunStepResponse results;
  std::map<std::string, io::TensorDef> fetched;
  if (own) {
    try {
      rpc::RunGraphRequest local = request_for(*own);
      for (std::size_t i = 0; i < names.feeds.size(); ++i)
        local.send.push_back({names.feeds[i], request.feed[i].tensor});
      for (const std::string& each : names.fetches)
        if (std::find(names.feeds.begin(), names.feeds.end(), each) == names.feeds.end())
          local.recv_key.push_back(each);
      rpc::RunGraphResponse response = place_.worker.run_graph(local, any.token());
      for (rpc::NamedTensor& each : response.recv) fetched.insert_or_assign(each.name, std::move(each.tensor));
      step->end(std::move(response));
    } catch (const Error&) {
      step->fail(std::current_exception());
    }
  }
  {
    std::unique_lock lock(step->mutex);
    step->changed.wait(lock, [&] { return step->running == 0; });
  }
  if (step->error) place_.worker.abort(id, step->error);
  for (const Part& part : plan.parts) {
    const rpc::CleanupGraphRequest cleanup{.step_id = id};
    if (part.task == place_.task) {
      place_.worker.cleanup_graph(cleanup);
      continue;
    }
    place_.worker.threads().start([cleanup, task = part.task, &tasks = place_.tasks] {
      constexpr std::int64_t most_milliseconds = 1000;
      try {
        call_worker<rpc::Empty>(tasks, task, "CleanupGraph", cleanup, {.timeout_in_ms = most_milliseconds});
      } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the task forgets old steps by itself
      }
    });
  }
  if (step->error) std::rethrow_exception(step->error);
  for (std::size_t i = 0; i < names.feeds.size(); ++i) fetched.try_emplace(names.feeds[i], request.feed[i].tensor);
  for (std::size_t i = 0; i < request.fetch.size(); ++i)
    results.tensor.push_back({request.fetch[i], fetched.at(names.fetches[i])});
  if (trace) results.metadata = rpc::encode(rpc::StepMetadata{.step_stats = std::move(step->stats)}).joined();
  return results;
}

}  // namespace tapestry::detail
