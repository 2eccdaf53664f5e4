#include "graph/staged_plan.hpp"

#include <algorithm>
#include <optional>

#include "graph/state_ops.hpp"

namespace tapestry::detail {
namespace {

std::ptrdiff_t number_of(const Tensors& list, const Tensor& wanted) {
  const auto found = std::find_if(list.begin(), list.end(), [&](const Tensor& each) { return each.is(wanted); });
  return found == list.end() ? -1 : found - list.begin();
}

/// Whether several parts of a run may have the node: a constant or a Variable's handle.
bool is_repeatable(const Node& node) { return &node.op() == &const_op || &node.op() == &var_handle_op; }

/// Whether the request needs an op whose sizes may depend on values.
bool may_be_open(const GraphState& graph, const Request& request) {
  const std::vector<char> needed = needed_nodes(graph, request);
  for (std::size_t i = 0; i < needed.size(); ++i)
    if (needed[i] && graph.node(i).op().evaluate) return true;
  return false;
}

/// The tensors that nodes read although some of their sizes are known only once they are computed, and that need no
/// such node themselves. Ops that run functions, or that allocate their outputs themselves, may read such tensors.
Tensors open_inputs(const GraphState& graph) {
  Tensors open;
  std::vector<char> is_late(graph.size());  // it reads an open tensor, or needs a node that does
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    const auto waits = [&](const Node* other) { return is_late[other->index] != 0; };
    bool late = std::any_of(node.control_inputs.begin(), node.control_inputs.end(), waits);
    for (const Tensor& input : node.inputs()) late = late || waits(endpoint_of(input).node);
    for (const Tensor& input : node.inputs()) {
      if (node.op().evaluate || input.shape().is_known() || waits(endpoint_of(input).node)) continue;
      if (number_of(open, input) < 0) open.push_back(input);
      late = true;
    }
    is_late[i] = late;
  }
  return open;
}

}  // namespace

void add_carried_fetches(const GraphState& graph, Request& part, const Request& promised) {
  const std::vector<char> now = needed_nodes(graph, part);
  Request whole = promised;
  whole.feeds = part.feeds;
  whole.done = part.done;
  const std::vector<char> ever = needed_nodes(graph, whole);
  const auto keep = [&](const Tensor& tensor) {
    const Node& producer = *endpoint_of(tensor).node;
    if (now[producer.index] && !is_repeatable(producer) && number_of(part.feeds, tensor) < 0 &&
        number_of(part.fetches, tensor) < 0)
      part.fetches.push_back(tensor);
  };
  for (const Tensor& fetch : promised.fetches) keep(fetch);
  for (std::size_t i = 0; i < graph.size(); ++i) {
    Node& node = graph.node(i);
    if (ever[i] && !now[i])
      for (const Tensor& input : node.inputs()) keep(input);
    if (!now[i] || is_repeatable(node)) continue;
    if (&node.op() == &placeholder_op)
      throw InvalidArgumentError(
          join("Placeholder '", node.name(), "' is needed for what is fetched, and has not been fed so far."));
    part.done.push_back(&node);
  }
}

namespace {

/// Where a request is cut: the open tensors in the graph with the shapes that are fed.
struct Cut {
  PlanGraph whole;
  Tensors open;
};
std::optional<Cut> find_cut(const GraphState& graph, const Request& request) {
  if (!may_be_open(graph, request)) return {};
  const PauseRecording pause;
  const ExecuteNow now;
  PlanGraph whole = specialize(graph, request);
  Tensors open = open_inputs(*whole.graph);
  if (open.empty()) return {};
  return Cut{std::move(whole), std::move(open)};
}

/// The request in the graph that is cut.
Request whole_request(const Cut& cut, const Request& request) {
  return {
      .fetches = cut.whole.fetches, .operations = cut.whole.operations, .feeds = cut.whole.feeds, .fed = request.fed};
}

/// The part before the cut, with what the rest needs of it.
Request part_before(const Cut& cut, const Request& whole) {
  Request part = whole;
  part.fetches = cut.open;
  part.operations.clear();
  add_carried_fetches(*cut.whole.graph, part, whole);
  return part;
}

}  // namespace

PlannedPart first_part(const GraphState& graph, const Request& request) {
  const std::optional<Cut> cut = find_cut(graph, request);
  if (!cut) return {{}, request};
  Request part = part_before(*cut, whole_request(*cut, request));
  part.done.clear();
  return {cut->whole.graph, std::move(part)};
}

StagedPlan::StagedPlan(const GraphState& graph, const Request& request, const SessionOptions& options)
    : options_(options) {
  const std::optional<Cut> cut = find_cut(graph, request);
  if (!cut) {
    first_ = std::make_unique<Partitioned>(make_plan(graph, request, options));
    return;
  }
  specialized_ = cut->whole.graph;
  rest_ = whole_request(*cut, request);
  Request part = part_before(*cut, rest_);
  open_ = cut->open.size();
  rest_.done = std::exchange(part.done, {});
  rest_.feeds.append(part.fetches.begin(), part.fetches.end());
  rest_.fed.clear();
  for (const Tensor& fetch : std::exchange(rest_.fetches, {})) {
    fetched_early_.push_back(number_of(rest_.feeds, fetch));
    if (fetched_early_.back() < 0) rest_.fetches.push_back(fetch);
  }
  std::erase_if(rest_.operations, [&](const Node* node) {
    return std::find(rest_.done.begin(), rest_.done.end(), node) != rest_.done.end();
  });
  first_ = std::make_unique<Partitioned>(make_plan(*specialized_, part, options_));
}

ExecutionPlan StagedPlan::description() const {
  ExecutionPlan whole = first_->description();
  const std::lock_guard lock(mutex_);
  if (last_) append(whole, last_->description());
  return whole;
}

Tensors StagedPlan::run(const Tensors& feeds, RunTimes* times, const Deadline* deadline) {
  if (!specialized_) return first_->run(feeds, times, deadline);
  Tensors values = feeds;
  const Tensors computed = first_->run(feeds, times, deadline);
  // Without a value its sizes never become known, and every further part would be cut at it again.
  for (std::size_t i = 0; i < open_; ++i)
    if (!computed[i])
      throw InvalidArgumentError(
          join("'", rest_.feeds[feeds.size() + i].name(), "' has no value: it is of a branch that was not taken"));
  values.append(computed.begin(), computed.end());
  Tensors late;
  if (!rest_.fetches.empty() || !rest_.operations.empty()) late = rest_for(values)->run(values, times, deadline);
  Tensors results;
  std::size_t next = 0;
  for (const std::ptrdiff_t early : fetched_early_)
    results.push_back(early >= 0 ? values[static_cast<std::size_t>(early)] : late[next++]);
  return results;
}

std::shared_ptr<StagedPlan> StagedPlan::rest_for(const Tensors& values) {
  Request request = rest_;
  std::vector<std::int64_t> key;
  for (std::size_t i = 0; i < values.size(); ++i) {
    request.fed.push_back(values[i] ? values[i].spec() : rest_.feeds[i].spec());
    const Spec& spec = request.fed.back();
    key.push_back(static_cast<std::int64_t>(spec.dtype));
    key.push_back(spec.shape.rank());
    key.insert(key.end(), spec.shape.sizes().begin(), spec.shape.sizes().end());
  }
  const std::lock_guard graph_lock(specialized_->mutex());
  const std::lock_guard lock(mutex_);
  if (rests_.size() > options_.most_plans) rests_.clear();
  std::shared_ptr<StagedPlan>& rest = rests_[key];
  if (!rest || !rest->is_placed()) rest = std::make_shared<StagedPlan>(*specialized_, request, options_);
  last_ = rest;
  return rest;
}

}  // namespace tapestry::detail
