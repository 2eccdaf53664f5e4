#include "graph/staged_plan.hpp"

#include <algorithm>
#include <optional>

#include "core/make_tensor.hpp"
#include "graph/flow/flow_ops.hpp"
#include "graph/state_ops.hpp"

namespace tapestry::detail {
namespace {

std::ptrdiff_t number_of(const Tensors& list, const Tensor& wanted) {
  const auto found = std::find_if(list.begin(), list.end(), [&](const Tensor& each) { return each.is(wanted); });
  return found == list.end() ? -1 : found - list.begin();
}

/// Whether several parts of a run may have the node: a constant or a Variable's handle.
bool is_repeatable(const Node& node) { return &node.op() == &const_op || &node.op() == &var_handle_op; }

/// Whether the request needs an op whose sizes may depend on values, or a node of a file that may await values.
bool may_be_open(const GraphState& graph, const Request& request) {
  const std::vector<char> needed = needed_nodes(graph, request);
  for (std::size_t i = 0; i < needed.size(); ++i)
    if (needed[i] && (allocates_results(graph.node(i)) || awaited_values(graph.node(i)))) return true;
  return false;
}

/// Tensors that must be computed before some nodes are planned, and that need no such node themselves.
struct OpenTensors {
  Tensors all{};
  Tensors awaited{};  ///< those of which a node awaits the value, not just the sizes
};

bool awaits(const Node& node, std::size_t input) {
  const Ints* awaited = awaited_values(node);
  return awaited && std::find(awaited->begin(), awaited->end(), std::int64_t(input)) != awaited->end();
}

/// Ops that run functions, or that allocate their outputs themselves, may read tensors of unknown sizes.
OpenTensors open_inputs(const GraphState& graph) {
  OpenTensors open;
  const auto add = [](Tensors& list, const Tensor& tensor) {
    if (number_of(list, tensor) < 0) list.push_back(tensor);
  };
  std::vector<char> is_late(graph.size());  // it reads an open tensor, or needs a node that does
  for (std::size_t i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    const auto waits = [&](const Node* other) { return is_late[other->index] != 0; };
    bool late = std::any_of(node.control_inputs.begin(), node.control_inputs.end(), waits);
    for (const Tensor& input : node.inputs()) late = late || waits(endpoint_of(input).node);
    for (std::size_t k = 0; k < node.inputs().size(); ++k) {
      const Tensor& input = node.input(k);
      const bool has_open_size = !node.op().evaluate && !assigns_any_sizes(node) && !input.shape().is_known();
      if ((!has_open_size && !awaits(node, k)) || waits(endpoint_of(input).node)) continue;
      add(open.all, input);
      if (awaits(node, k)) add(open.awaited, input);
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
  OpenTensors open;
};
std::optional<Cut> find_cut(const GraphState& graph, const Request& request) {
  if (!may_be_open(graph, request)) return {};
  const PauseRecording pause;
  const ExecuteNow now;
  PlanGraph whole = specialize(graph, request);
  OpenTensors open = open_inputs(*whole.graph);
  if (open.all.empty()) return {};
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
  part.fetches.clear();
  part.operations.clear();
  for (const Tensor& each : cut.open.all)
    if (number_of(part.feeds, each) < 0) part.fetches.push_back(each);
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

StagedPlan::StagedPlan(const GraphState& graph, const Request& request, const SessionOptions& options, bool is_quick)
    : options_(options), is_quick_(is_quick) {
  options_.optimize = options.optimize && !is_quick;
  options_.allow_soft_placement = options.allow_soft_placement || graph.file != nullptr;  // what is cut off has no file
  const std::optional<Cut> cut = find_cut(graph, request);
  if (!cut) {
    first_ = std::make_unique<Partitioned>(make_plan(graph, request, options_));
    return;
  }
  specialized_ = cut->whole.graph;
  rest_ = whole_request(*cut, request);
  rest_.complete = false;
  Request part = part_before(*cut, rest_);
  rest_.done = std::exchange(part.done, {});
  rest_.feeds.append(part.fetches.begin(), part.fetches.end());
  for (const Tensor& each : cut->open.all) open_.push_back(static_cast<std::size_t>(number_of(rest_.feeds, each)));
  for (const Tensor& each : cut->open.awaited)
    awaited_.push_back(static_cast<std::size_t>(number_of(rest_.feeds, each)));
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
  values.append(computed.begin(), computed.end());
  for (const std::size_t i : open_)
    if (!values[i])
      throw InvalidArgumentError(
          join("'", rest_.feeds[i].name(), "' has no value: it is of a branch that was not taken"));
  Tensors late;
  if (!rest_.fetches.empty() || !rest_.operations.empty()) late = rest_for(values)->run(values, times, deadline);
  Tensors results;
  std::size_t next = 0;
  for (const std::ptrdiff_t early : fetched_early_) results.push_back(early >= 0 ? values[early] : late[next++]);
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
  request.values.resize(values.size());
  for (const std::size_t i : awaited_) {
    const Tensor& value = request.values[i] = on_host(values[i]).contiguous();
    const std::string_view bytes(static_cast<const char*>(value.impl().data), nbytes(value));
    key.insert(key.end(), bytes.begin(), bytes.end());
  }
  const std::lock_guard graph_lock(specialized_->mutex());
  const std::lock_guard lock(mutex_);
  last_ = rests_.plan_for(key, *specialized_, options_, true, [&] { return request; });
  return last_;
}

namespace {

constexpr std::int64_t most_elements_of_little_work = 1 << 18;

/// Whether the passes take longer than they save in one run. A loop may do much work with few elements.
bool is_little_work(const GraphState& graph, const Request& request) {
  std::int64_t elements = 0;
  for (const Spec& each : request.fed) elements += each.shape.is_known() ? each.shape.num_elements() : 0;
  if (elements > most_elements_of_little_work) return false;
  const std::vector<char> needed = needed_nodes(graph, request);
  for (std::size_t i = 0; i < needed.size(); ++i)
    if (needed[i] && is_flow(graph.node(i).op())) return false;
  return true;
}

}  // namespace

std::shared_ptr<StagedPlan> SizedPlans::plan_for(const std::vector<std::int64_t>& key, const GraphState& graph,
                                                 const SessionOptions& options, bool may_come_once,
                                                 const std::function<Request()>& request) {
  if (plans_.size() > options.most_plans) plans_.clear();
  std::shared_ptr<StagedPlan>& plan = plans_[key];
  const bool is_new = !plan || !plan->is_placed();
  if (!is_new && !plan->is_quick()) return plan;
  const Request wanted = request();
  const bool is_quick = is_new && may_come_once && options.optimize && is_little_work(graph, wanted);
  plan = std::make_shared<StagedPlan>(graph, wanted, options, is_quick);
  return plan;
}

}  // namespace tapestry::detail
