#include "distributed/rpc/task_worker.hpp"

#include "distributed/rpc/any_stop.hpp"

namespace tapestry::detail {

namespace rpc = io::rpc;

TaskWorker::TaskWorker(Tasks& tasks, std::string name, const ServerOptions& options,
                       std::shared_ptr<io::VariableTable> variables,
                       std::function<std::shared_ptr<io::VariableTable>()> make_table)
    : tasks_(tasks),
      name_(std::move(name)),
      options_(options),
      variables_(std::move(variables)),
      make_table_(std::move(make_table)) {}

TaskWorker::~TaskWorker() { steps_.clear(std::make_exception_ptr(AbortedError("The server has stopped"))); }

// ---- Sessions and graphs --------------------------------------------------------------------------------------------

TaskWorker::WorkerSession& TaskWorker::session(const std::string& handle, bool was_created) {
  if (!was_created) {
    WorkerSession& legacy = sessions_[""];
    if (!legacy.variables) legacy.variables = variables_;
    return legacy;
  }
  const auto found = sessions_.find(handle);
  // TensorFlow's masters take this code for a task that has been started anew.
  if (found == sessions_.end()) throw AbortedError(join("Session handle is not found: ", handle, "."));
  found->second.last_use = ServedSession::Clock::now();
  return found->second;
}

void TaskWorker::create_session(const std::string& handle, std::shared_ptr<io::VariableTable> variables) {
  const std::lock_guard lock(mutex_);
  if (options_.session_gc_seconds > 0) {
    const auto before = ServedSession::Clock::now() - std::chrono::seconds(options_.session_gc_seconds);
    std::erase_if(sessions_, [&](const auto& each) { return !each.first.empty() && each.second.last_use < before; });
  }
  if (std::cmp_greater_equal(sessions_.size(), options_.sessions))
    throw ResourceExhaustedError(join("The task takes part in ", sessions_.size(),
                                      " sessions, which is the most that it may (ServerOptions::sessions)"));
  sessions_.try_emplace(handle, WorkerSession{.variables = std::move(variables)});
}

rpc::Empty TaskWorker::create_session(const rpc::CreateWorkerSessionRequest& request) {
  if (request.session_handle.empty()) throw InvalidArgumentError("A session needs a handle");
  create_session(request.session_handle, request.isolate_session_state ? make_table_() : variables_);
  return {};
}

rpc::Empty TaskWorker::delete_session(const rpc::DeleteWorkerSessionRequest& request) {
  const std::lock_guard lock(mutex_);
  sessions_.erase(request.session_handle);
  return {};
}

rpc::RegisterGraphResponse TaskWorker::register_graph(const rpc::RegisterGraphRequest& request) {
  std::shared_ptr<io::VariableTable> variables;
  {
    const std::lock_guard lock(mutex_);
    variables = session(request.session_handle, request.create_worker_session_called).variables;
  }
  auto part = std::make_shared<const GraphPart>(io::decode(request.graph_def, options_.graph), variables, options_);
  const std::lock_guard lock(mutex_);
  WorkerSession& owner = session(request.session_handle, request.create_worker_session_called);
  constexpr std::size_t most_parts = 10'000;
  if (owner.parts.size() >= most_parts)
    throw ResourceExhaustedError(
        join("The session has ", owner.parts.size(), " registered graphs, which is the most that it may have"));
  const std::string handle = join(++last_graph_);
  owner.parts.emplace(handle, std::move(part));
  return {.graph_handle = handle};
}

rpc::Empty TaskWorker::deregister_graph(const rpc::DeregisterGraphRequest& request) {
  const std::lock_guard lock(mutex_);
  session(request.session_handle, request.create_worker_session_called).parts.erase(request.graph_handle);
  return {};
}

// ---- Steps ----------------------------------------------------------------------------------------------------------

void TaskWorker::receive(std::int64_t step, const Transfer& transfer, const std::stop_token& stop,
                         GraphPart::Arrival arrival) {
  threads_.start([this, step, transfer, stop, arrival = std::move(arrival)] {
    try {
      if (transfer.sender() == name_) return arrival(steps_.receive(step, transfer.key(), stop), nullptr);
      const auto response = call_worker<rpc::RecvTensorResponse>(
          tasks_, transfer.sender(), "RecvTensor",
          rpc::RecvTensorRequest{.step_id = step, .rendezvous_key = transfer.key(), .request_id = new_request_id()},
          {.stop = stop});
      if (response.is_dead)
        throw UnimplementedError(
            join("The tensor ", transfer.tensor_name, " of a branch that was not taken comes from another task"));
      if (!response.tensor.value)
        throw UnimplementedError(join("The tensor ", transfer.tensor_name, " of another task is of the type ",
                                      io::type_name(response.tensor.type), ", which Tapestry lacks"));
      arrival(response.tensor.value.contiguous(), nullptr);
    } catch (const Error&) {
      arrival(Tensor(), std::current_exception());
    }
  });
}

rpc::RunGraphResponse TaskWorker::run_graph(const rpc::RunGraphRequest& request, const std::stop_token& stop) {
  if (request.is_partial) throw UnimplementedError("A run in several parts must stay within one task");
  std::shared_ptr<const GraphPart> part;
  {
    const std::lock_guard lock(mutex_);
    auto& parts = session(request.session_handle, request.create_worker_session_called).parts;
    const auto found = parts.find(request.graph_handle);
    if (found == parts.end()) throw AbortedError(join("Graph handle is not found: ", request.graph_handle));
    part = found->second;
  }
  std::map<std::string, Tensor> fetched;
  std::stop_source ended;  // when the run ends, so does what it waits for
  const AnyStop any(ended.get_token(), stop);
  const GraphPart::Exchange exchange{.receive =
                                         [&](const Transfer& transfer, GraphPart::Arrival arrival) {
                                           if (!transfer.is_clients)
                                             return receive(request.step_id, transfer, any.token(), std::move(arrival));
                                           for (const rpc::NamedTensor& each : request.send)
                                             if (each.name == transfer.tensor_name)
                                               return arrival(each.tensor.value, nullptr);
                                           arrival(Tensor(), std::make_exception_ptr(InvalidArgumentError(join(
                                                                 "No value was sent for ", transfer.tensor_name))));
                                         },
                                     .send =
                                         [&](const Transfer& transfer, const Tensor& value) {
                                           if (transfer.is_clients)
                                             fetched.insert_or_assign(transfer.tensor_name, value);
                                           else
                                             steps_.send(request.step_id, transfer.key(), value);
                                         }};
  rpc::RunGraphResponse response;
  try {
    response.step_stats = part->run(exchange, request.exec_opts.record_timeline, stop);
  } catch (const Error&) {
    ended.request_stop();
    steps_.abort(request.step_id, std::current_exception());
    throw;
  }
  for (rpc::DeviceStats& each : response.step_stats.dev_stats)
    each.device = name_ + each.device.substr(std::min(each.device.find("/device:"), each.device.size()));
  for (const std::string& each : request.recv_key) {
    const auto found = fetched.find(each);
    if (found == fetched.end()) throw InvalidArgumentError(join("The graph does not compute ", each));
    response.recv.push_back({each, {io::code_of(found->second.dtype()), found->second}});
  }
  return response;
}

rpc::RecvTensorResponse TaskWorker::recv_tensor(const rpc::RecvTensorRequest& request, const std::stop_token& stop) {
  const Tensor value = steps_.receive(request.step_id, request.rendezvous_key, stop);
  return {.tensor = {io::code_of(value.dtype()), value}};
}

rpc::Empty TaskWorker::cleanup_graph(const rpc::CleanupGraphRequest& request) {
  steps_.remove(request.step_id);
  return {};
}

rpc::Empty TaskWorker::cleanup_all(const rpc::CleanupAllRequest& request) {
  variables_->clear(request.container);
  return {};
}

}  // namespace tapestry::detail
