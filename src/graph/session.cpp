#include "tapestry/session.hpp"

#include "core/thread_object.hpp"
#include "graph/passes/passes.hpp"
#include "graph/session_state.hpp"

namespace tapestry {

using detail::fed_value;

Fetch::Fetch(const Variable& variable) : cell_(variable.cell()), kind_(Kind::variable) {}

// ---- Session --------------------------------------------------------------------------------------------------------------

Session::Session(const SessionOptions& options, Where where) : Session(default_graph(), options, where) {}
Session::Session(const Graph& graph, const SessionOptions& options, Where where) : Session({}, graph, options, where) {}
Session::Session(std::string_view target, const SessionOptions& options, Where where)
    : Session(target, default_graph(), options, where) {}
Session::Session(std::string_view target, const Graph& graph, const SessionOptions& options, Where where)
    : state_(detail::locating({}, where, [&] {
        detail::require_passes(options.disabled_passes);
        return std::make_shared<SessionState>(
            graph, options, target.empty() ? nullptr : detail::open_remote_session(target, graph, options));
      })) {}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

void Session::close() { state_->close(); }
Graph Session::graph() const { return state_->graph(); }

std::vector<DeviceAttributes> Session::list_devices(Where where) const {
  return detail::locating({}, where, [&] { return state_->list_devices(); });
}

void Session::reset(std::string_view target, const std::vector<std::string>& containers, const SessionOptions& options,
                    Where where) {
  detail::locating({}, where, [&] { detail::reset_server(target, containers, options); });
}

std::vector<Tensor> Session::run_all(const std::vector<Fetch>& fetches, const Feeds& feeds, const RunOptions& options,
                                     RunMetadata* metadata, Where where) const {
  return state_->run(fetches, feeds, options, metadata, where);
}

Explanation Session::explain_all(const std::vector<Fetch>& fetches, const Feeds& feeds, Where where) const {
  return state_->explain(fetches, feeds, where);
}

struct Session::Callable::State {
  std::shared_ptr<SessionState> session;
  Tensors keys;
  std::mutex mutex{};
  SessionState::Prepared prepared{};
  Tensors values{};  ///< of the feeds, during a call
};

Session::Callable::Callable(std::shared_ptr<SessionState> session, const std::vector<Fetch>& fetches,
                            const std::vector<Tensor>& feeds, const std::vector<Operation>& targets, Where where)
    : state_(new State{.session = std::move(session), .keys = {}}) {
  detail::locating({}, where, [&] {
    for (const Tensor& feed : feeds) state_->keys.push_back(state_->session->feed_key(feed, where));
    state_->prepared = state_->session->prepare(fetches, targets, state_->keys);
    if (detail::RemoteSession* remote = state_->session->remote())
      state_->prepared.remote = remote->make_callable(state_->prepared.request);
  });
}

Tensors Session::Callable::call(std::span<const Value> values, Where where) const { return call(values, {}, where); }

Tensors Session::Callable::call(std::span<const Value> values, const RunOptions& options, Where where) const {
  const std::lock_guard lock(state_->mutex);
  Tensors& fed = state_->values;
  fed.clear();  // a call that failed may have left some
  return detail::locating({}, where, [&] {
    if (values.size() != state_->keys.size())
      throw InvalidArgumentError(
          detail::join("The callable takes ", state_->keys.size(), " values, not ", values.size()));
    for (std::size_t i = 0; i < values.size(); ++i) fed.push_back(fed_value(state_->keys[i], values[i], where));
    Tensors results = state_->session->run(state_->prepared, fed, options);
    fed.clear();
    return results;
  });
}

Session::Callable Session::make_callable(const std::vector<Fetch>& fetches, const std::vector<Tensor>& feeds,
                                         Where where) const {
  return make_callable(fetches, feeds, {}, where);
}

Session::Callable Session::make_callable(const std::vector<Fetch>& fetches, const std::vector<Tensor>& feeds,
                                         const std::vector<Operation>& targets, Where where) const {
  return Callable(state_, fetches, feeds, targets, where);
}

// ---- The default session --------------------------------------------------------------------------------------------------

namespace {

std::shared_ptr<SessionState>& default_session() { return detail::thread_object<std::shared_ptr<SessionState>>(); }

std::vector<Tensor> run_by_default(const Graph& graph, const Fetch& fetch, const Feeds& feeds, Where where) {
  const std::shared_ptr<SessionState>& session = default_session();
  if (session && session->graph().is(graph)) return session->run({fetch}, feeds, {}, nullptr, where);
  return Session(graph).run_all({fetch}, feeds, {}, nullptr, where);
}

}  // namespace

Session::Scope::Scope(std::shared_ptr<SessionState> session)
    : saved_(std::exchange(default_session(), std::move(session))) {
  detail::scope_begins(this);
}
Session::Scope::~Scope() {
  Scope* const inner = detail::scope_ends(this);
  (inner ? inner->saved_ : default_session()) = std::move(saved_);
}
Session::Scope Session::as_default() const { return Scope(state_); }

Tensor Tensor::eval(Where where) const { return eval(Feeds(), where); }
Tensor Tensor::eval(const Feeds& feeds, Where where) const {
  const Operation producer = detail::locating({}, where, [&] { return op(); });
  return producer ? run_by_default(producer.graph(), *this, feeds, where)[0] : *this;
}

void Operation::run(Where where) const { run(Feeds(), where); }
void Operation::run(const Feeds& feeds, Where where) const {
  run_by_default(detail::locating({}, where, [&] { return graph(); }), *this, feeds, where);
}

}  // namespace tapestry
