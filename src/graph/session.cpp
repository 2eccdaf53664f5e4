#include "tapestry/session.hpp"

#include <algorithm>
#include <map>

#include "core/make_tensor.hpp"
#include "graph/executable.hpp"
#include "graph/state_ops.hpp"

namespace tapestry {

using detail::endpoint_of;
using detail::Executable;
using detail::GraphState;
using detail::node_of;

namespace {

/// "(3,)", "(2, 3)", "(?, 3)": a shape as Python writes it.
std::string python_shape(const Shape& shape) {
  if (!shape.has_rank()) return "<unknown>";
  std::string text = "(";
  for (int i = 0; i < shape.rank(); ++i)
    text += (i > 0 ? ", " : "") + (shape[i] < 0 ? std::string("?") : std::to_string(shape[i]));
  return text + (shape.rank() == 1 ? ",)" : ")");
}

/// The value in the key's dtype and of a shape that the key can have.
Tensor fed_value(const Tensor& key, const Init& value, Where where) {
  const ExecuteNow now;
  Tensor tensor = value.tensor({}, where);
  if (!tensor || tensor.is_symbolic())
    throw InvalidArgumentError(
        detail::join("The value of a feed cannot be a symbolic tensor, as for Tensor '", key.name(), "'"), where);
  if (!can_be(key.shape(), tensor.shape()))
    throw InvalidArgumentError(
        detail::join("Cannot feed value of shape ", python_shape(tensor.shape()), " for Tensor '", key.name(),
                     "', which has shape '", python_shape(key.shape()), "'"),
        where);
  const DType wanted = key.dtype();
  if (wanted == DType::unknown || wanted == tensor.dtype()) return tensor;
  if (wanted == DType::resource)
    throw InvalidArgumentError(detail::join("Tensor ", key.name(), " may not be fed."), where);
  const bool loses = (is_floating(tensor.dtype()) && !is_floating(wanted)) ||
                     (tensor.dtype() == int64 && wanted == int32) || wanted == boolean;
  if (loses)
    throw InvalidArgumentError(
        detail::join("Type of feed value with type ", to_string(tensor.dtype()), " is not compatible with Tensor type ",
                     to_string(wanted), " of Tensor '", key.name(),
                     "'. Try explicitly setting the type of the feed tensor to a larger type (e.g. int64)."),
        where);
  return value.tensor(wanted, where);
}

}  // namespace

Fetch::Fetch(const Variable& variable) : cell_(variable.cell()), kind_(Kind::variable) {}

class SessionState : public std::enable_shared_from_this<SessionState> {
 public:
  SessionState(const Graph& graph, const SessionOptions& options) : graph_(graph), options_(options) {}

  const Graph& graph() const { return graph_; }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    plans_.clear();
  }

  std::vector<Tensor> run(const std::vector<Fetch>& fetches, const Feeds& feeds, Where where) {
    try {
      Tensors keys, values;
      for (const Feed& feed : feeds) {
        const Tensor key = feed_key(feed.key, where);
        if (std::any_of(keys.begin(), keys.end(), [&](const Tensor& other) { return other.is(key); }))
          throw InvalidArgumentError(detail::join("Endpoint \"", key.name(), "\" fed more than once."));
        keys.push_back(key);
        values.push_back(fed_value(key, feed.value, where));
      }
      return run(fetches, keys, values);
    } catch (Error& error) {
      error.locate({}, where);
      throw;
    }
  }

  Tensor feed_key(const Feed::Key& key, Where where) const {
    const Tensor tensor = key.name().empty() ? key.tensor() : graph_.get_tensor_by_name(key.name(), where);
    if (!tensor || !endpoint_of(tensor).node)
      throw InvalidArgumentError("Cannot interpret feed_dict key as Tensor: it is an eager tensor");
    require_own(tensor, "Cannot interpret feed_dict key as Tensor: ");
    return tensor;
  }

  std::vector<Tensor> run(const std::vector<Fetch>& fetches, const Tensors& keys, const Tensors& values) {
    const std::shared_ptr<GraphState>& graph = graph_.state();
    std::vector<Tensor> results(fetches.size());
    Tensors from_feeds;
    std::vector<std::size_t> fetched_places;
    std::shared_ptr<Executable> plan;
    {
      const std::lock_guard lock(graph->mutex());
      require_usable(*graph);
      detail::Request request{.fetches = {}, .operations = {}, .feeds = keys, .fed = {}};
      for (const Tensor& value : values) request.fed.push_back(value.spec());
      for (std::size_t i = 0; i < fetches.size(); ++i) resolve(fetches[i], i, request, values, results, fetched_places);
      if (request.fetches.empty() && request.operations.empty()) {
        if (fetches.empty()) throw InvalidArgumentError("Must specify at least one target to fetch or execute.");
        return results;
      }
      plan = plan_for(*graph, request, values);
    }
    const Tensors fetched = plan->run(values);
    for (std::size_t i = 0; i < fetched_places.size(); ++i) results[fetched_places[i]] = fetched[i];
    return results;
  }

 private:
  void require_usable(const GraphState& graph) {
    {
      const std::lock_guard lock(mutex_);
      if (closed_) throw FailedPreconditionError("Attempted to use a closed Session.");
    }
    if (graph.size() == 0)
      throw FailedPreconditionError("The Session graph is empty.  Add operations to the graph before calling run().");
  }

  void require_own(const Tensor& tensor, std::string_view before) const {
    if (detail::graph_of(tensor) != graph_.state())
      throw InvalidArgumentError(
          detail::join(before, "Tensor ", detail::describe(tensor), " is not an element of this graph."));
  }

  /// Adds a fetch to the request, or puts its result where it is known already.
  void resolve(const Fetch& fetch, std::size_t place, detail::Request& request, const Tensors& values,
               std::vector<Tensor>& results, std::vector<std::size_t>& fetched_places) {
    Tensor tensor = fetch.tensor_;
    Operation operation = fetch.operation_;
    switch (fetch.kind_) {
      case Fetch::Kind::tensor:
        if (!tensor) throw InvalidArgumentError("Fetch argument None has invalid type <class 'NoneType'>");
        if (!endpoint_of(tensor).node) {
          results[place] = tensor;  // an eager tensor is its own value
          request.operations.reserve(1);
          return;
        }
        break;
      case Fetch::Kind::operation:
        if (!operation) throw InvalidArgumentError("Fetch argument None has invalid type <class 'NoneType'>");
        break;
      case Fetch::Kind::variable:
        tensor = graph_.state()->read(Variable(fetch.cell_), {});
        break;
      case Fetch::Kind::name:
        if (fetch.name_.find(':') == std::string::npos) {
          operation = graph_.get_operation_by_name(fetch.name_, {});
        } else {
          tensor = graph_.get_tensor_by_name(fetch.name_, {});
        }
    }
    if (!tensor) {
      detail::Node& node = node_of(operation);
      if (node.graph != graph_.state().get())
        throw InvalidArgumentError(detail::join("Fetch argument ", operation.name(),
                                                " cannot be interpreted as a Tensor. (Operation ", operation.name(),
                                                " is not an element of this graph.)"));
      request.operations.push_back(&node);
      return;
    }
    require_own(tensor,
                detail::join("Fetch argument ", detail::describe(tensor), " cannot be interpreted as a Tensor. "));
    for (std::size_t i = 0; i < request.feeds.size(); ++i)
      if (request.feeds[i].is(tensor)) {
        results[place] = values[i];
        return;
      }
    request.fetches.push_back(tensor);
    fetched_places.push_back(place);
  }

  std::shared_ptr<Executable> plan_for(const GraphState& graph, const detail::Request& request,
                                       const Tensors& values) {
    std::vector<std::int64_t> key;
    for (const Tensor& fetch : request.fetches) key.push_back(fetch.id());
    key.push_back(-1);
    for (const detail::Node* node : request.operations) key.push_back(static_cast<std::int64_t>(node->index));
    key.push_back(-1);
    for (std::size_t i = 0; i < request.feeds.size(); ++i) {
      key.push_back(request.feeds[i].id());
      key.push_back(static_cast<std::int64_t>(request.fed[i].dtype));
      key.push_back(request.fed[i].shape.rank());
      key.insert(key.end(), request.fed[i].shape.begin(), request.fed[i].shape.end());
    }
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = plans_.find(key); found != plans_.end()) return found->second;
    }
    auto made = std::make_shared<Executable>(detail::specialize(graph, request), values);
    const std::lock_guard lock(mutex_);
    return plans_.emplace(std::move(key), std::move(made)).first->second;
  }

  Graph graph_;
  SessionOptions options_;
  std::mutex mutex_;
  bool closed_ = false;
  std::map<std::vector<std::int64_t>, std::shared_ptr<Executable>> plans_;
};

// ---- Session --------------------------------------------------------------------------------------------------------------

Session::Session(const SessionOptions& options, Where where) : Session(default_graph(), options, where) {}
Session::Session(const Graph& graph, const SessionOptions& options, Where)
    : state_(std::make_shared<SessionState>(graph, options)) {}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

void Session::close() { state_->close(); }
Graph Session::graph() const { return state_->graph(); }

std::vector<Tensor> Session::run_all(const std::vector<Fetch>& fetches, const Feeds& feeds, Where where) const {
  return state_->run(fetches, feeds, where);
}

struct Session::Callable::State {
  std::shared_ptr<SessionState> session;
  std::vector<Fetch> fetches;
  Tensors keys;
  Where where;
};

Session::Callable::Callable(std::shared_ptr<SessionState> session, std::vector<Fetch> fetches,
                            std::vector<Tensor> feeds, Where where)
    : state_(new State{session, std::move(fetches), {}, where}) {
  for (const Tensor& feed : feeds) state_->keys.push_back(session->feed_key(feed, where));
}

std::vector<Tensor> Session::Callable::call(const std::vector<Init>& values) const {
  try {
    if (values.size() != state_->keys.size())
      throw InvalidArgumentError(
          detail::join("The callable takes ", state_->keys.size(), " values, not ", values.size()));
    Tensors fed;
    for (std::size_t i = 0; i < values.size(); ++i) fed.push_back(fed_value(state_->keys[i], values[i], state_->where));
    return state_->session->run(state_->fetches, state_->keys, fed);
  } catch (Error& error) {
    error.locate({}, state_->where);
    throw;
  }
}

Session::Callable Session::make_callable(std::initializer_list<Fetch> fetches, const std::vector<Tensor>& feeds,
                                         Where where) {
  return Callable(state_, std::vector<Fetch>(fetches), feeds, where);
}

// ---- The default session --------------------------------------------------------------------------------------------------

namespace {

std::shared_ptr<SessionState>& default_session() {
  thread_local std::shared_ptr<SessionState> session;
  return session;
}

std::vector<Tensor> run_by_default(const Graph& graph, const Fetch& fetch, const Feeds& feeds, Where where) {
  const std::shared_ptr<SessionState>& session = default_session();
  if (session && session->graph().is(graph)) return session->run({fetch}, feeds, where);
  return Session(graph).run_all({fetch}, feeds, where);
}

}  // namespace

Session::Scope::Scope(std::shared_ptr<SessionState> session)
    : saved_(std::exchange(default_session(), std::move(session))) {}
Session::Scope::~Scope() { default_session() = std::move(saved_); }
Session::Scope Session::as_default() const { return Scope(state_); }

Tensor Tensor::eval(Where where) const { return eval(Feeds(), where); }
Tensor Tensor::eval(const Feeds& feeds, Where where) const {
  const Operation producer = op();
  return producer ? run_by_default(producer.graph(), *this, feeds, where)[0] : *this;
}

void Operation::run(Where where) const { run(Feeds(), where); }
void Operation::run(const Feeds& feeds, Where where) const { run_by_default(graph(), *this, feeds, where); }

}  // namespace tapestry
