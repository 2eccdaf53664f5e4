#include "tapestry/distributed/monitored_session.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>

#include "dispatch/recorder.hpp"
#include "graph/graph_state.hpp"
#include "graph/state_ops.hpp"
#include "tapestry/detail/locate.hpp"
#include "tapestry/random.hpp"
#include "tapestry/tensor_bundle.hpp"

namespace tapestry::train {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using detail::GraphVariable;

constexpr const char* step_name = "global_step";
// No operation has a name that begins with "_".
constexpr const char *random_seed = "_random_seed", *random_offset = "_random_offset", *runs_name = "_runs";

bool is_integer_scalar(const Variable& variable) {
  return variable.shape().rank() == 0 && (variable.dtype() == int64 || variable.dtype() == int32);
}

std::optional<Variable> find_global_step(const detail::GraphState& graph) {
  const std::lock_guard lock(graph.mutex());
  for (const GraphVariable& each : graph.variables()) {
    if (each.name != step_name) continue;
    if (!is_integer_scalar(each.variable))
      throw InvalidArgumentError(detail::join("The Variable 'global_step' must be an integer scalar, not ",
                                              to_string(each.variable.dtype()), each.variable.shape()));
    return each.variable;
  }
  return {};
}

Tensor number(std::int64_t value) {
  const ExecuteNow now;
  return tensor(std::vector<std::int64_t>{value}, Shape{});
}

std::int64_t number_of(const Tensor& value) {
  const ExecuteNow now;
  return value.cast(int64).item<std::int64_t>();
}

void check(const MonitoredSessionOptions& options) {
  if (options.save_checkpoint_steps < 0 || !(options.save_checkpoint_secs >= 0) || options.stop_at_step < 0 ||
      options.max_to_keep < 0 || !(options.max_wait_secs >= 0))
    throw InvalidArgumentError("The numbers of a MonitoredSession must not be negative");
}

/// "Variables 'w', 'b' and 12 more"
std::string list_of(const std::vector<std::string>& names) {
  constexpr std::size_t most = 5;
  std::string list = "Variables ";
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i) list += (i == 0 ? "'" : ", '") + names[i] + "'";
  return names.size() > most ? detail::join(list, " and ", names.size() - most, " more") : list;
}

/// Writes a checkpoint, and removes the oldest ones of the folder, so that `keep` stay. Errors get their line from the
/// call of the session.
void save_checkpoint(const std::string& folder, int keep, const StateDict& values, std::int64_t step) {
  const std::string prefix = (fs::path(folder) / detail::join("model.ckpt-", step)).string();
  tensor_bundle::save(prefix, values, Where());
  CheckpointState state = get_checkpoint_state(folder, Where()).value_or(CheckpointState{});
  std::erase(state.all, prefix);
  state.all.push_back(prefix);
  state.latest = prefix;
  std::vector<std::string> dropped;
  while (keep > 0 && std::cmp_greater(state.all.size(), keep)) {
    dropped.push_back(state.all.front());
    state.all.erase(state.all.begin());
  }
  update_checkpoint_state(folder, state, Where());
  for (const std::string& each : dropped)
    for (const char* part : {".index", ".data-00000-of-00001"}) {
      std::error_code gone;
      fs::remove(each + part, gone);
    }
}

}  // namespace

Variable global_step(Where where) {
  return detail::locating({}, where, [] {
    const std::shared_ptr<detail::GraphState> graph = default_graph().state();
    if (const std::optional<Variable> found = find_global_step(*graph)) return *found;
    std::optional<Graph::Scope> scope;
    if (open_sink() != graph.get()) scope.emplace(Graph(graph));
    return Variable(number(0), {.name = step_name, .trainable = false});
  });
}

struct MonitoredSession::State {
  State(std::string_view to, const Graph& of, const MonitoredSessionOptions& given)
      : target(to), graph(of), options(given) {
    check(options);
    prepare();
    create();
  }

  bool is_remote() const { return !target.empty(); }
  bool saves() const { return options.is_chief && !options.checkpoint_dir.empty(); }

  /// Finds the Variables, and adds the operations for those on servers. The graph is locked meanwhile, and no longer:
  /// others may use it while `create` waits for them.
  void prepare() {
    const detail::GraphState& nodes = *graph.state();
    const std::lock_guard lock(nodes.mutex());
    counter = find_global_step(nodes);
    variables = nodes.variables();
    if (is_remote()) add_nodes();
  }

  // ---- The operations for Variables on servers ----

  void add_nodes() {
    const auto scope = graph.as_default();
    const NameScope inside("monitored", Where{});
    detail::GraphState& nodes = *graph.state();
    for (const GraphVariable& each : variables) {
      const Call asks(is_initialized_op, {each.handle}, variable_attrs({each.variable}), {}, "is_initialized");
      are_initialized.emplace_back(nodes.add_in_scopes(asks, {{boolean, {}}}).output());
      if (!saves()) continue;
      restored.push_back(placeholder(each.variable.dtype(), each.variable.shape(), "restored"));
      const Call assigns(assign_op(Assign::set), {each.handle, restored.back()}, variable_attrs({each.variable}), {},
                         "restore");
      restores.emplace_back(operation_of(nodes.add_in_scopes(assigns, {})));
    }
    if (options.is_chief) initialize = {Fetch(global_variables_initializer())};
  }

  // ---- Beginning ----

  /// Makes a session that is ready, and waits for the servers and for the chief.
  void create() {
    const auto end = Clock::now() + std::chrono::duration<double>(options.max_wait_secs);
    std::string reason;
    for (auto pause = std::chrono::milliseconds(10);; pause = std::min(pause * 2, std::chrono::milliseconds(1000))) {
      session.emplace(target, graph, options.config);
      left =
          std::max<std::int64_t>(1, std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count());
      try {
        if (options.is_chief) {
          begin();
          break;
        }
        const std::vector<std::string> missing = not_ready();
        if (missing.empty()) break;
        reason = "the chief has not initialized the " + list_of(missing);
      } catch (const DeadlineExceededError& error) {
        if (!is_remote() || options.is_chief) throw;
        // What the last answer was says more than that there was no time for another one.
        if (reason.empty()) reason = error.message();
      } catch (const UnavailableError& error) {
        if (!is_remote()) throw;
        reason = error.message();
      } catch (const AbortedError& error) {
        if (!is_remote()) throw;
        reason = error.message();
      }
      if (Clock::now() + pause >= end)
        throw DeadlineExceededError(
            detail::join("The session on \"", target, "\" is not ready after ", options.max_wait_secs, " s: ", reason));
      std::this_thread::sleep_for(pause);
    }
    if (options.stop_at_step > 0) {
      step = current_step();
      stopped |= step >= options.stop_at_step;
    }
    try {
      for (const SessionHook& each : options.hooks)
        if (each.after_create) each.after_create(*session);
    } catch (...) {
      drop_session();
      throw;
    }
  }

  /// The chief restores the Variables, or initializes them.
  void begin() {
    const std::optional<std::string> latest =
        saves() ? latest_checkpoint(options.checkpoint_dir, Where()) : std::optional<std::string>();
    if (latest) {
      restore(*latest);
    } else {
      initialize_all();
    }
    step = current_step();
    last_saved = latest ? std::optional(step) : std::nullopt;
    last_save_time = Clock::now();
    if (saves() && !latest) save();
  }

  void initialize_all() {
    std::vector<Fetch> all = initialize;
    if (!is_remote())
      for (const GraphVariable& each : variables)
        if (each.initializer) all.emplace_back(operation_of(*each.initializer));
    if (!all.empty()) run_waiting(all, {});
    runs = 0;
  }

  /// The names of the Variables that have no value yet.
  std::vector<std::string> not_ready() const {
    std::vector<bool> is_ready;
    if (!is_remote()) {
      for (const GraphVariable& each : variables) is_ready.push_back(is_variable_initialized(each.variable));
    } else if (!are_initialized.empty()) {
      for (const Tensor& each : run_waiting(are_initialized, {})) is_ready.push_back(each.item<bool>());
    }
    std::vector<std::string> names;
    for (std::size_t i = 0; i < is_ready.size(); ++i)
      if (!is_ready[i]) names.push_back(variables[i].name);
    return names;
  }

  std::vector<Tensor> run_waiting(const std::vector<Fetch>& fetches, const Feeds& feeds) const {
    RunOptions limits;
    if (is_remote()) limits.timeout_in_ms = left;
    return session->run_all(fetches, feeds, limits, nullptr, {});
  }

  // ---- Checkpoints ----

  void restore(const std::string& prefix) {
    const StateDict values = tensor_bundle::load(prefix, Where());
    const auto value_of = [&](const std::string& name) -> const Tensor& {
      const auto found = values.find(name);
      if (found == values.end()) throw NotFoundError(detail::join("The checkpoint ", prefix, " lacks '", name, "'"));
      return found->second;
    };
    Feeds feeds;
    for (std::size_t i = 0; i < variables.size(); ++i) {
      const Variable& variable = variables[i].variable;
      const Tensor& value = value_of(variables[i].name);
      if (value.dtype() != variable.dtype() || !can_be(variable.shape(), value.shape()))
        throw InvalidArgumentError(detail::join("In the checkpoint ", prefix, ", '", variables[i].name, "' is ",
                                                to_string(value.dtype()), value.shape(), ", not ",
                                                to_string(variable.dtype()), variable.shape()));
      if (is_remote()) feeds.add(restored[i], value);
    }
    if (!counter) runs = number_of(value_of(runs_name));
    if (is_remote()) {
      if (!restores.empty()) run_waiting(restores, feeds);
      return;
    }
    const random::State state{.seed = static_cast<std::uint64_t>(number_of(value_of(random_seed))),
                              .offset = static_cast<std::uint64_t>(number_of(value_of(random_offset)))};
    for (const GraphVariable& each : variables)
      each.variable.cell()->copy_from(value_of(each.name).to(each.variable.device()));
    random::set_state(state);
  }

  void save() {
    StateDict values;
    if (is_remote()) {
      std::vector<Fetch> fetches;
      for (const GraphVariable& each : variables) fetches.emplace_back(each.variable);
      const std::vector<Tensor> fetched =
          fetches.empty() ? std::vector<Tensor>() : session->run_all(fetches, {}, {}, nullptr, {});
      for (std::size_t i = 0; i < variables.size(); ++i) values.insert_or_assign(variables[i].name, fetched[i]);
    } else {
      for (const GraphVariable& each : variables) values.insert_or_assign(each.name, each.variable.cell()->load());
      const random::State state = random::state();
      values.insert_or_assign(random_seed, number(static_cast<std::int64_t>(state.seed)));
      values.insert_or_assign(random_offset, number(static_cast<std::int64_t>(state.offset)));
    }
    if (counter) {
      // Other workers go on while the chief saves: the step is the one that the checkpoint has.
      for (const GraphVariable& each : variables)
        if (each.variable.is(*counter)) step = number_of(values.at(each.name));
    } else {
      values.insert_or_assign(runs_name, number(runs));
    }
    save_checkpoint(options.checkpoint_dir, options.max_to_keep, values, step);
    last_saved = step;
    last_save_time = Clock::now();
  }

  bool save_is_due() const {
    if (!saves()) return false;
    if (options.save_checkpoint_steps > 0) return step >= last_saved.value_or(0) + options.save_checkpoint_steps;
    return options.save_checkpoint_secs > 0 &&
           Clock::now() - last_save_time >= std::chrono::duration<double>(options.save_checkpoint_secs);
  }

  // ---- Runs ----

  std::int64_t current_step() const {
    if (!counter) return runs;
    if (!is_remote()) return number_of(counter->cell()->load());
    return number_of(session->run_all({Fetch(*counter)}, {}, {}, nullptr, {})[0]);
  }

  /// Whether something depends on the step after each run. On a server it takes a run of its own to read it.
  bool needs_step() const {
    return !is_remote() || options.stop_at_step > 0 || !options.hooks.empty() ||
           (saves() && options.save_checkpoint_steps > 0);
  }

  std::vector<Tensor> run(const std::vector<Fetch>& fetches, const Feeds& feeds, Where where) {
    if (stopped || !session) throw FailedPreconditionError("The training has ended: run was called after should_stop");
    std::vector<Fetch> all = fetches;
    for (const SessionHook& each : options.hooks) all.insert(all.end(), each.fetches.begin(), each.fetches.end());
    std::vector<Tensor> values = recovering([&] {
      std::vector<Tensor> results = run_once(all, feeds, where);
      ++runs;
      if (needs_step()) step = current_step();
      return results;
    });
    call_hooks(values, fetches.size());
    if (options.stop_at_step > 0 && step >= options.stop_at_step) stopped = true;
    if (stopped) {
      finish();
    } else if (save_is_due()) {
      recovering([&] { save(); });
    }
    values.resize(fetches.size());
    return values;
  }

  std::vector<Tensor> run_once(const std::vector<Fetch>& fetches, const Feeds& feeds, Where where) const {
    try {
      return session->run_all(fetches, feeds, {}, nullptr, where);
    } catch (const Error&) {
      for (const SessionHook& each : options.hooks)
        if (each.after_error) each.after_error();
      throw;
    }
  }

  /// Calls f, again with a new session if a server was lost.
  template <class F>
  auto recovering(F f) -> decltype(f()) {
    if (!is_remote()) return f();
    const auto end = Clock::now() + std::chrono::duration<double>(options.max_wait_secs);
    while (true) {
      try {
        return f();
      } catch (const UnavailableError&) {
        if (Clock::now() >= end) throw;
      } catch (const AbortedError&) {
        if (Clock::now() >= end) throw;
      }
      drop_session();
      create();
    }
  }

  void drop_session() {
    for (const SessionHook& each : options.hooks)
      if (each.before_close) each.before_close();
    session.reset();
  }

  void call_hooks(const std::vector<Tensor>& values, std::size_t first) {
    for (const SessionHook& each : options.hooks) {
      const std::size_t end = first + each.fetches.size();
      if (each.after_run) {
        SessionRun run{.session = *session,
                       .step = step,
                       .values = {values.begin() + static_cast<std::ptrdiff_t>(first),
                                  values.begin() + static_cast<std::ptrdiff_t>(end)}};
        each.after_run(run);
        stopped |= run.stop;
      }
      first = end;
    }
  }

  /// Once, at the end of the training.
  void finish() {
    if (std::exchange(finished, true)) return;
    if (saves()) {
      step = current_step();
      if (last_saved != step) save();
    }
    for (const SessionHook& each : options.hooks)
      if (each.end) each.end(*session, step);
  }

  void close() {
    if (!session) return;
    stopped = true;
    try {
      finish();
    } catch (...) {
      drop_session();
      throw;
    }
    drop_session();
  }

  const std::string target;
  const Graph graph;
  const MonitoredSessionOptions options;
  std::optional<Variable> counter;  ///< of the global step
  std::vector<GraphVariable> variables;
  // On servers:
  std::vector<Fetch> are_initialized;  ///< by Variable
  Tensors restored;                    ///< by Variable: the placeholders of values
  std::vector<Fetch> restores, initialize;

  std::optional<Session> session;
  std::int64_t left = 0;  ///< milliseconds for the beginning
  std::int64_t step = 0, runs = 0;
  std::optional<std::int64_t> last_saved;
  Clock::time_point last_save_time;
  bool stopped = false, finished = false;
};

MonitoredSession::MonitoredSession(std::string_view target, const MonitoredSessionOptions& options, Where where)
    : MonitoredSession(target, default_graph(), options, where) {}
MonitoredSession::MonitoredSession(std::string_view target, const Graph& graph, const MonitoredSessionOptions& options,
                                   Where where)
    : state_(detail::locating({}, where, [&] { return std::make_unique<State>(target, graph, options); })) {}

MonitoredSession::~MonitoredSession() {
  try {
    if (state_) state_->close();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): a destructor cannot tell; `close` does
  }
}
MonitoredSession::MonitoredSession(MonitoredSession&&) noexcept = default;
MonitoredSession& MonitoredSession::operator=(MonitoredSession&&) noexcept = default;

bool MonitoredSession::should_stop() const { return state_->stopped; }
void MonitoredSession::request_stop() { state_->stopped = true; }
std::int64_t MonitoredSession::step() const { return state_->step; }

const Session& MonitoredSession::session(Where where) const {
  if (!state_->session) throw FailedPreconditionError("The session was closed", where);
  return *state_->session;
}

void MonitoredSession::close(Where where) {
  detail::locating({}, where, [&] { state_->close(); });
}

std::vector<Tensor> MonitoredSession::run_all(const std::vector<Fetch>& fetches, const Feeds& feeds, Where where) {
  return detail::locating({}, where, [&] { return state_->run(fetches, feeds, where); });
}

}  // namespace tapestry::train
