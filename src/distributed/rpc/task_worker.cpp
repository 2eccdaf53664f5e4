#include "distributed/rpc/task_worker.hpp"

#include "distributed/rpc/any_stop.hpp"
#include "io/rpc/resource_ops.hpp"

namespace tapestry::detail {

namespace rpc = io::rpc;

namespace {

/// The key under which a step keeps a tensor that the client of a partial run feeds or fetches. `name` is that of the
/// tensor, "x:0", or a key of TensorFlow's, whose fourth part is the name.
std::string clients_key(std::string name) {
  for (int i = 0; i < 3; ++i)
    if (const std::size_t at = name.find(';'); at != std::string::npos) name.erase(0, at + 1);
  return "client;" + name.substr(0, name.find(';'));
}

/// The tensor that another task has sent.
Tensor received(const rpc::RecvTensorResponse& response, const std::string& name) {
  if (response.is_dead)
    throw UnimplementedError(join("The tensor ", name, " of a branch that was not taken comes from another task"));
  if (!response.tensor.value)
    throw UnimplementedError(join("The tensor ", name, " of another task is of the type ",
                                  io::type_name(response.tensor.type), ", which Tapestry lacks"));
  return response.tensor.value.contiguous();
}

}  // namespace

TaskWorker::TaskWorker(Tasks& tasks, std::string name, const ServerOptions& options, std::shared_ptr<TaskState> state,
                       std::function<std::shared_ptr<TaskState>()> make_state)
    : tasks_(tasks),
      name_(std::move(name)),
      options_(options),
      state_(std::move(state)),
      make_state_(std::move(make_state)) {}

TaskWorker::~TaskWorker() {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [step, run] : partial_runs_) run->stop.request_stop();
  }
  steps_.clear(std::make_exception_ptr(AbortedError("The server has stopped")));
}

// ---- Sessions and graphs --------------------------------------------------------------------------------------------

TaskWorker::WorkerSession& TaskWorker::session(const std::string& handle, bool was_created) {
  if (!was_created) {
    WorkerSession& legacy = sessions_[""];
    if (!legacy.state) legacy.state = state_;
    return legacy;
  }
  const auto found = sessions_.find(handle);
  // TensorFlow's masters take this code for a task that has been started anew.
  if (found == sessions_.end()) throw AbortedError(join("Session handle is not found: ", handle, "."));
  found->second.last_use = ServedSession::Clock::now();
  return found->second;
}

void TaskWorker::create_session(const std::string& handle, std::shared_ptr<TaskState> state) {
  const std::lock_guard lock(mutex_);
  if (options_.session_gc_seconds > 0) {
    const auto before = ServedSession::Clock::now() - std::chrono::seconds(options_.session_gc_seconds);
    std::erase_if(sessions_, [&](const auto& each) { return !each.first.empty() && each.second.last_use < before; });
    end_orphans();
  }
  if (std::cmp_greater_equal(sessions_.size(), options_.sessions))
    throw ResourceExhaustedError(join("The task takes part in ", sessions_.size(),
                                      " sessions, which is the most that it may (ServerOptions::sessions)"));
  sessions_.try_emplace(handle, WorkerSession{.state = std::move(state)});
}

rpc::Empty TaskWorker::create_session(const rpc::CreateWorkerSessionRequest& request) {
  if (request.session_handle.empty()) throw InvalidArgumentError("A session needs a handle");
  create_session(request.session_handle, request.isolate_session_state ? make_state_() : state_);
  return {};
}

rpc::Empty TaskWorker::delete_session(const rpc::DeleteWorkerSessionRequest& request) {
  const std::lock_guard lock(mutex_);
  sessions_.erase(request.session_handle);
  end_orphans();
  return {};
}

void TaskWorker::end_orphans() {
  std::erase_if(partial_runs_, [&](const auto& each) {
    if (sessions_.contains(each.second->session)) return false;
    each.second->stop.request_stop();
    return true;
  });
}

rpc::RegisterGraphResponse TaskWorker::register_graph(const rpc::RegisterGraphRequest& request) {
  std::shared_ptr<TaskState> state;
  {
    const std::lock_guard lock(mutex_);
    state = session(request.session_handle, request.create_worker_session_called).state;
  }
  auto part = std::make_shared<const GraphPart>(io::decode(request.graph_def, options_.graph), state, options_);
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
  if (transfer.is_clients) return steps_.receive(step, clients_key(transfer.tensor_name), stop, std::move(arrival));
  if (transfer.sender() == name_) return steps_.receive(step, transfer.key(), stop, std::move(arrival));
  begin_call<rpc::RecvTensorResponse>(
      tasks_, transfer.sender(), "RecvTensor",
      rpc::RecvTensorRequest{.step_id = step, .rendezvous_key = transfer.key(), .request_id = new_request_id()},
      {.stop = stop},
      [name = transfer.tensor_name, arrival = std::move(arrival)](const rpc::RecvTensorResponse& response,
                                                                  std::exception_ptr error) {
        Tensor value;
        try {
          if (!error) value = received(response, name);
        } catch (const Error&) {
          error = std::current_exception();
        }
        arrival(std::move(value), std::move(error));
      });
}

void TaskWorker::use(const std::shared_ptr<TaskState>& state, const rpc::Islands::ResourceUse& use, Tensors inputs,
                     const std::stop_token& stop, GraphPart::Outputs done) {
  const auto run = [state, use, inputs = std::move(inputs), stop, done = std::move(done)] {
    try {
      Tensors outputs = state->resource(use.maker)->use(use.node, inputs, stop);
      done(std::move(outputs), nullptr);
    } catch (Error& error) {
      error.locate(use.node.op, use.node.name, {});
      done({}, std::current_exception());
    }
  };
  rpc::may_wait(use.node.op) ? threads_.start(run) : run();
}

TaskWorker::Registered TaskWorker::registered(const rpc::RunGraphRequest& request) {
  const std::lock_guard lock(mutex_);
  const WorkerSession& owner = session(request.session_handle, request.create_worker_session_called);
  const auto found = owner.parts.find(request.graph_handle);
  if (found == owner.parts.end()) throw AbortedError(join("Graph handle is not found: ", request.graph_handle));
  return {found->second, owner.state};
}

GraphPart::Exchange TaskWorker::exchange(std::int64_t step, std::shared_ptr<TaskState> state,
                                         const std::stop_token& stop) {
  return {
      .receive = [this, step, stop](const Transfer& transfer,
                                    GraphPart::Arrival arrival) { receive(step, transfer, stop, std::move(arrival)); },
      .send =
          [this, step](const Transfer& transfer, const Tensor& value) {
            steps_.send(step, transfer.is_clients ? clients_key(transfer.tensor_name) : transfer.key(), value);
          },
      .use = [this, state = std::move(state), stop](
                 const rpc::Islands::ResourceUse& resource, Tensors inputs,
                 GraphPart::Outputs done) { use(state, resource, std::move(inputs), stop, std::move(done)); }};
}

rpc::RunGraphResponse TaskWorker::run_graph(const rpc::RunGraphRequest& request, const std::stop_token& stop) {
  if (request.is_partial) return run_partially(request, stop);
  const Registered graph = registered(request);
  std::map<std::string, Tensor> fetched;
  std::stop_source ended;  // when the run ends, so does what it waits for
  const AnyStop any(ended.get_token(), stop);
  GraphPart::Exchange exchange = this->exchange(request.step_id, graph.state, any.token());
  exchange.receive = [&, others = exchange.receive](const Transfer& transfer, GraphPart::Arrival arrival) {
    if (!transfer.is_clients) return others(transfer, std::move(arrival));
    for (const rpc::NamedTensor& each : request.send)
      if (each.name == transfer.tensor_name) return arrival(each.tensor.value, nullptr);
    arrival(Tensor(),
            std::make_exception_ptr(InvalidArgumentError(join("No value was sent for ", transfer.tensor_name))));
  };
  exchange.send = [&, others = exchange.send](const Transfer& transfer, const Tensor& value) {
    if (!transfer.is_clients) return others(transfer, value);
    fetched.insert_or_assign(transfer.tensor_name, value);
  };
  rpc::RunGraphResponse response;
  try {
    response.step_stats = graph.part->run(exchange, request.exec_opts.record_timeline, stop);
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

std::shared_ptr<TaskWorker::PartialRun> TaskWorker::partial_run(const rpc::RunGraphRequest& request) {
  constexpr std::size_t most_runs = 256;  // each takes threads
  const Registered graph = registered(request);
  const std::lock_guard lock(mutex_);
  if (const auto found = partial_runs_.find(request.step_id); found != partial_runs_.end()) return found->second;
  if (partial_runs_.size() >= most_runs)
    throw ResourceExhaustedError(join("The task has ", most_runs, " open partial runs, which is the most at a time"));
  auto run = std::make_shared<PartialRun>(
      PartialRun{.session = request.create_worker_session_called ? request.session_handle : ""});
  threads_.start([this, run, graph, step = request.step_id] {
    std::exception_ptr error;
    try {
      graph.part->run(exchange(step, graph.state, run->stop.get_token()), false, run->stop.get_token());
    } catch (const Error&) {
      error = std::current_exception();
      run->stop.request_stop();
      steps_.abort(step, error);
    }
    const std::lock_guard ended(mutex_);
    run->has_ended = true;
    run->error = error;
    partial_run_ended_.notify_all();
  });
  partial_runs_.emplace(request.step_id, run);
  return run;
}

rpc::RunGraphResponse TaskWorker::run_partially(const rpc::RunGraphRequest& request, const std::stop_token& stop) {
  const std::shared_ptr<PartialRun> run = partial_run(request);
  for (const rpc::NamedTensor& each : request.send)
    steps_.send(request.step_id, clients_key(each.name), each.tensor.value.contiguous());
  rpc::RunGraphResponse response;
  for (const std::string& each : request.recv_key) {
    const Tensor value = steps_.receive(request.step_id, clients_key(each), stop);
    response.recv.push_back({each, {io::code_of(value.dtype()), value}});
  }
  if (!request.is_last_partial_run) return response;
  std::unique_lock lock(mutex_);
  partial_run_ended_.wait(lock, stop, [&] { return run->has_ended; });
  if (!run->has_ended) throw CancelledError("The step was cancelled");
  partial_runs_.erase(request.step_id);
  if (run->error) std::rethrow_exception(run->error);
  return response;
}

void TaskWorker::recv_tensor(const rpc::RecvTensorRequest& request, const std::stop_token& stop, Sent sent) {
  steps_.receive(request.step_id, request.rendezvous_key, stop,
                 [sent = std::move(sent)](const Tensor& value, const std::exception_ptr& error) {
                   rpc::RecvTensorResponse response;
                   if (!error) response.tensor = {io::code_of(value.dtype()), value};
                   sent(response, error);
                 });
}

rpc::RecvTensorResponse TaskWorker::recv_tensor(const rpc::RecvTensorRequest& request, const std::stop_token& stop) {
  const Tensor value = steps_.receive(request.step_id, request.rendezvous_key, stop);
  return {.tensor = {io::code_of(value.dtype()), value}};
}

rpc::Empty TaskWorker::cleanup_graph(const rpc::CleanupGraphRequest& request) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto open = partial_runs_.extract(request.step_id); !open.empty()) open.mapped()->stop.request_stop();
  }
  steps_.remove(request.step_id);
  return {};
}

rpc::Empty TaskWorker::cleanup_all(const rpc::CleanupAllRequest& request) {
  state_->clear(request.container);
  return {};
}

}  // namespace tapestry::detail
