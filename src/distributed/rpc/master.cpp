#include "distributed/rpc/master.hpp"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <optional>
#include <random>
#include <unordered_set>

#include <arpa/inet.h>

#include "distributed/rpc/cluster_session.hpp"

namespace tapestry::detail {
namespace {

namespace rpc = io::rpc;

std::uint64_t random_number() {
  std::random_device device;
  return (std::uint64_t{device()} << 32U) | device();
}

std::string hexadecimal(std::uint64_t number) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4) text += digits[(number >> static_cast<unsigned>(shift)) & 15U];
  return text;
}

/// The requests that change something and have come lately: clients send them again when a connection breaks.
class KnownRequests {
 public:
  /// Throws AbortedError for a request that has come before.
  void take(std::int64_t id, std::string_view method) {
    if (id == 0) return;
    constexpr std::size_t most = 10'000;
    const std::lock_guard lock(mutex_);
    if (!known_.insert(id).second)
      throw AbortedError(join("The same ", method, " request was received twice. (request_id ", id, ")"));
    order_.push_back(id);
    if (order_.size() <= most) return;
    known_.erase(order_.front());
    order_.pop_front();
  }

 private:
  std::mutex mutex_;
  std::unordered_set<std::int64_t> known_;
  std::deque<std::int64_t> order_;
};

/// TensorFlow's master and worker services for a task of a cluster.
class Master final : public Server::Service {
 public:
  Master(Transport& transport, const std::string& scheme, const ClusterSpec& cluster, const ServerOptions& options)
      : options_(options),
        task_name_(task_name(options.job, options.task)),
        state_(make_state()),
        tasks_(transport, cluster),
        worker_(tasks_, task_name_, options_, state_, [this] { return make_state(); }),
        open_runs_(most_open_runs()) {
    check(options);
    require_reader(options);
    const std::string address = cluster.task_address(options.job, options.task, {});
    const std::size_t colon = address.rfind(':');
    listener_ =
        transport.listen({.host = options.bind,
                          .port = std::stoi(address.substr(colon + 1)),
                          .message_bytes = options.message_bytes,
                          .begin = [this](std::string_view method, std::string_view request, std::stop_token stop,
                                          const Respond& respond) { return begin(method, request, stop, respond); }},
                         [this](std::string_view method, std::string_view request, std::stop_token stop) {
                           return answer(method, request, std::move(stop));
                         });
    target_ = join(scheme, "://", address.substr(0, colon), ":", listener_->port());
  }
  Master(const Master&) = delete;
  Master& operator=(const Master&) = delete;
  ~Master() override { Master::stop(); }

  std::string target() const override { return target_; }

  void wait() override {
    std::unique_lock lock(mutex_);
    has_stopped_.wait(lock, [&] { return stopped_; });
  }

  void stop() override {
    {
      const std::lock_guard lock(stopping_);
      listener_->stop();
    }
    const std::lock_guard lock(mutex_);
    sessions_.clear();
    stopped_ = true;
    has_stopped_.notify_all();
  }

 private:
  static void check(const ServerOptions& options) {
    if (options.bind.empty()) throw InvalidArgumentError("`bind` of the server is empty; it is an address");
    in_addr number{};
    const bool is_number = ::inet_pton(AF_INET, options.bind.c_str(), &number) == 1;
    const bool loopback =
        (is_number && options.bind.starts_with("127.")) || options.bind == "localhost" || options.bind == "[::1]";
    if (!loopback && !options.insecure && !options.tls)
      throw InvalidArgumentError(join("The server would accept connections at ", options.bind,
                                      " without encryption, and run any graph that they send. Give it certificates by "
                                      ".tls = Tls::files(FOLDER) (--tls FOLDER), or say so by .insecure = true "
                                      "(--insecure)"));
    for (const std::int64_t each :
         {options.message_bytes, options.sessions, options.steps_at_once, options.variable_bytes})
      if (each < 1) throw InvalidArgumentError("The limits of a server are at least 1");
    if (options.session_gc_seconds < 0) throw InvalidArgumentError("session_gc_seconds must not be negative");
  }

  /// A server that cannot read graphs would answer nothing else, and clients would wait for one that can.
  static void require_reader(const ServerOptions& options) {
    static_cast<void>(rpc::SentGraph(options.graph).read(std::make_shared<io::VariableTable>("", 1)));
  }

  /// All tasks together leave a share of the runs that one task makes at a time to others.
  std::size_t most_open_runs() const {
    const auto tasks = static_cast<std::int64_t>(tasks_.names().size());
    return static_cast<std::size_t>(
        std::max(options_.steps_at_once / std::max(tasks, std::int64_t{2}), std::int64_t{1}));
  }

  std::shared_ptr<TaskState> make_state() const {
    return std::make_shared<TaskState>(options_.job, options_.variable_bytes);
  }

  // ---- Requests ----

  Pieces answer(std::string_view method, std::string_view request, std::stop_token stop) {
    return with_status([&] { return dispatch(method, request, std::move(stop)); });
  }

  /// Errors as the client gets them.
  template <class Make>
  Pieces with_status(const Make& make) const {
    try {
      return make();
    } catch (const Error& error) {
      throw_status(code_of(error), text_of(error));
    } catch (const std::bad_alloc&) {
      throw ResourceExhaustedError("The server is out of memory");
    }
  }

  /// Most calls between tasks ask for tensors that are still to be computed. No thread waits with them.
  bool begin(std::string_view method, std::string_view request, const std::stop_token& stop, const Respond& respond) {
    if (method != "/tensorflow.WorkerService/RecvTensor") return false;
    const auto answer = [this, respond](const auto& make) {
      Pieces reply;
      std::exception_ptr failure;
      try {
        reply = with_status(make);
      } catch (const Error&) {
        failure = std::current_exception();
      }
      respond(std::move(reply), failure);
    };
    std::optional<rpc::RecvTensorRequest> wanted;
    try {
      wanted = rpc::decode<rpc::RecvTensorRequest>(request);
      check_incarnation(wanted->rendezvous_key);
    } catch (...) {
      answer([error = std::current_exception()]() -> Pieces { std::rethrow_exception(error); });
      return true;
    }
    worker_.recv_tensor(
        *wanted, stop, [answer](const rpc::RecvTensorResponse& response, const std::exception_ptr& error) {
          answer([&] { return error ? (std::rethrow_exception(error), Pieces()) : rpc::encode(response); });
        });
    return true;
  }

  Pieces dispatch(std::string_view method, std::string_view request, std::stop_token stop) {
    constexpr std::string_view workers = "/tensorflow.WorkerService/";
    if (method.starts_with(workers)) return dispatch_worker(method.substr(workers.size()), request, stop);
    constexpr std::string_view service = "/tensorflow.MasterService/";
    const std::string_view name = method.starts_with(service) ? method.substr(service.size()) : "";
    const auto handle = [&]<class Request>(auto f) { return rpc::encode(f(rpc::decode<Request>(request))); };
    using namespace rpc;  // NOLINT(google-build-using-namespace): its messages
    if (name == "RunStep")
      return handle.operator()<RunStepRequest>([&](const RunStepRequest& each) { return run_step(each, stop); });
    if (name == "RunCallable")
      return handle.operator()<RunCallableRequest>([&](const RunCallableRequest& each) {
        requests_.take(each.request_id, name);
        const OneStep one(*this);
        return session(each.session_handle)->run_callable(each, stop);
      });
    if (name == "CreateSession")
      return handle.operator()<CreateSessionRequest>([&](const auto& each) { return create_session(each); });
    if (name == "ExtendSession")
      return handle.operator()<ExtendSessionRequest>([&](const ExtendSessionRequest& each) {
        return ExtendSessionResponse{session(each.session_handle)->extend(each.graph_def, each.current_graph_version)};
      });
    if (name == "PartialRunSetup")
      return handle.operator()<PartialRunSetupRequest>([&](const PartialRunSetupRequest& each) {
        requests_.take(each.request_id, name);
        return PartialRunSetupResponse{session(each.session_handle)->set_up_partial_run(each)};
      });
    if (name == "MakeCallable")
      return handle.operator()<MakeCallableRequest>([&](const MakeCallableRequest& each) {
        requests_.take(each.request_id, name);
        return MakeCallableResponse{session(each.session_handle)->make_callable(each.options)};
      });
    if (name == "ReleaseCallable")
      return handle.operator()<ReleaseCallableRequest>([&](const ReleaseCallableRequest& each) {
        session(each.session_handle)->release_callable(each.handle);
        return Empty{};
      });
    if (name == "CloseSession")
      return handle.operator()<CloseSessionRequest>([&](const auto& each) { return close_session(each); });
    if (name == "ListDevices")
      return handle.operator()<ListDevicesRequest>([&](const ListDevicesRequest& each) {
        return ListDevicesResponse{own_devices(), session(each.session_handle)->remote_devices(stop)};
      });
    if (name == "Reset") return handle.operator()<ResetRequest>([&](const auto& each) { return reset(each, stop); });
    throw UnimplementedError(join("The server has no method ", method));
  }

  Pieces dispatch_worker(std::string_view name, std::string_view request, const std::stop_token& stop) {
    const auto handle = [&]<class Request>(auto f) { return rpc::encode(f(rpc::decode<Request>(request))); };
    using namespace rpc;  // NOLINT(google-build-using-namespace): its messages
    if (name == "RecvTensor")
      return handle.operator()<RecvTensorRequest>([&](const RecvTensorRequest& each) {
        check_incarnation(each.rendezvous_key);
        return worker_.recv_tensor(each, stop);
      });
    if (name == "RunGraph")
      return handle.operator()<RunGraphRequest>([&](const RunGraphRequest& each) { return run_graph(each, stop); });
    if (name == "CleanupGraph")
      return handle.operator()<CleanupGraphRequest>([&](const auto& each) { return worker_.cleanup_graph(each); });
    if (name == "GetStatus")
      return handle.operator()<Empty>([&](const Empty&) { return GetStatusResponse{own_devices()}; });
    if (name == "CreateWorkerSession")
      return handle.operator()<CreateWorkerSessionRequest>(
          [&](const CreateWorkerSessionRequest& each) { return worker_.create_session(each); });
    if (name == "DeleteWorkerSession")
      return handle.operator()<DeleteWorkerSessionRequest>(
          [&](const auto& each) { return worker_.delete_session(each); });
    if (name == "RegisterGraph")
      return handle.operator()<RegisterGraphRequest>([&](const auto& each) { return worker_.register_graph(each); });
    if (name == "DeregisterGraph")
      return handle.operator()<DeregisterGraphRequest>(
          [&](const auto& each) { return worker_.deregister_graph(each); });
    if (name == "CleanupAll")
      return handle.operator()<CleanupAllRequest>([&](const auto& each) { return worker_.cleanup_all(each); });
    throw UnimplementedError(join("The server has no method /tensorflow.WorkerService/", name));
  }

  /// What this task has sent before it was started anew is lost: who asks for it would wait for ever.
  void check_incarnation(const std::string& rendezvous_key) const {
    const std::size_t begin = rendezvous_key.find(';');
    if (begin == std::string::npos) return;
    const std::string expected = rendezvous_key.substr(begin + 1, rendezvous_key.find(';', begin + 1) - begin - 1);
    if (expected != hexadecimal(incarnation_))
      throw AbortedError(join("RecvTensor expects a different device incarnation: ", expected, " vs. ",
                              hexadecimal(incarnation_), ". The task ", task_name_, " was started anew."));
  }

  rpc::RunGraphResponse run_graph(const rpc::RunGraphRequest& request, const std::stop_token& stop) {
    try {
      requests_.take(request.request_id, "RunGraph (Worker)");
      const OneStep one(*this);
      return worker_.run_graph(request, stop);
    } catch (const Error& error) {
      if (!request.store_errors_in_response_body) throw;
      return {.status_code = code_of(error), .status_error_message = text_of(error)};
    }
  }

  rpc::RunStepResponse run_step(const rpc::RunStepRequest& request, const std::stop_token& stop) {
    try {
      requests_.take(request.request_id, "RunStep (Master)");
      const OneStep one(*this);
      return session(request.session_handle)->run(request, stop);
    } catch (const Error& error) {
      if (!request.store_errors_in_response_body) throw;
      return {.status_code = code_of(error), .status_error_message = text_of(error)};
    }
  }

  rpc::CreateSessionResponse create_session(const rpc::CreateSessionRequest& request) {
    const std::string handle = hexadecimal(random_number());
    io::GraphDef graph = io::decode(request.graph_def, options_.graph);
    const auto state = request.config.isolate_session_state ? make_state() : state_;
    auto created = std::make_shared<ClusterSession>(
        std::move(graph), request.config, state, options_,
        ClusterSession::Place{task_name_, handle, tasks_, worker_, own_devices(), open_runs_});
    const std::lock_guard lock(mutex_);
    end_unused_sessions();
    if (std::cmp_greater_equal(sessions_.size(), options_.sessions))
      throw ResourceExhaustedError(join("The server has ", sessions_.size(),
                                        " sessions, which is the most that it may have (ServerOptions::sessions)"));
    sessions_.emplace(handle, std::move(created));
    return {.session_handle = handle, .graph_version = 0};
  }

  /// Sessions of clients that have gone.
  void end_unused_sessions() {
    if (options_.session_gc_seconds == 0) return;
    const auto before = ServedSession::Clock::now() - std::chrono::seconds(options_.session_gc_seconds);
    std::erase_if(sessions_, [&](const auto& each) { return each.second->last_use() < before; });
  }

  std::shared_ptr<ServedSession> session(const std::string& handle) {
    const std::lock_guard lock(mutex_);
    const auto found = sessions_.find(handle);
    // TensorFlow's clients take this code for a server that has been started anew.
    if (found == sessions_.end()) throw AbortedError(join("Session ", handle, " is not found."));
    return found->second;
  }

  rpc::Empty close_session(const rpc::CloseSessionRequest& request) {
    const std::shared_ptr<ServedSession> closed = session(request.session_handle);
    closed->close();
    const std::lock_guard lock(mutex_);
    sessions_.erase(request.session_handle);
    return {};
  }

  std::vector<rpc::DeviceDef> own_devices() const {
    std::vector<rpc::DeviceDef> list;
    for (const Device& device : devices()) {
      const std::string name = tensorflow_name(device);
      const std::size_t type = std::string_view("/device:").size();
      list.push_back({.name = task_name_ + name,
                      .device_type = name.substr(type, name.rfind(':') - type),
                      .memory_limit = options_.graph.bytes,
                      .incarnation = {incarnation_}});
    }
    return list;
  }

  rpc::Empty reset(const rpc::ResetRequest& request, const std::stop_token& stop) {
    for (const std::string& task : tasks_.names())
      if (task != task_name_ && is_allowed(task, request.device_filters))
        call_worker<rpc::Empty>(tasks_, task, "CleanupAll", rpc::CleanupAllRequest{request.container}, {.stop = stop});
    state_->clear(request.container);
    std::map<std::string, std::shared_ptr<ServedSession>, std::less<>> ended;
    const std::lock_guard lock(mutex_);
    ended.swap(sessions_);
    for (const auto& [handle, session] : ended) session->close();
    return {};
  }

  // ---- Errors ----

  static std::int64_t code_of(const Error& error) {
    return static_cast<std::int64_t>(error.code() == Code::lookup ? Code::not_found : error.code());
  }

  /// The message with the node that failed, for which TensorFlow's clients print the line of their program.
  std::string text_of(const Error& error) const {
    std::string text = error.message();
    if (error.node().empty()) return text;
    if (text.find("{{node ") == std::string::npos) text += join("\n\t [[{{node ", error.node(), "}}]]");
    return join("From ", task_name_, ":\n", text);
  }

  /// A run, while it lives.
  class OneStep {
   public:
    explicit OneStep(Master& master) : steps_(master.steps_) {
      const std::int64_t most = master.options_.steps_at_once;
      if (steps_.fetch_add(1) < most) return;
      --steps_;
      throw ResourceExhaustedError(
          join("The server makes ", most, " runs, which is the most at a time (ServerOptions::steps_at_once)"));
    }
    ~OneStep() { --steps_; }
    OneStep(const OneStep&) = delete;
    OneStep& operator=(const OneStep&) = delete;

   private:
    std::atomic<std::int64_t>& steps_;
  };

  const ServerOptions options_;
  const std::string task_name_;
  const std::uint64_t incarnation_ = random_number();
  const std::shared_ptr<TaskState> state_;
  Tasks tasks_;
  TaskWorker worker_;
  OpenRuns open_runs_;
  std::string target_;
  KnownRequests requests_;
  std::atomic<std::int64_t> steps_ = 0;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<ServedSession>, std::less<>> sessions_;
  bool stopped_ = false;
  std::condition_variable has_stopped_;
  std::mutex stopping_;
  std::unique_ptr<Listener> listener_;  ///< its threads use all of the above
};

}  // namespace

std::shared_ptr<Server::Service> make_master(Transport& transport, const std::string& scheme,
                                             const ClusterSpec& cluster, const ServerOptions& options) {
  return std::make_shared<Master>(transport, scheme, cluster, options);
}

}  // namespace tapestry::detail
