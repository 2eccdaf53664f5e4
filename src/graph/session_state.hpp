#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <optional>
#include <stop_token>
#include <utility>

#include "core/make_tensor.hpp"
#include "graph/explain.hpp"
#include "graph/feeds.hpp"
#include "graph/remote_session.hpp"
#include "graph/staged_plan.hpp"
#include "graph/state_ops.hpp"
#include "tapestry/detail/locate.hpp"
#include "tapestry/session.hpp"

namespace tapestry {

/// What a Session, its callables and its partial runs share: the plans that it has made, or the session on a server.
class SessionState : public std::enable_shared_from_this<SessionState> {
 public:
  SessionState(const Graph& graph, const SessionOptions& options,
               std::unique_ptr<detail::RemoteSession> remote = nullptr)
      : graph_(graph), options_(options), remote_(std::move(remote)) {}

  const Graph& graph() const { return graph_; }
  /// nullptr for a session in this process.
  detail::RemoteSession* remote() const { return remote_.get(); }
  void close() {
    if (!closed_.exchange(true) && remote_) remote_->close();
    closing_.request_stop();  // runs of other threads end
    const std::lock_guard lock(mutex_);
    plans_.clear();
    substituted_.clear();
  }

  /// The fetches of a run as tensors and operations of the graph, and where each result comes from.
  struct Prepared {
    struct Result {
      enum class From : std::uint8_t { fetch, feed, nothing, value };
      From from = From::nothing;
      std::size_t index = 0;  ///< among the fetches or the feeds
      Tensor value{};         ///< of an eager tensor
    };
    detail::Request request;
    std::vector<Result> results;
    std::vector<std::int64_t> key{};             ///< the beginning of the keys in `plans_` for these fetches and feeds
    std::vector<std::size_t> absorbed{};         ///< the feeds whose values are attributes of other nodes of a file
    std::shared_ptr<detail::StagedPlan> plan{};  ///< that of the last run, for feeds with the specs `request.fed`
    /// On a server: of a callable or a run in parts.
    std::shared_ptr<detail::RemoteSession::Prepared> remote{};
  };

  /// Resolves the fetches and targets of a run. Throws for one that cannot be fetched.
  Prepared prepare(const std::vector<Fetch>& fetches, const std::vector<Operation>& targets,
                   const Tensors& keys) const {
    const std::shared_ptr<detail::GraphState>& graph = graph_.state();
    const std::lock_guard lock(graph->mutex());
    require_open();
    if (graph->size() == 0)
      throw FailedPreconditionError("The Session graph is empty.  Add operations to the graph before calling run().");
    if (fetches.empty() && targets.empty())
      throw InvalidArgumentError("Must specify at least one target to fetch or execute.");
    Prepared run{.request = {.fetches = {}, .operations = {}, .feeds = keys, .fed = {}}, .results = {}};
    for (const Fetch& fetch : fetches) run.results.push_back(resolve(fetch, run.request));
    for (const Operation& target : targets) resolve(target, run.request);
    run.key = key_of(run.request);
    for (std::size_t i = 0; i < keys.size(); ++i)
      if (graph->absorbed.contains(keys[i].id())) run.absorbed.push_back(i);
    return run;
  }

  /// The tensors and operations for some fetches.
  detail::Request request_for(const std::vector<Fetch>& fetches) const {
    return prepare(fetches, std::vector<Operation>(), Tensors()).request;
  }

  Tensors run(Prepared& prepared, const Tensors& values, const RunOptions& options = {},
              RunMetadata* metadata = nullptr) {
    require_open();
    if (options.timeout_in_ms < 0)
      throw InvalidArgumentError(detail::join("timeout_in_ms must not be negative: ", options.timeout_in_ms));
    if (options.stop.stop_requested()) throw CancelledError("The run was cancelled before it began");
    Tensors fetched, results;
    if (metadata) *metadata = {};
    if (!prepared.request.fetches.empty() || !prepared.request.operations.empty()) {
      try {
        fetched =
            remote_ ? run_remotely(prepared, values, options, metadata) : run_here(prepared, values, options, metadata);
      } catch (Error& error) {
        if (graph_.state()->file) error.show_node();
        throw;
      }
    }
    for (const Prepared::Result& each : prepared.results) {
      using From = Prepared::Result::From;
      if (each.from == From::fetch && !fetched[each.index])
        throw InvalidArgumentError(detail::join("'", prepared.request.fetches[each.index].name(),
                                                "' has no value: it is of a branch that was not taken"));
      results.push_back(each.from == From::fetch  ? fetched[each.index]
                        : each.from == From::feed ? values[each.index]
                                                  : each.value);
    }
    return results;
  }

  Tensors run(const std::vector<Fetch>& fetches, const Feeds& feeds, const RunOptions& options, RunMetadata* metadata,
              Where where) {
    return detail::locating({}, where, [&] {
      auto [prepared, values] = prepare(fetches, feeds, where);
      return run(prepared, values, options, metadata);
    });
  }

  Explanation explain(const std::vector<Fetch>& fetches, const Feeds& feeds, Where where) {
    return detail::locating({}, where, [&] {
      if (remote_) throw UnimplementedError("A session on a server has no plan that could be explained");
      auto [prepared, values] = prepare(fetches, feeds, where);
      Substituted run{shared_from_this(), prepared.request, values};
      if (!prepared.absorbed.empty()) run = substitute(prepared, values);
      for (const Tensor& value : run.values) run.request.fed.push_back(value.spec());
      const detail::GraphState& graph = *run.session->graph_.state();
      const std::lock_guard lock(graph.mutex());
      return detail::explain(graph, run.request, options_);
    });
  }

  std::vector<DeviceAttributes> list_devices() const {
    require_open();
    if (remote_) return remote_->list_devices();
    const std::vector<Device> own = devices();
    std::vector<DeviceAttributes> list(own.size());
    for (std::size_t i = 0; i < own.size(); ++i) {
      const std::string name = full_name(own[i]);
      const std::size_t type = name.rfind('/') + std::string_view("/device:").size();
      list[i].device_type = name.substr(type, name.rfind(':') - type);
      list[i].name = name;
    }
    return list;
  }

  Tensor feed_key(const Feed::Key& key, Where where) const {
    Tensor tensor = key.name().empty() ? key.tensor() : graph_.get_tensor_by_name(key.name(), where);
    if (!tensor || !detail::endpoint_of(tensor).node)
      throw InvalidArgumentError("Cannot interpret feed_dict key as Tensor: it is an eager tensor");
    if (!is_own(tensor)) refuse_foreign(tensor, "Cannot interpret feed_dict key as Tensor: ");
    if (!graph_.is_feedable(tensor))
      throw InvalidArgumentError(detail::join("Tensor ", tensor.name(), " may not be fed."));
    return tensor;
  }

 private:
  Tensors run_here(Prepared& prepared, const Tensors& values, const RunOptions& options, RunMetadata* metadata) {
    const std::int64_t timeout = options.timeout_in_ms > 0 ? options.timeout_in_ms : options_.operation_timeout_in_ms;
    const std::optional<detail::Deadline> deadline =
        graph_.state()->budget().deadline(timeout, options.stop, closing_.get_token());
    const detail::Deadline* until = deadline ? &*deadline : nullptr;
    if (prepared.absorbed.empty()) return run_plan(plan_for(prepared, values), values, options, until, metadata);
    auto [session, request, rest] = substitute(prepared, values);
    Prepared there{.request = std::move(request), .results = {}};
    there.key = key_of(there.request);
    return run_plan(session->plan_for(there, rest), rest, options, until, metadata);
  }

  Tensors run_remotely(const Prepared& prepared, const Tensors& values, const RunOptions& options,
                       RunMetadata* metadata) {
    if (!prepared.absorbed.empty())
      throw UnimplementedError(
          detail::join("Tensor ", prepared.request.feeds[prepared.absorbed[0]].name(),
                       " cannot be fed in a session on a server: its value is an attribute of other operations"));
    // The server keeps a callable's options with the callable.
    const bool has_options = options.trace_level != TraceLevel::none || options.timeout_in_ms > 0 ||
                             options.stop.stop_possible() || metadata != nullptr;
    return prepared.remote && !has_options ? prepared.remote->run(prepared.request, values)
                                           : remote_->run(prepared.request, values, options, metadata);
  }

  void require_open() const {
    if (closed_) throw FailedPreconditionError("Attempted to use a closed Session.");
  }

  std::pair<Prepared, Tensors> prepare(const std::vector<Fetch>& fetches, const Feeds& feeds, Where where) const {
    require_open();
    Tensors keys, values;
    for (const Feed& feed : feeds) {
      const Tensor key = feed_key(feed.key, where);
      if (std::any_of(keys.begin(), keys.end(), [&](const Tensor& other) { return other.is(key); }))
        throw InvalidArgumentError(detail::join("Endpoint \"", key.name(), "\" fed more than once."));
      keys.push_back(key);
      values.push_back(detail::fed_value(key, feed.value, where));
    }
    return {prepare(fetches, {}, keys), values};
  }

  static std::vector<std::int64_t> key_of(const detail::Request& request) {
    std::vector<std::int64_t> key;
    key.reserve(request.fetches.size() + request.operations.size() + request.feeds.size() + 2);
    for (const Tensor& fetch : request.fetches) key.push_back(fetch.id());
    key.push_back(-1);
    for (const detail::Node* node : request.operations) key.push_back(static_cast<std::int64_t>(node->index));
    key.push_back(-1);
    for (const Tensor& feed : request.feeds) key.push_back(feed.id());
    return key;
  }

  /// A run in the graph of the same file that has constants instead of the feeds whose values are attributes.
  struct Substituted {
    std::shared_ptr<SessionState> session;
    detail::Request request;
    Tensors values;  ///< of the feeds that are left
  };

  Substituted substitute(const Prepared& prepared, const Tensors& values) {
    const detail::Request& from = prepared.request;
    detail::FileNodes& file = *graph_.state()->file;
    const std::lock_guard graph_lock(graph_.state()->mutex());
    const auto is_absorbed = [&](std::size_t i) {
      return std::find(prepared.absorbed.begin(), prepared.absorbed.end(), i) != prepared.absorbed.end();
    };
    Tensors keys, constants;
    std::string key;
    for (const std::size_t i : prepared.absorbed) {
      keys.push_back(from.feeds[i]);
      constants.push_back(detail::on_host(values[i]).contiguous());
      key += detail::join(keys.back().id(), constants.back().shape(), ":");
      key.append(static_cast<const char*>(constants.back().impl().data), detail::nbytes(constants.back()));
    }
    Substituted run{substituted_session(std::move(key), keys, constants), {}, {}};
    const std::shared_ptr<detail::GraphState>& graph = run.session->graph_.state();
    const std::lock_guard lock(graph->mutex());
    const auto tensor_there = [&](const Tensor& tensor) {
      const detail::FileNodes::Name name = file.name_of(tensor);
      return (*graph->file->outputs(name.node, name.output))[name.output];
    };
    const auto node_there = [&](const detail::Node* node) { return graph->file->find(file.name_of(*node)); };
    for (const Tensor& fetch : from.fetches) run.request.fetches.push_back(tensor_there(fetch));
    for (const detail::Node* node : from.operations) run.request.operations.push_back(node_there(node));
    for (const detail::Node* node : from.done) run.request.done.push_back(node_there(node));
    for (std::size_t i = 0; i < from.feeds.size(); ++i) {
      if (is_absorbed(i)) continue;
      run.request.feeds.push_back(tensor_there(from.feeds[i]));
      run.values.push_back(values[i]);
    }
    return run;
  }

  /// The session for these values; a few are kept.
  std::shared_ptr<SessionState> substituted_session(std::string key, const Tensors& keys, const Tensors& values) {
    constexpr std::size_t most_sessions = 16;
    const std::lock_guard lock(mutex_);
    const auto found =
        std::find_if(substituted_.begin(), substituted_.end(), [&](const auto& each) { return each.first == key; });
    if (found != substituted_.end()) return found->second;
    const Graph graph(graph_.state()->file->with_values(keys, values));
    if (substituted_.size() == most_sessions) substituted_.erase(substituted_.begin());
    return substituted_.emplace_back(std::move(key), std::make_shared<SessionState>(graph, options_)).second;
  }

  static Tensors run_plan(detail::StagedPlan& plan, const Tensors& values, const RunOptions& options,
                          const detail::Deadline* deadline, RunMetadata* metadata) {
    if (!metadata) return plan.run(values, nullptr, deadline);
    *metadata = {
        .graph = plan.graph(), .plan = plan.description(), .times = {}, .functions = {}, .start = microseconds_now()};
    detail::RunTimes times;
    Tensors results = plan.run(values, options.trace_level == TraceLevel::none ? nullptr : &times, deadline);
    metadata->plan = plan.description();
    metadata->times = std::move(times.steps);
    metadata->functions = std::move(times.functions);
    return results;
  }

  bool is_own(const Tensor& tensor) const { return detail::graph_of(tensor) == graph_.state(); }
  [[noreturn]] static void refuse_foreign(const Tensor& tensor, std::string_view before) {
    throw InvalidArgumentError(
        detail::join(before, "(Tensor ", detail::describe(tensor), " is not an element of this graph.)"));
  }

  void require_fetchable(const detail::Node& node) const {
    if (graph_.state()->not_fetchable.contains(&node))
      throw InvalidArgumentError(detail::join("Operation '", node.name(), "' has been marked as not fetchable."));
  }

  /// The tensor or the operation that a fetch names; the other one is empty.
  std::pair<Tensor, Operation> element_of(const Fetch& fetch) const {
    switch (fetch.kind_) {
      case Fetch::Kind::tensor:
        return {fetch.tensor_, {}};
      case Fetch::Kind::operation:
        return {{}, fetch.operation_};
      case Fetch::Kind::variable:
        return {graph_.state()->read(Variable(static_cast<const std::shared_ptr<Variable::Cell>&>(fetch.cell_)), {}),
                {}};
      default:
        if (fetch.name_.find(':') == std::string::npos) return {{}, graph_.get_operation_by_name(fetch.name_, {})};
        return {graph_.get_tensor_by_name(fetch.name_, {}), {}};
    }
  }

  Prepared::Result resolve(const Fetch& fetch, detail::Request& request) const {
    using From = Prepared::Result::From;
    std::pair<Tensor, Operation> element = element_of(fetch);
    Tensor& tensor = element.first;
    const Operation& operation = element.second;
    if (!tensor && !operation) throw InvalidArgumentError("Fetch argument None has invalid type <class 'NoneType'>");
    if (operation) {
      detail::Node& node = detail::node_of(operation);
      if (operation.graph().state() != graph_.state())
        throw InvalidArgumentError(detail::join("Fetch argument ", operation.name(),
                                                " cannot be interpreted as a Tensor. (Operation ", operation.name(),
                                                " is not an element of this graph.)"));
      require_fetchable(node);
      request.operations.push_back(&node);
      return {};
    }
    if (!detail::endpoint_of(tensor).node) return {.from = From::value, .value = tensor};
    if (!is_own(tensor))
      refuse_foreign(tensor,
                     detail::join("Fetch argument ", detail::describe(tensor), " cannot be interpreted as a Tensor. "));
    // A Variable's handle stands for its value.
    const detail::Node& producer = *detail::endpoint_of(tensor).node;
    require_fetchable(producer);
    if (tensor.dtype() == DType::resource)
      tensor = graph_.state()->read(producer.attr<VariablesRef>("variables")->front(), {});
    const auto index_in = [&wanted = tensor](const Tensors& list) {
      const auto found = std::find_if(list.begin(), list.end(), [&](const Tensor& each) { return each.is(wanted); });
      return static_cast<std::size_t>(found - list.begin());
    };
    const std::size_t feed = index_in(request.feeds), fetched = index_in(request.fetches);
    if (feed < request.feeds.size()) return {.from = From::feed, .index = feed};
    if (fetched == request.fetches.size()) request.fetches.push_back(tensor);
    return {.from = From::fetch, .index = fetched};
  }

  detail::StagedPlan& plan_for(Prepared& prepared, const Tensors& values) {
    const auto has_spec = [](const Tensor& value, const Spec& spec) {
      return value.dtype() == spec.dtype && value.shape() == spec.shape;
    };
    if (prepared.plan && prepared.plan->is_placed() &&
        std::equal(values.begin(), values.end(), prepared.request.fed.begin(), has_spec))
      return *prepared.plan;
    prepared.plan.reset();  // if no plan can be made, the next run must not take the old one
    prepared.request.fed.clear();
    std::vector<std::int64_t> key = prepared.key;
    for (const detail::Node* node : prepared.request.done) key.push_back(node->index);
    key.push_back(-1);
    for (const Tensor& value : values) {
      prepared.request.fed.push_back(value.spec());
      key.push_back(static_cast<std::int64_t>(value.dtype()));
      key.push_back(value.rank());
      key.insert(key.end(), value.shape().sizes().begin(), value.shape().sizes().end());
    }
    std::shared_ptr<detail::StagedPlan> dropped;  // destroyed after the locks are released
    const std::lock_guard graph_lock(graph_.state()->mutex());
    const std::lock_guard lock(mutex_);
    if (const auto found = plans_.find(key); found != plans_.end() && found->second.plan->is_placed()) {
      found->second.last_run = ++runs_;
      prepared.plan = found->second.plan;
    } else {
      // The timeout of the run does not end the planning, because the next run can use the plan.
      const auto deadline = graph_.state()->budget().deadline(0);
      const detail::NodeDeadline until(deadline);
      prepared.plan = std::make_shared<detail::StagedPlan>(*graph_.state(), prepared.request, options_);
      plans_.insert_or_assign(std::move(key), KeptPlan{prepared.plan, ++runs_});
      if (plans_.size() > options_.most_plans) dropped = drop_oldest_plan();
    }
    return *prepared.plan;
  }

  static std::int64_t microseconds_now() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  }

  struct KeptPlan {
    std::shared_ptr<detail::StagedPlan> plan;
    std::uint64_t last_run;
  };

  std::shared_ptr<detail::StagedPlan> drop_oldest_plan() {
    const auto oldest = std::min_element(plans_.begin(), plans_.end(), [](const auto& a, const auto& b) {
      return a.second.last_run < b.second.last_run;
    });
    return plans_.extract(oldest).mapped().plan;
  }

  Graph graph_;
  SessionOptions options_;
  std::unique_ptr<detail::RemoteSession> remote_;
  std::atomic<bool> closed_ = false;
  std::stop_source closing_;
  mutable std::mutex mutex_;
  std::map<std::vector<std::int64_t>, KeptPlan> plans_;
  std::vector<std::pair<std::string, std::shared_ptr<SessionState>>> substituted_;  ///< by the values, oldest first
  std::uint64_t runs_ = 0;  ///< counts the uses of plans, which tells their order
};

}  // namespace tapestry
